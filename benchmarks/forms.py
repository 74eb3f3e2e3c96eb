"""The forms of every kernel that has several, each searched alike, and their fastest timed in turns: a Markdown table.

`python benchmarks/forms.py MODEL.onnx ... [--trials N] [--board NAME]`. GFLOP/s count the products of the direct sum
for every form, so that they tell the same as times; a form that saves products may pass the peak. Times are
the lowest of all samples of a form, beside the median: what else runs on the core can only add to them.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from edgetune.boards.opening import boards_of
from edgetune.config.boards_file import ResolvedBoard
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import read_onnx
from edgetune.graph.memory.plan import scratch_limits
from edgetune.graph.partition import to_program
from edgetune.measure.jobs import first_constants
from edgetune.pipeline.boards import accesses, load_board
from edgetune.records import Record
from edgetune.schedule.algorithms.schedule_text import DIRECT, FORMS
from edgetune.schedule.default_schedule import default_trace
from edgetune.search.cost_model import CostModel
from edgetune.search.measuring import MeasureRequest
from edgetune.search.search import AlgorithmsSearch
from edgetune.search.session_measurer import SessionMeasurer
from edgetune.search.task import TuneTask, tasks_of
from edgetune.search.wiring import other_spaces, space_of
from edgetune.target.target import Target, with_cpu

ROUNDS = 3
SWEEPS = 3
HEADINGS = ("model", "input", "kernel", "form", "us", "median", "GFLOP/s", "times direct", "error", "scratch, KiB")
_TEXTS = 4  # headings of columns that hold no number


def tasks_with_forms(model: Path, target: Target) -> list[TuneTask]:
    """The kernels of a model that have more than the direct form, within the scratch of the model's memory plan."""
    program = to_program(import_onnx(read_onnx(model)))
    limits = {program.kernels[i].workload: limit for i, limit in scratch_limits(program).items()}
    tasks = tasks_of(program.kernels, limits, first_constants(program), FORMS)
    return [task for task in tasks if other_spaces(task, target)]


def fastest(task: TuneTask, target: Target, trials: int) -> Iterator[Record]:
    """The fastest record of each form after `trials` candidates of it, all timed in turns at the end."""
    measurer = SessionMeasurer(
        [task], target, lambda _key, _limit: set(), lambda _event: None, boards_of(accesses(ResolvedBoard(target)))
    )
    best: list[Record] = []
    try:
        fixed = default_trace(task.kernel.function, target, task.scratch_limit)[0]
        direct = replace(space_of(task, target), first=(fixed,))
        for space in (direct, *other_spaces(task, target)):
            found = _search(task, AlgorithmsSearch(task.workload, [space], CostModel(0), 0), measurer, trials)
            best += sorted(found, key=lambda record: record.median_ns or 0.0)[:1]
        yield from measurer.time_again(best, SWEEPS)
    finally:
        measurer.close()


def _search(task: TuneTask, search: AlgorithmsSearch, measurer: SessionMeasurer, trials: int) -> list[Record]:
    known: set[str] = set()
    found: list[Record] = []
    for number in range(1, ROUNDS + 1):
        texts = search.propose(-(-trials // ROUNDS), number, known)
        known.update(texts)
        orders = [MeasureRequest(task.workload, text) for text in texts]
        results = [item.record for item in measurer.measure(orders, {}, lambda _key, _candidate: None)]
        records = [record for record in results if record is not None]
        search.learn([(record.trace, record.median_ns) for record in records])
        found += [record for record in records if record.status == "ok"]
    return found


def rows(model: Path, target: Target, trials: int) -> Iterator[str]:
    """Lines of the table, a kernel and form each."""
    for task in tasks_with_forms(model, target):
        records = sorted(fastest(task, target, trials), key=lambda record: FORMS.index(record.form))
        times = {record.form: min(record.samples_ns) for record in records if record.status == "ok"}
        for record in records:
            if record.form in times:
                yield _row(model, task, record, times)


def _row(model: Path, task: TuneTask, record: Record, times: dict[str, float]) -> str:
    time = times[record.form]
    ratio = f"{times[DIRECT] / time:.2f}" if DIRECT in times else "-"
    error = "-" if record.max_error is None else f"{record.max_error:.1e}"
    shape = "x".join(str(extent) for extent in task.kernel.params[0].shape[1:])
    cells = [model.stem, shape, task.name, record.form, f"{time / 1e3:.1f}"]
    cells += [f"{(record.median_ns or time) / 1e3:.1f}", f"{2 * task.kernel.macs / time:.0f}", ratio, error]
    return f"| {' | '.join([*cells, f'{record.scratch_bytes / 1024:.0f}'])} |"


def main(arguments: Sequence[str] | None = None) -> None:
    """Entry point."""
    parser = argparse.ArgumentParser(prog="benchmarks.forms", description=__doc__.partition("\n")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--trials", type=int, default=24, help="candidates of each form of a kernel")
    parser.add_argument("--board", default="host")
    given = parser.parse_args(arguments)
    target = with_cpu(load_board(given.board).target)
    print(f"| {' | '.join(HEADINGS)} |")
    print(f"|{'---|' * _TEXTS}{'---:|' * (len(HEADINGS) - _TEXTS)}")
    for model in given.models:
        for line in rows(model, target, given.trials):
            print(line, flush=True)


if __name__ == "__main__":
    main()
