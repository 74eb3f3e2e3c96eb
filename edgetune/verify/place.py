"""Execution places for a package's programs: this machine, natively or under an emulator, or a board."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.cores import split_cores
from edgetune.boards.environment import Reading, read_environment
from edgetune.boards.reach import ENDING
from edgetune.measure.trend import State
from edgetune.measure.trust import Conditions
from edgetune.target.detect import cpu_name
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import ProgramResult, make, run

Linking = Literal["dynamic", "static"]
PUT_S = 600.0
_END_S = 20.0
_SIGNALLED = 128
_NO_CANARY: State = "unknown"  # no canary runs beside a package


class ExecutionPlace(Protocol):
    """Runs programs. `where` names the place in reports; `emulated`: times there say nothing about a real core."""

    @property
    def where(self) -> str:
        """A phrase such as "this machine, under qemu-aarch64"."""

    @property
    def emulated(self) -> bool:
        """Whether an emulator runs the programs."""

    def link(self, copy: Path, goal: str, tools: PackageToolchain, timeout_s: float) -> None:
        """Build `goal` of the package in `copy` so that it starts there; raises CompileFailed."""

    def execute(
        self, program: Path, arguments: Sequence[str | Path], timeout_s: float, cores: Sequence[int] = ()
    ) -> ProgramResult:
        """Run `program` to its end, on `cores` if possible; paths in `arguments` are files of this machine."""

    def timed(
        self, program: Path, arguments: Sequence[str | Path], timeout_s: float, cores: Sequence[int] = ()
    ) -> tuple[ProgramResult, Conditions]:
        """Run it as `execute` does; also return the conditions that determine the trust in the printed times."""


@dataclass(frozen=True)
class Here:
    """This machine; `tools` name the emulator, if one is needed. `alone` gives a context held while a program runs."""

    tools: PackageToolchain
    alone: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def where(self) -> str:
        """This machine, and its emulator; its CPU where that runs the programs in place of an emulator."""
        here = f"this machine, under {self.tools.emulator[0]}" if self.tools.emulator else "this machine"
        if self.tools.unused:
            here = f"this machine ({cpu_name()}), not under {self.tools.unused}"
        return self.tools.instead or here

    @property
    def emulated(self) -> bool:
        """Whether there is an emulator, or the CPU computes in place of a GPU."""
        return bool(self.tools.emulator or self.tools.instead)

    def link(self, copy: Path, goal: str, tools: PackageToolchain, timeout_s: float) -> None:
        """Build `goal`."""
        make(copy, goal, tools, timeout_s)

    def execute(
        self,
        program: Path,
        arguments: Sequence[str | Path],
        timeout_s: float,
        cores: Sequence[int] = (),  # noqa: ARG002  the scheduler knows best here
    ) -> ProgramResult:
        """Run it; raises SelfTestFailed when it does not end in time, and what `alone` raises."""
        with self.alone():
            return self._run(program, arguments, timeout_s)

    def timed(
        self,
        program: Path,
        arguments: Sequence[str | Path],
        timeout_s: float,
        cores: Sequence[int] = (),  # noqa: ARG002  the scheduler knows best here
    ) -> tuple[ProgramResult, Conditions]:
        """Run it, and read the state of the measuring core before and after."""
        core = max(split_cores().measuring)
        with self.alone():
            before = read_environment(core)
            done = self._run(program, arguments, timeout_s)
            after = read_environment(core)
        facts: dict[str, Reading] = {"emulated": int(self.emulated), "clock": "time"}
        return done, Conditions(facts, before, after, _NO_CANARY)

    def _run(self, program: Path, arguments: Sequence[str | Path], timeout_s: float) -> ProgramResult:
        return run([*self.tools.emulator, str(program), *map(str, arguments)], program.parent, timeout_s)


class OnBoard:
    """A reserved board; programs are copied there.

    They are linked statically where the board's C library is older than they need, or unknown.
    """

    def __init__(self, board: AgentBoard) -> None:
        self._board = board
        self._reach = board.reach
        self._facts = board.described
        self._linking: Linking = "dynamic"
        self._started: list[str] = []
        self.unpinned = False

    @property
    def where(self) -> str:
        """The board, its kernel and C library, and how the programs were linked."""
        libc = f", {self._facts.libc}" if self._facts.libc else ""
        kind = "emulated board" if self.emulated else "board"
        return f"{kind} {self._reach.name} ({self._facts.machine}, Linux {self._facts.kernel}{libc}; {self._linking})"

    @property
    def emulated(self) -> bool:
        """Whether the board is an emulated machine."""
        return self._board.facts.get("emulated") == 1

    def facts(self) -> dict[str, str | float]:
        """What decides how fast programs run there, as far as the board tells it; raises BoardLost.

        Keys: `kernel`, `firmware`, `governor`, `temperature_c` (hottest sensor).
        """
        known = {"kernel": self._facts.kernel, "firmware": self._facts.firmware}
        read = self._board.health()
        found: dict[str, str | float] = {key: value for key, value in known.items() if value}
        return found | {key: read[key] for key in ("governor", "temperature_c") if key in read}

    def restart(self) -> bool:
        """Restart the board, or cut its power. Raises BoardLost where neither is set up, or neither helped."""
        self._board.restart()
        self._facts = self._board.described
        return True

    def link(self, copy: Path, goal: str, tools: PackageToolchain, timeout_s: float) -> None:
        """Build `goal`; build it again statically where the board's C library is too old."""
        if self._linking == "dynamic":
            make(copy, goal, tools, timeout_s, ["LDFLAGS=-s"])
            if starts_with(self._facts.libc, needed_glibc((copy / goal).read_bytes())):
                return
            self._linking = "static"
        make(copy, goal, tools, timeout_s, ["LDFLAGS=-static -s"])

    def execute(
        self, program: Path, arguments: Sequence[str | Path], timeout_s: float, cores: Sequence[int] = ()
    ) -> ProgramResult:
        """Copy the files there and run it; raises BoardLost when it does not end in time, and BoardFull."""
        there = self._reach.put(program, PUT_S)
        words = [self._reach.put(a, PUT_S) if isinstance(a, Path) else a for a in arguments]
        self._started.append(there)
        command = f"exec {shlex.join([there, *words])}"
        if cores:
            chosen = ",".join(map(str, cores))
            command = f"taskset -p -c {chosen} $$ >/dev/null 2>&1 || echo '{_UNPINNED}' >&2\n{command}"
        done = self._reach.run(command, timeout_s)
        self.unpinned = self.unpinned or _UNPINNED in done.stderr
        errors = done.stderr.replace(f"{_UNPINNED}\n", "")
        status = _SIGNALLED - done.status if done.status > _SIGNALLED else done.status
        return ProgramResult(status, done.stdout, errors)

    def timed(
        self, program: Path, arguments: Sequence[str | Path], timeout_s: float, cores: Sequence[int] = ()
    ) -> tuple[ProgramResult, Conditions]:
        """Run it, and read the board's sensors before and after; raises what `execute` raises."""
        before = self._board.health()
        done = self.execute(program, arguments, timeout_s, cores)
        return done, Conditions(self._board.facts, before, self._board.health(), _NO_CANARY)

    def end_programs(self) -> None:
        """End started programs that still run, as one does whose connection broke. Raises BoardLost."""
        if self._started:
            script = f"for d in {shlex.join(self._started)}; do\n{ENDING}\ndone"
            self._reach.run(script, _END_S)


_UNPINNED = "edgetune: no taskset"


def needed_glibc(elf: bytes) -> tuple[int, int]:
    """Return the newest version of glibc whose symbols a program needs, (0, 0) when it is static."""
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", elf)
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def starts_with(libc: str, needed: tuple[int, int]) -> bool:
    """Return whether a board with `libc` ("glibc 2.31", "" for unknown) can start a program for glibc `needed`."""
    found = re.fullmatch(r"glibc (\d+)\.(\d+).*", libc)
    return needed == (0, 0) or (found is not None and (int(found[1]), int(found[2])) >= needed)
