"""What model formats look at to recognise a file: its first bytes, its size, the names in an archive."""

from __future__ import annotations

import zipfile
from dataclasses import dataclass
from pathlib import Path

_HEAD_BYTES = 4096


@dataclass(frozen=True)
class OpenedFile:
    """A file that may be a model: its first bytes, its size, and its member names where it is a zip archive."""

    head: bytes
    size: int
    members: tuple[str, ...]

    def holds(self, *endings: str) -> bool:
        """Whether for each ending the archive has a member that ends with it."""
        return all(any(f"/{name}".endswith(f"/{end}") for name in self.members) for end in endings)

    def ends(self, suffix: str) -> bool:
        """Whether the archive has a member whose name ends in `suffix`."""
        return any(name.endswith(suffix) for name in self.members)


def opened_file(path: Path) -> OpenedFile:
    """The first bytes, the size and the members of the file `path`; raises OSError where it cannot be read."""
    with path.open("rb") as file:
        head = file.read(_HEAD_BYTES)
        size = file.seek(0, 2)
    members: tuple[str, ...] = ()
    if head.startswith(b"PK\x03\x04"):
        try:
            with zipfile.ZipFile(path) as archive:
                members = tuple(archive.namelist())
        except (zipfile.BadZipFile, ValueError, NotImplementedError):
            members = ()  # truncated, of an unknown version, or no archive: the reader of a format reports it
    return OpenedFile(head, size, members)
