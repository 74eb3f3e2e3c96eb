"""Arrays of this machine on a board, by content: brought once, kept while there is room for them."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from edgetune.measure.jobs import OUTPUTS

_CACHED_BYTES = 64 << 20  # what a small board can spare, unless one candidate needs more


class RemoteArrays:
    """`allocate` makes a tensor of so many bytes there, `fill` copies bytes to it; what they raise is passed on.

    Of candidates that are through, the arrays that were used longest ago make room for new ones.
    """

    def __init__(
        self, allocate: Callable[[int], Any], fill: Callable[[Any, np.ndarray], None], most_bytes: int = _CACHED_BYTES
    ) -> None:
        self._allocate, self._fill, self._most_bytes = allocate, fill, most_bytes
        self._there: OrderedDict[bytes, tuple[Any, int]] = OrderedDict()
        self._needed: set[bytes] = set()  # by the candidate that comes next, or is there
        self._tried = False

    def bring(self, content: np.ndarray) -> None:
        """Bring bytes that the next candidate needs."""
        if self._tried:
            self._needed.clear()
            self._tried = False
        key = _key(content, "")
        self._needed.add(key)
        self._tensor(key, content, filled=True)

    def of_candidate(self, contents: Sequence[np.ndarray], roles: Sequence[str]) -> list[Any]:
        """Return a tensor for each of a candidate's parameters, holding its bytes but for outputs, which differ."""
        slots = [f"output {index}" if role in OUTPUTS else "" for index, role in enumerate(roles)]
        keys = [_key(content, slot) for content, slot in zip(contents, slots, strict=True)]
        self._needed, self._tried = set(keys), True
        return [
            self._tensor(key, content, filled=not slot)
            for key, content, slot in zip(keys, contents, slots, strict=True)
        ]

    def _tensor(self, key: bytes, content: np.ndarray, *, filled: bool) -> Any:
        if key in self._there:
            self._there.move_to_end(key)
            return self._there[key][0]
        self._make_room(content.size)
        tensor = self._allocate(content.size)
        if filled:
            self._fill(tensor, content)
        self._there[key] = (tensor, content.size)
        return tensor

    def _make_room(self, size: int) -> None:
        used = size + sum(taken for _, taken in self._there.values())
        for key in [key for key in self._there if key not in self._needed]:
            if used <= self._most_bytes:
                break
            used -= self._there.pop(key)[1]


def _key(content: np.ndarray, slot: str) -> bytes:
    return hashlib.sha256(content.data).digest() + slot.encode()
