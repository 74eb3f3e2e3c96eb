"""Buffers for a candidate's call: fenced ones, where a stray access faults, and close ones, as in a package."""

from __future__ import annotations

import ctypes
import mmap
from collections.abc import Sequence

import numpy as np

ALIGNMENT = 64
PAGE = mmap.PAGESIZE
_PROT_NONE = 0
_LIBC = ctypes.CDLL(None, use_errno=True)
_GAP = 2 * ALIGNMENT
_CANARY = 0xA5


class Fenced:
    """`count` bytes, 64-byte aligned, that end (but for alignment) where an inaccessible page begins.

    In front there are canary bytes up to the page boundary, and an inaccessible page before that.
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
        """Where the bytes start."""
        return self._base + self._start

    def read_only(self) -> None:
        """Make every write fault from now on."""
        _protect(self._base + PAGE, self._pages, mmap.PROT_READ)

    def harm(self) -> str:
        """Say where bytes around the buffer were overwritten; empty if nowhere."""
        if np.any(self._before != _CANARY):
            return "before its start"
        return "behind its end" if np.any(self._behind != _CANARY) else ""


class Arena:
    """Buffers of `counts` bytes one after the other, each 64-byte aligned, as in the workspace of a package.

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
        """Say of which buffer bytes around it were overwritten, and where; empty if of none."""
        if b"".join(map(bytes, self._guards)) == self._whole:
            return 0, ""
        for index, guard in enumerate(self._guards):  # the one in front of buffer `index`
            changed = np.flatnonzero(guard != _CANARY)
            if changed.size and index and (index == len(self.parts) or changed[0] < guard.size // 2):
                return index - 1, "behind its end"
            if changed.size:
                return index, "before its start"
        return 0, ""


def _round_up(value: int, unit: int) -> int:
    return -(-value // unit) * unit


def _protect(address: int, count: int, protection: int) -> None:
    if _LIBC.mprotect(ctypes.c_void_p(address), ctypes.c_size_t(count), protection) != 0:
        raise OSError(ctypes.get_errno(), "mprotect failed")
