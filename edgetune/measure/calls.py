"""The calls of one candidate in this process: the first on fenced buffers, then those that are timed, some watched.

A watched call is made over outputs that hold a pattern, and is compared after it. Whatever is found wrong is raised.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence

import numpy as np

from edgetune.measure.comparison import Difference, compare
from edgetune.measure.jobs import OUTPUTS, PART, RunRequest, Tolerance, gap_fill
from edgetune.measure.memory import Arena, Fenced
from edgetune.measure.misconduct import (
    LEFT_MODE,
    LEFT_THREADS,
    STARTED_PROCESS,
    after_calls,
    changed_input,
    in_call,
)

_LIBC = ctypes.CDLL(None)
_FILLS = (0xFF, 0x5A)  # what outputs hold before the first call (NaN as a float) and before the watched ones; those
# with gaps hold what the reference has there, so that whatever is written to them differs
_FIRST, _LATER, _END = range(3)


class WrongResultError(Exception):
    """A call was not what it has to be: the reason."""


class StartedProcessError(Exception):
    """There is a process that the candidate started."""

    def __init__(self) -> None:
        super().__init__(STARTED_PROCESS)


class Calls:
    """Makes the calls of the loaded `function`; `threads` of this process there were before it was loaded."""

    def __init__(self, request: RunRequest, timer: ctypes.CDLL, function: ctypes.c_void_p, threads: int) -> None:
        self._request, self._timer, self._function, self._threads = request, timer, function, threads
        self._arrays = [np.load(path, mmap_mode="r") for path in request.arrays]
        self._outputs = [index for index, role in enumerate(request.roles) if role in OUTPUTS]
        self._fences: list[Fenced] = []
        self._owner = ctypes.c_int64(os.getpid())
        self._made = 0
        self.worst = Difference(0.0, 0.0, allowed=True)

    def check(self) -> None:
        """Make the first call, inputs write-protected; `worst` is the worst error after it."""
        for array, role in zip(self._arrays, self._request.roles, strict=True):
            data = _bytes(array)
            fence = Fenced(data.size, _fill(role, array, _FILLS[0]))
            if role not in OUTPUTS:
                fence.bytes[:] = data
                fence.read_only()
            self._fences.append(fence)
        if self._request.scratch_bytes:
            self._fences.append(Fenced(self._request.scratch_bytes, _FILLS[0]))
        pointers = _pointers([fence.address for fence in self._fences])
        mode_changed = self._timer.edgetune_call_once(self._function, pointers, self._owner)
        self._made = 1
        problem = self._judge([fence.bytes for fence in self._fences], _FIRST)
        harmed = ((index, harm) for index, fence in enumerate(self._fences) if (harm := fence.harm()))
        for index, harm in harmed:
            problem = self._writes(index, harm)
            break
        self._conclude(problem, _FIRST, mode_changed=mode_changed, thoroughly=True)
        for fence in self._fences:  # a later call is not to change what was found right
            fence.read_only()

    def place(self) -> None:
        """Have buffers close to each other, as in a package, for all calls but the first."""
        self._arena = Arena([_bytes(array).size for array in self._arrays] + [self._request.scratch_bytes])
        for part, array, role in zip(self._arena.parts, self._arrays, self._request.roles, strict=False):
            if role not in OUTPUTS:
                part[:] = _bytes(array)
        addresses = self._arena.addresses
        self._pointers = _pointers(addresses if self._request.scratch_bytes else addresses[:-1])

    def take(self, repeat: int, count: int) -> list[tuple[float, float]]:
        """Take `count` samples of `repeat` calls each, with how many additions at once the core did meanwhile."""
        pairs, mode_changed = self._sample(repeat, count)
        self._made += repeat * count
        if mode_changed:
            self._conclude("", _LATER, mode_changed=True)
        return pairs

    def watch(self) -> tuple[float, float]:
        """Make a watched call; return its nanoseconds, with how many additions at once the core did meanwhile."""
        self._refill()
        (pair,), mode_changed = self._sample(1, 1)
        self._made += 1
        problem = self._judge(self._arena.parts, _LATER)
        index, harm = self._arena.harm()
        self._conclude(problem or (self._writes(index, harm) if harm else ""), _LATER, mode_changed=mode_changed)
        return pair

    def end(self) -> None:
        """Look, after all calls, at what the candidate left."""
        changed = (
            index
            for index, (array, role) in enumerate(zip(self._arrays, self._request.roles, strict=True))
            if role not in OUTPUTS and not np.array_equal(self._arena.parts[index], _bytes(array))
        )
        index = next(changed, None)
        self._conclude("" if index is None else changed_input(index), _END, thoroughly=True)

    def _sample(self, repeat: int, count: int) -> tuple[list[tuple[float, float]], bool]:
        out, widths = (ctypes.c_double * count)(), (ctypes.c_double * count)()
        counts = (ctypes.c_int64(repeat), ctypes.c_int64(count), self._owner)
        mode_changed = self._timer.edgetune_sample(self._function, self._pointers, *counts, out, widths)
        return list(zip(out, widths, strict=True)), mode_changed

    def _refill(self) -> None:
        for index in self._outputs:
            fill = _fill(self._request.roles[index], self._arrays[index], _FILLS[1])
            ctypes.memset(self._arena.addresses[index], fill, self._arena.parts[index].size)

    def _judge(self, parts: Sequence[np.ndarray], moment: int) -> str:
        """Compare outputs; return what is wrong with the first that is. After the first call, `worst` is noted.

        Later, outputs of the same bytes as then are right, which is quick to see.
        """
        problem = ""
        for index in self._outputs:
            array = self._arrays[index]
            if moment != _FIRST and _same(parts[index], self._fences[index].bytes):
                continue
            output = parts[index].view(array.dtype).reshape(array.shape)
            found = compare(output, array, self._request.tolerances[index] or Tolerance())
            if not found.allowed and not problem:
                size = f"{found.absolute:.3g} ({found.relative:.3g} of the largest value)"
                problem = f"output {index} differs from the reference by {size}"
            if moment == _FIRST and found.absolute > self.worst.absolute:
                self.worst = found
        return problem

    def _writes(self, index: int, harm: str) -> str:
        name = "scratch" if index == len(self._arrays) else f"parameter {index}"
        return f"writes to {name} {harm}"

    def _conclude(self, problem: str, moment: int, *, mode_changed: bool = False, thoroughly: bool = False) -> None:
        """Raise what is wrong, if anything; `thoroughly`: processes and threads are looked for as well."""
        if (problem or thoroughly) and has_children():
            raise StartedProcessError
        if not problem and mode_changed:
            problem = LEFT_MODE
        if not problem and thoroughly and self._timer.edgetune_threads_left(self._threads):
            problem = LEFT_THREADS
        if problem:
            begin = {_FIRST: "", _LATER: in_call(self._made), _END: after_calls(self._made)}[moment]
            raise WrongResultError(begin + problem)


def has_children() -> bool:
    """Whether this process has any child, ended or not."""
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


def _same(one: np.ndarray, other: np.ndarray) -> bool:
    addresses = (ctypes.c_void_p(array.ctypes.data) for array in (one, other))
    return int(_LIBC.memcmp(*addresses, ctypes.c_size_t(one.size))) == 0


def _fill(role: str, array: np.ndarray, otherwise: int) -> int:
    return gap_fill(array.dtype.name) if role == PART else otherwise


def _bytes(array: np.ndarray) -> np.ndarray:
    return np.ascontiguousarray(array).reshape(-1).view(np.uint8)


def _pointers(addresses: list[int]) -> ctypes.Array[ctypes.c_void_p]:
    return (ctypes.c_void_p * max(len(addresses), 1))(*addresses)
