"""edgetune: takes a trained model, times candidate kernels on the board, and writes a folder of plain C.

What enters is a model file and the name of a board; what leaves is a C package that needs nothing of
edgetune to build or run. The rooms of this package know of each other only what their docstrings say.
"""

__version__ = "0.1.0"
