"""The past of a board: which nights count, which programs stay pinned, and what happens where one does not run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from edgetune.errors import SelfTestFailed
from edgetune.farm import archive
from edgetune.farm.bench import Bench
from edgetune.farm.causes.board import past_of
from edgetune.farm.cells import Cell
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.health import checking
from edgetune.farm.health.board_health import CANARY, REFERENCE, BoardHealth
from edgetune.farm.health.history import past_of_board
from edgetune.farm.night_store import Night, NightStore, Verdict
from edgetune.pipeline.boards import load_board
from edgetune.target.target import with_cpu
from edgetune.verify.starts import Start

CELL = Cell("m", "b", "k", searches=True, settings="s")
FIT = BoardHealth("1", "", "instructions", {CANARY: 100.0, REFERENCE: 50.0}, {CANARY: "c", REFERENCE: "r"})
SICK = replace(FIT, fault="the canary takes 2.5 times as long", costs={CANARY: 250.0})


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "farm.yaml").write_text("models: {m: m.onnx}\nboards: [qemu-aarch64]\nbudget: {trials: 1}\n")
    return load_farm(tmp_path / "farm.yaml")


@pytest.fixture
def store(farm: Farm) -> Iterator[NightStore]:
    with NightStore.open(farm.db, create=True) as opened:
        yield opened


def begin(store: NightStore, number: int) -> Night:
    facts = {"farm": "farm", "night": f"{number}", "ends_utc": None, "host": "h", "tool_version": "1", "owner": ""}
    night = store.begin({**facts, "limit": 0.02}, [CELL])
    assert night is not None
    return night


def after(store: NightStore, healths: Sequence[BoardHealth | None]) -> Night:
    """Tonight, after nights which found this of the board, oldest first."""
    for number, health in enumerate(healths):
        (row,) = store.cells(begin(store, number))
        facts: dict[str, Any] = {"new": 1.0} | ({"health": health.to_json()} if health else {})
        assert store.judge(row.id, store.start_attempt(row.id, "h"), Verdict("same", facts=facts))
    return begin(store, len(healths))


def test_sick_nights_take_no_place_of_the_nights_in_which_a_board_was_fit(store: NightStore) -> None:
    past = past_of_board(store, after(store, [*[FIT] * 16, *[SICK] * 20, None]), "b", "instructions", {})
    assert [night.costs[CANARY] for night in past.nights] == [100.0] * 14
    assert past.pinned == {CANARY: "c", REFERENCE: "r"}


def test_the_past_of_a_board_is_that_of_the_same_cores_and_its_programs_stay(store: NightStore) -> None:
    small, large = (
        replace(FIT, facts={"cores": cores}, costs={CANARY: cost}) for cores, cost in (("0", 3.0), ("4", 1.0))
    )
    night = after(store, [replace(FIT, costs={CANARY: 2.0}), *[large] * 20, small])
    found = past_of_board(store, night, "b", "instructions", small.facts)
    assert [one.costs[CANARY] for one in found.nights] == [2.0, 3.0], "nights without that fact count for all"
    moved = past_of_board(store, night, "b", "instructions", {"cores": "5"})
    assert [one.costs[CANARY] for one in moved.nights] == [2.0]
    assert moved.pinned == small.pinned
    assert past_of_board(store, night, "other", "instructions", {}).pinned is None


def test_the_accepted_program_is_compared_with_its_past_on_the_same_cores() -> None:
    nights = [{"package": "p", "new": 100.0, "unit": "ns", "board": {"cores": cores}} for cores in ("4", "0", "4")]
    assert past_of(nights, "p", "ns", {"cores": "4"}).costs == [100.0, 100.0]
    assert past_of(nights, "p", "ns", {"cores": "5"}).costs == []
    assert len(past_of(nights, "p", "ns", {}).costs) == 3


class Linker:
    """A place that builds a canary, another one each time."""

    emulated = False

    def __init__(self) -> None:
        self.built = 0

    def link(self, copy: Path, goal: str, *_: object) -> None:
        self.built += 1
        (copy / goal).parent.mkdir(exist_ok=True)
        (copy / goal).write_text(f"canary {self.built}")


@dataclass(frozen=True)
class FakeBench(Bench):
    """A bench on which some programs do not run, by the text of their file."""

    broken: frozenset[str] = frozenset()

    def cost(self, text: str) -> float:
        if text in self.broken:
            raise SelfTestFailed(f"{text} ended with signal 4")
        return 100.0

    def start(self, folder: Path) -> Start:
        return Start(self.cost((folder / archive.PACKAGE / "file").read_text()), ())


class FarmOfPackages:
    """Two packages, accepted one after the other on board b."""

    def __init__(self, farm: Farm, store: NightStore, folder: Path) -> None:
        self.farm, self.store, self.place = farm, store, Linker()
        self.digests = []
        for name in ("first", "second"):
            for part in (archive.PACKAGE, archive.BUILT):
                (folder / name / part).mkdir(parents=True)
                (folder / name / part / "file").write_text(name)
            self.digests.append(archive.keep(farm.archive, folder / name))
            row = {"farm": farm.name, "settings": "s", "night": "1", "by": "b", "because": "", "facts": {}}
            store.accept({**row, "cell": CELL.name, "package": self.digests[-1]})
        self.nights: list[BoardHealth] = []

    def night(self, *broken: str) -> BoardHealth:
        """What the check of the board finds in the next night, in which these programs do not run."""
        target = with_cpu(load_board("qemu-aarch64").target)
        place: Any = self.place
        bench = FakeBench(place, target, counts=True, broken=frozenset(broken))
        night = begin(self.store, len(self.nights))
        found = checking._timed(self.farm, self.store, night, "b", bench)
        self.nights.append(found)
        (row,) = self.store.cells(night)
        verdict = Verdict("same", facts={"health": BoardHealth.from_json(found.to_json()).to_json()})
        assert self.store.judge(row.id, self.store.start_attempt(row.id, "h"), verdict)
        return found


@pytest.fixture
def packages(farm: Farm, store: NightStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> FarmOfPackages:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(
        checking, "start_canary", lambda bench, at: bench.cost((at / archive.BUILT / "bench").read_text())
    )
    return FarmOfPackages(farm, store, tmp_path / "packages")


def test_a_pinned_package_that_does_not_run_any_more_gives_way_to_the_next_one(packages: FarmOfPackages) -> None:
    assert packages.night().pinned[REFERENCE] == packages.digests[0]
    found = packages.night("first")
    assert (found.fault, found.pinned[REFERENCE]) == ("", packages.digests[1])
    assert found.sentence == (
        "canary as before, pinned package: nothing to compare with yet, a pinned package does not run there any more "
        "(first ended with signal 4): the next accepted one is pinned"
    )
    again = packages.night("first")
    assert (again.pinned[REFERENCE], again.notes) == (packages.digests[1], ()), "it stays"
    alone = packages.night("first", "second")
    assert (alone.fault, list(alone.costs)) == ("", [CANARY])
    assert alone.sentence.endswith("no accepted one runs there")
    assert packages.night().pinned[REFERENCE] == packages.digests[0]
    assert packages.place.built == 1


def test_a_canary_that_does_not_run_any_more_is_built_anew_and_a_new_one_must_run(packages: FarmOfPackages) -> None:
    packages.night()
    found = packages.night("canary 1")
    assert (found.fault, found.notes) == (
        "",
        ("the canary did not run there any more (canary 1 ended with signal 4): it was built anew",),
    )
    assert found.ratios == {REFERENCE: 1.0}
    assert packages.night("canary 1").ratios == {CANARY: 1.0, REFERENCE: 1.0}
    sick = packages.night("canary 2", "canary 3")
    assert sick.fault == "a new canary does not run there: canary 3 ended with signal 4"
    assert packages.night().ratios == {CANARY: 1.0, REFERENCE: 1.0}
