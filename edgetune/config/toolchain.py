"""Is the compiler of a target here, and what runs its binaries: checked before any work starts."""

from __future__ import annotations

import shutil
from pathlib import Path

from edgetune.config.target import Target
from edgetune.errors import BoardUnavailable, ToolchainMissing


def require_compiler(target: Target) -> Path:
    """Return the path of the target's C compiler; raise ToolchainMissing naming the command that installs it."""
    return _require(target.compiler.cc, target.compiler.package, f"the C compiler of board '{target.name}'")


def require_emulator(target: Target) -> Path | None:
    """Return the path of the target's emulator, None where binaries run natively; raise ToolchainMissing."""
    if not target.emulator:
        return None
    return _require(target.emulator[0], target.emulator_package, f"which runs binaries of board '{target.name}'")


def install_command(package: str | None) -> str:
    """Return the command that installs Debian packages, or a hint where none are known."""
    return f"sudo apt-get install {package}" if package else "install it and put it on PATH"


def _require(program: str, package: str | None, role: str) -> Path:
    found = shutil.which(program)
    if found is None:
        raise ToolchainMissing(f"{program} ({role}) is not on PATH: {install_command(package)}")
    return Path(found)


def require_measurable(target: Target) -> None:
    """Raise BoardUnavailable where the target cannot be timed from this machine."""
    if target.reach == "none":
        raise BoardUnavailable(
            f"board '{target.name}' cannot be measured from here yet: `edgetune build --board {target.name}` makes "
            "a package for it from what is recorded, and `edgetune verify` checks that under its emulator",
        )
