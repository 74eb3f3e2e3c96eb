"""How far is a package without records from the tuned one? Both are timed in turns; a table and the geometric mean.

python benchmarks/untuned.py --db FILE [--model FILE ...] [--at-most 1.5]
python benchmarks/untuned.py --model FILE ... --tuned DIR ... --untuned DIR ...

A ratio is the untuned package's time over that of the tuned one: 1.5 is what a cost formula may lose to measuring.
"""

from __future__ import annotations

import argparse
import contextlib
import statistics
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from benchmarks.command import run_command  # noqa: E402
from benchmarks.rounds import measure_rounds  # noqa: E402  the path comes first
from benchmarks.run import LEAST_ROUNDS, build_package, held  # noqa: E402
from benchmarks.side import CannotLoad, Case  # noqa: E402
from benchmarks.side_process import SideProcess  # noqa: E402
from benchmarks.sides import OURS  # noqa: E402
from edgetune.boards.cores import CoreSplit  # noqa: E402
from edgetune.boards.lock import TimingLock  # noqa: E402
from edgetune.errors import UsageError  # noqa: E402
from edgetune.package.manifest import read_manifest  # noqa: E402
from edgetune.pipeline.model_formats import read_model  # noqa: E402

TUNED, UNTUNED = "tuned", "untuned"


@dataclass(frozen=True)
class Pair:
    """Both packages of one model: microseconds, one per round, and how many kernels of the tuned one have records."""

    model: str
    tuned_us: tuple[float, ...]
    untuned_us: tuple[float, ...]
    settings: str

    @property
    def ratio(self) -> float:
        """Median of the untuned package over that of the tuned one."""
        return statistics.median(self.untuned_us) / statistics.median(self.tuned_us)

    @property
    def spread(self) -> tuple[float, float]:
        """The smallest and the largest ratio of a single round."""
        ratios = [untuned / tuned for tuned, untuned in zip(self.tuned_us, self.untuned_us, strict=True)]
        return min(ratios), max(ratios)


def measure_pair(model: Path, packages: tuple[Path, Path], work: Path, core: int, rounds: int, seconds: float) -> Pair:
    """Time the tuned and the untuned package of `model` in turns.

    Raises CannotLoad when one of them does not run, ModelError where the model itself is at fault.
    """
    read = read_model(model)
    specs = tuple(read.inputs)
    outputs = tuple(tensor["name"] for tensor in read_manifest(packages[0])["outputs"])
    (feed,) = read.sample_inputs(specs, 1, 0)
    settings: list[str] = []
    with contextlib.ExitStack() as stack:
        sides: list[SideProcess] = []
        for name, package in zip((TUNED, UNTUNED), packages, strict=True):
            case = Case(model.stem, model.resolve(), package.resolve(), specs, outputs, work / name)
            side = SideProcess(OURS, case, core)
            stack.callback(side.stop)
            side.name = name
            settings.append(side.load().settings.partition(";")[0])
            side.answer(feed)
            sides.append(side)
        lock = TimingLock(on_event=lambda event: print(event.data.get("message", event), file=sys.stderr))
        stack.callback(lock.close)
        found = measure_rounds(sides, rounds, seconds, lambda: held(lock))
    if found.died:
        raise CannotLoad("; ".join(f"{name}: {why}" for name, why in found.died.items()))
    times = {name: tuple(s.median_ns / 1e3 for s in samples) for name, samples in found.samples.items()}
    return Pair(model.stem, times[TUNED], times[UNTUNED], settings[0])


def table(pairs: Sequence[Pair]) -> str:
    """Markdown: a row per model and the geometric mean of the ratios."""
    rows = ["| model | tuned, us | untuned, us | ratio | of single rounds | records |", "|---|---|---|---|---|---|"]
    for pair in pairs:
        low, high = pair.spread
        tuned, untuned = statistics.median(pair.tuned_us), statistics.median(pair.untuned_us)
        cells = (f"{tuned:.1f}", f"{untuned:.1f}", f"{pair.ratio:.2f}", f"{low:.2f} to {high:.2f}", pair.settings)
        rows.append(f"| {pair.model} | {' | '.join(cells)} |")
    return "\n".join([*rows, "", f"Geometric mean of the ratios: {geometric_mean(pairs):.3f}"]) + "\n"


def geometric_mean(pairs: Sequence[Pair]) -> float:
    """Of the ratios of all models."""
    return statistics.geometric_mean(pair.ratio for pair in pairs)


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where the mean is above `--at-most` or a package does not run, or the code of an error."""
    options = _parser().parse_args(arguments)
    return run_command("untuned", partial(_run, options))


def _run(options: argparse.Namespace, split: CoreSplit) -> int:
    core = options.core if options.core is not None else max(split.measuring)
    folder: Path = options.out.resolve()
    given = (options.tuned or [], options.untuned or [])
    if any(packages and len(packages) != len(options.model) for packages in given):
        raise UsageError("give one --tuned and one --untuned package for each --model, in the same order, or none")
    pairs = []
    for number, model in enumerate(options.model):
        place = folder / model.stem
        tuned = given[0][number] if given[0] else build_package(model, place / TUNED, options.db)
        untuned = given[1][number] if given[1] else build_package(model, place / UNTUNED, place / "empty.db")
        rounds = max(options.rounds, LEAST_ROUNDS)
        pair = measure_pair(model, (tuned, untuned), place / "work", core, rounds, options.seconds)
        print(f"{pair.model}: {pair.ratio:.2f}", file=sys.stderr)
        pairs.append(pair)
    print(table(pairs))
    return 1 if options.at_most and geometric_mean(pairs) > options.at_most else 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/untuned.py", description=(__doc__ or "").splitlines()[0])
    models = sorted((ROOT / "examples" / "models").glob("*.onnx"))
    parser.add_argument("--model", type=Path, nargs="+", default=models, help="ONNX files (default: examples/models)")
    parser.add_argument("--db", type=Path, help="records that tuned packages are built from")
    parser.add_argument("--tuned", type=Path, nargs="+", help="one package per model; default: edgetune build")
    parser.add_argument("--untuned", type=Path, nargs="+", help="one package per model; default: edgetune build")
    parser.add_argument("--rounds", type=int, default=8, help=f"at least {LEAST_ROUNDS}")
    parser.add_argument("--seconds", type=float, default=0.3, help="per package and round")
    parser.add_argument("--at-most", type=float, metavar="RATIO", help="of the geometric mean")
    parser.add_argument("--core", type=int, help="core to measure on (default: the last one)")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "build" / "untuned", help="folder of packages")
    return parser


if __name__ == "__main__":
    sys.exit(main())
