"""The checks of `make acceptance` on packages of the two smallest models, made by the real command line."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.case import EXAMPLES, Case, build_case
from tests.acceptance.checks_compile import no_warning, sanitizers, undefined_symbols
from tests.acceptance.checks_cross import cross
from tests.acceptance.checks_determinism import determinism
from tests.acceptance.checks_memory import arena, code, stack
from tests.acceptance.checks_pace import pace
from tests.acceptance.checks_programs import header_as_cpp, two_in_one, wrong_use
from tests.acceptance.checks_results import agreement
from tests.acceptance.kill9 import kill_and_resume, look

TRIALS = 16


@pytest.fixture(scope="module")
def ds_cnn(tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A package from the fixed schedules."""
    return build_case(EXAMPLES / "ds_cnn.onnx", "host", tmp_path_factory.mktemp("ds_cnn"))


@pytest.fixture(scope="module")
def killed(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """The records of a search that was killed twice on its way, and what came of it."""
    folder = tmp_path_factory.mktemp("killed")
    db = folder / "records.db"
    return db, kill_and_resume(EXAMPLES / "ad_ae.onnx", TRIALS, 2, 1, db, folder / "out" / "package")


@pytest.fixture(scope="module")
def ad_ae(killed: tuple[Path, str], tmp_path_factory: pytest.TempPathFactory) -> Case:
    """A package from those records."""
    return build_case(EXAMPLES / "ad_ae.onnx", "host", tmp_path_factory.mktemp("ad_ae"), db=killed[0])


@pytest.mark.long
def test_nothing_measured_is_lost_by_kills(killed: tuple[Path, str]) -> None:
    assert f"2 kills, {TRIALS} records" in killed[1]
    assert "litter none" in killed[1]


@pytest.mark.long
def test_records_are_in_the_package(ad_ae: Case) -> None:
    assert ad_ae.summary["measured_kernels"] > 0
    assert pace(ad_ae) == "no search"
    with pytest.raises(AssertionError, match="--tune"):
        pace(ad_ae, least=60.0)


@pytest.mark.long
@pytest.mark.parametrize("check", [agreement, no_warning, undefined_symbols, sanitizers, arena, stack, code])
def test_ds_cnn(ds_cnn: Case, check: Callable[[Case], str]) -> None:
    assert check(ds_cnn)


@pytest.mark.long
@pytest.mark.parametrize(
    "check", [agreement, no_warning, undefined_symbols, arena, stack, determinism, header_as_cpp, wrong_use]
)
def test_ad_ae(ad_ae: Case, check: Callable[[Case], str]) -> None:
    assert check(ad_ae)


@pytest.mark.long
def test_ds_cnn_under_emulators(ds_cnn: Case) -> None:
    assert cross(ds_cnn, ("rpi4", "generic-armv7"))


@pytest.mark.long
def test_two_packages_in_one_program(ds_cnn: Case, ad_ae: Case) -> None:
    assert two_in_one(ds_cnn, ad_ae)


@pytest.mark.long
def test_the_summary_of_a_search_shows_where_the_time_went(killed: tuple[Path, str], tmp_path: Path) -> None:
    words = ("--trials", str(TRIALS + 4), "--seed", "1")
    db = Path(shutil.copy(killed[0], tmp_path))
    case = build_case(EXAMPLES / "ad_ae.onnx", "host", tmp_path, db=db, search=words)
    search = case.summary["search"]
    # Candidates that the killed search refused as noisy are measured again: starts, but no new records.
    before, after = look(killed[0]), look(db)
    recorded = {row[:5] for row in before.records.values()}
    begun = after.starts - before.starts
    again = sum(count for key, count in begun.items() if key in recorded)
    assert search["records"] == len(after.records) == len(before.records) + 4 == TRIALS + 4
    assert search["measured"] == 4 + again
    assert {"search", "lower", "compile", "timing"} <= search["seconds"].keys()
    reached = search["pace_per_minute"]
    assert "pace_per_minute" in pace(case, least=reached)
    with pytest.raises(AssertionError, match="candidates a minute"):
        pace(case, least=2 * reached)
