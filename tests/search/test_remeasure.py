"""What an earlier record leaves open is measured again, what it settles is not: in the store, and by the loop."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from edgetune.records import Record, RecordKey, RecordStore
from edgetune.records.history import MOST_EARLIER, earlier_of, statuses
from edgetune.search.loop import SearchParts, TuningLoop
from edgetune.search.measuring import MeasureRequest, RequestResult, Starting
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TuneOutcome
from edgetune.search.remeasure import MOST_FAILURES, TRIES, to_remeasure
from edgetune.search.task import tasks_of
from tests.record_starts import starts
from tests.search.test_loop import SMALL, FakeMeasurer, fixed_trace, kernel, matmul, space_of, timed

WORKLOAD = hashlib.sha256(b"conv").hexdigest()
LONG_AGO = "2026-01-01T00:00:00.000000Z"
ENDED = "2026-01-02T00:00:00.000000Z"
LATER = "2026-01-03T00:00:00.000000Z"
NEEDS = 4096


def record(number: int, status: str = "ok", median: float = 1000.0, **changes: Any) -> Record:
    has_times = status in {"ok", "refused_noisy"}
    values: dict[str, Any] = {
        "workload": WORKLOAD, "workload_name": "conv", "target": "t", "target_fingerprint": "f", "toolchain": "c",
        "codegen_version": 1, "board": "b", "candidate": hashlib.sha256(b"%d" % number).hexdigest(), "status": status,
        "tool_version": "1", "trace": f'["{number}"]', "created_utc": LONG_AGO, "round": 3, "seed": 7,
        **(timed((median,) * 3) if has_times else {}),
    }  # fmt: skip
    return Record(**(values | changes))


KEY = record(0).key


def test_over_scratch_counts_as_seen_only_below_what_it_needs(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store:
        store.add(record(0))
        store.add(record(1, "over_scratch", scratch_bytes=NEEDS))
        both = {record(0).candidate, record(1).candidate}
        assert store.seen(KEY) == store.seen(KEY, NEEDS - 1) == both
        assert store.seen(KEY, NEEDS) == {record(0).candidate}


@pytest.mark.parametrize("ended", [None, ENDED])
def test_over_scratch_is_owed_where_it_fits(ended: str | None) -> None:
    records = [record(0), record(1, "over_scratch", scratch_bytes=NEEDS)]
    assert to_remeasure(records, ended, NEEDS - 1) == []
    assert to_remeasure(records, ended, NEEDS) == records[1:]


@pytest.mark.parametrize("status", ["refused_noisy", "crashed", "timeout"])
def test_other_failures_are_owed_in_a_later_run_only(status: str) -> None:
    old, new = record(1, status), record(2, status, created_utc=LATER)
    assert to_remeasure([old, new], None, 0) == []
    assert to_remeasure([old, new], ENDED, 0) == [old]


@pytest.mark.parametrize("status", ["ok", "wrong_result", "build_failed", "lower_failed"])
def test_settled_candidates_are_never_owed(status: str) -> None:
    elsewhere = record(1, "refused_noisy", board="twin")
    assert to_remeasure([record(1, status), elsewhere], ENDED, 1 << 40) == []


def test_noisy_ones_come_first_and_hopeless_ones_not_at_all() -> None:
    best = record(0, median=1000.0)
    slow, fast, near = (record(n, "refused_noisy", m) for n, m in ((1, 1600.0), (2, 900.0), (3, 1400.0)))
    crashed = [record(number, "crashed") for number in range(10, 10 + 2 * MOST_FAILURES)]
    assert to_remeasure([best, *crashed, slow, near, fast], ENDED, 0) == [fast, near, *crashed[:MOST_FAILURES]]
    assert to_remeasure([slow], ENDED, 0) == [slow]


def test_a_crash_is_tried_once_more_and_then_stays(tmp_path: Path) -> None:
    first = record(1, "crashed", reason="signal 11")
    with RecordStore.open(tmp_path / "db") as store:
        number = store.add(first)
        assert to_remeasure(store.all(KEY), ENDED, 0) == store.all(KEY)
        again, more = store.add_again(record(1, "timeout", reason="hung", seed=0, round=0, trace="[]"))
        assert not more
        assert (again.id, again.seed, again.round, again.trace) == (number, first.seed, first.round, first.trace)
        assert store.all(KEY) == [again]
        assert statuses(again) == ["crashed", "timeout"]
        assert TRIES == 2
        assert to_remeasure(store.all(KEY), LATER, 0) == []


def test_nothing_of_an_earlier_measurement_is_lost(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store:
        store.add(record(1, "refused_noisy", 500.0, reason="wide", environment={"governor": "powersave"}))
        store.add_again(record(1, "crashed", reason="signal 11", created_utc=ENDED))
        found, _ = store.add_again(record(1, "ok", 700.0, created_utc=LATER))
        assert store.count([KEY]) == 1
        assert (found.status, found.median_ns, found.created_utc) == ("ok", 700.0, LATER)
        noisy, crashed = earlier_of(found)
        assert (noisy["status"], noisy["reason"], noisy["samples_ns"]) == ("refused_noisy", "wide", [500.0] * 3)
        assert noisy["environment"] == {"governor": "powersave"}
        assert (crashed["status"], crashed["created_utc"]) == ("crashed", ENDED)
        store.export_jsonl(tmp_path / "out")
        with RecordStore.open(tmp_path / "other") as other:
            other.import_jsonl(tmp_path / "out")
            assert earlier_of(other.all(KEY)[0]) == [noisy, crashed]


def test_a_candidate_measured_again_on_a_twin_is_one_record_more(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store:
        store.add(record(1, "refused_noisy"))
        found, more = store.add_again(record(1, board="twin"))
        assert more
        assert store.get(found.id).board == "twin"
        assert store.count([replace(KEY, board=None)]) == 2


def test_the_history_is_bounded(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store:
        store.add(record(1, "refused_noisy", 1.0))
        for number in range(2, 40):
            found, _ = store.add_again(record(1, "refused_noisy", float(number)))
        assert [item["median_ns"] for item in earlier_of(found)] == [*map(float, range(39 - MOST_EARLIER, 39))]


@pytest.mark.parametrize("text", ["", "{", "[[[", "7", '["a", 1]', 5, None, "[" * 100_000])
def test_foreign_history_is_no_history(text: str | int | None) -> None:
    assert earlier_of(record(1, environment={"earlier": text})) == []


def test_the_end_of_a_run_is_noted_per_key(tmp_path: Path) -> None:
    other = replace(KEY, toolchain="other")
    with RecordStore.open(tmp_path / "db") as store:
        assert store.last_end(KEY) is None
        store.log_ends([KEY, KEY, replace(KEY, board=None)])
        first = store.last_end(KEY)
        assert first is not None
        assert store.last_end(other) is None
        store.log_ends([KEY])
        assert (store.last_end(KEY) or "") > first
        assert starts(tmp_path / "db") == []


def test_times_that_are_not_trusted_enough_are_owed_at_once() -> None:
    poor, good, unknown = (record(n, environment=e) for n, e in enumerate([{"trust": "C"}, {"trust": "A"}, {}]))
    wrong = record(3, "wrong_result")
    assert to_remeasure([poor, good, unknown, wrong], None, 0) == []
    assert to_remeasure([poor, good, unknown, wrong], None, 0, "B") == [poor, unknown]
    assert to_remeasure([poor, good, unknown, wrong], ENDED, 0, "C") == [unknown]
    assert to_remeasure([poor, replace(poor, board="twin", environment={"trust": "A"})], None, 0, "A") == []


def test_a_correct_record_does_not_give_way_to_a_refusal(tmp_path: Path) -> None:
    with RecordStore.open(tmp_path / "db") as store:
        store.add(record(1, environment={"trust": "C"}))
        told, more = store.add_again(record(1, "refused_noisy", 2000.0, reason="trust C", created_utc=LATER))
        assert (told.status, more) == ("refused_noisy", False)
        (kept,) = store.all(KEY)
        assert (kept.status, kept.median_ns, kept.environment["trust"]) == ("ok", 1000.0, "C")
        assert [item["reason"] for item in earlier_of(kept)] == ["trust C"]
        assert store.best(KEY, 1, "B") == []
        assert store.best(KEY, 1, "C") == [kept]


class Moody(FakeMeasurer):
    """`verdicts` gives the status of each order; the real candidate ids stay."""

    def __init__(self, verdict: Callable[[str], str], environment: dict[str, Any] | None = None) -> None:
        super().__init__()
        self.verdict = verdict
        self.environment = environment or {}

    def record(self, order: MeasureRequest, candidate: str) -> Record:
        made = super().record(order, candidate)
        status = self.verdict(order.trace)
        facts: dict[str, Any] = {
            "environment": self.environment,
            "status": status,
            "scratch_bytes": NEEDS if status == "over_scratch" else 0,
        }
        times = timed((1000.0,) * 3) if status in {"ok", "refused_noisy"} else {}
        none = {"samples_ns": (), "median_ns": None, "ci_low_ns": None, "ci_high_ns": None}
        return replace(made, **(facts | none | times))

    def measure(
        self, orders: Sequence[MeasureRequest], best_ns: Mapping[str, float], starting: Starting
    ) -> Iterator[RequestResult]:
        yield from super().measure(orders, best_ns, starting)


def tune(
    path: Path, trials: int, verdict: Callable[[str], str], scratch: int = 0
) -> tuple[TuneOutcome, list[MeasureRequest]]:
    only = kernel("small", matmul(16, 16, 16), macs=16**3)
    measurer = Moody(verdict)
    with RecordStore.open(path) as store:
        options = TuneOptions(trials=trials, search=SMALL, batch=4, smallest_batch=4, playoff=0)
        rooms = SearchParts(measurer, space_of, fixed_trace)
        outcome = TuningLoop(tasks_of([only], {only.workload: scratch}), rooms, store, options, lambda _: None).run()
    return outcome, measurer.calls


def test_records_below_the_wanted_trust_neither_count_nor_win(tmp_path: Path) -> None:
    def graded(grade: str, min_trust: str, trials: int = 12) -> tuple[TuneOutcome, list[MeasureRequest]]:
        only = kernel("small", matmul(16, 16, 16), macs=16**3)
        measurer = Moody(lambda _: "ok", {"trust": grade})
        with RecordStore.open(tmp_path / "db") as store:
            options = TuneOptions(trials=trials, search=SMALL, smallest_batch=4, playoff=0, min_trust=min_trust)
            rooms = SearchParts(measurer, space_of, fixed_trace)
            outcome = TuningLoop(tasks_of([only], {}), rooms, store, options, lambda _: None).run()
        return outcome, measurer.calls

    assert graded("C", "D")[0].measured == 12
    assert graded("A", "C")[1] == []
    outcome, calls = graded("A", "B", trials=16)
    assert [order.again for order in calls] == [True] * 12 + [False] * 4
    assert outcome.records == 16
    best = outcome.tasks[0].best
    assert best is not None
    assert best.environment["trust"] == "A"
    with RecordStore.open(tmp_path / "db") as store:
        key = RecordKey(kernel("small", matmul(16, 16, 16)).workload, "fake", "cc", 1)
        earlier = [earlier_of(found) for found in store.all(key)]
    assert sorted(len(found) for found in earlier) == [0] * 4 + [1] * 12
    assert all(found["environment"] == {"trust": "C"} for one in earlier for found in one)
    assert graded("A", "A", trials=16)[1] == []


def every_third(status: str) -> Callable[[str], str]:
    return lambda trace: status if hashlib.sha256(trace.encode()).digest()[0] % 3 == 0 else "ok"


@pytest.mark.long
@pytest.mark.parametrize("status", ["refused_noisy", "crashed", "timeout", "over_scratch"])
def test_a_later_run_measures_again_what_is_owed(tmp_path: Path, status: str) -> None:
    key = RecordKey(kernel("small", matmul(16, 16, 16)).workload, "fake", "cc", 1)
    _, first = tune(tmp_path / "db", 12, every_third(status))
    assert {order.again for order in first} == {False}
    with RecordStore.open(tmp_path / "db") as store:
        failed = {item.trace for item in store.all(key) if item.status == status}
    assert failed
    # A finished budget measures nothing; more room measures again first, and the budget is exact all the same.
    assert tune(tmp_path / "db", 12, every_third(status), NEEDS)[1] == []
    outcome, second = tune(tmp_path / "db", 24, every_third("ok"), NEEDS)
    most = MOST_FAILURES if status in {"crashed", "timeout"} else 100
    again = [order.trace for order in second if order.again]
    assert set(again) <= failed
    assert len(again) == len(set(again)) == min(len(failed), most)
    assert all(order.again for order in second[: len(again)])
    assert outcome.records == 24
    assert outcome.measured == len(second) == 12 + len(again)
    assert set(Counter(order.trace for order in first + second if not order.again).values()) == {1}
    with RecordStore.open(tmp_path / "db") as store:
        assert sum(item.status == status for item in store.all(key)) == len(failed) - len(again)


def test_what_is_over_the_limit_stays_retired(tmp_path: Path) -> None:
    tune(tmp_path / "db", 12, every_third("over_scratch"), NEEDS - 1)
    _, second = tune(tmp_path / "db", 20, every_third("over_scratch"), NEEDS - 1)
    assert not any(order.again for order in second)
