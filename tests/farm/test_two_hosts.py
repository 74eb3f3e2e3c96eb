"""Nights of two hosts that share a database: one is frozen, killed or drained, and the other goes on."""

from __future__ import annotations

import re
import signal
import time
from collections.abc import Callable

import pytest

from tests.farm.hosts import SECONDS, TRIALS, TestFarm, ended_by_sigterm, gone, judged_once, measuring, wait_for


@pytest.mark.long
def test_a_night_of_two_hosts_goes_on_at_the_other_after_a_freeze_a_kill_and_a_drain(
    make: Callable[..., TestFarm],
) -> None:
    farm = make("procrastinate")
    farm.call("h1", "drain", "h1")
    farm.call("h1", "run", "--now", code=28)  # it begins the night, and takes no cell
    second = farm.start("h2", "work")
    frozen = measuring(farm, second)
    assert second.listens() == [], "nothing listens off loopback during a night"
    farm.call("h1", "drain", "--off", "h1")

    first = farm.start("h1", "run", "--now")
    below = second.cells()
    second.send(signal.SIGSTOP, all_of_it=True)
    measuring(farm, first, 120.0)
    second.send(signal.SIGCONT, all_of_it=True)
    wait_for(lambda: "starts anew" in second.said(), 30.0, second.said)
    wait_for(lambda: gone(below), 20.0)

    below = first.cells()
    first.send(signal.SIGKILL)
    first.process.wait()
    wait_for(lambda: gone(below), 20.0)
    again = measuring(farm, second, 120.0)
    assert all(number > frozen.get(cell, 0) for cell, number in again.items()), "no attempt of before the freeze"

    farm.budget(TRIALS)
    first = farm.start("h1", "run", "--now")
    below, begun = second.cells(), time.monotonic()
    farm.call("h2", "drain", "h2")
    wait_for(lambda: gone(below), 20.0)
    before = farm.measured()
    wait_for(lambda: "drained by" in second.said(), 20.0, second.said)
    wait_for(first.runs, 30.0, first.said)
    assert time.monotonic() - begun < 45.0
    assert first.process.wait(SECONDS) == 0, first.said()
    judged_once(farm, before)
    ends = {(cell, number): outcome for cell, number, _, outcome in farm.attempts()}
    for key in frozen.items():  # the killed host's are superseded as well
        assert re.fullmatch(
            r"frozen for \d+ s(; killed by SIGKILL|; exit code \d+.*)?(; superseded by attempt \d of host h1)?",
            ends[key],
        ), ends
    assert any(re.fullmatch(r"superseded by attempt \d of host h\d", outcome) for outcome in ends.values()), ends
    assert all(ends[row.id, row.attempt] == "finished: first" for row in farm.rows())
    assert all(outcome for outcome in ends.values())
    assert "memory" not in second.said(), "nobody killed it: it started anew"
    assert second.process.poll() is None, "it waits for the next night"
    ended_by_sigterm(second)
