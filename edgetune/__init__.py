"""edgetune: takes a trained model, times candidate kernels on the board, and writes a folder of plain C.

Its input is a model file and the name of a board. Its output is a C package that needs nothing of edgetune to
build or run. The subpackages are layers: docs/architecture.md shows them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune._version import __version__
from edgetune.import_guard import keep_torch_out

if TYPE_CHECKING:
    from edgetune.expressions import tune
    from edgetune.loaded_model import load
    from edgetune.opened_package import Package
    from edgetune.pipeline.model_formats import register_operator

__all__ = ["Package", "__version__", "load", "register_operator", "tune"]

keep_torch_out()


def __getattr__(name: str) -> object:
    """Loads the Python interface on first use, so that the command line shows its help without importing TVM."""
    if name == "tune":
        from edgetune.expressions import tune

        return tune
    if name == "load":
        from edgetune.loaded_model import load

        return load
    if name == "Package":
        from edgetune.opened_package import Package

        return Package
    if name == "register_operator":
        from edgetune.pipeline.model_formats import register_operator

        return register_operator
    raise AttributeError(f"module 'edgetune' has no attribute {name!r}")
