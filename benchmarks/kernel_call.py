"""Kernels of a benchmark as calls: built by a schedule, loaded into this process, with buffers that stay."""

from __future__ import annotations

import ctypes
import os
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetune.codegen import emit_kernel, kernel_unit, shim
from edgetune.errors import CompileFailed
from edgetune.measure.compiler import build_library, toolchain_of
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.target.target import Target
from edgetune.tvm_types import PrimFunc

_ALIGNMENT = 64


@dataclass(frozen=True)
class KernelCall:
    """A call of a library with buffers, which it keeps."""

    library: ctypes.CDLL
    arrays: Sequence[np.ndarray]

    def __call__(self) -> None:
        """Run the kernel once."""
        addresses = (ctypes.c_void_p * len(self.arrays))(*(array.ctypes.data for array in self.arrays))
        self.library.edgetune_call(addresses)


def loaded(
    function: PrimFunc, text: str, target: Target, arrays: Sequence[np.ndarray], folder: Path
) -> tuple[KernelCall, np.ndarray]:
    """A call of the kernel that the schedule `text` makes of an unscheduled `function`, and the array of its results.

    `arrays` are its arguments, the results last. Raises CompileFailed and KernelFailed.
    """
    scheduled = apply_schedule(function, text)
    source = emit_kernel(scheduled.module, target, "kernel")
    own = [scheduled.constants[n].apply(a) if n in scheduled.constants else a for n, a in enumerate(arrays)]
    own.append(np.zeros(source.scratch_bytes + 1, np.uint8))
    placed = [aligned(array) for array in own]
    library = built(kernel_unit(source, target, "layer"), shim(source, "layer"), target, folder)
    return KernelCall(library, placed), placed[len(arrays) - 1]


def seconds_of(call: Callable[[], object]) -> float:
    """How long a call takes."""
    begin = time.perf_counter()
    call()
    return time.perf_counter() - begin


def aligned(array: np.ndarray) -> np.ndarray:
    """A copy that begins with a line of the cache."""
    memory = np.zeros(array.nbytes + _ALIGNMENT, np.uint8)
    start = -memory.ctypes.data % _ALIGNMENT
    copy = memory[start : start + array.nbytes].view(array.dtype).reshape(array.shape)
    copy[...] = array
    return copy


def built(unit: str, caller: str, target: Target, folder: Path) -> ctypes.CDLL:
    """A library of two units, loaded; raises CompileFailed."""
    with tempfile.TemporaryDirectory(dir=folder) as own:
        files = [Path(own, name) for name in ("unit.c", "shim.c", "layer.so")]
        for file, text in zip(files, (unit, caller), strict=False):
            file.write_text(text, encoding="utf-8")
        made = build_library(toolchain_of(target), files[0], files[1], files[2])
        if made.reason:
            raise CompileFailed(f"{target.compiler.cc} refuses a kernel: {made.reason}")
        return ctypes.CDLL(str(files[-1]), mode=os.RTLD_LOCAL)
