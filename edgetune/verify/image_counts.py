"""Counts instructions of a package without operating system: its benchmark reads them from the emulator's plugin."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.boards.image.emulation import read_records
from edgetune.boards.image.parts import build_regions_plugin, image_folder
from edgetune.errors import CompileFailed
from edgetune.measure.trust import Conditions
from edgetune.target.tool_process import run_tool
from edgetune.verify.class_counts import ClassCounts, class_counts
from edgetune.verify.place import Here
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import ProgramResult, make, run

_CLOCK = "edgetune_instructions"
_RECORDS = "edgetune.records"  # in the folder of the program, as in templates/image/plugin/bench_clock.c
_RUNS = 3
_COMPILE_S = 60.0


@dataclass(frozen=True)
class ImageCounts(Here):
    """This machine under a system emulator, whose plugin counts instructions: of each of `runs`, and of each layer."""

    runs: int = _RUNS

    def link(self, copy: Path, goal: str, tools: PackageToolchain, timeout_s: float) -> None:
        """Build `goal`; a benchmark gets a clock that reads instructions. Raises CompileFailed and ToolHung."""
        prefix = Path(goal).name.removesuffix("_bench").upper()
        clock = copy / "build" / "edgetune_clock.o"
        clock.parent.mkdir(exist_ok=True)
        source = image_folder() / "plugin" / "bench_clock.c"
        command = [tools.cc, "-std=gnu11", *tools.cflags, "-c", str(source), "-o", str(clock)]
        done = run_tool(command, timeout_s=_COMPILE_S)
        if done.returncode:
            raise CompileFailed(f"{tools.cc} cannot compile {source}: {done.stderr.strip()[:300]}")
        macros = f"-D{prefix}_NOW_NS={_CLOCK} -D{prefix}_BENCH_RUNS={self.runs}"
        libraries = " ".join((str(clock), *tools.ldflags))
        make(copy, goal, tools, timeout_s, [f"CC={tools.cc} {macros}", f"LDLIBS={libraries}"])

    def timed(
        self, program: Path, arguments: Sequence[str | Path], timeout_s: float, cores: Sequence[int] = ()
    ) -> tuple[ProgramResult, Conditions]:
        """Run it; no condition of this machine has an influence on counts."""
        done = self.execute(program, arguments, timeout_s, cores)
        return done, Conditions({"emulated": 1, "clock": "instructions"}, {}, {}, "unknown")

    def counts(self, program: Path, runs: int, layers: int) -> ClassCounts | None:
        """What was counted in the last run of a benchmark; see `class_counts`."""
        return class_counts(read_records(program.parent / _RECORDS), runs, layers)

    def _run(self, program: Path, arguments: Sequence[str | Path], timeout_s: float) -> ProgramResult:
        """An image takes no arguments: how often it runs was compiled into it."""
        del arguments
        return run([*self.tools.emulator, str(program)], program.parent, timeout_s)


def image_counts(tools: PackageToolchain, runs: int = _RUNS) -> ImageCounts:
    """Return the place where images are counted, in so many `runs`; `tools` name the emulator.

    Raises ToolchainMissing.
    """
    first, *rest = tools.emulator
    words = (first, "-plugin", f"file={build_regions_plugin()},records={_RECORDS}", *rest)
    return ImageCounts(replace(tools, emulator=words), runs=runs)
