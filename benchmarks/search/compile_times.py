"""How long do random candidates of the search benchmark's cases compile, and how much stack do they take?

python -m benchmarks.search.compile_times [--cases second,unforeseen] [--samples N]

Each case's candidates are those that a search without any measurement proposes first, of all algorithms of its kernel.
They are compiled one after the other with the command of the search. Seconds are those of the compiler's own CPU time,
so other programs on the machine count little. The stack is that of the kernel's function (`-fstack-usage`).
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from benchmarks.search.cases import expression_named, names_of
from benchmarks.search.expression import Expression
from edgetune.errors import EdgetuneError
from edgetune.frontend.tensor_expression.kernel import program_from_te
from edgetune.measure.compiler import CompilerCommand, toolchain_of
from edgetune.pipeline.boards import load_board
from edgetune.rewrites.program import decided
from edgetune.schedule.algorithms.schedule_text import FORMS, algorithm_of
from edgetune.schedule.kernel_spec import kernel_spec
from edgetune.schedule.sketches.spaces import fills_vectors, limits, tile_of
from edgetune.schedule.source import make_source
from edgetune.search.cost_model import CostModel
from edgetune.search.search import AlgorithmsSearch
from edgetune.search.task import TuneTask
from edgetune.search.wiring import other_spaces, space_of
from edgetune.target.target import STACK_LIMIT_BYTES, Target, with_cpu

QUICK_S = 5.0
TIMEOUT_S = 60.0


@dataclass(frozen=True)
class Compiled:
    """One candidate: seconds of CPU of its compiler, bytes of stack and of C text; `tile`: of a register tile."""

    case: str
    algorithm: str
    tile: bool
    seconds: float
    stack_bytes: int
    text_bytes: int
    late: bool = False


def compiled(case: Expression, samples: int, target: Target, toolchain: CompilerCommand) -> Iterator[Compiled]:
    """Compile `samples` random candidates of a case, which depend only on its name and their number.

    Raises KernelFailed.
    """
    inputs = {name: (shape, "float32") for name, shape in case.inputs.items()}
    (kernel,) = decided(program_from_te(case.compute, inputs, case.values(case.constants), case.name)).kernels
    task = TuneTask(kernel, forms=frozenset(FORMS))
    spaces = [space_of(task, target), *other_spaces(task, target)]
    search = AlgorithmsSearch(task.workload, spaces, CostModel(0), 0)
    found = tile_of(kernel.function, target)
    tile = found is not None and fills_vectors(kernel.function, found[0], target)
    for text in search.propose(samples, 1, ()):
        unit = make_source(kernel_spec(kernel, task.scratch_limit), text, target).unit
        with tempfile.TemporaryDirectory(prefix="edgetune-compile-") as folder:
            seconds, stack, late = compile_unit(unit, toolchain, Path(folder))
        yield Compiled(case.name, algorithm_of(text), tile, seconds, stack, len(unit), late)


def compile_unit(unit: str, toolchain: CompilerCommand, folder: Path) -> tuple[float, int, bool]:
    """Seconds of CPU, bytes of the largest stack frame, and whether the compiler was stopped."""
    (folder / "unit.c").write_text(unit, encoding="utf-8")
    flags = [*toolchain.kernel_flags, *toolchain.position_flags, "-fstack-usage"]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    late = False
    try:
        subprocess.run([toolchain.cc, *flags, "-c", "unit.c"], cwd=folder, check=True, timeout=TIMEOUT_S)
    except subprocess.TimeoutExpired:
        late = True
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    usage = folder / "unit.su"
    frames = [int(line.split("\t")[1]) for line in usage.read_text().splitlines()] if usage.is_file() else []
    return seconds, max(frames, default=0), late


def report(found: Sequence[Compiled], target: Target) -> str:
    """Markdown: a row for register tiles and one for all other candidates, and those beyond a bound by name."""
    registers = limits(target).tile_bytes
    beyond = f"over {STACK_LIMIT_BYTES}"
    rows = [
        f"| candidates | number | under {QUICK_S:g} s | median, s | slowest, s | largest stack | {beyond} |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for title, tile in (("register tiles", True), ("all others", False)):
        own = [one for one in found if one.tile == tile]
        if not own:
            continue
        quick = sum(one.seconds < QUICK_S and not one.late for one in own) / len(own)
        slowest = max(own, key=lambda one: one.seconds)
        deepest = max(own, key=lambda one: one.stack_bytes)
        seconds = sorted(one.seconds for one in own)
        rows.append(
            f"| {title} | {len(own)} | {quick:.1%} | {seconds[len(seconds) // 2]:.2f} | {slowest.seconds:.1f} "
            f"({slowest.case}) | {deepest.stack_bytes} ({deepest.case}) "
            f"| {sum(one.stack_bytes > STACK_LIMIT_BYTES for one in own)} |"
        )
    late = [one.case for one in found if one.late]
    stopped = f" Stopped after {TIMEOUT_S:g} s: {', '.join(late)}." if late else ""
    return "\n".join(rows) + f"\n\nTiles and operands in registers: at most {registers} bytes.{stopped}\n"


def main(arguments: Sequence[str] | None = None) -> int:
    """Compile, print the table, and write each candidate's figures to DIR/compile_times.json."""
    parser = argparse.ArgumentParser(
        prog="benchmarks.search.compile_times", description=(__doc__ or "").splitlines()[0]
    )
    parser.add_argument("--cases", default="second,unforeseen", help="selections of the search benchmark, with commas")
    parser.add_argument("--samples", type=int, default=8, help="candidates of each case")
    parser.add_argument("-o", "--out", type=Path, default=Path("build/search"), help="folder of the figures")
    options = parser.parse_args(arguments)
    target = with_cpu(load_board("host").target)
    found: list[Compiled] = []
    try:
        toolchain = toolchain_of(target)
        names = [name for part in options.cases.split(",") for name in names_of(part)]
        for name in names:
            own = list(compiled(expression_named(name), options.samples, target, toolchain))
            found += own
            slowest = max((one.seconds for one in own), default=0.0)
            print(f"{name}: {len(own)} candidates, at most {slowest:.2f} s", file=sys.stderr, flush=True)
    except EdgetuneError as error:
        print(f"compile times: {error}", file=sys.stderr)
        return error.exit_code
    options.out.mkdir(parents=True, exist_ok=True)
    figures = json.dumps([asdict(one) for one in found], indent=1) + "\n"
    (options.out / "compile_times.json").write_text(figures, encoding="utf-8")
    print(report(found, target))
    return 0


if __name__ == "__main__":
    sys.exit(main())
