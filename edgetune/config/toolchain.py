"""Is the compiler of a target here, and what runs its binaries: checked before any work starts."""

from __future__ import annotations

import shutil
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.config.target import Target
from edgetune.errors import BoardUnavailable, ToolchainMissing, UsageError

if TYPE_CHECKING:
    from edgetune.config.boards_file import BoardAddress


def require_compiler(target: Target) -> Path:
    """Return the path of the target's C compiler; raise ToolchainMissing naming the command that installs it."""
    return require_program(target.compiler.cc, target.compiler.package, f"the C compiler of board '{target.name}'")


def require_emulator(target: Target) -> Path | None:
    """Return the path of the target's emulator, None where binaries run natively; raise ToolchainMissing."""
    if not target.emulator:
        return None
    return require_program(target.emulator[0], target.emulator_package, f"which runs binaries of board '{target.name}'")


def install_command(package: str | None) -> str:
    """Return the command that installs Debian packages, or a hint where none are known."""
    return f"sudo apt-get install {package}" if package else "install it and put it on PATH"


def require_program(program: str, package: str | None, role: str) -> Path:
    """Return the path of a program of this machine; raise ToolchainMissing naming the command that installs it."""
    found = shutil.which(program)
    if found is None:
        raise ToolchainMissing(f"{program} ({role}) is not on PATH: {install_command(package)}")
    return Path(found)


def require_measurable(target: Target, addresses: Sequence[BoardAddress] = ()) -> None:
    """Raise BoardUnavailable where nothing can be measured: a target that needs an address and has none."""
    if not target.addressable or addresses:
        return
    raise BoardUnavailable(
        f"no address is known of a board of target '{target.name}': `edgetune boards add NAME --target {target.name} "
        f"--ssh USER@HOST` gives one, `edgetune build --board {target.name}` makes a package without measuring",
    )


def require_trust(target: Target, min_trust: str) -> None:
    """Raise UsageError where no time of the target could reach the grade that is asked for."""
    if target.emulated and min_trust != "D":
        raise UsageError(
            f"board '{target.name}' is emulated, which is trusted at grade D and never better: leave out the "
            f"minimum of {min_trust} (--min-trust D)",
        )
