"""PyTorch: a module or a `.pt2` file becomes ONNX, by PyTorch's own exporter in a process of its own.

`format.py` is the member of the registry. Only `child.py` and what it imports import torch. `sources.py` calls the
torch that the user of the Python interface has imported, since it is given one of its objects.
"""
