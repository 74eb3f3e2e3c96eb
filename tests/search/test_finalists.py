"""The comparison at the end: who is the fastest after it, who is out, and what merging keeps of it."""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tvm import te

from edgetune.boards.opening import BoardFactory, boards_of
from edgetune.boards.protocol import RunResult
from edgetune.config.boards_file import ResolvedBoard
from edgetune.events import Event
from edgetune.graph.program import Kernel, Param
from edgetune.measure.build_worker import BuildPolicy
from edgetune.measure.peaks import NAME as PEAKS
from edgetune.pipeline.boards import accesses
from edgetune.records import Record, RecordStore
from edgetune.records.history import earlier_of
from edgetune.records.ranking import MARK, SEARCHED, for_package, ranked
from edgetune.search.loop import SearchParts, TuningLoop
from edgetune.search.measuring import MeasureRequest
from edgetune.search.options import TuneOptions
from edgetune.search.progress import TaskProgress
from edgetune.search.remeasure import contenders
from edgetune.search.session_measurer import SessionMeasurer
from edgetune.search.task import TuneTask, tasks_of
from edgetune.target.target import load_target
from tests import measure_steps
from tests.measure.scripted import Script, ScriptedBoard
from tests.search.test_loop import SMALL, FakeMeasurer, fixed_trace, kernel, matmul, space_of, timed
from tests.search.test_remeasure import KEY, LATER, record


def refined(number: int, searched: float, median: float, **facts: Any) -> Record:
    environment = {MARK: 3, SEARCHED: searched, **facts}
    return record(number, median=median, samples_ns=(median,) * 9, environment=environment)


def order_of(*records: Record) -> list[int]:
    return [records.index(item) for item in ranked(records)]


def test_a_lucky_fifth_does_not_beat_what_was_compared() -> None:
    contenders_ = [refined(number, 100.0 + number, 130.0 - number) for number in range(4)]
    fifth = record(4, median=105.0)
    assert order_of(*contenders_, fifth) == [3, 2, 1, 0, 4]
    assert order_of(contenders_[1], record(4, median=101.5)) == [0, 1]


def test_what_was_faster_in_the_search_wins_until_it_is_compared() -> None:
    old, new = refined(0, 100.0, 120.0), record(1, median=99.0)
    assert order_of(old, new) == [1, 0]
    assert order_of(old, record(1, median=100.0)) == [0, 1]
    assert order_of(old, refined(1, 99.0, 121.0)) == [0, 1]


def test_threads_prefer_what_they_can_share() -> None:
    records = [refined(1, 100.0, 90.0), refined(2, 101.0, 91.0), refined(3, 120.0, 119.0), record(4, median=210.0)]
    shares = {records[0].candidate: 1.0, records[1].candidate: 0.8, records[2].candidate: 0.6}
    asked = ranked(records)
    assert for_package(asked, 2, lambda one: shares[one.candidate], lambda _: 0.0)[0] == records[2]
    assert for_package(asked, 2, lambda _: 0.5, lambda _: 0.0) == asked


def test_waiting_for_weights_counts() -> None:
    records = [refined(1, 100.0, 90.0), refined(2, 101.0, 91.0), refined(3, 104.0, 97.0), record(4, median=120.0)]
    asked = ranked(records)
    waits = {one.candidate: 20.0 for one in records} | {records[2].candidate: 5.0, records[3].candidate: 5.0}
    assert for_package(asked, 1, lambda _: 1.0, lambda one: waits[one.candidate])[0] == records[2]
    assert for_package(asked, 1, lambda _: 1.0, lambda _: 20.0) == asked
    assert for_package([], 1, lambda _: 1.0, lambda _: 20.0) == []
    shares = {one.candidate: 0.5 for one in records} | {records[2].candidate: 0.53}
    both = for_package(asked, 2, lambda one: shares[one.candidate], lambda one: waits[one.candidate])
    assert both[0] == records[2], "what threads share best waits longest"


def test_trust_decides_within_the_noise_only() -> None:
    def graded(number: int, median: float, trust: str | None) -> Record:
        return record(number, median=median, environment={} if trust is None else {"trust": trust})

    near, far = graded(1, 104.0, "A"), graded(2, 200.0, "A")
    assert order_of(graded(0, 100.0, "C"), near, far) == [1, 0, 2]
    assert order_of(graded(0, 100.0, None), near) == [1, 0]
    assert order_of(graded(0, 100.0, "A"), near) == [0, 1]
    assert order_of(graded(0, 100.0, "D"), far) == [0, 1]
    # What was not compared gains nothing from its grade against what was.
    assert order_of(refined(0, 100.0, 100.0, trust="D"), near) == [0, 1]


@pytest.mark.parametrize("odd", ["3", True, -1, 1.5, None])
def test_marks_of_an_import_that_make_no_sense_are_none(odd: object) -> None:
    strange = record(0, median=90.0, environment={MARK: odd, SEARCHED: odd, "trust": odd})
    assert order_of(strange, refined(1, 80.0, 100.0)) == [1, 0]


def test_the_store_ranks_and_prunes_alike(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store:
        for item in (record(4, median=105.0), refined(0, 100.0, 130.0), refined(1, 101.0, 120.0)):
            store.add(item)
        store.add(record(5, "refused_noisy", 1.0, environment={"trust": "A"}))
        assert [item.median_ns for item in store.best(KEY, 9)] == [120.0, 130.0, 105.0]
        assert [item.median_ns for item in store.best(KEY, 1)] == [120.0]
        assert store.prune(keep_best=1, dry_run=True) == 3
        assert store.prune(keep_best=1) == 3
        assert [item.median_ns for item in store.all(KEY)] == [120.0]


def test_a_record_that_fits_the_scratch_is_found_behind_any_number_that_does_not(tmp_path: Path) -> None:
    small = record(0, median=900.0, scratch_bytes=100)
    with RecordStore.open(tmp_path / "db") as store:
        for number in range(1, 61):
            store.add(record(number, median=10.0 + number, scratch_bytes=101))
        store.add(small)
        assert [item.candidate for item in store.best(KEY, 9, scratch_limit=100)] == [small.candidate]
        assert store.best(KEY, 1, scratch_limit=99) == []


def test_merging_keeps_the_samples_of_a_play_off(tmp_path: Path) -> None:
    plain = record(0, median=100.0)
    better = refined(0, 100.0, 120.0)
    failed = replace(record(0, "crashed"), environment={MARK: 3, "earlier": '[{"status":"ok"}]'})
    assert plain.created_utc == better.created_utc
    for first, second, wins in ((plain, better, better), (better, failed, failed), (plain, failed, failed)):
        for name, pair in (("a", (first, second)), ("b", (second, first))):
            with (
                RecordStore.open(tmp_path / f"{name}{wins.status}{first.status}{second.status}") as one,
                RecordStore.open(tmp_path / f"{name}{wins.status}{first.status}{second.status}2") as other,
            ):
                one.add(pair[0])
                other.add(pair[1])
                other.export_jsonl(tmp_path / "lines")
                one.import_jsonl(tmp_path / "lines")
                assert one.all(KEY) == [replace(wins, id=1)]


class Unsteady(FakeMeasurer):
    """All contenders turn out half as slow again; those in `fails` crash when they are timed again."""

    def __init__(self, fails: int = 0) -> None:
        super().__init__()
        self.crashing = fails
        self.groups: list[list[str]] = []

    def record(self, order: MeasureRequest, candidate: str) -> Record:
        facts: dict[str, Any] = timed((1000.0 + int(candidate[:8], 16) % 90,) * 3)
        return replace(super().record(order, candidate), status="ok", **facts)

    def time_again(self, records: Sequence[Record], sweeps: int) -> Iterator[Record]:
        self.groups.append([item.candidate for item in records])
        for place, item in enumerate(records):
            none: dict[str, Any] = {"samples_ns": (), "median_ns": None, "ci_low_ns": None, "ci_high_ns": None}
            facts = timed(((item.median_ns or 0.0) * 1.5,) * sweeps)
            environment = {**item.environment, MARK: sweeps}
            crash = {"status": "crashed", "reason": "timed again: signal 11", "created_utc": LATER, **none}
            changes: dict[str, Any] = crash if place < self.crashing else facts
            yield replace(item, environment=environment, **changes)


@pytest.mark.parametrize("fails", [0, 1, 4])
def test_a_contender_that_fails_is_recorded_so_and_never_best(tmp_path: Path, fails: int) -> None:
    only = kernel("small", matmul(16, 16, 16), macs=16**3)
    measurer = Unsteady(fails)
    with RecordStore.open(tmp_path / "db") as store:
        rooms = SearchParts(measurer, space_of, fixed_trace)
        options = TuneOptions(trials=16, seconds=600, search=SMALL)
        outcome = TuningLoop(tasks_of([only], {}), rooms, store, options, lambda _: None).run()
        records = {item.candidate: item for item in store.all(measurer.key(only.workload))}
    (group,) = measurer.groups
    assert outcome.records == len(records) == 16
    best = outcome.tasks[0].best
    assert best is not None
    assert best.status == "ok"
    assert best.candidate == (group[fails] if fails < len(group) else best.candidate)
    assert (MARK in best.environment) == (fails < len(group))
    for candidate in group[:fails]:
        assert records[candidate].status == "crashed"
        assert earlier_of(records[candidate])[0]["samples_ns"]
    assert sum("is excluded (crashed)" in warning for warning in outcome.warnings) == fails
    lucky = min(item.median_ns or 0.0 for item in records.values() if item.status == "ok")
    assert best.median_ns == lucky or fails < len(group)


def test_exact_times_need_no_play_off() -> None:
    task = TuneTask(kernel("small", matmul(16, 16, 16)))
    exact = [record(n, samples_ns=(5.0,), median_ns=5.0, ci_low_ns=5.0, ci_high_ns=5.0) for n in range(3)]
    assert contenders([TaskProgress(task, "[]", exact)], 4, 100) == []
    assert len(contenders([TaskProgress(task, "[]", [record(0), record(1)])], 4, 100)) == 1


def test_what_needs_more_scratch_than_the_task_has_is_not_its_fastest() -> None:
    task = TuneTask(kernel("small", matmul(16, 16, 16)), 100)
    big, small = record(0, median=10.0, scratch_bytes=101), record(1, median=20.0, scratch_bytes=100)
    assert TaskProgress(task, "[]", [big, small]).fastest() == [small]


BUILDING = BuildPolicy("tests.measure_steps:make_source", "tests.measure_steps:make_case")


def hand_written() -> Kernel:
    a = te.placeholder((measure_steps.LENGTH,), name="a")
    function = te.create_prim_func([a, te.compute(a.shape, lambda i: a[i] * 2.0, name="c")])
    params = tuple(
        Param(name, (measure_steps.LENGTH,), "float32", role)  # type: ignore[arg-type]
        for name, role in (("a", "input"), ("w", "constant"), ("out", "output"))
    )
    return Kernel("twice", hashlib.sha256(b"twice").hexdigest(), function, params, ("Mul",), 0, 1)


class Sweeps(ScriptedBoard):
    """Gives each candidate the samples planned for it, one set per run; beyond them those of every board."""

    def __init__(self, plan: dict[str, list[tuple[float, ...]]]) -> None:
        super().__init__("shelf-1")
        self.plan = plan

    def collect(self, timeout_s: float = 0.0) -> RunResult | None:
        ran = super().collect(timeout_s)
        planned = self.plan.get(ran.candidate_id) if ran is not None else None
        return replace(ran, samples_ns=planned.pop(0)) if ran is not None and planned else ran


@pytest.mark.long
def test_sweeps_that_were_refused_do_not_count_and_the_worst_trust_is_kept() -> None:
    """Real builds, on a board with times of our choice."""
    narrow, wide, noisy = (tuple(2000.0 * (1 + n % 2 * width) for n in range(20)) for width in (0.0, 0.08, 0.5))
    only = hand_written()
    plan: dict[str, list[tuple[float, ...]]] = {}
    host = load_target("host")
    measurer = SessionMeasurer(
        [TuneTask(only)],
        host,
        lambda *_: set(),
        lambda _: None,
        BoardFactory(lambda *_: [Sweeps(plan)], here=True),
        building=BUILDING,
    )
    with closing(measurer):
        orders = [
            MeasureRequest(only.workload, measure_steps.trace(f"/* {n} */{measure_steps.GOOD}")) for n in range(3)
        ]
        found = [one.record for one in measurer.measure(orders, {}, lambda *_: None)]
        records = [one for one in found if one is not None]
        assert {one.environment["trust"] for one in records} == {"B"}
        mixed, steady, hopeless = (one.candidate for one in records)
        plan |= {mixed: [wide, noisy, narrow], steady: [narrow] * 3, hopeless: [noisy] * 3}
        again = {one.candidate: one for one in measurer.time_again(records, 3)}
        assert again.keys() == {mixed, steady}
        assert again[mixed].samples_ns == wide + narrow
        assert again[mixed].environment["trust"] == "C"
        assert "7.7 % of the median" in str(again[mixed].environment["trust_reason"])
        assert again[steady].environment["trust"] == "B"
        assert [one.environment[MARK] for one in again.values()] == [2, 2]


@pytest.mark.long
@pytest.mark.usefixtures("no_sample_is_noisy")
def test_a_crash_in_a_real_sweep_is_yielded_and_the_others_are_timed(tmp_path: Path) -> None:
    """Real builds and runs: one program crashes, one is wrong, once a file is there."""
    mark = tmp_path / "mark"
    include, test = "#include <unistd.h>", f'if (access("{mark}", 0) == 0)'
    bodies = [
        measure_steps.trace(),
        measure_steps.trace(measure_steps.GOOD + f"\n{test} __builtin_trap();", globals=include),
        measure_steps.trace(measure_steps.GOOD + f"\n{test} out[0] += 1.0f;", globals=include),
    ]
    only = hand_written()
    host = load_target("host")
    boards = boards_of(accesses(ResolvedBoard(host)))
    measurer = SessionMeasurer([TuneTask(only)], host, lambda *_: set(), lambda _: None, boards, building=BUILDING)
    with closing(measurer):
        orders = [MeasureRequest(only.workload, body) for body in bodies]
        found = [one.record for one in measurer.measure(orders, {}, lambda *_: None)]
        timed_first = [one for one in found if one is not None and one.median_ns is not None]
        assert len(timed_first) == 3
        mark.touch()
        again = {one.trace: one for one in measurer.time_again([replace(r, status="ok") for r in timed_first], 2)}
    assert [again[body].status for body in bodies] == ["ok", "crashed", "wrong_result"]
    assert again[bodies[0]].environment[MARK] == 2
    for body in bodies[1:]:
        assert again[body].median_ns is None
        assert again[body].reason.startswith("timed again: ")


class Away(ScriptedBoard):
    """Is lost as it begins its second candidate, and comes back when `back` is set."""

    def __init__(self) -> None:
        super().__init__("shelf-1", Script(faults=["", "begin"]))
        self.back = threading.Event()

    def recover(self) -> None:
        self.back.wait()


@pytest.mark.long
def test_what_a_cancelled_call_left_over_is_not_timed_without_a_record() -> None:
    """Its time runs out while its only board is away; the comparison finds the board back."""
    only, board = hand_written(), Away()

    def cancel(event: Event) -> None:
        if event.data.get("what") == "lost":
            measurer.cancel()

    host = load_target("host")
    measurer = SessionMeasurer(
        [TuneTask(only)], host, lambda *_: set(), cancel, BoardFactory(lambda *_: [board], here=True), building=BUILDING
    )
    with closing(measurer):
        traces = [measure_steps.trace(f"/* {n} */{measure_steps.GOOD}") for n in range(4)]
        orders = [MeasureRequest(only.workload, trace) for trace in traces]
        (first,) = [one.record for one in measurer.measure(orders, {}, lambda *_: None)]
        assert first is not None
        board.back.set()
        (again,) = measurer.time_again([first], 1)
        assert again.candidate == first.candidate
        assert [ran for ran in board.ran if ran != PEAKS] == [first.candidate] * 2
