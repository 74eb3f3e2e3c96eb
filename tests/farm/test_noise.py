"""A limit below the noise that the gate met on a board is told by `doctor` and when a night begins."""

from __future__ import annotations

import math
from datetime import UTC, datetime
from pathlib import Path

import pytest

from edgetune.cli.main import run
from edgetune.farm import nights
from edgetune.farm.cells import Cell
from edgetune.farm.doctor import findings
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.gate import MOST_TURNS
from edgetune.farm.night_store import Night, NightStore, Verdict
from edgetune.farm.noise import LEAST_NIGHTS, noise_of_boards, too_noisy

SAID = "limit 0.5 % is below 3 times the noise of board host (1.2 %), so that most changes cannot be told"


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "farm.yaml").write_text("models: {m: m.onnx}\nboards: [host]\nbudget: {trials: 1}\nlimit: 0.5 %\n")
    return load_farm(tmp_path / "farm.yaml")


def compared(
    store: NightStore, farm: Farm, half: float, *, unit: str = "ns", turns: int = MOST_TURNS, cells: int = 1
) -> None:
    """Another night with comparisons that knew their ratios to `half`."""
    name = f"2026-01-{len(store.nights(farm.name)) + 1:02}"
    facts = {"farm": farm.name, "night": name, "ends_utc": None, "host": "h", "tool_version": "1", "owner": ""}
    night = store.begin({**facts, "limit": 0.005}, [
        Cell(f"m{number}", "host", "k", searches=True, settings="s") for number in range(cells)
    ])  # fmt: skip
    assert night is not None
    found = {"unit": unit, "turns": turns, "low": math.exp(-half), "high": math.exp(half), "ratio": 1.0}
    for row in store.cells(night):
        assert store.judge(row.id, store.start_attempt(row.id, "h"), Verdict("cannot tell", facts=found))
    assert store.finish(night)


def test_a_limit_below_the_noise_is_told_by_doctor_and_by_run_with_one_that_suits(
    farm: Farm, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    with NightStore.open(farm.db, create=True) as store:
        for half in (0.5, *[0.012] * 13, 0.03):  # the first one is older than 14 nights, the last one is a bad night
            compared(store, farm, half)
    found = {one.check: one for one in findings(farm, datetime.now(UTC))}["limit"]
    assert (found.ok, found.required, found.detail) == (False, False, SAID)
    assert found.fix == f"write at least 3.6 % as 'limit' in {farm.path}"

    def begins(*_: object, **__: object) -> Night:
        raise KeyboardInterrupt

    monkeypatch.setattr(nights, "run", begins)
    run(["nightly", "run", "--now", str(farm.path)])
    assert f"edgetune: {SAID}: write at least 3.6 %\n" in capsys.readouterr().err


def test_one_bad_night_is_no_noise_however_many_comparisons_it_has(farm: Farm) -> None:
    with NightStore.open(farm.db, create=True) as store:
        for number in range(LEAST_NIGHTS):
            assert list(too_noisy(farm, store, ["host"])) == [], f"after {number} nights"
            compared(store, farm, 0.012)
        assert len(list(too_noisy(farm, store, ["host"]))) == 1
        for _ in range(LEAST_NIGHTS + 2):
            compared(store, farm, 0.001)
        compared(store, farm, 0.1, cells=20)
        assert list(too_noisy(farm, store, ["host"])) == []


def test_counts_and_a_limit_above_the_noise_need_no_word(farm: Farm) -> None:
    with NightStore.open(farm.db, create=True) as store:
        compared(store, farm, 0.1, unit="instructions", turns=1)
        assert noise_of_boards(farm, store) == {}
        compared(store, farm, 0.0016)
        assert list(too_noisy(farm, store, ["host", "other"])) == []
        compared(store, farm, 0.0018)
        compared(store, farm, 0.0018)
        assert len(list(too_noisy(farm, store, ["host", "other"]))) == 1


def test_a_wide_interval_after_few_turns_tells_of_the_limit_of_then_and_not_of_noise(farm: Farm) -> None:
    with NightStore.open(farm.db, create=True) as store:
        compared(store, farm, 0.006, turns=6)  # with a limit of 2 % the gate is content with it
        assert noise_of_boards(farm, store)["host"] == pytest.approx(0.00156, rel=0.01)
        assert list(too_noisy(farm, store, ["host"])) == []
