"""The folder of a farm belongs to one farm file: two would overwrite each other's pages, logs and packages."""

from __future__ import annotations

import errno
import json
import os
from pathlib import Path

from edgetune.config.atomic_update import alone, write_whole
from edgetune.errors import DiskFull, NightFault
from edgetune.farm.farm_file import Farm

OWNER = "farm.json"
"""The file that says whose folder it is: the farm's name, and the path of its file, relative to the folder."""


def claim_folder(farm: Farm) -> None:
    """Note that a folder is that of a farm file, durably.

    The path is a relative one, so that both can be moved or copied together. Raises NightFault where the folder is that
    of another file that still exists, or cannot be written, and DiskFull.
    """
    place = farm.folder / OWNER
    own = {"farm": farm.name, "file": os.path.relpath(farm.path, farm.folder.resolve())}
    try:
        farm.folder.mkdir(parents=True, exist_ok=True)
        with alone(farm.folder):
            if (noted := _noted(place)) == own:
                return
            other = (farm.folder.resolve() / noted.get("file", "")).resolve()
            if other != farm.path and other.is_file():
                raise NightFault(
                    f"{farm.folder} is the folder of farm '{noted.get('farm')}' ({other}): give another 'folder' in "
                    f"{farm.path}, because the two would overwrite each other's pages, logs and packages"
                )
            write_whole(json.dumps(own, indent=1) + "\n", place)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise DiskFull(f"no space is left in {farm.folder}: free some and run again") from error
        raise NightFault(f"{farm.folder} cannot be written ({error.strerror}): make it writable") from error


def _noted(place: Path) -> dict[str, str]:
    """What the file says; nothing where there is none yet, or it is not one of edgetune's."""
    try:
        found = json.loads(place.read_text(encoding="utf-8"))
    except (FileNotFoundError, ValueError):
        return {}
    return {key: str(value) for key, value in found.items()} if isinstance(found, dict) else {}
