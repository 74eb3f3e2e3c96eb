"""A library of hostile kernels is recorded as such, every way of trying a candidate, whatever the draws."""

from __future__ import annotations

import os
import threading
import time
from collections import Counter
from collections.abc import Iterator

import psutil
import pytest

from tests.hostile.ways import RIGHT, WAYS, WRONG, Way, way

SEEDS = range(3)
_LOOKS = 40
_GONE_S = 60.0


@pytest.fixture(scope="module", params=WAYS)
def tried(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    with way(request.param, tmp_path_factory.mktemp("hostile")) as found:
        yield found


@pytest.mark.long
@pytest.mark.parametrize("what", WRONG)
def test_it_is_never_recorded_as_right(tried: Way, what: str) -> None:
    number, (status, words) = WRONG[what]
    for seed in SEEDS:
        result = tried.try_it(number, seed)
        assert result.status != "ok"
        assert (status or result.status, words in result.reason) == (result.status, True), result
        assert not result.samples_ns


@pytest.mark.parametrize("what", RIGHT)
def test_what_is_right_stays_so(tried: Way, what: str) -> None:
    for seed in SEEDS:
        result = tried.try_it(RIGHT[what], seed)
        assert (result.status, result.reason) == ("ok", "")


@pytest.mark.long
def test_nothing_is_left_of_those_that_start_processes(tried: Way) -> None:
    """A process of the emulator's, or of the runner's, may be there before and after; nothing else is."""
    before: Counter[str] = Counter()
    # An agent has one child at a time: the one that tries a candidate, and soon the next, forked ahead.
    trying = threading.Thread(target=lambda: [tried.try_it(RIGHT["honest"], seed) for seed in SEEDS])
    trying.start()
    looks = 0
    while trying.is_alive() or looks < _LOOKS:
        before |= _started()
        looks += 1
        time.sleep(0.0 if trying.is_alive() else 0.05)
    trying.join()
    for what in ("forks without end", "forks away from us", "makes a sibling", "spawns a program"):
        tried.try_it(WRONG[what][0], 0)
    tried.try_it(RIGHT["honest"], 0)
    deadline = time.monotonic() + _GONE_S
    while _started() - before and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not _started() - before


def _started() -> Counter[str]:
    """Names of all that this process has started, and of what that has."""
    found: Counter[str] = Counter()
    for process in psutil.Process(os.getpid()).children(recursive=True):
        try:
            found[process.name()] += 1
        except psutil.NoSuchProcess:
            continue
    return found
