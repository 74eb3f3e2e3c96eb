"""Boards over links with round trips of seconds are set up, tried and kept: no step is cut off for being slow."""

from __future__ import annotations

import importlib
import time
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.agent.build import build_agent
from edgetune.boards.round_trip import MOST_ROUND_TRIP_S, RoundTrip, allowed_s
from edgetune.boards.setup import prepare
from edgetune.boards.ssh.reach import SshReach
from edgetune.errors import BoardLost
from edgetune.pipeline.boards import accesses, load_board
from edgetune.target.target import load_target
from tests.boards.ssh_bench import Bench
from tests.boards.test_packages_on_boards import shelve
from tests.boards.test_ssh_agent import Shelf

SCALE = 0.05
"""What boards are given is made so much shorter here, and links are as slow as 4 s for a round trip would be to it."""

DELAY_S = 2.0 * SCALE  # each way
ENDS_S = 300.0
_SCALED = {
    "edgetune.boards.ssh.reach": ("_FACTS_S", "_CLEAN_S", "_LEAVE_S", "_ASK_S"),
    "edgetune.boards.ssh.remote_process": ("_END_S", "_KILL_S"),
    "edgetune.boards.agent.board": ("_ANSWER_S", "_PATIENCE_S"),
    "edgetune.boards.agent.recovery": ("PING_S", "AGENT_S", "CONNECT_S"),
    "edgetune.boards.agent.link": ("_ALIVE_TIMEOUT_S",),
    "edgetune.boards.conditions": ("_PATIENCE_S",),
    "edgetune.measure.attempt": ("PATIENCE_S",),
}


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scale the deadlines down."""
    for module, names in _SCALED.items():
        for name in names:
            monkeypatch.setattr(f"{module}.{name}", SCALE * getattr(importlib.import_module(module), name))
    for call in (SshReach.connect, SshReach.start, AgentBoard._await, AgentBoard._send):
        monkeypatch.setattr(call, "__defaults__", tuple(SCALE * value for value in call.__defaults__ or ()))


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.mark.long
@pytest.mark.usefixtures("hasty")
def test_a_board_far_away_passes_setup(bench: Bench, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(cache))
    build_agent(load_target("generic-aarch64"))
    board = bench.board()
    shelve(bench, attic=board)
    board.link.delay_s = DELAY_S
    found = list(prepare(load_target("rpi4"), accesses(load_board("attic")), bench.events.append))
    assert [f"{one.check}: {one.detail}" for one in found if not one.ok and one.required] == []
    (agent,) = [one for one in found if one.check == "agent"]
    assert agent.detail.startswith("ran there and was removed again")
    assert (board.files(), board.left()) == ([], [])


@pytest.mark.long
@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize("when", ["from the start", "on the way"])
def test_candidates_over_a_slow_link_lose_no_board(bench: Bench, tmp_path: Path, cache: Path, when: str) -> None:
    shelf = Shelf(bench, bench.board(), tmp_path, cache)
    try:
        if when == "on the way":
            assert shelf.run().status == "ok"
        shelf.server.link.delay_s = DELAY_S
        if when == "on the way":
            shelf.reach.run("true", 5.0)  # as the keep-alive does, now and then
        began = time.monotonic()
        for _ in range(2):
            assert shelf.run().status == "ok"
            assert shelf.board.health()
        assert shelf.board.round_trip_s >= 2 * DELAY_S
        shelf.board.recover()
        assert shelf.helped() == ["the same agent"]
        assert time.monotonic() - began < ENDS_S
    finally:
        shelf.close()
    assert (shelf.server.files(), shelf.server.left()) == ([], [])


@pytest.mark.long
@pytest.mark.usefixtures("hasty")
def test_a_link_that_is_slow_all_at_once_costs_one_recovery(bench: Bench, tmp_path: Path, cache: Path) -> None:
    shelf = Shelf(bench, bench.board(), tmp_path, cache)
    try:
        assert shelf.run().status == "ok"
        shelf.reach._connection._round_trip = RoundTrip()  # as after quick ones, also on a busy machine
        shelf.server.link.delay_s = 5.5 * SCALE
        with pytest.raises(BoardLost, match="did not answer within"):
            shelf.board.health()
        shelf.board.recover()  # climbs the ladder once
        assert len(shelf.helped()) == 1
        shelf.server.link.delay_s = 0.0
        assert shelf.run().status == "ok"
    finally:
        shelf.close()


@given(st.floats(0.1, 600.0), st.floats(0.0, 1e6), st.integers(1, 100))
def test_deadlines_follow_the_round_trip_within_their_bounds(least: float, round_trip: float, trips: int) -> None:
    allowed = allowed_s(least, round_trip, trips)
    assert least <= allowed <= least + trips * MOST_ROUND_TRIP_S
    assert allowed == pytest.approx(least + trips * min(round_trip, MOST_ROUND_TRIP_S))
    assert allowed_s(least, round_trip + 1.0, trips) >= allowed


def test_the_longest_of_the_last_round_trips_counts() -> None:
    round_trip = RoundTrip()
    assert round_trip.seconds == 0.0
    for seconds in (0.1, 3.0, 0.2):
        round_trip.add(seconds)
    assert round_trip.seconds == 3.0
    for _ in range(8):
        round_trip.add(0.1)
    assert round_trip.seconds == 0.1


def test_a_link_that_gave_no_answer_tells_no_round_trip(bench: Bench) -> None:
    """Else the board that is lost at this moment is waited for as one that takes so long to answer."""
    board = bench.board()
    bench.configure("Host *\nServerAliveInterval 1\nServerAliveCountMax 3\n")
    reach = bench.reach(board)
    try:
        reach.connect()
        reach._connection._round_trip = RoundTrip()  # as after quick ones, also on a busy machine
        board.link.freeze()
        ends = time.monotonic() + 60.0
        while reach._connection.alive:
            assert time.monotonic() < ends
            time.sleep(0.05)
        time.sleep(0.5)
        assert reach.round_trip_s < 3.0
    finally:
        reach.close()
