"""Keeps PyTorch out of processes that import TVM: TVM imports it wherever it is installed, and edgetune never needs it.

The import takes 1.4 s and 200 MB in each process of a search. A program that imports PyTorch itself keeps it.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_KEPT_OUT = "torch"
_FROM = ("tvm", "tvm_ffi")
_MACHINERY = ("importlib", "_frozen_importlib")


class _KeepsTorchOut(MetaPathFinder):
    """Answers TVM's imports of torch as if it were not installed; TVM takes that as it is."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """None leaves the import to the other finders. Raises ModuleNotFoundError where TVM imports torch."""
        del path, target
        if fullname == _KEPT_OUT and _importer().split(".")[0] in _FROM:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def _importer() -> str:
    """The name of the module whose import statement runs: that of the first frame outside of Python's machinery."""
    frame = sys._getframe(2)  # noqa: SLF001  the documented way to a caller
    while frame.f_back is not None and str(frame.f_globals.get("__name__", "")).startswith(_MACHINERY):
        frame = frame.f_back
    return str(frame.f_globals.get("__name__", ""))


def keep_torch_out() -> None:
    """Puts the finder before all others, once."""
    if not any(isinstance(finder, _KeepsTorchOut) for finder in sys.meta_path):
        sys.meta_path.insert(0, _KeepsTorchOut())
