"""Is the compiler of a target here, and what runs its binaries: checked before any work starts."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.config.programs import compiler_of, emulator_of, require_program
from edgetune.config.target import Target
from edgetune.errors import BoardUnavailable, UsageError

if TYPE_CHECKING:
    from edgetune.config.boards_file import BoardAddress


def require_compiler(target: Target) -> Path:
    """Return the path of the target's C compiler; raise ToolchainMissing naming the command that installs it."""
    return require_program(compiler_of(target))


def require_emulator(target: Target) -> Path | None:
    """Return the path of the target's emulator, None where binaries run natively; raise ToolchainMissing."""
    return next((require_program(emulator) for emulator in emulator_of(target)), None)


def install_command(package: str | None) -> str:
    """Return the command that installs Debian packages, or a hint where none are known."""
    return f"sudo apt-get install {package}" if package else "install it and put it on PATH"


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
