"""Checks the pinned pair of TVM packages at the start, because another pair crashes in the middle of a run."""

from __future__ import annotations

import re
from importlib import metadata

from edgetune.errors import StackMismatch

TVM_VERSION = "0.27.0.post1"
FFI_RANGE = ">=0.1.14.post0,<0.1.15"
_FFI = re.compile(r"0\.1\.14\.post\d+")
REPAIR = f"pip install 'apache-tvm=={TVM_VERSION}' 'apache-tvm-ffi{FFI_RANGE}'"


def check_stack() -> None:
    """Raise StackMismatch unless the installed TVM pair is the pinned one. Imports nothing of TVM."""
    tvm, ffi = installed_version("apache-tvm"), installed_version("apache-tvm-ffi")
    if tvm != TVM_VERSION:
        raise StackMismatch(f"apache-tvm is {tvm or 'not installed'}, but {TVM_VERSION} is needed: run {REPAIR}")
    if ffi is None or not _FFI.fullmatch(ffi):
        raise StackMismatch(
            f"apache-tvm-ffi is {ffi or 'not installed'}, which crashes with apache-tvm {tvm}: run {REPAIR}",
        )


def installed_version(package: str) -> str | None:
    """Return the installed version of a distribution, or None."""
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return None
