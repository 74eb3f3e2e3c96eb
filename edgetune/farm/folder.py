"""The folder of a farm belongs to one farm, whose name it keeps: two would overwrite each other's pages and packages.

The name is what the database knows the farm's nights by. It stays when the farm file is renamed.
"""

from __future__ import annotations

import errno
import json
import os
import re
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.config.atomic_update import alone, write_whole
from edgetune.errors import DiskFull, NightFault

if TYPE_CHECKING:
    from edgetune.farm.farm_file import Farm

OWNER = "farm.json"
"""The file that says whose folder it is: the farm's name, and the path of its file, relative to the folder."""

NAME = r"[A-Za-z0-9][A-Za-z0-9_.-]{0,63}"
"""Names of farms, models and cells, as a regular expression."""


@dataclass(frozen=True)
class FolderOwner:
    """The farm to which a folder belongs, and its file (absolute), which may have been renamed or deleted since.

    `identity` is that of the farm in its database, "" where an earlier version wrote the note.
    """

    farm: str
    file: Path
    identity: str = field(default="", compare=False)

    def is_other(self, path: Path) -> bool:
        """Whether the folder is that of another farm file than `path` (absolute), one that still exists."""
        return self.file != path and self.file.is_file()


def owner_of(folder: Path) -> FolderOwner | None:
    """Whose folder it is; None where nobody has claimed it yet. Raises NightFault where that cannot be read."""
    try:
        found = json.loads((folder / OWNER).read_text(encoding="utf-8"))
    except (FileNotFoundError, NotADirectoryError, ValueError):
        return None
    except OSError as error:
        raise NightFault(f"{folder / OWNER} cannot be read ({error.strerror}): make it readable for you") from error
    farm, file = (found.get(key) for key in ("farm", "file")) if isinstance(found, dict) else (None, None)
    if not isinstance(farm, str) or not isinstance(file, str) or not re.fullmatch(NAME, farm):
        return None  # it is not one of edgetune's
    return FolderOwner(farm, (folder.resolve() / file).resolve(), str(found.get("identity", "")))


def identity_of(folder: Path) -> str:
    """The identity of the farm to which a claimed folder belongs. Raises NightFault."""
    owner = owner_of(folder)
    if owner is None or not owner.identity:
        raise NightFault(f"{folder / OWNER} was changed: run the same command again")
    return owner.identity


def keep_identity(farm: Farm, identity: str) -> None:
    """Note another identity of the farm to which a claimed folder belongs. Raises DiskFull and NightFault."""
    with writing_in(farm.folder), alone(farm.folder):
        _note(farm, identity)


def _note(farm: Farm, identity: str) -> None:
    file = os.path.relpath(farm.path, farm.folder.resolve())
    text = json.dumps({"farm": farm.name, "file": file, "identity": identity}, indent=1)
    write_whole(text + "\n", farm.folder / OWNER)


def claim_folder(farm: Farm) -> str:
    """Note that a folder is that of a farm file, durably; return what that changes, "" where it was so before.

    The path is a relative one, so that both can be moved or copied together. Raises NightFault where the folder is that
    of another file that still exists or of another name, or cannot be written, and DiskFull.
    """
    own = FolderOwner(farm.name, farm.path)
    with writing_in(farm.folder):
        farm.folder.mkdir(parents=True, exist_ok=True)
        with alone(farm.folder):
            known = owner_of(farm.folder)
            if known == own and known.identity:
                return ""
            if known and known.is_other(farm.path):
                raise NightFault(
                    f"{farm.folder} is the folder of farm '{known.farm}' ({known.file}): give another 'folder' in "
                    f"{farm.path}, because the two would overwrite each other's pages, logs and packages"
                )
            if known and known.farm != farm.name:
                raise NightFault(
                    f"{farm.folder} is the folder of farm '{known.farm}', and {farm.path} is called '{farm.name}': "
                    f"write `name: {known.farm}` to go on with its nights, or give another 'folder'"
                )
            _note(farm, (known.identity if known else "") or uuid.uuid4().hex)
    if known is None or known.file == farm.path:
        return ""
    return f"{farm.path} goes on with the nights of farm '{farm.name}', which {known.file} had before"


@contextmanager
def writing_in(folder: Path) -> Iterator[None]:
    """Raise DiskFull, or NightFault with the folder's name, where the block cannot write there."""
    try:
        yield
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space is left in {folder}: free some and run again") from error
        raise NightFault(f"{folder} cannot be written ({error.strerror}): make it writable") from error
