"""Content-addressed cache of an agent: tracks which files it has, as raw values of arrays or whole libraries."""

from __future__ import annotations

import hashlib
from collections import OrderedDict
from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetune.boards.agent import messages

MOST_LIBRARIES = 64  # each is an open file of the agent


@dataclass(frozen=True)
class Content:
    """A file of this machine and its id on the agent; `dtype` is "" for libraries, `size` is in bytes."""

    path: Path
    key: bytes
    kind: int
    dtype: str
    size: int

    @property
    def name(self) -> str:
        """Its path on the board, as requests name it."""
        return f"agent:{self.key.hex()}"


def read_content(path: Path) -> tuple[Content, bytes]:
    """Read an array (.npy) or a library."""
    if path.suffix == ".npy":
        array = np.load(path, allow_pickle=False)
        data, kind, dtype = np.ascontiguousarray(array).tobytes(), messages.ARRAY, array.dtype.name
    else:
        data, kind, dtype = path.read_bytes(), messages.LIBRARY, ""
    key = hashlib.sha256(bytes([kind]) + data).digest()
    return Content(path, key, kind, dtype, len(data)), data


class Contents:
    """Files that were put, and which of them the current agent has."""

    def __init__(self) -> None:
        self._known: dict[tuple[Path, int, int], Content] = {}
        self._named: dict[str, Content] = {}
        self._there: OrderedDict[bytes, Content] = OrderedDict()  # sent, and not freed since
        self._stored: set[bytes] = set()  # those of them that the agent says it has

    def put(self, path: Path) -> tuple[Content, list[bytes]]:
        """Return the content of `path`, and the frames that send it if the agent lacks it."""
        status = path.stat()
        stamp = (path, status.st_mtime_ns, status.st_size)
        content = self._known.get(stamp)
        if content is None:
            content, data = read_content(path)
            self._known[stamp] = content
            self._latest(content)
            return content, self._bring(content, data)
        self._latest(content)
        return content, self.bring(content)

    def bring(self, content: Content) -> list[bytes]:
        """Return the frames that send `content`, none when the agent has it."""
        if content.key in self._there:
            self._there.move_to_end(content.key)
            return []
        return self._bring(content, read_content(content.path)[1])

    def named(self, name: str) -> Content:
        """Return the content that was put under `name`; raises KeyError."""
        return self._named[name]

    def all_gone(self) -> None:
        """Note that a new agent has nothing."""
        self._there.clear()
        self._stored.clear()

    def stored(self, key: bytes) -> None:
        """Note that a push is complete."""
        if key in self._there:
            self._stored.add(key)

    def refused(self, needed: Collection[Content]) -> list[Content]:
        """Return the parts of `needed` that were sent but not stored; they can be sent again."""
        missing = [content for content in needed if content.key in self._there and content.key not in self._stored]
        for content in missing:
            self._there.pop(content.key, None)
        return missing

    def spare(self, needed: Collection[bytes], most_bytes: int) -> list[bytes]:
        """Return the frames that free the least recently used content, until the rest is within the limits."""
        frames = []
        size = sum(content.size for content in self._there.values())
        libraries = sum(content.kind == messages.LIBRARY for content in self._there.values())
        for key, content in list(self._there.items()):
            many = libraries > MOST_LIBRARIES and content.kind == messages.LIBRARY
            if key in needed or not (many or size > most_bytes):
                continue
            frames.append(messages.forget(key))
            del self._there[key]
            self._stored.discard(key)
            size -= content.size
            libraries -= content.kind == messages.LIBRARY
            self._drop(content)
        return frames

    def _latest(self, content: Content) -> None:
        """Of files with the same content, keep the path that was put last, because that file still exists."""
        self._named[content.name] = content
        if content.key in self._there:
            self._there[content.key] = content

    def _bring(self, content: Content, data: bytes) -> list[bytes]:
        if content.key in self._there:
            return []
        self._there[content.key] = content
        self._stored.discard(content.key)
        return messages.push(content.key, content.kind, data)

    def _drop(self, content: Content) -> None:
        """Forget libraries of finished candidates, so that memory does not grow during a long run."""
        known = self._named.get(content.name)
        if known is not None and not known.path.exists():
            self._named.pop(content.name, None)
            self._known = {stamp: known for stamp, known in self._known.items() if known.key != content.key}
