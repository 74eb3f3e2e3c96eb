"""Programs of this machine that a target needs: all missing ones are named at once, with one line to install them."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.config.target import Target
from edgetune.errors import ToolchainMissing


@dataclass(frozen=True)
class Program:
    """A program, what it is for, and the Debian packages that bring it, between spaces (None: none are known)."""

    name: str
    package: str | None
    role: str


MAKE = Program("make", "make", "which builds packages")
_HOST_COMPILER = Program("gcc", "gcc libc6-dev", "which compiles what starts the emulator")


def compiler_of(target: Target) -> Program:
    """Return the C compiler of a target."""
    return Program(target.compiler.cc, target.compiler.package, f"the C compiler of board '{target.name}'")


def emulator_of(target: Target) -> tuple[Program, ...]:
    """Return the user-mode emulator of a target; none where binaries run natively."""
    role = f"which runs binaries of board '{target.name}'"
    return (Program(target.emulator[0], target.emulator_package, role),) if target.emulator else ()


def machine_of(target: Target) -> tuple[Program, ...]:
    """Return what starts the emulated machine of a target; none where it is no such machine."""
    if target.reach != "machine":
        return ()
    role = f"the emulator of board '{target.name}'"
    ends = Program("setpriv", "util-linux", f"which ends {role}")
    return Program("qemu-system-aarch64", "qemu-system-arm", role), ends


def measuring_programs(target: Target) -> tuple[Program, ...]:
    """Return what a search on boards of `target` needs, from the first candidate to verifying the package."""
    if target.reach == "local":
        return (compiler_of(target),)
    counting = (_HOST_COMPILER, *emulator_of(target)) if target.reach == "emulator" else ()
    return (compiler_of(target), MAKE, *counting, *machine_of(target))


def missing(programs: Iterable[Program]) -> list[Program]:
    """Return those that are not on PATH, each once."""
    return [program for program in dict.fromkeys(programs) if shutil.which(program.name) is None]


def missing_words(programs: Sequence[Program]) -> str:
    """Say which programs, at least one, are not on PATH."""
    named = [f"{program.name} ({program.role})" for program in programs]
    if len(named) == 1:
        return f"{named[0]} is not on PATH"
    return f"{', '.join(named[:-1])} and {named[-1]} are not on PATH"


def install_line(programs: Sequence[Program]) -> str:
    """Return the one command that installs programs, or what to do about those of which no package is known."""
    packages = dict.fromkeys(word for program in programs for word in (program.package or "").split())
    unknown = [program.name for program in programs if not program.package]
    command = f"sudo apt-get install {' '.join(packages)}" if packages else ""
    if not unknown:
        return command
    by_hand = "install it and put it on PATH" if len(programs) == 1 else f"put {' and '.join(unknown)} on PATH"
    return f"{command}, and {by_hand}" if command else by_hand


def require_programs(programs: Iterable[Program]) -> None:
    """Raise ToolchainMissing, naming all that are missing and the one command that installs them."""
    if absent := missing(programs):
        raise ToolchainMissing(f"{missing_words(absent)}: {install_line(absent)}")


def require_program(program: Program) -> Path:
    """Return the path of a program; raise ToolchainMissing, naming the command that installs it."""
    require_programs([program])
    return Path(shutil.which(program.name) or program.name)
