"""Checks that the compiler and the emulator of a target are installed, before any work starts."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.errors import UsageError
from edgetune.target.programs import compiler_of, emulator_of, require_program
from edgetune.target.target import Target

if TYPE_CHECKING:
    pass


def require_compiler(target: Target) -> Path:
    """Return the path of the target's C compiler; raise ToolchainMissing naming the command that installs it."""
    return require_program(compiler_of(target))


def require_emulator(target: Target) -> Path | None:
    """Return the path of the target's emulator, None where binaries run natively; raise ToolchainMissing."""
    return next((require_program(emulator) for emulator in emulator_of(target)), None)


def install_command(package: str | None) -> str:
    """Return the command that installs Debian packages, or a hint where none are known."""
    return f"sudo apt-get install {package}" if package else "install it and put it on PATH"


def require_trust(target: Target, min_trust: str) -> None:
    """Raise UsageError where no time of the target can reach the grade `min_trust`."""
    if target.emulated and min_trust != "D":
        raise UsageError(
            f"board '{target.name}' is emulated, so its times never have a better trust grade than D: use "
            f"--min-trust D instead of {min_trust}",
        )
