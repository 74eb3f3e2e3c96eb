"""Where the binaries of a package run: on this machine, natively or under an emulator, or on a board."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Literal, Protocol

from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.reach import ENDING
from edgetune.measure.cores import split_cores
from edgetune.measure.environment import Reading, read_environment
from edgetune.measure.trend import State
from edgetune.measure.trust import Conditions
from edgetune.package.toolchain import Toolchain
from edgetune.package.work_copy import Finished, make, run

Linking = Literal["dynamic", "static"]
PUT_S = 600.0
_END_S = 20.0
_SIGNALLED = 128
_NO_CANARY: State = "unknown"  # none runs beside a package


class Place(Protocol):
    """Runs programs. `where` names it in reports; `emulated` says that times there tell nothing of a real core."""

    @property
    def where(self) -> str:
        """One phrase, such as "this machine, under qemu-aarch64"."""

    @property
    def emulated(self) -> bool:
        """Whether an emulator runs the programs."""

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags to link with, so that programs start there."""

    def link(self, copy: Path, goal: str, tools: Toolchain, timeout_s: float) -> None:
        """Build `goal` of the package in `copy` so that it starts there; raises CompileFailed."""

    def execute(
        self, program: Path, arguments: Sequence[str | Path], timeout_s: float, cores: Sequence[int] = ()
    ) -> Finished:
        """Run `program` to its end, `arguments` that are paths being files of this machine, on `cores` if it can."""

    def timed(
        self, program: Path, arguments: Sequence[str | Path], timeout_s: float, cores: Sequence[int] = ()
    ) -> tuple[Finished, Conditions]:
        """Run it as `execute` does; return as well what tells how far the times that it prints can be trusted."""


@dataclass(frozen=True)
class Here:
    """This machine; `tools` name the emulator, if one is needed. `alone` gives what is held while a program runs."""

    tools: Toolchain
    alone: Callable[[], AbstractContextManager[object]] = nullcontext

    @property
    def where(self) -> str:
        """This machine, and its emulator."""
        return f"this machine, under {self.tools.emulator[0]}" if self.tools.emulator else "this machine"

    @property
    def emulated(self) -> bool:
        """Whether there is an emulator."""
        return bool(self.tools.emulator)

    @property
    def flags(self) -> tuple[str, ...]:
        """None."""
        return ()

    def link(self, copy: Path, goal: str, tools: Toolchain, timeout_s: float) -> None:
        """Build `goal`."""
        make(copy, goal, tools, timeout_s)

    def execute(
        self,
        program: Path,
        arguments: Sequence[str | Path],
        timeout_s: float,
        cores: Sequence[int] = (),  # noqa: ARG002  the scheduler knows best here
    ) -> Finished:
        """Run it; raises SelfTestFailed when it does not end in time, and what `alone` raises."""
        with self.alone():
            return self._run(program, arguments, timeout_s)

    def timed(
        self,
        program: Path,
        arguments: Sequence[str | Path],
        timeout_s: float,
        cores: Sequence[int] = (),  # noqa: ARG002  the scheduler knows best here
    ) -> tuple[Finished, Conditions]:
        """Run it, reading the state of the core that measures here before and after."""
        core = max(split_cores().measuring)
        with self.alone():
            before = read_environment(core)
            done = self._run(program, arguments, timeout_s)
            after = read_environment(core)
        facts: dict[str, Reading] = {"emulated": int(self.emulated), "clock": "time"}
        return done, Conditions(facts, before, after, _NO_CANARY)

    def _run(self, program: Path, arguments: Sequence[str | Path], timeout_s: float) -> Finished:
        return run([*self.tools.emulator, str(program), *map(str, arguments)], program.parent, timeout_s)


class OnBoard:
    """A board that is reserved; programs are brought there.

    They are linked statically where the board's C library is older than what they would need, or does not tell.
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

    @property
    def flags(self) -> tuple[str, ...]:
        """Flags of the linking that `link` chose."""
        return ("-static", "-s") if self._linking == "static" else ("-s",)

    def link(self, copy: Path, goal: str, tools: Toolchain, timeout_s: float) -> None:
        """Build `goal`, and once more statically where the board lacks what it asks for."""
        if self._linking == "dynamic":
            make(copy, goal, tools, timeout_s, ["LDFLAGS=-s"])
            if starts_with(self._facts.libc, needed_glibc((copy / goal).read_bytes())):
                return
            self._linking = "static"
        make(copy, goal, tools, timeout_s, ["LDFLAGS=-static -s"])

    def execute(
        self, program: Path, arguments: Sequence[str | Path], timeout_s: float, cores: Sequence[int] = ()
    ) -> Finished:
        """Bring the files there and run it; raises BoardLost when it does not end in time, BoardFull."""
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
        return Finished(status, done.stdout, errors)

    def timed(
        self, program: Path, arguments: Sequence[str | Path], timeout_s: float, cores: Sequence[int] = ()
    ) -> tuple[Finished, Conditions]:
        """Run it, asking the board for its readings before and after; raises what `execute` raises."""
        before = self._board.health()
        done = self.execute(program, arguments, timeout_s, cores)
        return done, Conditions(self._board.facts, before, self._board.health(), _NO_CANARY)

    def end_programs(self) -> None:
        """End what still runs of the programs that were started: one whose link broke goes on. Raises BoardLost."""
        if self._started:
            script = f"for d in {shlex.join(self._started)}; do\n{ENDING}\ndone"
            self._reach.run(script, _END_S)


_UNPINNED = "edgetune: no taskset"


def needed_glibc(elf: bytes) -> tuple[int, int]:
    """Return the newest version of glibc whose symbols a program asks for, (0, 0) when it is static."""
    versions = re.findall(rb"\0GLIBC_(\d+)\.(\d+)(?:\.\d+)?(?=\0)", elf)
    return max(((int(major), int(minor)) for major, minor in versions), default=(0, 0))


def starts_with(libc: str, needed: tuple[int, int]) -> bool:
    """Say whether a board with `libc`, such as "glibc 2.31" or "" for unknown, starts what needs glibc `needed`."""
    found = re.fullmatch(r"glibc (\d+)\.(\d+).*", libc)
    return needed == (0, 0) or (found is not None and (int(found[1]), int(found[2])) >= needed)
