"""Programs of a package as images on a real board behind a debug probe, which this machine drives."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path

from edgetune.boards.environment import Reading
from edgetune.boards.image.probe_command import run_by_probe
from edgetune.boards.image.probe_lock import probe_lock
from edgetune.errors import BoardLost, SelfTestFailed
from edgetune.measure.trust import Conditions
from edgetune.target.target import Probe
from edgetune.verify.place import Here
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import ProgramResult


class BehindProbe(Here):
    """The board of the debug probe that `tools` name."""

    @property
    def probe(self) -> Probe:
        """The probe; raises ValueError where `tools` name none."""
        if self.tools.probe is None:
            raise ValueError(f"board '{self.tools.board}' has no probe")
        return self.tools.probe

    @property
    def where(self) -> str:
        """The board, and the program that drives its probe."""
        return f"board {self.tools.board}, by {Path(self.probe.command[0]).name}"

    def execute(
        self,
        program: Path,
        arguments: Sequence[str | Path],
        timeout_s: float,
        cores: Sequence[int] = (),  # noqa: ARG002  a part runs one program
    ) -> ProgramResult:
        """Run it while no other run uses the probe; raises BoardLost, and SelfTestFailed where it does not end."""
        return self._run(program, arguments, timeout_s)

    def timed(
        self, program: Path, arguments: Sequence[str | Path], timeout_s: float, cores: Sequence[int] = ()
    ) -> tuple[ProgramResult, Conditions]:
        """Run it; an image reads no sensor of its board."""
        done = self.execute(program, arguments, timeout_s, cores)
        facts: dict[str, Reading] = {"emulated": 0, "clock": "time"}
        return done, Conditions(facts, {}, {}, "unknown")

    def _run(self, program: Path, arguments: Sequence[str | Path], timeout_s: float) -> ProgramResult:
        """Run an image, which takes no arguments, until it says that it has ended, or the command of the probe does."""
        del arguments
        command, lock = self.probe.words(program), probe_lock(self.probe)
        try:
            lock.acquire()
            done = run_by_probe(self.tools.board, command, program.parent, timeout_s, _is_last)
        finally:
            lock.close()
        text = "".join(line.decode(errors="replace") + "\n" for line in done.lines)
        if done.ended:
            return ProgramResult(int(not _is_success(done.lines[-1])), text, "")
        if done.late or done.flooded:
            why = f"did not end within {timeout_s:g} s" if done.late else "prints without end"
            if any(line.startswith(f"{self.tools.prefix} ".encode()) for line in done.lines):  # the image runs
                raise SelfTestFailed(f"{program.name} {why} on board '{self.tools.board}' ({done.last_words})")
            raise BoardLost(
                f"board '{self.tools.board}': {program.name} {why} ({done.last_words}): see that the board is "
                "connected, and that the command of its probe ends with the image"
            )
        if done.status and not any(line.startswith(b"FAIL") for line in done.lines):
            raise BoardLost(
                f"board '{self.tools.board}': {command[0]} ended with status {done.status} ({done.last_words}): see "
                "that probe and board are connected, and run the command by hand"
            )
        return ProgramResult(done.status, text, done.last_words)


def execution_place(tools: PackageToolchain, alone: Callable[[], AbstractContextManager[object]] = nullcontext) -> Here:
    """Return where this machine runs programs of a package: on the board of a probe, or itself."""
    return Here(tools, alone) if tools.probe is None else BehindProbe(tools, alone)


def _is_success(line: bytes) -> bool:
    """Whether it is the last line of a self-test that passed, of a benchmark, or of the test driver."""
    return line in {b"PASS", b"end"} or (line.startswith(b'{"') and line.endswith(b"}")) or line.endswith(b" end")


def _is_last(line: bytes) -> bool:
    return _is_success(line) or line.startswith((b"FAIL (", b"FAIL: exception "))
