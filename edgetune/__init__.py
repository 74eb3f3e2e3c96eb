"""edgetune: takes a trained model, times candidate kernels on the board, and writes a folder of plain C.

What enters is a model file and the name of a board; what leaves is a C package that needs nothing of
edgetune to build or run. The rooms of this package know of each other only what their docstrings say.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from edgetune.expressions import tune
    from edgetune.models.custom import register_operator

__version__ = "0.1.0"
__all__ = ["__version__", "register_operator", "tune"]


def __getattr__(name: str) -> object:
    """Loads the Python interface when it is asked for: the command line must not pay for TVM to show its help."""
    if name == "tune":
        from edgetune.expressions import tune

        return tune
    if name == "register_operator":
        from edgetune.models.custom import register_operator

        return register_operator
    raise AttributeError(f"module 'edgetune' has no attribute {name!r}")
