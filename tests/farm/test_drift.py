"""Drift: a level that lasts is told with its first night and size; noise, single nights and other programs are not."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchmarks.nightly.drift import series_of, share_found, share_noted, share_shown
from benchmarks.nightly.simulator import ORDINARY, ROUGH, Noise
from edgetune.farm.cells import Cell
from edgetune.farm.drift import Drift, drift_of
from edgetune.farm.health.board_health import CANARY, REFERENCE, BoardHealth
from edgetune.farm.health.history import BoardHistory, unconfirmed
from edgetune.farm.night_store import NightCell, Verdict

NIGHTS = [f"n{number}" for number in range(60)]


@pytest.mark.parametrize("noise", [ORDINARY, ROUGH])
def test_equal_nights_show_no_change_and_a_step_is_found(noise: Noise) -> None:
    series = series_of(noise, 90, 100, 1)
    assert share_shown(series) <= 0.01
    assert share_found(series, 0.06, 14) >= 0.8
    assert share_noted(series[:10]) <= 0.01


def test_a_change_has_its_first_night_and_its_size_until_it_is_old() -> None:
    costs = 100.0 * np.exp(np.random.default_rng(1).normal(0.0, 0.003, 60))
    assert drift_of(NIGHTS, list(costs), counts=False) is None
    costs[40:] *= 0.97
    found = drift_of(NIGHTS, list(costs), counts=False)
    assert found is not None
    assert (found.since, found.after, found.before) == ("n40", 20, 40)
    assert found.ratio == pytest.approx(0.97, abs=0.004)
    assert Drift("n40", 0.97, 20, 40).sentence == "-3.0 % since n40 (20 nights against the 40 before)"
    costs[10:] = costs[40]
    assert drift_of(NIGHTS, list(costs), counts=False) is None, "it began 50 nights ago"


def test_single_nights_and_small_steps_are_no_drift_and_counts_are_exact() -> None:
    costs = [100.0] * 60
    assert drift_of(NIGHTS, costs, counts=True) is None
    assert drift_of(NIGHTS, [*costs[:50], 300.0, *costs[51:]], counts=False) is None
    risen = [*costs[:50], *[100.3] * 10]
    assert drift_of(NIGHTS, risen, counts=False) is None, "a time that is 0.3 % longer says nothing"
    found = drift_of(NIGHTS, risen, counts=True)
    assert found is not None
    assert found.since == "n50"
    assert drift_of(NIGHTS[:13], risen[-13:], counts=True) is None


CELL = Cell("m", "b", "k", searches=True, settings="s")


def night(number: int, canary: float, new: float, reference: float = 100.0, digest: str = "p") -> NightCell:
    pinned = {CANARY: digest, REFERENCE: digest}
    health = BoardHealth(str(number), "", "ns", {CANARY: canary, REFERENCE: reference}, pinned)
    facts = {"health": health.to_json(), "new": new, "unit": "ns"}
    return NightCell(number, 0, CELL, 1, Verdict("same", facts=facts))


def test_a_slower_board_drifts_and_its_cells_do_not_but_software_that_creeps_does() -> None:
    def told(*rows: NightCell) -> tuple[str, str]:
        seen = BoardHistory([(f"n{row.id}", [row]) for row in rows])
        return seen.drift_of_board("b").partition(" since")[0], seen.drift_of(CELL).partition(" since")[0]

    level = [1.0] * 30 + [1.05] * 10
    assert told(*(night(n, 50 * by, 70 * by, 100 * by) for n, by in enumerate(level))) == ("+5.0 %", "")
    assert told(*(night(n, 50, 70 * by) for n, by in enumerate(level))) == ("", "+5.0 %")
    other = [night(n, 50 * by, 70 * by, digest="p" if n < 30 else "q") for n, by in enumerate(level)]
    assert told(*other) == ("", ""), "another pinned program has no past"
    sick = [night(n, 50 * by, 70, 100) for n, by in enumerate(level)]
    assert told(*(replace(row, verdict=None) for row in sick)) == ("", "")


def test_a_winner_is_confirmed_by_another_board_of_its_kind_that_ran_the_same_program() -> None:
    def row(number: int, board: str, word: str, program: str = "p", kind: str = "k") -> NightCell:
        cell = Cell("m", board, kind, searches=number == 0, settings="s")
        return NightCell(number, number, cell, 1, Verdict(word, facts={"program": program}))  # type: ignore[arg-type]

    winner = row(0, "a", "faster")
    assert unconfirmed([winner]) == {0}
    assert unconfirmed([winner, row(1, "b", "faster")]) == set()
    assert unconfirmed([winner, row(1, "b", "same")]) == set()
    assert unconfirmed([winner, row(1, "b", "slower")]) == {0}
    assert unconfirmed([winner, row(1, "b", "faster", "other")]) == {0, 1}
    assert unconfirmed([winner, row(1, "b", "faster", kind="other")]) == {0, 1}
    assert unconfirmed([row(0, "a", "same")]) == set(), "nothing new won"
