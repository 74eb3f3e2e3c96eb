"""The loop with TVM's real evolution of a small matmul, and a measurer whose times are a function of the program.

Run as a script it is the command that the kill test kills: `python test_loop.py DATABASE TRIALS`.
"""

from __future__ import annotations

import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache, partial
from pathlib import Path
from typing import Any

import pytest
import tvm
from tvm import te
from tvm.s_tir import Schedule
from tvm.s_tir import meta_schedule as ms

from edgetune.events import Event
from edgetune.graph.program import Kernel, Param
from edgetune.records import Record, RecordKey, RecordStore
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.search import loop
from edgetune.search.budget import TrialBudget, missing_shares
from edgetune.search.cost_model import make_context
from edgetune.search.loop import SearchParts, TuningLoop
from edgetune.search.measuring import MeasureRequest, RequestResult, Starting
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TuneOutcome
from edgetune.search.search import SearchOptions, SearchSpace
from edgetune.search.task import TuneTask, tasks_of
from tests.record_starts import in_flight, starts

SMALL = SearchOptions(generations=1)
CPU = {"kind": "llvm", "mtriple": "x86_64-linux-gnu", "num-cores": 1}


def matmul(rows: int, columns: int, depth: int) -> Any:
    a = te.placeholder((rows, depth), name="a")
    b = te.placeholder((depth, columns), name="b")
    k = te.reduce_axis((0, depth), name="k")
    return te.create_prim_func([a, b, te.compute((rows, columns), lambda i, j: te.sum(a[i, k] * b[k, j], k), name="c")])


def double(size: int) -> Any:
    a = te.placeholder((size,), name="a")
    return te.create_prim_func([a, te.compute((size,), lambda i: a[i] * 2.0, name="c")])


def kernel(name: str, function: Any, weight: int = 1, macs: int = 0) -> Kernel:
    params = tuple(
        Param(str(item.name), tuple(int(extent) for extent in item.shape), "float32", "input")
        for item in function.params[:-1]
    )
    output = Param("c", tuple(int(extent) for extent in function.params[-1].shape), "float32", "output")
    workload = hashlib.sha256(name.encode()).hexdigest()
    return Kernel(name, workload, function, (*params, output), (name,), macs, weight)


@cache
def kernels() -> tuple[Kernel, ...]:
    return (
        kernel("matmul_1", matmul(32, 32, 32), weight=3, macs=32**3),
        kernel("matmul_2", matmul(64, 16, 24), macs=64 * 16 * 24),
        kernel("double_1", double(64), weight=2),
    )


def module_of(function: Any) -> Any:
    return tvm.IRModule({"main": function.with_attr("global_symbol", "main")})


def space_of(task: TuneTask) -> SearchSpace:
    target = tvm.target.Target(CPU)
    module = module_of(task.kernel.function)
    rules = [
        ms.schedule_rule.MultiLevelTiling(
            structure="SSRSRS",
            tile_binds=None,
            max_innermost_factor=16,
            vector_load_lens=None,
            reuse_read=None,
            reuse_write=None,
        )
    ]
    generator = ms.space_generator.PostOrderApply(
        sch_rules=rules, postprocs=[ms.postproc.RewriteReductionBlock()], mutator_probs={ms.mutator.MutateTileSize(): 1}
    )
    context = make_context(module, target, [], {})
    generator._initialize_with_tune_context(context)
    designs = list(generator.generate_design_space(module))
    return SearchSpace(
        module, target, designs, [ms.postproc.RewriteReductionBlock()], {ms.mutator.MutateTileSize(): 1.0}
    )


def fixed_trace(task: TuneTask) -> str:
    return trace_text(Schedule(module_of(task.kernel.function), seed=1).trace)


class FakeMeasurer:
    """Times are drawn by the hash of the trace; every 11th program crashes; each takes `delay` seconds."""

    def __init__(self, delay: float = 0.0, fails: Callable[[str], bool] = lambda _: False) -> None:
        self.delay = delay
        self.fails = fails
        self.calls: list[MeasureRequest] = []
        self.again = 0
        self.cancelled = False

    def key(self, workload: str) -> RecordKey:
        return RecordKey(workload, "fake", "cc", 1)

    def measure(
        self, orders: Sequence[MeasureRequest], best_ns: Mapping[str, float], starting: Starting
    ) -> Iterator[RequestResult]:
        assert all(time_ns > 0 for time_ns in best_ns.values())
        self.cancelled = False
        for order in orders:
            if self.cancelled:
                return
            self.calls.append(order)
            candidate = hashlib.sha256(f"{order.workload}{order.trace}".encode()).hexdigest()
            starting(self.key(order.workload), candidate)
            time.sleep(self.delay)
            yield RequestResult(order, candidate, self.record(order, candidate), {"timing": self.delay})

    def record(self, order: MeasureRequest, candidate: str) -> Record:
        draw = int(candidate[:8], 16)
        failed = draw % 11 == 0 or self.fails(order.workload)
        median = 1000.0 + draw % 9000
        times = {} if failed else timed((median, median, median))
        facts: dict[str, Any] = {"workload": order.workload, "candidate": candidate, "trace": order.trace, **times}
        return Record(
            workload_name="fake",
            target="fake",
            target_fingerprint="fake",
            toolchain="cc",
            codegen_version=1,
            board="fake",
            status="crashed" if failed else "ok",
            tool_version="0",
            **facts,
        )

    def time_again(self, records: Sequence[Record], sweeps: int) -> Iterator[Record]:
        for record in records:
            self.again += sweeps
            assert record.median_ns is not None
            facts: dict[str, Any] = timed((record.median_ns + 1.0,) * sweeps)
            yield replace(record, environment={**record.environment, "playoff": sweeps}, **facts)

    def summary(self) -> Mapping[str, object]:
        return {}

    def cancel(self) -> None:
        self.cancelled = True

    def close(self) -> None:
        self.cancelled = True


def timed(samples: tuple[float, ...]) -> dict[str, Any]:
    median = sorted(samples)[len(samples) // 2]
    return {"samples_ns": samples, "median_ns": median, "ci_low_ns": median * 0.9, "ci_high_ns": median * 1.1}


def tune(
    path: Path,
    options: TuneOptions,
    measurer: FakeMeasurer | None = None,
    events: Callable[[Event], None] = lambda _: None,
    chosen: Sequence[Kernel] | None = None,
) -> tuple[TuneOutcome, FakeMeasurer]:
    measurer = measurer or FakeMeasurer()
    tasks = tasks_of(chosen or kernels(), {})
    with RecordStore.open(path) as store:
        options = replace(options, search=SMALL)
        outcome = TuningLoop(tasks, SearchParts(measurer, space_of, fixed_trace), store, options, events).run()
    return outcome, measurer


def all_records(path: Path) -> list[Record]:
    with RecordStore.open(path) as store:
        return [record for item in kernels() for record in store.all(FakeMeasurer().key(item.workload))]


def test_the_budget_is_exact_and_the_fixed_schedule_comes_first(tmp_path: Path) -> None:
    outcome, measurer = tune(tmp_path / "db", TuneOptions(trials=60))
    assert outcome.records == outcome.measured == len(all_records(tmp_path / "db")) == 60
    fixed = [fixed_trace(task) for task in tasks_of(kernels(), {})]
    assert {order.trace for order in measurer.calls[:3]} == set(fixed)
    assert outcome.before_ns is not None
    assert outcome.after_ns is not None
    assert outcome.after_ns <= outcome.before_ns + 10
    assert sum(outcome.failed.values()) == sum(record.status != "ok" for record in all_records(tmp_path / "db"))


@pytest.mark.long
def test_nothing_is_measured_twice_and_a_finished_search_measures_nothing(tmp_path: Path) -> None:
    _, first = tune(tmp_path / "db", TuneOptions(trials=30))
    _, second = tune(tmp_path / "db", TuneOptions(trials=70))
    outcome, third = tune(tmp_path / "db", TuneOptions(trials=70))
    calls = Counter(order for order in first.calls + second.calls if not order.again)
    assert len(calls) == 70
    assert set(calls.values()) == {1}
    assert third.calls == []
    assert third.again == 0
    assert outcome.measured == 0
    assert outcome.records == 70


@pytest.mark.long
class Stalling(FakeMeasurer):
    """Measures `after` candidates, then waits until it is cancelled."""

    def __init__(self, after: int) -> None:
        super().__init__()
        self.after = after

    def measure(
        self, orders: Sequence[MeasureRequest], best_ns: Mapping[str, float], starting: Starting
    ) -> Iterator[RequestResult]:
        for result in super().measure(orders, best_ns, starting):
            yield result
            while len(self.calls) >= self.after and not self.cancelled:
                time.sleep(0.01)


def test_a_new_kernel_gets_its_share_of_a_budget_that_others_have_used(tmp_path: Path) -> None:
    tune(tmp_path / "db", TuneOptions(trials=30), chosen=kernels()[:1])
    new = kernels()[1].workload
    interrupting, reported = Stalling(after=6), list[Event]()

    def interrupt(event: Event) -> None:
        if event.kind == "candidate":
            reported.append(event)
            if len(reported) == 6:
                raise KeyboardInterrupt

    stopped, _ = tune(tmp_path / "db", TuneOptions(trials=24), interrupting, interrupt, chosen=kernels()[:2])
    assert stopped.interrupted
    told: list[Event] = []
    outcome, measurer = tune(tmp_path / "db", TuneOptions(trials=24), events=told.append, chosen=kernels()[:2])
    calls = [order.workload for order in (*interrupting.calls, *measurer.calls) if not order.again]
    assert calls == [new] * 12
    assert 0 < outcome.measured < 12
    (warning, *_) = [str(event.data["message"]) for event in told if event.kind == "warning"]
    assert warning.startswith("1 kernel without a search get")
    assert tune(tmp_path / "db", TuneOptions(trials=24), chosen=kernels()[:2])[0].measured == 0


@pytest.mark.parametrize(
    ("trials", "records", "ended", "lacking"),
    [
        (24, [90, 4, 0], [True, True, False], {2: 8}),
        (24, [90, 4, 3], [True, False, False], {1: 4, 2: 5}),  # continued
        (24, [90, 4, 0], [True, True, True], {}),
        (24, [12, 0, 0], [False, False, False], {}),  # continued, and the first of all
        (2, [1, 1, 0], [True, True, False], {2: 1}),
        (0, [1, 1, 0], [True, True, False], {}),
        (None, [1, 1, 0], [True, True, False], {}),
    ],
)
def test_shares(trials: int | None, records: list[int], ended: list[bool], lacking: dict[int, int]) -> None:
    assert missing_shares(trials, records, ended) == lacking


@pytest.mark.long
def test_the_same_seed_and_times_give_the_same_programs(tmp_path: Path) -> None:
    runs = [tune(tmp_path / name, TuneOptions(trials=50, seed=seed))[1].calls for name, seed in [("a", 1), ("b", 1)]]
    assert runs[0] == runs[1]
    assert tune(tmp_path / "c", TuneOptions(trials=50, seed=2))[1].calls != runs[0]


@pytest.mark.long
def test_a_kernel_with_one_program_ends_at_once(tmp_path: Path) -> None:
    outcome, _ = tune(tmp_path / "db", TuneOptions(trials=50))
    only = next(task for task in outcome.tasks if task.name == "double_1")
    assert only.ending == "exhausted"
    assert only.records <= 2


@pytest.mark.long
def test_a_search_without_limit_ends_when_every_space_is_exhausted(tmp_path: Path) -> None:
    told: list[Event] = []
    tiny = [kernel("tiny_1", matmul(2, 2, 2), macs=8)]
    outcome, _ = tune(tmp_path / "db", TuneOptions(), chosen=tiny, events=told.append)
    assert [task.ending for task in outcome.tasks] == ["exhausted"]
    (warning,) = [event for event in told if event.kind == "warning"]
    assert "no candidate is left to measure" in str(warning.data["message"])
    assert 2 <= outcome.records < 60


def test_events_tell_progress(tmp_path: Path) -> None:
    told: list[Event] = []
    tune(tmp_path / "db", TuneOptions(trials=20), events=told.append)
    kinds = Counter(event.kind for event in told)
    assert kinds["candidate"] == 20
    assert kinds["summary"] == 1
    rounds = [event.data for event in told if event.kind == "round"]
    assert rounds[-1]["trials"] == 20
    assert isinstance(rounds[-1]["end_to_end_us"], float)


@pytest.mark.long
def test_the_play_off_compares_rivals_once(tmp_path: Path) -> None:
    outcome, measurer = tune(tmp_path / "db", TuneOptions(trials=60, seconds=100))
    assert measurer.again > 0
    marked = [record for record in all_records(tmp_path / "db") if "playoff" in record.environment]
    assert len(marked) * 3 == measurer.again
    assert outcome.records == 60


@pytest.mark.long
def test_a_failing_task_is_tried_again_and_the_others_go_on(tmp_path: Path) -> None:
    bad = kernels()[0].workload
    outcome, measurer = tune(tmp_path / "db", TuneOptions(trials=60), FakeMeasurer(fails=lambda name: name == bad))
    assert outcome.tasks[0].best is None
    assert outcome.after_ns is None
    assert outcome.tasks[1].best is not None
    assert sum(order.workload == bad for order in measurer.calls) > 9


def test_the_time_budget_ends_the_search(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measurer = FakeMeasurer()
    clock = partial(
        TrialBudget, clock=lambda: 0.1 * len(measurer.calls)
    )  # a candidate takes 0.1 s, and nothing else does
    monkeypatch.setattr(loop, "TrialBudget", clock)
    outcome, _ = tune(tmp_path / "db", TuneOptions(seconds=3.0, playoff=0), measurer)
    assert 20 < outcome.measured < 40
    assert len(all_records(tmp_path / "db")) == outcome.measured


@pytest.mark.long
def test_an_interrupt_ends_cleanly_with_the_best_so_far(tmp_path: Path) -> None:
    presses = iter([KeyboardInterrupt])

    def interrupt(event: Event) -> None:
        if event.kind == "candidate" and event.data["round"] == 1:
            for press in presses:
                raise press

    outcome, _ = tune(tmp_path / "db", TuneOptions(trials=500), FakeMeasurer(delay=0.01), interrupt)
    assert outcome.interrupted
    assert outcome.records == len(all_records(tmp_path / "db")) >= 4
    assert outcome.tasks[0].best is not None


@pytest.mark.long
def test_kill_9_loses_nothing_and_repeats_only_what_was_in_flight(tmp_path: Path) -> None:
    """Kills the command at random moments, then lets it end: the start log shows what was measured again."""
    database, draw = tmp_path / "db", random.Random(7)  # noqa: S311
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)}
    command = [sys.executable, __file__, str(database)]
    kept: dict[str, Record] = {}
    kills = 0
    while kills < 5:
        before = len(kept)
        # More than it can measure before it is killed, however late that comes on a busy machine.
        with subprocess.Popen([*command, "2000"], env=environment, start_new_session=True) as process:
            wanted = before + draw.randrange(1, 15)
            while process.poll() is None and count(database) < wanted:
                time.sleep(0.01)
            time.sleep(draw.random() * 0.05)
            process.send_signal(signal.SIGKILL)
            kills += process.wait() == -signal.SIGKILL
        now = {record.candidate: record for record in all_records(database)}
        assert kept.items() <= now.items()
        kept = now
    trials = len(kept) + 50
    subprocess.run([*command, str(trials)], env=environment, check=True)
    records = all_records(database)
    assert len(records) == trials
    assert kept.items() <= {record.candidate: record for record in records}.items()
    begun = Counter(start.candidate for start in starts(database))
    assert len(in_flight(database)) <= kills
    assert sum(begun.values()) - len(records) <= kills
    assert max(begun.values()) <= 1 + kills


def count(database: Path) -> int:
    return len(all_records(database)) if database.exists() else 0


if __name__ == "__main__":
    tune(Path(sys.argv[1]), TuneOptions(trials=int(sys.argv[2]), playoff=0), FakeMeasurer(delay=0.03))
