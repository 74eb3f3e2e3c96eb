"""What a run says at its end: refusals by reason, events of boards by name, the bottleneck, and a lost board."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.errors import BoardLost, BoardUnavailable, HostUnknown
from edgetune.events import Event
from edgetune.records import RecordStore
from edgetune.search.counters import MOST_KINDS, EventCounters
from edgetune.search.loop import SearchParts, TuningLoop
from edgetune.search.measuring import MeasureRequest, RequestResult, Starting
from edgetune.search.options import TuneOptions
from edgetune.search.outcome import TaskOutcome, TuneOutcome
from edgetune.search.task import tasks_of
from tests.search.test_loop import SMALL, FakeMeasurer, fixed_trace, kernels, space_of
from tests.search.test_remeasure import record

LOST = "board shelf-1 stopped answering while it timed a candidate (30 s): check its power and network"


def told(what: str, detail: str = "", board: str = "shelf-1") -> Event:
    return Event("board", {"board": board, "what": what, "detail": detail})


def empty() -> TuneOutcome:
    return TuneOutcome((), 0, 0, {}, 0, 1.0, {})


def test_refusals_count_by_reason_and_boards_by_name() -> None:
    tally = EventCounters()
    for width in (13, 7):
        tally.take(Event("candidate", {"status": "refused_noisy", "reason": f"the interval is {width}.5 % of it"}))
    tally.take(Event("candidate", {"status": "over_scratch", "reason": "needs 4,096 bytes, and the limit is 10"}))
    tally.take(Event("candidate", {"status": "crashed", "reason": "signal 11"}))
    tally.take(Event("candidate", {"status": "ok", "reason": "far slower than the best: timed briefly", "again": True}))
    for event in (told("lost", "gone"), told("noisy"), told("noisy"), told("recovered", board="b"), told("noisy")):
        tally.take(event)
    outcome = tally.complete(empty())
    assert outcome.refused == {"needs N bytes, and the limit is N": 1, "the interval is N % of it": 2}
    assert outcome.board_counts == {"b": {"recovered": 1}, "shelf-1": {"lost": 1, "noisy": 3}}
    assert [(event["board"], event["what"]) for event in outcome.board_events] == [
        ("shelf-1", "lost"),
        ("b", "recovered"),
    ]
    assert (tally.again, tally.statuses["refused_noisy"]) == (1, 2)
    assert json.loads(json.dumps(outcome.to_json()))["board_events"][0]["detail"] == "gone"


def test_each_event_is_named_and_equal_ones_once_with_their_number() -> None:
    tally = EventCounters()
    for number in range(1000):
        tally.take(told("lost", f"silent for {number} s"))
    tally.take(told("rung", "a new agent: succeeded after 0.3 s"))
    outcome = tally.complete(empty())
    assert outcome.board_events == (
        {"board": "shelf-1", "what": "lost", "times": 1000, "detail": "silent for 999 s"},
        {"board": "shelf-1", "what": "rung", "times": 1, "detail": "a new agent: succeeded after 0.3 s"},
    )
    assert outcome.board_counts == {"shelf-1": {"lost": 1000, "rung": 1}}


def test_a_board_that_tells_tales_does_not_fill_the_summary() -> None:
    tally = EventCounters()
    letters = "abcdefghijklmnopqrstuvwxyz"
    for first in letters:
        for second in letters:
            for third in "abc":
                tally.take(told("lost", first + second + third))
    outcome = tally.complete(empty())
    assert len(outcome.board_events) == MOST_KINDS
    assert outcome.board_counts == {"shelf-1": {"lost": 26 * 26 * 3}}


def test_instructions_are_called_instructions() -> None:
    best = record(0, median=123456.0, environment={"clock": "instructions"})
    task = TaskOutcome(best.workload, "conv", 2, best, 200000.0, 3, 1, "budget")
    values = replace(empty(), tasks=(task,)).to_json()
    assert (values["before_instructions"], values["after_instructions"]) == (400000, 246912)
    row = task.to_json()
    assert values["tasks"] == [row]
    assert (row["best_instructions"], row["fixed_instructions"]) == (123456, 200000)
    assert "us" not in {name.rpartition("_")[2] for name in (*values, *row)}
    timed = replace(empty(), tasks=(replace(task, best=record(0, median=123456.0)),)).to_json()
    assert timed["after_us"] == 246.912


class Losing(FakeMeasurer):
    """Loses its last board after some candidates."""

    def __init__(self, after: int, error: BoardUnavailable) -> None:
        super().__init__()
        self.after, self.error = after, error

    def measure(
        self, orders: Sequence[MeasureRequest], best_ns: Mapping[str, float], starting: Starting
    ) -> Iterator[RequestResult]:
        for measured in super().measure(orders, best_ns, starting):
            if self.after == 0:
                raise self.error
            self.after -= 1
            yield measured

    def summary(self) -> Mapping[str, object]:
        return {"bottleneck": "builders: boards waited for them 60 % of their time", "boards": {"shelf-1": {"lost": 1}}}


def tune(path: Path, measurer: FakeMeasurer, trials: int) -> tuple[TuneOutcome, list[Event]]:
    events: list[Event] = []
    with RecordStore.open(path) as store:
        rooms = SearchParts(measurer, space_of, fixed_trace)
        outcome = TuningLoop(
            tasks_of(kernels(), {}), rooms, store, TuneOptions(trials=trials, search=SMALL), events.append
        )
        return outcome.run(), events


@pytest.mark.long
@pytest.mark.parametrize("after", [1, 3, 20])
def test_the_loss_of_all_boards_ends_the_search_with_what_there_is(tmp_path: Path, after: int) -> None:
    outcome, events = tune(tmp_path / "db", Losing(after, BoardLost(LOST)), 40)
    assert outcome.ended == LOST
    assert not outcome.interrupted
    assert outcome.records == outcome.measured == after
    assert LOST in outcome.warnings
    assert outcome.bottleneck.startswith("builders")
    assert outcome.boards == {"shelf-1": {"lost": 1}}
    summary = events[-1]
    assert summary.kind == "summary"
    assert (summary.data["ended"], summary.data["bottleneck"]) == (LOST, outcome.bottleneck)
    again, _ = tune(tmp_path / "db", FakeMeasurer(), 40)
    assert (again.records, again.measured, again.ended) == (40, 40 - after, "")


@pytest.mark.long
def test_errors_before_anything_was_measured_come_as_themselves(tmp_path: Path) -> None:
    with pytest.raises(BoardLost, match="stopped answering"):
        tune(tmp_path / "db", Losing(0, BoardLost(LOST)), 40)
    tune(tmp_path / "db", FakeMeasurer(), 10)
    with pytest.raises(HostUnknown):
        tune(tmp_path / "db", Losing(0, HostUnknown("there is no host shelf-1")), 40)
    outcome, _ = tune(tmp_path / "db", Losing(0, BoardLost(LOST)), 40)
    assert (outcome.ended, outcome.records, outcome.measured) == (LOST, 10, 0)
    assert replace(outcome, ended="").to_json()["ended"] == ""
