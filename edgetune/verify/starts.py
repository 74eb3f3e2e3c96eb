"""Starts of a package's benchmark: the unit in which two packages are compared. Each start is a new process.

`built` keeps the program and the library, so that a package can be timed again after its compiler has changed.
"""

from __future__ import annotations

import shutil
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.boards.agent.build import agent_folder, build_plugin
from edgetune.errors import CompileFailed, PackageInvalid
from edgetune.package.manifest import read_manifest
from edgetune.target.board_kind import BoardKind
from edgetune.target.tool_process import run_tool
from edgetune.verify.bench import TIMEOUT_S, answer_of, linked
from edgetune.verify.image_counts import image_counts
from edgetune.verify.place import ExecutionPlace, Here
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import make, work_copy

PROGRAM = "bench"
LIBRARY = "lib.a"
_RUNS = 1000
_SECONDS = 0.5
_COUNTED_RUNS = 3
_CLOCK = "edgetune_instructions"
_COMPILE_S = 60.0


@dataclass(frozen=True)
class Start:
    """Medians of one start: the cost of a run of the whole package, and of each layer, in call order.

    The unit is that of the place: nanoseconds, or instructions where those are counted.
    """

    cost: float
    layers: tuple[float, ...]


class CountingHere(Here):
    """This machine under the target's emulator, whose plugin counts the instructions of each run.

    Raises ToolchainMissing where the plugin cannot be compiled.
    """

    counts = True

    def link(self, copy: Path, goal: str, tools: PackageToolchain, timeout_s: float) -> None:
        """Build `goal` with a clock that reads instructions."""
        prefix = Path(goal).name.removesuffix("_bench").upper()
        clock = copy / "build" / "edgetune_clock.o"
        clock.parent.mkdir(exist_ok=True)
        source = agent_folder() / "plugin" / "bench_clock.c"
        done = run_tool([tools.cc, "-O2", "-c", str(source), "-o", str(clock)], timeout_s=_COMPILE_S)
        if done.returncode:
            raise CompileFailed(f"{tools.cc} cannot compile {source}: {done.stderr.strip()[:300]}")
        libraries = " ".join((*tools.ldflags, str(clock)))
        make(copy, goal, tools, timeout_s, [f"CC={tools.cc} -D{prefix}_NOW_NS={_CLOCK}", f"LDLIBS={libraries}"])


def counting_here(tools: PackageToolchain) -> Here:
    """Return the place where instructions are counted; `tools` name the emulator."""
    if tools.images:
        return image_counts(tools)
    first, *rest = tools.emulator
    return CountingHere(replace(tools, emulator=(first, "-plugin", f"file={build_plugin()}", *rest)))


def build(package: Path, target: BoardKind | None, place: ExecutionPlace, built: Path) -> None:
    """Build the benchmark of `package` and its library as `place` needs them, and keep both in the folder `built`.

    `target` is by default what the package was made for. Raises what `bench` raises.
    """
    with work_copy(package) as (copy, manifest):
        tools = PackageToolchain.of(manifest, target)
        program = linked(copy, manifest, tools, place, TIMEOUT_S)
        shutil.rmtree(built, ignore_errors=True)
        built.mkdir(parents=True)
        shutil.copy(program, built / PROGRAM)
        shutil.copy(copy / "build" / f"lib{manifest['prefix']}.a", built / LIBRARY)


def start(package: Path, built: Path, place: ExecutionPlace, cores: Sequence[int] = ()) -> Start:
    """Start the benchmark in `built`, which was built from `package`, once. Raises what the place and `bench` raise.

    Each start runs a new copy of the program. Where the pages of a file lie in memory decides which of them compete
    for lines of the cache. They stay there from start to start, which made one of two equal programs 4 % slower.
    """
    manifest = read_manifest(package)
    counts = getattr(place, "counts", False)
    amount = (str(_COUNTED_RUNS), "0") if counts else (str(_RUNS), f"{_SECONDS:g}")
    with tempfile.TemporaryDirectory(prefix="edgetune-start-") as folder:
        program = Path(shutil.copy(built / PROGRAM, folder))
        done = place.execute(program, (*amount, str(manifest.get("threads", 1))), TIMEOUT_S, cores)
    whole, layers = answer_of(package, manifest, done)
    if not whole["median_us"]:
        raise PackageInvalid(f"a run of {package} takes less than a tick of the clock there: it cannot be compared")
    return Start(whole["median_us"] * 1e3, tuple(layer.median_us * 1e3 for layer in layers))
