"""Programs that a target needs on this machine: reports all missing ones together, with one command to install them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.errors import ToolchainMissing
from edgetune.target.board_kind import BoardKind
from edgetune.target.target import Target


@dataclass(frozen=True)
class RequiredProgram:
    """A program, its purpose, and the Debian packages that contain it, separated by spaces (None: none are known)."""

    name: str
    package: str | None
    role: str


MAKE = RequiredProgram("make", "make", "which builds packages")


def compiler_of(target: BoardKind) -> RequiredProgram:
    """Return the C compiler of a target."""
    return RequiredProgram(*target.c_compiler, f"the C compiler of board '{target.name}'")


def emulator_of(target: BoardKind) -> tuple[RequiredProgram, ...]:
    """Return the user-mode emulator of a target; none where binaries run natively."""
    role = f"which runs binaries of board '{target.name}'"
    return tuple(RequiredProgram(*program, role) for program in target.emulators)


def probe_of(target: Target) -> tuple[RequiredProgram, ...]:
    """Return the command that drives the debug probe of a target; none where it has none."""
    if target.debug_probe is None:
        return ()
    role = f"which drives the debug probe of board '{target.name}'"
    return (RequiredProgram(target.debug_probe.command[0], target.debug_probe.package, role),)


def missing(programs: Iterable[RequiredProgram]) -> list[RequiredProgram]:
    """Return the programs that are not on PATH, each once."""
    return [program for program in dict.fromkeys(programs) if shutil.which(program.name) is None]


def missing_words(programs: Sequence[RequiredProgram]) -> str:
    """Describe which programs, at least one, are not on PATH."""
    named = [f"{program.name} ({program.role})" for program in programs]
    if len(named) == 1:
        return f"{named[0]} is not on PATH"
    return f"{', '.join(named[:-1])} and {named[-1]} are not on PATH"


def install_line(programs: Sequence[RequiredProgram]) -> str:
    """Return the one command that installs `programs`, or advice for those without a known package."""
    packages = dict.fromkeys(word for program in programs for word in (program.package or "").split())
    unknown = [program.name for program in programs if not program.package]
    command = f"sudo apt-get install {' '.join(packages)}" if packages else ""
    if not unknown:
        return command
    by_hand = "install it and put it on PATH" if len(programs) == 1 else f"put {' and '.join(unknown)} on PATH"
    return f"{command}, and {by_hand}" if command else by_hand


def require_programs(programs: Iterable[RequiredProgram]) -> None:
    """Raise ToolchainMissing, which names all missing programs and the one command that installs them."""
    if absent := missing(programs):
        raise ToolchainMissing(f"{missing_words(absent)}: {install_line(absent)}")


def require_program(program: RequiredProgram) -> Path:
    """Return the path of a program; raise ToolchainMissing, which names the command that installs it."""
    require_programs([program])
    return Path(shutil.which(program.name) or program.name)
