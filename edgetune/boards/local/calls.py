"""Calls of one candidate in this process: the first call with guard pages, then the timed calls, some of them watched.

A watched call writes outputs that hold a pattern, and is compared afterwards. Each fault found raises an error. The
buffers of the first call end at inaccessible pages, so that a stray access faults; those of the other calls are
adjacent, as in a package.
"""

from __future__ import annotations

import ctypes
import mmap
import os
from collections.abc import Sequence

import numpy as np

from edgetune.boards import misconduct
from edgetune.boards.outputs import judge
from edgetune.boards.protocol import OUTPUTS, PART, RunRequest, gap_fill
from edgetune.graph.accuracy import OutputError

ALIGNMENT = 64
PAGE = mmap.PAGESIZE
_PROT_NONE = 0
_LIBC = ctypes.CDLL(None, use_errno=True)
_GAP = 2 * ALIGNMENT
_CANARY = 0xA5


class Fenced:
    """`count` bytes, 64-byte aligned, that end (except for alignment) where an inaccessible page begins.

    Before them are canary bytes up to the page boundary, and an inaccessible page before that.
    """

    def __init__(self, count: int, fill: int) -> None:
        self._count = count
        room = _round_up(max(count, 1), ALIGNMENT)
        pages = _round_up(room + ALIGNMENT, PAGE)
        self._map = mmap.mmap(-1, pages + 2 * PAGE)
        everything = np.frombuffer(self._map, np.uint8)
        everything[:] = _CANARY
        self._start = PAGE + pages - room
        self._pages = pages
        self.bytes = everything[self._start : self._start + count]
        self.bytes[:] = fill
        self._before = everything[PAGE : self._start]
        self._behind = everything[self._start + count : PAGE + pages]
        self._base = everything.ctypes.data
        _protect(self._base, PAGE, _PROT_NONE)
        _protect(self._base + PAGE + pages, PAGE, _PROT_NONE)

    @property
    def address(self) -> int:
        """Address of the first byte."""
        return self._base + self._start

    def read_only(self) -> None:
        """Make every later write to the bytes fault."""
        _protect(self._base + PAGE, self._pages, mmap.PROT_READ)

    def harm(self) -> str:
        """Say where bytes around the buffer were overwritten; empty if none were."""
        if np.any(self._before != _CANARY):
            return misconduct.BEFORE
        return misconduct.AFTER if np.any(self._behind != _CANARY) else ""


class GuardedBuffers:
    """Adjacent buffers of `counts` bytes, each 64-byte aligned, as in the workspace of a package.

    There are guard bytes before each and after the last.
    """

    def __init__(self, counts: Sequence[int]) -> None:
        offsets, end = [], _GAP
        for count in counts:
            offsets.append(end)
            end += _round_up(count, ALIGNMENT) + _GAP
        self._map = mmap.mmap(-1, _round_up(max(end, 1), PAGE))
        everything = np.frombuffer(self._map, np.uint8)
        everything[:end] = _CANARY
        self.parts = [everything[offset : offset + count] for offset, count in zip(offsets, counts, strict=True)]
        ends = [0, *(offset + count for offset, count in zip(offsets, counts, strict=True))]
        self._guards = [everything[first:last] for first, last in zip(ends, [*offsets, end], strict=True)]
        self._whole = b"".join(bytes(guard) for guard in self._guards)
        self.addresses = [everything.ctypes.data + offset for offset in offsets]

    def harm(self) -> tuple[int, str]:
        """Say around which buffer bytes were overwritten, and where; empty if none were."""
        if b"".join(map(bytes, self._guards)) == self._whole:
            return 0, ""
        for index, guard in enumerate(self._guards):  # the guard before buffer `index`
            changed = np.flatnonzero(guard != _CANARY)
            if changed.size and index and (index == len(self.parts) or changed[0] < guard.size // 2):
                return index - 1, misconduct.AFTER
            if changed.size:
                return index, misconduct.BEFORE
        return 0, ""


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _protect(address: int, count: int, protection: int) -> None:
    if _LIBC.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(count), protection) != 0:
        raise OSError(ctypes.get_errno(), "mprotect failed")


_FILLS = (0xFF, 0x5A)  # content of outputs before the first call (NaN as a float) and before the watched calls;
# outputs with gaps hold what the reference has in the gaps, so that any write there is a difference
_FIRST, _LATER, _END = range(3)


class WrongResultError(Exception):
    """A call went wrong; the argument is the reason."""


class StartedProcessError(Exception):
    """The candidate started a process."""

    def __init__(self) -> None:
        super().__init__(misconduct.STARTED_PROCESS)


class Calls:
    """Makes the calls of the loaded `function`; this process had `threads` threads before loading it."""

    def __init__(self, request: RunRequest, timer: ctypes.CDLL, function: ctypes.c_void_p, threads: int) -> None:
        self._request, self._timer, self._function, self._threads = request, timer, function, threads
        self._arrays = [np.load(path, mmap_mode="r") for path in request.arrays]
        self._outputs = [index for index, role in enumerate(request.roles) if role in OUTPUTS]
        self._fences: list[Fenced] = []
        self._owner = ctypes.c_int64(os.getpid())
        self._made = 0
        self.worst = OutputError()

    def check(self) -> None:
        """Make the first call, with write-protected inputs; `worst` is the worst error after it."""
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
        for index, fence in enumerate(self._fences):
            if harm := fence.harm():
                problem = misconduct.stray_write(index, len(self._arrays), harm)
                break
        self._conclude(problem, _FIRST, mode_changed=mode_changed, thoroughly=True)
        for fence in self._fences:  # a later call must not change outputs that were found right
            fence.read_only()

    def place(self) -> None:
        """Place buffers adjacent to each other, as in a package, for all calls after the first."""
        self._arena = GuardedBuffers([_bytes(array).size for array in self._arrays] + [self._request.scratch_bytes])
        for part, array, role in zip(self._arena.parts, self._arrays, self._request.roles, strict=False):
            if role not in OUTPUTS:
                part[:] = _bytes(array)
        addresses = self._arena.addresses
        self._pointers = _pointers(addresses if self._request.scratch_bytes else addresses[:-1])

    def take(self, repeat: int, count: int) -> list[tuple[float, float]]:
        """Take `count` samples of `repeat` calls each, each with the core's parallel additions (see `neighbours`)."""
        pairs, mode_changed = self._sample(repeat, count)
        self._made += repeat * count
        if mode_changed:
            self._conclude("", _LATER, mode_changed=True)
        return pairs

    def watch(self) -> tuple[float, float]:
        """Make a watched call; return its nanoseconds, and the core's parallel additions meanwhile."""
        self._refill()
        (pair,), mode_changed = self._sample(1, 1)
        self._made += 1
        problem = self._judge(self._arena.parts, _LATER)
        index, harm = self._arena.harm()
        if harm and not problem:
            problem = misconduct.stray_write(index, len(self._arrays), harm)
        self._conclude(problem, _LATER, mode_changed=mode_changed)
        return pair

    def end(self) -> None:
        """Check, after all calls, what the candidate left behind."""
        changed = (
            index
            for index, (array, role) in enumerate(zip(self._arrays, self._request.roles, strict=True))
            if role not in OUTPUTS and not np.array_equal(self._arena.parts[index], _bytes(array))
        )
        index = next(changed, None)
        self._conclude("" if index is None else misconduct.changed_input(index), _END, thoroughly=True)

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
        """Compare outputs; return what is wrong with the first wrong one. After the first call, `worst` is set.

        After later calls, outputs with the same bytes as after the first are right, which is a quick test.
        """

        def doubtful(index: int) -> np.ndarray | None:
            return None if moment != _FIRST and _same(parts[index], self._fences[index].bytes) else parts[index]

        problem, worst = judge(self._request, self._arrays, doubtful)
        if moment == _FIRST:
            self.worst = worst
        return problem

    def _conclude(self, problem: str, moment: int, *, mode_changed: bool = False, thoroughly: bool = False) -> None:
        """Raise what is wrong, if anything; `thoroughly` also looks for processes and threads."""
        if (problem or thoroughly) and has_children():
            raise StartedProcessError
        if not problem and mode_changed:
            problem = misconduct.LEFT_MODE
        if not problem and thoroughly and self._timer.edgetune_threads_left(self._threads):
            problem = misconduct.LEFT_THREADS
        if problem:
            made = self._made
            begin = {_FIRST: "", _LATER: misconduct.in_call(made), _END: misconduct.after_calls(made)}[moment]
            raise WrongResultError(begin + problem)


def has_children() -> bool:
    """Whether this process has any child, running or ended."""
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
