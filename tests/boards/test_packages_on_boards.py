"""Packages on boards: brought there, run there, timed there, and nothing left behind."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import pytest
import yaml

from edgetune import api
from edgetune.config.boards_file import boards_path
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.errors import BoardLost, BoardUnavailable, HostUnknown, SelfTestFailed, UsageError, WrongResult
from edgetune.events import Event
from edgetune.farm.bench import Bench as Place
from edgetune.farm.causes.board import Facts
from edgetune.farm.health.pinned import canary, start_canary
from edgetune.package.golden import GoldenCases
from edgetune.package.manifest import read_manifest
from edgetune.pipeline.boards import accesses, load_board
from edgetune.pipeline.on_board import at_board
from edgetune.target.target import with_cpu
from edgetune.verify.place import OnBoard, needed_glibc, starts_with
from tests import package_sample as sample
from tests.boards.ssh_bench import Bench
from tests.boards.ssh_server import SshBoard
from tests.verify.test_verify import reseal

MODEL = Path(__file__).parents[2] / "examples/models/ad_ae.onnx"


@pytest.fixture(scope="module")
def emitted(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("on_board") / "package"
    sample.emit(folder, target=sample.arm("generic-aarch64"), weights="external", measure=False)
    return folder


FARM: dict[str, object] = {"rpc": "tvm", "tracker": "localhost:9190"}


def shelve(bench: Bench, more: dict[str, dict[str, object]] | None = None, /, **boards: SshBoard) -> None:
    """Write the boards into the user's boards.yaml, with `more` keys by the boards' names."""
    entries = {}
    for name, board in boards.items():
        extra = (more or {}).get(name, {})
        fields = bench.address(board, name=name, folder=board.folders[0], **extra).model_dump(exclude_unset=True)
        entries[name] = {
            key: list(value) if key == "cores" else value for key, value in fields.items() if key != "name"
        }
    boards_path().parent.mkdir(parents=True, exist_ok=True)
    boards_path().write_text(yaml.safe_dump({"boards": entries}), encoding="utf-8")


@pytest.mark.long
@pytest.mark.parametrize(("libc", "linking"), [("glibc 2.39", "dynamic"), ("glibc 2.17", "static")])
def test_a_package_is_verified_by_its_board(bench: Bench, emitted: Path, libc: str, linking: str) -> None:
    board = bench.board({"getconf GNU_LIBC_VERSION": libc})
    shelve(bench, attic=board)
    report = api.verify(emitted, "attic")
    assert report.ran_on.startswith("board attic (aarch64, Linux ")
    assert report.ran_on.endswith(f", {libc}; {linking})")
    assert (report.emulator, report.golden_cases) == (None, 3)
    assert any("exec /" in command for command in board.commands)
    assert board.files() == []
    assert board.left() == []


@pytest.mark.long
def test_fresh_inputs_travel_to_the_board(bench: Bench, emitted: Path) -> None:
    shelve(bench, attic=bench.board())
    resolved = load_board("attic")
    report = api._verify(
        emitted, resolved, bench.events.append, GoldenCases(sample.goldens(sample.program(), cases=2), "numpy")
    )
    assert [(o.name, o.against) for o in report.outputs] == [("y", "golden"), ("y", "fresh")]
    assert bench.boards[0].files() == []


@pytest.mark.long
def test_a_package_is_timed_by_its_board(bench: Bench, emitted: Path) -> None:
    board = bench.board()
    shelve(bench, attic=board)
    report = api.bench(emitted, "attic", bench.events.append)
    assert report.ran_on.startswith("board attic")
    assert not report.emulated
    assert [layer.kernel for layer in report.layers] == ["scale_add", "scale_add", "add"]
    assert 0 < report.min_us <= report.median_us
    json.dumps(report.to_json(), allow_nan=False)
    assert board.files() == []


@pytest.mark.long
def test_the_canary_runs_on_a_board_that_tells_its_facts_and_goes_on_after_a_restart(
    bench: Bench, tmp_path: Path
) -> None:
    board = bench.board()
    shelve(bench, {"attic": {"reboot": "reboot"}}, attic=board)
    resolved, told = load_board("attic"), list[Event]()
    target = with_cpu(resolved.target)

    def use(place: OnBoard, cores: Sequence[int]) -> tuple[Facts, float, float]:
        there = Place(place, target, cores, restart=place.restart)
        made = canary(there, tmp_path / "archive", "", tmp_path / "canary")
        before = start_canary(there, made.folder)
        assert there.restart()
        return there.board_facts(), before, start_canary(there, made.folder)

    facts, *costs = at_board(accesses(resolved), told.append, use)
    assert facts["kernel"] == os.uname().release
    assert all(cost > 1000.0 for cost in costs)
    rungs = [str(e.data["detail"]) for e in told if e.data.get("what") == "rung"]
    assert [rung.partition(":")[0] for rung in rungs] == ["restarting the board"] * len(rungs) != []
    assert board.files() == []


@pytest.mark.long
def test_another_board_of_the_kind_serves_when_one_is_away(bench: Bench, emitted: Path) -> None:
    gone, here = bench.board(), bench.board()
    shelve(bench, a=gone, b=here)
    gone.close()
    events: list[Event] = []
    report = api.verify(emitted, "generic-aarch64", events=events.append)
    assert report.ran_on.startswith("board b ")
    assert [(e.data["board"], e.data["what"]) for e in events if e.kind == "board"] == [("a", "lost")]
    shelve(bench, a=gone)
    with pytest.raises(HostUnknown):
        api.verify(emitted, "a")


@pytest.mark.long
def test_a_board_that_is_lost_on_the_way_is_tried_once_more(bench: Bench) -> None:
    board = bench.board()
    shelve(bench, attic=board)
    resolved, told = load_board("attic"), list[Event]()
    calls: list[int] = []

    def use(place: OnBoard, cores: Sequence[int]) -> str:
        calls.append(len(cores))
        if len(calls) == 1:
            threading.Thread(target=drop, daemon=True).start()
            place.execute(Path("/bin/sleep"), ("60",), 90.0)
        return place.where

    def drop() -> None:
        while not any("-sleep 60" in command for command in board.commands):
            time.sleep(0.02)
        board.link.drop()

    assert at_board(accesses(resolved), told.append, use).startswith("board attic")
    assert len(calls) == 2
    lost = [str(e.data["detail"]) for e in told if e.kind == "board" and e.data["what"] == "lost"]
    assert len([words for words in lost if words.endswith("; edgetune tries once more")]) == 1

    def never(place: OnBoard, cores: Sequence[int]) -> str:
        calls.append(len(cores))
        raise BoardLost(f"{place.where} did not answer")

    with pytest.raises(BoardLost, match="did not answer"):
        at_board(accesses(resolved), told.append, never)
    assert len(calls) == 4
    assert board.files() == []


@pytest.mark.long
def test_the_gateway_of_a_farm_is_not_taken_for_a_board(bench: Bench, emitted: Path, tmp_path: Path) -> None:
    gateway, own = bench.board(), bench.board()
    shelve(bench, {"farm": FARM}, farm=gateway)
    with pytest.raises(
        BoardUnavailable, match=r"'farm' is lent by a tracker, .* only reaches the tracker.*leave out --board"
    ):
        api.verify(emitted, "farm")
    with pytest.raises(BoardUnavailable, match="'farm' is lent by a tracker"):
        api.bench(emitted, "farm")
    told: list[Event] = []
    settings = resolve_settings(CommandLineFlags(model=MODEL, board="farm", out=emitted), {}, tmp_path)
    assert not api._OnItsBoard(settings, told.append)(emitted)
    (warning,) = [str(e.data["message"]) for e in told if e.kind == "warning"]
    assert warning.endswith(f"; `edgetune verify {emitted}` runs it here")
    shelve(bench, {"a": FARM}, a=gateway, b=own)
    assert api.verify(emitted, "generic-aarch64").ran_on.startswith("board b ")
    assert gateway.commands == []


@pytest.mark.long
def test_a_package_is_timed_on_the_cores_of_the_board_that_runs_it(
    bench: Bench, emitted: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    gone, here = bench.board(), bench.board()
    shelve(bench, {"a": {"cores": (3,)}, "b": {"cores": (1,)}}, a=gone, b=here)
    gone.close()
    asked: list[Sequence[int]] = []

    def timed(*_: object, cores: Sequence[int], **__: object) -> None:
        asked.append(tuple(cores))

    monkeypatch.setattr("edgetune.verify.bench.bench", timed)
    api.bench(emitted, "generic-aarch64")
    assert asked == [(1,)]


@pytest.mark.long
def test_noise_of_a_login_script_does_no_harm(bench: Bench, emitted: Path) -> None:
    board = bench.board()
    board.faults.noise = b"Welcome!\nPASS\n"
    shelve(bench, attic=board)
    resolved = load_board("attic")
    report = api._verify(
        emitted, resolved, bench.events.append, GoldenCases(sample.goldens(sample.program(), cases=1), "numpy")
    )
    assert report.fresh_cases == 1


@pytest.mark.long
def test_what_is_wrong_on_the_board_is_what_is_wrong_here(bench: Bench, tmp_path: Path) -> None:
    shelve(bench, attic=bench.board())
    for old, new, error in (
        ("a[i] + b[i]", "a[i] + b[i] + 0.25f", WrongResult),
        ("out[i] = a[i] + b[i];", "__builtin_trap();", SelfTestFailed),
    ):
        package = tmp_path / error.__name__
        sample.emit(package, target=sample.arm("generic-aarch64"), measure=False)
        reseal(package, "src/tiny_kernels.c", old, new)
        with pytest.raises(error):
            api.verify(package, "attic")
        assert bench.boards[0].files() == []


def test_a_package_of_another_machine_bothers_no_board(bench: Bench, tmp_path: Path) -> None:
    board = bench.board()
    shelve(bench, attic=board)
    sample.emit(tmp_path / "p", target=sample.arm("generic-armv7"), measure=False)
    with pytest.raises(UsageError, match="the package is for armv7"):
        api.verify(tmp_path / "p", "attic")
    assert board.commands == []


@pytest.mark.long
def test_a_target_without_a_board_is_verified_under_its_emulator(bench: Bench, emitted: Path) -> None:
    assert bench.boards == []
    report = api.verify(emitted, "generic-aarch64")
    assert report.ran_on == "this machine, under qemu-aarch64"


@pytest.mark.long
def test_after_a_search_the_package_is_verified_on_its_board_or_that_is_announced(
    bench: Bench, emitted: Path, tmp_path: Path
) -> None:
    board = bench.board()
    shelve(bench, attic=board)
    settings = resolve_settings(CommandLineFlags(model=MODEL, board="attic", out=emitted), {}, tmp_path)
    told: list[Event] = []
    there = api._OnItsBoard(settings, told.append)
    assert there(emitted), there.why
    assert there.report is not None
    assert there.why == ""
    assert there.report.ran_on.startswith("board attic")
    assert [str(e.data["name"]).split(" (")[0] for e in told if e.kind == "phase"] == ["verified on board attic"]
    (case,) = sample.goldens(sample.program(), cases=1)
    layers = there.layers(emitted, case)
    assert layers is not None
    assert layers.ran_on == there.report.ran_on
    assert [sum(map(len, written)) for written in layers.written] == [
        sum(output["bytes"] for output in layer["written"]) for layer in read_manifest(emitted)["layers"]
    ]
    assert not there(emitted, interrupted=True)
    assert there.why == "the search was interrupted"
    here = resolve_settings(CommandLineFlags(model=MODEL, board="host", out=emitted), {}, tmp_path)
    on_host = api._OnItsBoard(here, told.append)
    assert not on_host(emitted, interrupted=True)
    assert (on_host.report, on_host.why, on_host.layers(emitted, case)) == (None, "", None)
    board.close()
    told.clear()
    assert not there(emitted)
    why = there.why
    assert [(e.data["board"], e.data["what"]) for e in told if e.kind == "board"] == [("attic", "lost")]
    (warning,) = [str(e.data["message"]) for e in told if e.kind == "warning"]
    assert f"was not verified on its board ({why})" in warning
    assert f"`edgetune verify {emitted} --board attic`" in warning


def test_needed_versions_are_read_from_the_program() -> None:
    assert needed_glibc(b"\x7fELF..\0libc.so.6\0GLIBC_2.17\0GLIBC_2.34\0GLIBC_2.2.5\0") == (2, 34)
    assert needed_glibc(b"\x7fELF static") == (0, 0)
    assert starts_with("glibc 2.36", (2, 34))
    assert not starts_with("glibc 2.31", (2, 34))
    assert not starts_with("", (2, 17))
    assert not starts_with("musl 1.2.4", (2, 17))
    assert starts_with("", (0, 0))
