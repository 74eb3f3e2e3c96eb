"""Health of boards: a board that is not what it was is recovered, or its cells are not measured, and say why."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from edgetune.boards.ssh import facts as ssh_facts
from edgetune.errors import BoardFull, BoardLost, BoardUnavailable, CompileFailed, ToolchainMissing
from edgetune.farm import archive, run_cell
from edgetune.farm.acceptances import accepted_on
from edgetune.farm.bench import Bench
from edgetune.farm.causes.board import Past, change_of, moved
from edgetune.farm.cells import Cell
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.health import checking
from edgetune.farm.health.board_health import CANARY, REFERENCE, BoardHealth, latest, past_of_program
from edgetune.farm.health.checking import Pinned, fitness, judged
from edgetune.farm.health.pinned import PinnedProgram, canary, reference, start_canary
from edgetune.farm.health.tonights_canary import TonightsCanary
from edgetune.farm.night_store import NightStore, Verdict
from edgetune.findings import Finding
from edgetune.pipeline.boards import load_board
from edgetune.target.target import Target, with_cpu
from edgetune.verify import starts
from edgetune.verify.place import Here
from edgetune.verify.toolchain import PackageToolchain

FACTS: dict[str, str | float] = {"governor": "performance", "temperature_c": 45.0}
BEFORE = BoardHealth("1", "", "ns", {CANARY: 100.0, REFERENCE: 50.0}, {CANARY: "c", REFERENCE: "r"}, {}, FACTS)


@dataclass(frozen=True)
class SlowBoard(Bench):
    """A bench whose restart is counted; it is lost in it where it `fails`."""

    facts: dict[str, str | float] = field(default_factory=dict)
    restarts: list[str] = field(default_factory=list)
    fails: bool = False

    def board_facts(self) -> dict[str, str | float]:
        return self.facts

    @property
    def restarted(self) -> Callable[[], bool]:
        def restart() -> bool:
            self.restarts.append("restart")
            if self.fails:
                raise BoardLost("restarting the board: not set up for this board")
            return True

        return restart


def board(*, fails: bool = False, **facts: str | float) -> SlowBoard:
    nowhere: Any = None  # it starts no program
    made = SlowBoard(nowhere, nowhere, facts={**FACTS, **facts}, fails=fails)
    object.__setattr__(made, "restart", made.restarted)
    return made


class Timed(Pinned):
    """Pinned programs that take what is said, one measurement after the other."""

    def costs(self) -> dict[str, float]:
        return dict(zip(self.programs, MEASURED.pop(0), strict=True))


MEASURED: list[tuple[float, float]] = []


def health(
    bench: SlowBoard, *measured: tuple[float, float], nights: tuple[BoardHealth, ...] = (BEFORE,)
) -> BoardHealth:
    """What the check of a board finds whose canary and pinned package take that."""
    MEASURED[:] = measured
    programs = {CANARY: PinnedProgram("c", Path()), REFERENCE: PinnedProgram("r", Path())}
    found = judged(BoardHealth("2", unit="ns", facts=bench.facts), Timed(bench, programs, nights))
    assert MEASURED == []
    return found


def test_a_board_that_is_what_it_was_is_fit_and_one_without_a_past_too() -> None:
    found = health(board(), (103.0, 56.0))
    assert (found.fault, found.sentence) == ("", "canary as before, pinned package +12.0 %")
    assert BoardHealth.from_json(json.loads(json.dumps(found.to_json()))) == found
    first = health(board(), (1000.0, 500.0), nights=())
    assert first.fault == ""
    assert first.sentence == "canary: nothing to compare with yet, pinned package: nothing to compare with yet"


def test_what_disturbs_a_board_for_a_moment_is_no_fault_and_restarts_nothing() -> None:
    bench = board()
    assert health(bench, (400.0, 60.0), (300.0, 200.0), (101.0, 51.0)).fault == ""
    assert bench.restarts == []


def test_a_slow_board_is_restarted_and_measured_again() -> None:
    bench = board()
    found = health(bench, (250.0, 50.0), (250.0, 50.0), (250.0, 50.0), (100.0, 50.0))
    assert (found.fault, bench.restarts) == ("", ["restart"])
    assert found.sentence == "canary as before, pinned package as before, the board was restarted"


def test_a_board_that_stays_slow_is_not_fit_and_says_which_fact_moved_and_what_was_tried() -> None:
    bench = board(fails=True, governor="powersave", temperature_c=80.0)
    found = health(bench, *[(250.0, 50.0)] * 3)
    assert found.fault == (
        "the canary takes 2.5 times as long as in its own past (governor performance became powersave; "
        "temperature 45 °C became 80 °C); restarting the board: not set up for this board"
    )
    again = health(board(), *[(250.0, 80.0)] * 4)
    assert again.fault.startswith("the canary takes 2.5 times as long and the pinned package takes 1.6 times as long ")
    assert past_of_program([BEFORE], CANARY, "other").costs == []


@pytest.mark.parametrize(("after", "outcome"), [(True, ""), (False, "does not answer")])
def test_a_lost_board_goes_up_the_ladder_before_it_is_given_up(
    monkeypatch: pytest.MonkeyPatch, *, after: bool, outcome: str
) -> None:
    climbed: list[str] = []
    monkeypatch.setattr(checking, "elsewhere", lambda _: True)
    monkeypatch.setattr(checking, "_bring_back", lambda access, _: climbed.append(access))

    def findings() -> Iterator[Finding]:
        ok = after and bool(climbed)
        yield Finding("governor", ok=False, detail="its clock will vary")
        yield Finding("reachable", ok, "it does not answer", "switch it on", True, BoardLost.exit_code)

    boards: Any = ["b"]
    if outcome:
        with pytest.raises(BoardLost, match=outcome):
            fitness(boards, findings, lambda _: None)
    else:
        assert fitness(boards, findings, lambda _: None) == ""
    assert climbed == ["b"]


def test_a_demand_that_is_not_met_is_told_with_its_remedy_and_restarts_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(checking, "elsewhere", lambda _: True)
    monkeypatch.setattr(checking, "_bring_back", lambda *_: pytest.fail("a full disk is no lost board"))
    full = Finding("folder", False, "/srv, 0 free", "free some space", True, BoardFull.exit_code)
    assert fitness((), lambda: iter([full]), lambda _: None) == "folder: /srv, 0 free (free some space)"


def test_a_compiler_that_this_host_lacks_is_no_fault_of_the_board() -> None:
    lacking = Finding("compiler of b", False, "gcc is not on PATH", "install gcc", True, ToolchainMissing.exit_code)
    with pytest.raises(ToolchainMissing, match=r"compiler of b: gcc is not on PATH \(install gcc\)"):
        fitness((), lambda: iter([lacking]), lambda _: None)


def bench_of(name: str) -> Bench:
    target = with_cpu(load_board(name).target)
    assert isinstance(target, Target)
    tools = PackageToolchain.of_board(target)
    return Bench(Here(tools), target) if name == "host" else Bench(starts.counting_here(tools), target, counts=True)


@pytest.mark.parametrize("name", ["host", "qemu-aarch64", "mps2-an386"])
def test_the_canary_is_built_once_and_kept_and_made_again_where_it_is_lost(tmp_path: Path, name: str) -> None:
    bench, store = bench_of(name), tmp_path / "archive"
    made = canary(bench, store, "", tmp_path / "one")
    cost = start_canary(bench, made.folder)
    assert cost > 1000
    assert bench.board_facts()["kernel"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(type(bench.place), "link", lambda *_: pytest.fail("it is not built again"))
        kept = canary(bench, store, made.digest, tmp_path / "two")
    assert kept.digest == made.digest
    if bench.counts:
        assert start_canary(bench, kept.folder) == cost
    tonight = TonightsCanary.of(
        BoardHealth("1", costs={CANARY: cost}, pinned={CANARY: made.digest}), store, tmp_path / "3"
    )
    assert tonight.unpacked() == tmp_path / "3"
    shutil.rmtree(store / made.digest[:2])
    assert tonight.unpacked() is None
    assert canary(bench, store, made.digest, tmp_path / "two").digest


def test_the_canary_in_the_turns_is_told_against_the_same_past() -> None:
    store = Path("archive")
    tonight = TonightsCanary.of(BoardHealth("1", costs={CANARY: 110.0}, ratios={CANARY: 1.1}), store, store)
    assert tonight.now(220.0).ratio == pytest.approx(2.2)
    assert TonightsCanary().now(220.0).ratio is None


def test_a_slower_program_is_the_boards_only_where_the_canary_is_slower_too() -> None:
    past = Past([100.0], {"kernel": "6.1", "temperature_c": 40.0})
    now: dict[str, str | float] = {"kernel": "6.12", "temperature_c": 45.0}
    assert change_of(past, 110.0, now, 1.08, counts=False) == (
        "board: the accepted program takes +10.0 % against its own past, the canary +8.0 % (kernel 6.1 became 6.12)"
    )
    assert change_of(past, 110.0, now, 1.0, counts=False) == (
        "the accepted program takes +10.0 % against its own past, but the canary +0.0 %, so it is not the speed of the "
        "core (kernel 6.1 became 6.12)"
    )
    assert change_of(past, 110.0, now, 0.8, counts=False).startswith("the accepted program takes +10.0 %")
    assert change_of(past, 101.0, now, 1.5, counts=False) == ""
    assert moved({"temperature_c": 40.0}, {"temperature_c": 60.0, "governor": "x"}) == [
        "temperature 40 °C became 60 °C"
    ]


@pytest.mark.parametrize("name", ["bootloader/version", "u-boot,version"])
def test_a_board_tells_the_version_of_its_firmware(tmp_path: Path, name: str) -> None:
    path = tmp_path / name
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"U-Boot 2024.01\0")
    script = ssh_facts.SCRIPT.replace("/proc/device-tree/chosen", str(tmp_path))
    said = subprocess.run(["sh", "-c", script], capture_output=True, text=True, check=True).stdout
    assert ssh_facts.board_facts(ssh_facts.parse(said), "/srv", 1).firmware == "U-Boot 2024.01"


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    for name in ("m", "n"):
        (tmp_path / f"{name}.onnx").write_bytes(b"")
    text = "models: {m: m.onnx, n: n.onnx}\nboards: [qemu-aarch64]\nbudget: {trials: 1}\n"
    (tmp_path / "farm.yaml").write_text(text)
    return load_farm(tmp_path / "farm.yaml")


@dataclass
class Night:
    """Runs cells of one night, as their processes do; `faults` are what checks of the board find, in their order."""

    farm: Farm
    store: NightStore
    patch: pytest.MonkeyPatch
    faults: list[str | Exception]

    def run(self, model: str) -> Verdict:
        (night,) = self.store.nights(self.farm.name)
        row = next(row for row in self.store.cells(night) if row.cell.model == model)
        if row.verdict is not None:
            self.store.rerun(night, row.id)
        words = [
            str(self.farm.save(self.farm.path.with_name("saved.json"))),
            night.night,
            str(row.id),
            str(self.store.start_attempt(row.id, "h")),
        ]
        run_cell.folder_of(self.farm, night.night, row.cell).mkdir(parents=True, exist_ok=True)
        with self.patch.context() as patch:
            patch.setattr(sys, "argv", ["run_cell", "1", *words])
            patch.chdir(self.farm.path.parent)
            patch.setattr(run_cell, "die_with_parent", lambda _: None)
            patch.setattr(checking, "fitness", self._fitness)
            patch.setattr(run_cell, "_at", lambda *_: BoardHealth(f"{len(self.faults)}", costs={CANARY: 1.0}))
            patch.setattr(run_cell, "measure", self._measure)
            run_cell.main()
        found = next(other for other in self.store.cells(night) if other.id == row.id).verdict
        assert found is not None
        return found

    def _fitness(self, *_: Any) -> str:
        if isinstance(found := self.faults.pop(0), Exception):
            raise found
        return found

    def _measure(self, *words: Any) -> tuple[Verdict, None]:
        if words[3].cell.model == "n":
            raise CompileFailed("the model does not compile")
        return Verdict("first"), None


@pytest.fixture
def tonight(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Night]]:
    with NightStore.open(farm.db, create=True) as store:
        facts = {
            "farm": farm.name,
            "night": "2026-01-01",
            "ends_utc": None,
            "host": "h",
            "tool_version": "1",
            "owner": "",
        }
        cells = [Cell(model, "qemu-aarch64", "k", searches=True, settings="s") for model in ("m", "n")]
        cells.append(Cell("n", "twin", "k", searches=False, settings="s"))
        assert store.begin({**facts, "limit": 0.02}, cells) is not None
        yield lambda *faults: Night(farm, store, monkeypatch, list(faults))


def test_cells_of_a_board_that_is_not_fit_are_not_measured_and_a_rerun_checks_it_again(
    tonight: Callable[..., Night],
) -> None:
    night = tonight("folder: no space is left", "")
    why = "infrastructure: folder: no space is left"
    for model, reason in (("m", why), ("n", f"{why}; n@twin searches instead")):  # the second one asks nobody
        found = night.run(model)
        assert (found.verdict, found.reason) == ("not measured", reason)
    assert night.run("m").verdict == "first"
    assert night.faults == []
    rows = night.store.cells(night.store.nights(night.farm.name)[0])
    assert [row.cell.searches for row in rows] == [True, True, True], "the twin has become the one that searches"
    fit = latest([row for row in rows if row.cell.model == "m"], "qemu-aarch64")
    assert fit is not None
    assert fit.fault == ""


def test_what_a_host_lacks_is_its_own_and_another_one_checks_the_board_itself(
    tonight: Callable[..., Night], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("EDGETUNE_HOST", "shelf-1")
    night = tonight(ToolchainMissing("compiler of b: gcc is not on PATH"), "")
    found = night.run("n")
    assert found.reason == "infrastructure: host shelf-1: compiler of b: gcc is not on PATH; n@twin searches instead"
    assert "health" not in found.facts
    assert night.run("m").verdict == "first"
    assert night.faults == []


def test_a_board_is_checked_once_a_night_and_a_cell_that_fails_for_another_reason_keeps_what_was_found(
    tonight: Callable[..., Night],
) -> None:
    night = tonight("")
    assert (found := night.run("n")).reason == "the model does not compile"
    assert found.facts["health"]["costs"] == {CANARY: 1.0}
    assert night.run("m").verdict == "first"


def test_a_board_whose_login_is_refused_is_a_fault_of_infrastructure(
    tonight: Callable[..., Night], monkeypatch: pytest.MonkeyPatch
) -> None:
    night = tonight("")

    def refused(*_: object) -> BoardHealth:
        raise BoardUnavailable("the board refuses the key")

    (one,) = night.store.nights(night.farm.name)
    row = night.store.cells(one)[0]
    monkeypatch.setattr(checking, "fitness", lambda *_: "")
    found = checking.health_of(night.farm, night.store, one, row, refused, lambda _: None)
    assert found.fault == "the board refuses the key"
    monkeypatch.setattr(checking, "fitness", _lost)
    with pytest.raises(BoardLost):
        checking.health_of(night.farm, night.store, one, row, refused, lambda _: None)


def _lost(*_: object) -> str:
    raise BoardLost("gone")


def test_the_pinned_package_is_the_oldest_that_was_accepted_on_the_board_and_is_still_there(
    tonight: Callable[..., Night], tmp_path: Path
) -> None:
    store = tonight("").store
    digests = []
    for number in range(2):
        folder = tmp_path / str(number)
        for part in (archive.PACKAGE, archive.BUILT):
            (folder / part).mkdir(parents=True)
            (folder / part / "file").write_text(str(number))
        digests.append(archive.keep(tmp_path / "archive", folder))
    row = {"farm": "farm", "settings": "s", "night": "1", "by": "b", "because": "", "facts": {}}
    for cell, digest in (("m@other", "0" * 64), ("m@a", digests[0]), ("n@a", digests[1]), ("m@a", digests[0])):
        store.accept({**row, "cell": cell, "package": digest})
    assert accepted_on(store.database, "farm", "a") == digests
    found = reference(tmp_path / "archive", ["0" * 64, *digests], tmp_path / "r")
    assert found is not None
    assert (found.digest, (tmp_path / "r" / "package" / "file").read_text()) == (digests[0], "0")
    assert reference(tmp_path / "archive", [], tmp_path / "r") is None
