"""Says why a path cannot be read as a file: it is missing, a folder, a device."""

from __future__ import annotations

import stat
from pathlib import Path

_KINDS = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISFIFO, "a named pipe"),
    (stat.S_ISSOCK, "a socket"),
)


def not_a_file(path: Path) -> str | None:
    """Return why `path` cannot be read as a file ("does not exist", "is a folder"), None where it can."""
    try:
        mode = path.stat().st_mode
    except (FileNotFoundError, NotADirectoryError):
        return "is a link to nothing" if path.is_symlink() else "does not exist"
    except OSError as error:
        return f"cannot be reached ({error.strerror})"
    return next((f"is {name}, not a file" for test, name in _KINDS if test(mode)), None)
