"""Packages for a GPU beside PyTorch and TensorRT (`make cuda-measure`).

`prepare` makes a folder here, `far_side` measures in it on a machine with a GPU, which needs neither edgetune nor a
network, and `report` makes a table of what came back.
"""
