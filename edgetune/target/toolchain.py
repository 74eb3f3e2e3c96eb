"""How a missing compiler is installed, and which grade of trust a target can reach."""

from __future__ import annotations

from edgetune.errors import UsageError
from edgetune.target.board_kind import BoardKind


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
