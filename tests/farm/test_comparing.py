"""What is exact of a package: an error that grew is an alarm, and one that is not finite never passes for none.

And a verdict that stands without its cause.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from edgetune.errors import EdgetuneError, PackageInvalid, SelfTestFailed
from edgetune.farm import archive, comparing, gate
from edgetune.farm.bench import Bench
from edgetune.farm.comparing import Versions, exact_facts, verdict_of
from edgetune.farm.health.tonights_canary import TonightsCanary
from edgetune.farm.night_store import Accepted
from edgetune.farm.report import is_alarm
from edgetune.farm.worse import worse
from edgetune.verify.starts import Start
from edgetune.verify.verify import OutputReport, VerifyReport

MANIFEST: dict[str, Any] = {
    "memory": {"arena_bytes": 8, "weights_bytes": 4},
    "model": {"sha256": "0"},
    "inputs": [],
    "outputs": [],
}


def facts(*errors: float) -> dict[str, Any]:
    outputs = tuple(OutputReport("y", "fresh", error, error, 0.0, 0.0, 1.0) for error in errors)
    report = VerifyReport("p", "m", "b", "cc", None, "here", "onnx", 1, 1, outputs)
    return exact_facts(MANIFEST, report)


@pytest.mark.parametrize("error", [math.inf, math.nan])
def test_an_error_that_is_not_finite_is_not_stored_as_none_at_all(error: float) -> None:
    found = facts(1e-5, error)
    assert found["max_error"] is None
    assert worse(facts(1e-5), found) == ["largest error of the results not finite instead of 1e-05"]
    assert worse(found, found) == []


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        (1e-5, 3e-5, ["largest error of the results 3e-05 instead of 1e-05"]),
        (1e-5, 1.9e-5, []),
        (0.0, 2e-7, []),
        (0.0, 0.004, ["largest error of the results 0.004 instead of 0"]),
        (3e-5, 1e-5, []),
    ],
)
def test_results_more_than_twice_as_far_from_the_reference_are_worse(
    before: float, after: float, said: list[str]
) -> None:
    assert worse(facts(before), facts(after)) == said


def test_a_package_accepted_before_errors_were_compared_gives_no_alarm() -> None:
    assert worse({"arena_bytes": 8}, facts(0.5)) == []


class Counting(Bench):
    """A board that counts: the new package costs more."""

    def board_facts(self) -> dict[str, str | float]:
        return {}

    def start(self, folder: Path) -> Start:
        return Start({"old": 100.0, "new": 120.0}[folder.name], ())


@pytest.mark.parametrize("error", [SelfTestFailed("it ended with signal 4"), PackageInvalid("it wrote no usable JSON")])
def test_a_canary_that_fails_in_the_turns_of_the_cause_costs_no_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: EdgetuneError
) -> None:
    for name in ("old", "new"):
        (tmp_path / name / archive.PACKAGE).mkdir(parents=True)
        (tmp_path / name / archive.BUILT).mkdir()
        (tmp_path / name / archive.BUILT / "bench").write_text(name)
    (tmp_path / "canary" / archive.BUILT).mkdir(parents=True)
    digest = archive.keep(tmp_path / "archive", tmp_path / "canary")
    canary = TonightsCanary(1.0, 100.0, digest, tmp_path / "archive", tmp_path / "unpacked")
    nothing: Any = None
    versions = Versions(
        tmp_path / "new",
        facts(1e-5),
        (tmp_path / "old", Accepted("p", "1", "me", "", "", facts(1e-5))),
        "",
        nothing,
        canary=canary,
    )

    def fails(*_: object) -> float:
        raise error

    def in_turns(_: object, __: object, ___: object, turns: Callable[[Sequence[Path]], object]) -> None:
        turns([tmp_path / "old", tmp_path / "new"])

    monkeypatch.setattr(comparing, "read_manifest", lambda _: {**MANIFEST, "layers": []})
    monkeypatch.setattr(comparing, "start_canary", fails)
    monkeypatch.setattr(comparing, "cause_of", in_turns)
    verdict, accepted = verdict_of(Counting(nothing, nothing, counts=True), versions, 0.02, 1)
    assert (verdict.verdict, accepted) == ("slower", False)
    assert verdict.facts["cause"] == f"cause not found: the canary did not run ({error.message})"
    assert verdict.facts["factors"] == []


class Emulated(Counting):
    """A board under an emulator whose clock is time: the new package takes longer, and it has no turns."""

    @property
    def judges(self) -> bool:
        return False


def test_times_under_emulation_are_told_and_never_an_alarm(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("old", "new"):
        (tmp_path / name / archive.BUILT).mkdir(parents=True)
        (tmp_path / name / archive.BUILT / "bench").write_text(name)
    nothing: Any = None
    old = (tmp_path / "old", Accepted("p", "1", "me", "", "", facts(1e-5)))
    versions = Versions(tmp_path / "new", facts(1e-5), old, "", nothing)
    monkeypatch.setattr(comparing, "read_manifest", lambda _: {**MANIFEST, "layers": []})
    monkeypatch.setattr(gate, "compare", lambda *_: pytest.fail("emulated times are compared"))
    verdict, accepted = verdict_of(Emulated(nothing, nothing), versions, 0.02, 1)
    assert (verdict.verdict, verdict.reason, accepted) == ("cannot tell", comparing.EMULATED, False)
    assert verdict.facts["new"] == 120.0
    assert "ratio" not in verdict.facts
    assert not is_alarm(verdict)


def test_only_a_place_that_counts_or_is_real_is_judged() -> None:
    nothing: Any = None
    places: list[Any] = [SimpleNamespace(emulated=emulated) for emulated in (False, True)]
    assert [Bench(place, nothing).judges for place in places] == [True, False]
    assert [Bench(place, nothing, counts=True).judges for place in places] == [True, True]
