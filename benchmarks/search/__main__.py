"""Tunes operators through `edgetune.tune` and times their packages beside a peer, in turns: a table in Markdown.

python -m benchmarks.search [--cases quick|full|second|losses|published|unforeseen|held-out|small-extents|later|fields|
                                    everyday|NAME,...]
                            [--peer pytorch|meta_schedule] [--trials N] [--out DIR] [--again] [--picture FILE]

The peer is PyTorch, or TVM's stock meta_schedule, which tunes with 256 trials of its own for minutes a case.

A case that was measured is not measured again, unless `--again` is given. Its schedules stay in the records of the
folder, so that timing it again searches nothing. The unforeseen expressions have no peer: their results are
checked in double precision, and timed against the roofline. `--trials 0` measures default schedules.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import reduce
from itertools import count
from pathlib import Path

import numpy as np

from benchmarks.peaks import Peaks, measure_peaks
from benchmarks.result import TOLERANCE, difference
from benchmarks.rounds import measure_rounds
from benchmarks.run import held
from benchmarks.search.cases import expression_named, names_of
from benchmarks.search.expression import Expression
from benchmarks.search.picture import picture
from benchmarks.search.table import CaseResult, markdown
from benchmarks.side import CannotLoad, Case
from benchmarks.side_process import SideProcess
from benchmarks.sides import OURS, TITLES
from edgetune import expressions
from edgetune.boards.cores import split_cores
from edgetune.boards.lock import TimingLock
from edgetune.errors import EdgetuneError, UsageError
from edgetune.graph.program import TensorSpec
from edgetune.package.manifest import read_manifest
from edgetune.pipeline.boards import load_board
from edgetune.target.target import Target, with_cpu

PEERS = ("pytorch", "meta_schedule")
STOCK_TRIALS = 256
ROUNDS, SECONDS = 9, 0.3
PEAKS_EVERY = 2
"""Rounds from one sample of the core's limits to the next; the best of all counts, for neighbours disturb some."""
MOST_ERROR = 1e-5
"""The largest error of a result, as a share of the sum of its terms' absolute values."""


@dataclass(frozen=True)
class Plan:
    """How to measure: folder, core, target, trials of a search, and the name of the peer."""

    folder: Path
    core: int
    target: Target
    trials: int
    peer: str

    def result_of(self, name: str) -> Path:
        """The file of a case's result."""
        return self.folder / f"{name}.{self.trials}.{self.peer}.json"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures what is missing and prints the table; 1 where a case fails."""
    options = _parser().parse_args(arguments)
    target = with_cpu(load_board("host").target)
    plan = Plan(options.out.resolve(), max(split_cores().measuring), target, options.trials, options.peer)
    results, failed = [], []
    try:
        names = list(names_of(options.cases))
    except UsageError as error:
        print(f"search benchmark: {error}", file=sys.stderr)
        return error.exit_code
    for name in names:
        kept = plan.result_of(name)
        if kept.is_file() and not options.again:
            results.append(CaseResult(**json.loads(kept.read_text(encoding="utf-8"))))
            continue
        try:
            result = measure(expression_named(name), plan)
        except (EdgetuneError, CannotLoad) as error:
            print(f"{name}: {error}", file=sys.stderr)
            failed.append(name)
            continue
        beside = kept.with_suffix(".partial")
        beside.write_text(json.dumps(asdict(result), indent=1) + "\n", encoding="utf-8")
        beside.rename(kept)
        print(f"{name}: {result.summary(TITLES[plan.peer])}", file=sys.stderr)
        results.append(result)
    print(markdown(results, TITLES[plan.peer]))
    if options.picture is not None and results:
        options.picture.write_text(picture(results, TITLES[plan.peer]), encoding="utf-8")
    return 1 if failed else 0


def measure(case: Expression, plan: Plan) -> CaseResult:
    """Tunes one case and times it, beside the peer if that computes it.

    Raises what `edgetune.tune` raises, and CannotLoad.
    """
    package = plan.folder / "packages" / case.name
    begin = time.monotonic()
    expressions.tune(
        case.compute,
        {name: (shape, "float32") for name, shape in case.inputs.items()},
        constants=case.values(case.constants),
        name=case.name,
        trials=plan.trials,
        db=plan.folder / "records.db",
        out=package,
    )
    search_s = time.monotonic() - begin
    if plan.peer == "meta_schedule" and case.variants is not None:
        _tune_stock(case.name, plan)
    output = read_manifest(package)["outputs"][0]["name"]
    specs = tuple(TensorSpec(name, shape, "float32") for name, shape in case.inputs.items())
    feed = case.values(case.inputs)
    with contextlib.ExitStack() as stack:
        sides, answers = [], {}
        for name in (OURS, plan.peer) if case.variants is not None else (OURS,):
            work = _work(case.name, name, plan)
            side = SideProcess(name, Case(case.name, package, package, specs, (output,), work), plan.core)
            stack.callback(side.stop)
            side.load()
            answers[name] = side.answer(feed)
            sides.append(side)
        gap = _checked(case, answers, output, plan.peer)
        lock = TimingLock(on_event=lambda event: print(event.data.get("message", event), file=sys.stderr))
        stack.callback(lock.close)
        samples: list[Peaks] = []
        turns = count()

        @contextlib.contextmanager
        def turn() -> Iterator[None]:
            with held(lock):
                if next(turns) % PEAKS_EVERY == 0:
                    samples.append(measure_peaks(plan.target, plan.core, 4, largest=_pages(case.bytes_touched)))
                yield

        found = measure_rounds(sides, ROUNDS, SECONDS, turn)
    if found.died:
        raise CannotLoad(next(iter(found.died.values())))
    rounds = {name: [sample.median_ns / 1e3 for sample in samples] for name, samples in found.samples.items()}
    return CaseResult(
        name=case.name,
        ours_us=rounds[OURS],
        peer_us=rounds.get(plan.peer, []),
        roofline_us=roofline_us(case, reduce(Peaks.or_better, samples), plan.target),
        peak_gflops=max(sample.flops for sample in samples) / 1e9,
        operations=case.operations,
        difference=gap,
        search_s=round(search_s, 1),
        trials=plan.trials,
    )


def _pages(size: int) -> int:
    return max(size // 4096, 1) * 4096


def _checked(case: Expression, answers: Mapping[str, Mapping[str, np.ndarray]], output: str, peer: str) -> float:
    """The error of our answer; raises CannotLoad where it is too large."""
    if case.reference is not None:
        gap = case.error(answers[OURS][output])
        if gap > MOST_ERROR:
            raise CannotLoad(f"the result is wrong by {gap:.2g} of the sum of its terms")
        return gap
    gap = difference(answers[OURS], answers[peer])
    if gap > TOLERANCE:
        raise CannotLoad(f"the results differ by {gap:.2g} of the largest")
    return gap


def _work(case: str, side: str, plan: Plan) -> Path:
    """The folder in which a side of a case works."""
    return plan.folder / "work" / case / side


def _tune_stock(case: str, plan: Plan) -> None:
    """Tunes the case by stock meta_schedule on the measuring core. Raises CannotLoad where that fails."""
    folder = _work(case, "meta_schedule", plan)
    folder.mkdir(parents=True, exist_ok=True)
    command = [sys.executable, "-m", "benchmarks.sides.meta_schedule_expression", case, str(folder)]
    with (folder / "tuning.log").open("wb") as log:
        code = subprocess.run(
            [*command, str(STOCK_TRIALS), str(plan.core)], stdout=log, stderr=subprocess.STDOUT, check=False
        ).returncode
    if code:
        raise CannotLoad(f"meta_schedule ended with code {code} on {case}: see {log.name}")


def roofline_us(case: Expression, peaks: Peaks, target: Target) -> float:
    """The larger of operations over the peak, and bytes over the bandwidth of the level that holds all tensors.

    Beyond L2 it is the bandwidth from an array of as many bytes, which another cache may hold.
    """
    bandwidth = peaks.bandwidth[peaks.level(case.bytes_touched, target)]
    return 1e6 * max(case.operations / peaks.flops, case.bytes_touched / bandwidth)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks.search", description=(__doc__ or "").splitlines()[0])
    parser.add_argument(
        "--cases",
        default="quick",
        help="quick, full, second, losses, published, unforeseen, held-out, small-extents, later, fields, "
        "everyday, short-rows, or names with commas",
    )
    parser.add_argument("--peer", choices=PEERS, default=PEERS[0])
    parser.add_argument("--trials", type=int, default=64)
    parser.add_argument("--again", action="store_true", help="measure cases that were measured before")
    parser.add_argument("--picture", type=Path, help="also write the table as SVG to this file")
    parser.add_argument("-o", "--out", type=Path, default=Path("build/search"), help="folder of packages and results")
    return parser


if __name__ == "__main__":
    sys.exit(main())
