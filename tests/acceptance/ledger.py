"""What a search under faults may not do, read from its events and its database: lose, double, hang, leave unnamed."""

from __future__ import annotations

import sqlite3
from collections import Counter
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

from edgetune.search.counters import without_numbers
from tests.acceptance.kill9 import State
from tests.acceptance.soak_faults import COSTLY, Deed
from tests.acceptance.stand_ins import Search, kind_of

SETTLED = ("ok", "wrong_result", "build_failed", "lower_failed")
"""Statuses of candidates that are never measured again: that of a crash may be, in a later run."""
NOTICE_S = 90.0
"""Longest between a fault that must cost a board and its first event: a board that waits before it is tried again."""
RECOVERY_S = 660.0
"""Longest that a lost board may be neither back nor given up."""
_STATUS = 5  # of a record as `look` has it, after the five columns of its identity


def judge_run(search: Search, before: State, after: State, *, in_flight: int = 0) -> None:
    """Nothing was lost or doubled by one run, between the two states of its database.

    At most `in_flight` candidates may have begun and left no record: those that boards had when the run was stopped.
    """
    gone = [number for number, row in before.records.items() if after.records.get(number, ())[:5] != row[:5]]
    assert not gone, f"{len(gone)} records are gone, the first has id {gone[0]}"
    settled = {row[:5] for row in before.records.values() if row[_STATUS] in SETTLED}
    for key, count in after.starts.items():
        more = count - before.starts[key]
        assert more <= 1, f"candidate {key[-1]} was begun {more} times in one run"
        assert not (more and key in settled), f"candidate {key[-1]} was measured again"
    rows = Counter((row[0], row[4]) for row in after.records.values())
    doubled = [key for key, count in rows.items() if count > 1]
    assert not doubled, f"{len(doubled)} candidates have two records, the first is {doubled[0]}"
    left = after.in_flight - before.in_flight
    assert left.total() <= in_flight, f"{left.total()} candidates were begun and have no record, {in_flight} may"
    told = Counter(event["candidate"] for event in search.events if kind_of(event) == "candidate")
    twice = [candidate for candidate, count in told.items() if count > 1]
    assert not twice, f"{len(twice)} candidates were told twice, the first is {twice[0]}"
    new = {row[4] for number, row in after.records.items() if number not in before.records}
    measured = {event["candidate"] for event in search.events if kind_of(event) == "candidate" and not event["again"]}
    assert measured == new, f"{len(measured - new)} told candidates have no record, {len(new - measured)} were not told"


def judge_names(search: Search) -> None:
    """Every event of a board during the search is in its summary, with its number; the package is verified later."""
    summary = next((event for event in reversed(search.events) if kind_of(event) == "summary"), None)
    assert summary is not None, "there is no summary"
    named: Counter[tuple[str, str, str]] = Counter()
    for event in summary["board_events"]:
        named[event["board"], event["what"], without_numbers(event["detail"])] += event["times"]
    during = [event for event in search.of_board() if event["at"] <= summary["at"]]
    told = [event for event in during if event["what"] != "noisy"]  # these are counted, not named
    missing = Counter((e["board"], e["what"], without_numbers(e["detail"])) for e in told) - named
    assert not missing, f"{sum(missing.values())} events are not in the summary, such as {next(iter(missing))}"


def judge_deeds(search: Search, deeds: Iterable[Deed]) -> None:
    """A fault that must cost a board was noticed there, and a board that was lost came back or was given up in time."""
    end = search.events[-1]["at"] if search.events else 0.0
    for deed in deeds:
        until = deed.ended + NOTICE_S
        given_up = any(e["what"] == "quarantined" and e["at"] < deed.began for e in search.of_board(deed.board))
        if deed.kind in COSTLY and not given_up and until < end:
            seen = any(deed.began <= event["at"] <= until for event in search.of_board(deed.board))
            assert seen, f"{deed.kind} on {deed.board} was not noticed within {NOTICE_S:g} s"
    lost: dict[str, float] = {}
    for event in search.of_board():
        if event["what"] == "lost":
            lost[event["board"]] = event["at"]
        elif event["what"] in {"recovered", "quarantined"}:
            lost.pop(event["board"], None)
        late = {name: event["at"] - since for name, since in lost.items() if event["at"] - since > RECOVERY_S}
        assert not late, f"boards neither back nor given up within {RECOVERY_S:g} s: {late}"


def boards_behind(search: Search, db: Path, names: Iterable[str], last: int) -> set[str]:
    """The boards that have neither a record after number `last` nor were given up."""
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True, timeout=60)) as connection:
        at_work = {row[0] for row in connection.execute("SELECT DISTINCT board FROM records WHERE id > ?", (last,))}
    return set(names) - at_work - {e["board"] for e in search.of_board() if e["what"] == "quarantined"}


def described(search: Search, state: State) -> str:
    """One line of what a run did."""
    statuses = Counter(row[_STATUS] for row in state.records.values())
    kinds = Counter(event["what"] for event in search.of_board())
    return (
        f"{len(state.records)} records ({_counts(statuses)}); events: {_counts(kinds) or 'none'}; "
        f"longest silence {search.longest_silence:.0f} s"
    )


def _counts(counter: Counter[Any]) -> str:
    return ", ".join(f"{count} {name}" for name, count in sorted(counter.items()))
