"""How a missing compiler is installed, and which grade of trust a target can reach."""

from __future__ import annotations

import os
import re

from edgetune.errors import UsageError
from edgetune.target.board_kind import BoardKind

_NOT_FOUND = re.compile(
    r"cannot execute \S+: (?:execvp|posix_spawn)|cannot find '?(?:ld|as|cc1)(?![\w./-])|\bError 127\b"
    r"|^\S*(?:sh|make)\S*: (?:(?:line )?\d+: )?[\w./+-]+: (?:command )?not found"
    r"|^make: [\w+-]+: No such file or directory",
    re.MULTILINE,
)
"""How gcc, make and a shell say that they did not find a program that they start."""


def lacks_program(output: str) -> str:
    """What to do where a tool printed that it did not find a program that it starts, "" where it did not."""
    if _NOT_FOUND.search(output) is None:
        return ""
    return f"a program that it starts is not on PATH ({os.environ.get('PATH', '')}): add the folder of that program"


def install_command(package: str | None) -> str:
    """Return the command that installs Debian packages, or a hint where none are known."""
    return f"sudo apt-get install {package}" if package else "install it and put it on PATH"


def require_trust(target: BoardKind, min_trust: str) -> None:
    """Raise UsageError where no time of the target can reach the grade `min_trust`."""
    if target.emulated and min_trust != "D":
        raise UsageError(
            f"board '{target.name}' is emulated, so its times never have a better trust grade than D: use "
            f"--min-trust D instead of {min_trust}",
        )
