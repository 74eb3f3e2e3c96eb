"""Branches: a search sees the records of before its night and its own, whatever others store meanwhile."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest

from edgetune.config.database_location import Branch
from edgetune.errors import DatabaseError
from edgetune.records import Record, RecordStore
from edgetune.records.branches import drop_snapshots, take_snapshot
from edgetune.records.history import earlier_of
from tests.postgresql_server import Place
from tests.records.test_records import ANY_BOARD, KEY, candidate, failure, record

NIGHT = "night 1"


@pytest.fixture
def stored(place: Place) -> Iterator[RecordStore]:
    """A database with records 0 and 1, of which a snapshot was taken."""
    with RecordStore.open(place("records.db")) as store:
        store.add(record(0, 500.0))
        store.add(record(1, 600.0))
        store.log_ends([KEY])
        snapshot(store, NIGHT)
        yield store


def snapshot(store: RecordStore, name: str) -> None:
    with store.database.writing() as connection:
        take_snapshot(store.database, connection, name)


def branch(store: RecordStore, name: str, board: str = "bench-1", night: str = NIGHT) -> RecordStore:
    return RecordStore(store.database, Branch(night, name, (board,)))


def medians(store: RecordStore) -> dict[int, float | None]:
    """What a store sees: the medians by the numbers of the candidates."""
    numbers = {candidate(number): number for number in range(10)}
    found = {numbers[one.candidate]: one.median_ns for one in store.all(ANY_BOARD)}
    assert store.seen(KEY) == {candidate(number) for number in found}
    assert store.count([KEY]) == len(found)
    assert {numbers[one.candidate] for one in store.best(KEY, 10)} <= found.keys()
    return found


def test_branches_see_the_snapshot_and_their_own_and_everybody_sees_all(stored: RecordStore) -> None:
    first, second, twin = branch(stored, "m1"), branch(stored, "m2"), branch(stored, "m1", "bench-2")
    assert first.add_new(record(2, 400.0)) == (3, True)
    second.add(record(3, 300.0))
    stored.add(record(4, 200.0))
    assert medians(first) == medians(twin) == {0: 500.0, 1: 600.0, 2: 400.0}
    assert medians(second) == {0: 500.0, 1: 600.0, 3: 300.0}
    assert medians(stored) == {0: 500.0, 1: 600.0, 2: 400.0, 3: 300.0, 4: 200.0}
    assert first.best(KEY)[0].id == 3
    assert first.add_new(record(2, 10.0)) == (3, False), "a resumed search finds it again"


def test_what_changes_is_seen_as_it_was(stored: RecordStore) -> None:
    first, second = branch(stored, "m1"), branch(stored, "m2")
    changed, more = first.add_again(record(0, 50.0))
    assert (changed.median_ns, more) == (50.0, False)
    assert [one["median_ns"] for one in earlier_of(changed)] == [500.0]
    stored.refine(record(1), lambda one: replace(one, environment={**one.environment, "noted": 1}))
    assert medians(first) == {0: 50.0, 1: 600.0}
    assert medians(second) == {0: 500.0, 1: 600.0}
    assert medians(stored) == {0: 50.0, 1: 600.0}
    assert all("noted" not in one.environment for store in (first, second) for one in store.all(KEY))

    second.add_again(record(0, 70.0))
    assert medians(second) == {0: 70.0, 1: 600.0}
    (own,) = [one for one in second.all(KEY) if one.candidate == candidate(0)]
    assert [one["median_ns"] for one in earlier_of(own)] == [500.0], "not what the other search measured"
    (shared,) = [one for one in stored.all(KEY) if one.candidate == candidate(0)]
    assert [one["median_ns"] for one in earlier_of(shared)] == [500.0, 50.0], "but everybody has both"

    first.refine_all(ANY_BOARD, lambda one: replace(one, environment={**one.environment, "ranked": 1}))
    assert all("ranked" in one.environment for one in first.all(KEY))
    assert not any("ranked" in one.environment for one in second.all(KEY))


def test_a_refused_repetition_does_not_replace_a_correct_record(stored: RecordStore) -> None:
    own = branch(stored, "m1")
    told, more = own.add_again(record(0, 9000.0, status="refused_noisy"))
    assert (told.status, more) == ("refused_noisy", False)
    assert medians(own) == medians(stored) == {0: 500.0, 1: 600.0}


def test_a_pruned_record_is_still_seen(stored: RecordStore) -> None:
    own = branch(stored, "m1")
    assert stored.prune(keep_best=1) == 1
    assert medians(own) == {0: 500.0, 1: 600.0}
    assert medians(stored) == {0: 500.0}
    again, more = own.add_again(record(1, 650.0))
    assert ([one["median_ns"] for one in earlier_of(again)], more) == ([600.0], False)
    assert own.refine(record(1), lambda one: replace(one, round=4)).round == 4
    assert medians(own) == {0: 500.0, 1: 650.0}
    assert medians(stored) == {0: 500.0, 1: 650.0}
    assert stored.prune(keep_best=1) == 1
    assert own.refine(record(1), lambda one: replace(one, round=5)).round == 5
    assert medians(own) == {0: 500.0, 1: 650.0}


def test_a_candidate_that_another_search_measured_there_is_taken_over(stored: RecordStore) -> None:
    first, second, away = branch(stored, "m1"), branch(stored, "m2"), branch(stored, "m2", "bench-2")
    first.add(record(2, 400.0, trace='["theirs"]', round=3))
    first.add(failure(3))

    def own(one: Record) -> Record:
        return replace(one, trace='["mine"]', round=1)

    assert second.seen(KEY) == {candidate(0), candidate(1)}
    assert second.measured(KEY, 0) == second.seen(KEY) | {candidate(2)}, "a crash is tried again"
    assert away.measured(KEY, 0) == away.seen(KEY), "another board's time is not taken over"
    assert second.take_over(ANY_BOARD, candidate(0), own) is None, "it sees that one"
    assert away.take_over(ANY_BOARD, candidate(2), own) is None
    taken = second.take_over(ANY_BOARD, candidate(2), own)
    assert taken is not None
    assert second.take_over(ANY_BOARD, candidate(2), own) is None
    (seen,) = [one for one in second.all(KEY) if one.candidate == candidate(2)]
    assert (seen.median_ns, seen.trace, seen.round) == (400.0, '["mine"]', 1)
    (theirs,) = [one for one in first.all(KEY) if one.candidate == candidate(2)]
    assert (theirs.trace, theirs.round) == ('["theirs"]', 3)
    assert stored.take_over(KEY, candidate(2), own) is None


def test_what_needed_too_much_scratch_for_another_search_is_tried_where_it_fits(stored: RecordStore) -> None:
    first, second = branch(stored, "m1"), branch(stored, "m2")
    first.add(record(2, status="over_scratch", scratch_bytes=64))
    first.add(record(3, 300.0, scratch_bytes=64))
    assert second.measured(KEY, 100) == second.seen(KEY) | {candidate(3)}
    assert second.measured(KEY, 10) == second.seen(KEY), "building finds out what does not fit"
    assert second.take_over(ANY_BOARD, candidate(2), lambda one: one) is None
    second.add(record(2, 200.0, scratch_bytes=64))
    assert medians(second)[2] == medians(stored)[2] == 200.0, "the measurement is not lost with the branch"


def test_records_of_the_same_candidate_are_each_branch_s_own(stored: RecordStore) -> None:
    first, second = branch(stored, "m1"), branch(stored, "m2")
    assert first.add_new(record(2, 400.0)) == (3, True)
    assert second.add_new(record(2, 410.0)) == (3, True)
    assert (medians(first)[2], medians(second)[2], medians(stored)[2]) == (400.0, 410.0, 400.0)
    renamed = second.refine(record(2), lambda one: replace(one, round=7))
    assert (renamed.id, renamed.round, renamed.median_ns) == (3, 7, 410.0)


def test_a_run_of_another_branch_is_no_earlier_run(stored: RecordStore) -> None:
    before = stored.last_end(KEY)
    first, second = branch(stored, "m1"), branch(stored, "m2")
    assert first.last_end(KEY) == before
    first.log_ends([KEY])
    assert first.last_end(KEY) == stored.last_end(KEY) != before
    assert second.last_end(KEY) == before


def test_snapshots_live_side_by_side_and_leave_nothing(stored: RecordStore) -> None:
    stored.add_again(record(0, 50.0))
    snapshot(stored, "night 2")
    stored.add_again(record(0, 5.0))
    stored.add_again(record(1, 6.0))
    older, newer = branch(stored, "m"), branch(stored, "m", night="night 2")
    assert medians(older) == {0: 500.0, 1: 600.0}
    assert medians(newer) == {0: 50.0, 1: 600.0}
    older.add(record(2))
    older.log_ends([KEY])
    ended = stored.last_end(KEY)
    with stored.database.writing() as connection:
        drop_snapshots(connection, ["night 2"])
    assert medians(older) == {0: 500.0, 1: 600.0, 2: 1000.0}
    with pytest.raises(DatabaseError, match="has no snapshot 'night 2' any more"):
        branch(stored, "m", night="night 2")
    with stored.database.writing() as connection:
        drop_snapshots(connection, [NIGHT])
        assert connection.exec_driver_sql("SELECT count(*) FROM record_images").scalar_one() == 0
        assert connection.exec_driver_sql("SELECT count(*) FROM ends").scalar_one() == 1
    assert stored.last_end(KEY) == ended


@pytest.mark.long
def test_the_order_of_two_searches_does_not_matter(place: Place) -> None:
    """Two searches of one kernel, one after the other: each finds the same whichever is the first."""

    def night(name: str, order: tuple[str, ...]) -> dict[str, Any]:
        with RecordStore.open(place(name)) as store:
            store.add(record(0, 500.0))
            store.add(record(1, 90.0, status="refused_noisy"))
            snapshot(store, NIGHT)
            for search in order:
                own = branch(store, search)
                own.add_again(record(1, 100.0 if search == "m1" else 110.0))
                for number in (2, 3) if search == "m1" else (3, 4):
                    if own.take_over(ANY_BOARD, candidate(number), lambda one: one) is None:
                        own.add(record(number, 100.0 + number))
                own.log_ends([ANY_BOARD])
            return {search: medians(branch(store, search)) for search in order}

    assert night("a.db", ("m1", "m2")) == night("b.db", ("m2", "m1"))
