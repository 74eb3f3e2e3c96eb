"""Who runs a night and when it ends: a rerun while it runs, two hosts that begin it, drains, and lost connections."""

from __future__ import annotations

import json
import re
import shutil
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest

from edgetune._version import __version__
from edgetune.config.host import host_name
from edgetune.errors import NightFault, UsageError
from edgetune.farm import nights
from edgetune.farm.cell_settings import CellSettings
from edgetune.farm.cells import Cell, cells_of
from edgetune.farm.drains import drain, drains, undrain
from edgetune.farm.engine import OnVerdict
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.folder import claim_folder
from edgetune.farm.identity import claim
from edgetune.farm.local_engine import LocalEngine
from edgetune.farm.lost_boards import MOST_LOST, give_up
from edgetune.farm.night_store import Night, NightStore, Verdict
from edgetune.farm.procrastinate_engine import ProcrastinateEngine
from edgetune.farm.progress import NightProgress
from tests.postgresql_server import Place

CELL = Cell("m", "b", "k", searches=True, settings="s")
TWIN = Cell("m", "c", "k", searches=False, settings="s")
NOW = datetime.now(UTC)
BEGINS, ENDS = ((NOW + timedelta(hours=by)).replace(second=0, microsecond=0) for by in (-1, 2))
"""The window that is open while these tests run."""

FACTS = {"farm": "farm", "night": "2026-01-01", "ends_utc": None, "host": "h1", "tool_version": "1", "owner": ""}


@pytest.fixture
def store(place: Place) -> Iterator[NightStore]:
    with NightStore.open(place("records.db"), create=True) as opened:
        yield opened


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "farm.yaml").write_text("models: {m: m.onnx}\nboards: [qemu-aarch64]\nbudget: {trials: 1}\n")
    return load_farm(tmp_path / "farm.yaml")


@pytest.fixture
def open_farm(farm: Farm) -> Farm:
    """The farm while its window is open."""
    lines = [farm.path.read_text().strip(), f"window: {BEGINS:%H:%M}-{ENDS:%H:%M}", "timezone: UTC"]
    farm.path.write_text("\n".join(lines) + "\n")
    return load_farm(farm.path)


def begun_at(store: NightStore, farm: Farm, at: datetime, **facts: object) -> Night:
    """A night of a farm that began then."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("edgetune.farm.night_store.utc_now", at.isoformat)
        return begun(store, *cells_of(farm), **{"tool_version": __version__, "night": str(at.date()), **facts})


def begun(store: NightStore, *cells: Cell, **facts: object) -> Night:
    night = store.begin({**FACTS, "limit": 0.02, **facts}, cells or (CELL,))
    assert night is not None
    return night


class JudgingEngine(LocalEngine):
    """Judges every cell at once; after its first round, somebody has the first cell measured again."""

    def __init__(self, farm: Farm, store: NightStore) -> None:
        super().__init__(farm, store)
        self.rounds = 0
        self.store = store
        self.nights: list[Night] = []

    def work(self, night: Night, on_verdict: OnVerdict) -> None:
        self.nights.append(night)
        for row in self.store.cells(night):
            if row.verdict is None:
                assert self.store.judge(row.id, self.store.start_attempt(row.id, "h"), Verdict("first"))
        self.rounds += 1
        on_verdict(night)
        if self.rounds == 1:
            self.rerun(night, self.store.cells(night)[0])


def test_a_rerun_while_the_night_runs_is_measured_in_it(farm: Farm, store: NightStore) -> None:
    engine = JudgingEngine(farm, store)
    night = nights.run(farm, store, engine, lambda _: None, lambda _: None, by_day=True)
    assert (engine.rounds, night.finished_utc is not None) == (2, True)
    assert all(row.verdict for row in store.cells(night))


@pytest.mark.parametrize("hours", [24, 2])
def test_what_is_open_from_before_does_not_take_the_place_of_a_night(
    open_farm: Farm, store: NightStore, hours: int
) -> None:
    """A cell of last night that is measured again, or a night by day on the same date that was interrupted."""
    night = str(BEGINS.date() - timedelta(days=hours // 24))
    old = begun_at(store, open_farm, NOW - timedelta(hours=hours), night=night)
    engine, ended = JudgingEngine(open_farm, store), list[Night]()
    tonight = nights.run(open_farm, store, engine, lambda _: None, ended.append, by_day=False)
    assert tonight.night == (str(BEGINS.date()) if hours == 24 else f"{BEGINS.date()}.2")
    assert [night.id for night in engine.nights] == [old.id, old.id, tonight.id], "what is old is finished first"
    assert {night.ends_utc for night in engine.nights} == {ENDS.isoformat()}
    assert [(night.id, night.finished_utc is not None) for night in ended] == [(old.id, True)]
    assert tonight.finished_utc
    again = nights.run(open_farm, store, engine, lambda _: None, ended.append, by_day=False)
    assert (again.id, engine.rounds) == (tonight.id, 3), "a night that is finished is not begun again"


def test_a_night_by_hand_in_the_window_goes_on_as_that_of_the_window(open_farm: Farm, store: NightStore) -> None:
    begun_by_hand = begun_at(store, open_farm, NOW)
    engine = JudgingEngine(open_farm, store)
    night = nights.run(open_farm, store, engine, lambda _: None, lambda _: None, by_day=False)
    assert (night.id, night.ends_utc) == (begun_by_hand.id, ENDS.isoformat())
    assert len(store.nights(open_farm.name)) == 1


@pytest.mark.parametrize("by_day", [True, False])
def test_a_night_of_another_version_from_before_is_closed_and_does_not_stop_the_next(
    open_farm: Farm, store: NightStore, *, by_day: bool
) -> None:
    old = begun_at(store, open_farm, BEGINS - timedelta(days=1), tool_version="0.0.1")
    engine, ended = JudgingEngine(open_farm, store), list[Night]()
    tonight = nights.run(open_farm, store, engine, lambda _: None, ended.append, by_day=by_day)
    assert tonight.night == str(BEGINS.date())
    assert [night.id for night in ended] == [old.id]
    (row,) = store.cells(old)
    assert row.verdict is not None
    assert "was begun by edgetune 0.0.1, and host" in row.verdict.reason


def test_a_cell_that_cannot_be_measured_again_keeps_its_verdict(farm: Farm, store: NightStore) -> None:
    engine = JudgingEngine(farm, store)
    (cell,) = cells_of(farm)
    night = begun(store, cell, replace(cell, model="gone"), tool_version=__version__)
    rows = store.cells(night)
    engine.work(night, lambda _: None)
    with pytest.raises(UsageError, match="has no cell gone@qemu-aarch64 any more: add its model or board again"):
        nights.rerun(farm, engine, night, rows[1])
    farm.path.write_text("models: {m: {file: m.onnx, threads: 2}}\nboards: [qemu-aarch64]\nbudget: {trials: 1}\n")
    with pytest.raises(
        UsageError,
        match=r"m is not what night 2026-01-01 began with \(the settings in .* are others\)",
    ):
        nights.rerun(load_farm(farm.path), engine, night, rows[0])
    assert [row.verdict is None for row in store.cells(night)] == [True, False]
    nights.rerun(farm, engine, night, rows[0])


def test_a_cell_whose_model_or_budget_was_edited_is_not_measured_again_in_its_night(
    farm: Farm, store: NightStore, tmp_path: Path
) -> None:
    engine = JudgingEngine(farm, store)
    night = nights.run(farm, store, engine, lambda _: None, lambda _: None, by_day=True)
    (row,) = store.cells(night)
    assert row.cell.begun_with == CellSettings.stated(farm, "m")
    (tmp_path / "m2.onnx").write_bytes(b"another")
    farm.path.write_text("models: {m: m2.onnx}\nboards: [qemu-aarch64]\nbudget: {trials: 3}\n")
    words = (
        r"not what night .* began with \(the model has other content: .*m\.onnx became .*m2\.onnx; trials 1 became 3\)"
    )
    with pytest.raises(UsageError, match=words):
        nights.rerun(load_farm(farm.path), engine, night, row)
    assert store.cells(night)[0].verdict is not None
    nights.rerun(farm, engine, night, row)
    assert store.cells(night)[0].verdict is None


def test_a_night_of_another_version_is_not_measured_again_on_several_hosts(
    farm: Farm, store: NightStore, place: Place
) -> None:
    if isinstance(place("records.db"), Path):
        return  # several hosts share no file
    farm.db = place("records.db")
    night = begun(store)
    (row,) = store.cells(night)
    assert store.judge(row.id, store.start_attempt(row.id, "h"), Verdict("first"))
    with pytest.raises(NightFault, match="was begun by edgetune 1, and host"):
        ProcrastinateEngine(farm, store, print).rerun(night, row)
    assert store.cells(night)[0].verdict is not None


def test_a_night_of_another_version_does_not_go_on_with_the_local_engine(farm: Farm, store: NightStore) -> None:
    night = begun_at(store, farm, datetime.now(UTC), host=host_name(), tool_version="0.0.1")
    engine = LocalEngine(farm, store)
    with pytest.raises(NightFault, match=r"was begun by edgetune 0\.0\.1, and host .*: install the other one here"):
        engine.work(night, lambda _: None)
    (row,) = store.cells(night)
    assert store.judge(row.id, store.start_attempt(row.id, "h"), Verdict("first"))
    with pytest.raises(NightFault, match=r"was begun by edgetune 0\.0\.1"):
        nights.rerun(farm, engine, night, row)
    assert store.cells(night)[0].verdict is not None


def test_another_farm_file_does_not_write_into_the_folder_of_this_one(
    farm: Farm, store: NightStore, tmp_path: Path
) -> None:
    nights.run(farm, store, JudgingEngine(farm, store), lambda _: None, lambda _: None, by_day=True)
    beside = tmp_path / "other.yaml"
    beside.write_text(farm.path.read_text())
    other = load_farm(beside)
    words = f"nightly is the folder of farm 'farm' ({farm.path}): give another 'folder' in {beside}"
    with pytest.raises(NightFault, match=re.escape(words)):
        nights.run(other, store, JudgingEngine(other, store), lambda _: None, lambda _: None, by_day=True)
    assert store.nights(other.name) == [], "it is refused before its night begins"
    beside.write_text(farm.path.read_text() + "name: farm\n")
    with pytest.raises(NightFault, match="the folder of farm 'farm'"):
        claim_folder(load_farm(beside))

    moved = tmp_path / "moved"
    shutil.copytree(farm.folder, moved / "nightly")
    for path in (farm.path, tmp_path / "m.onnx"):
        shutil.copy(path, moved)
    claim_folder(load_farm(moved / "farm.yaml"))  # a copy of both is a farm of its own


def test_a_farm_file_that_was_renamed_goes_on_with_its_nights_and_says_so(
    farm: Farm, store: NightStore, tmp_path: Path
) -> None:
    first = nights.run(farm, store, JudgingEngine(farm, store), lambda _: None, lambda _: None, by_day=True)
    renamed = farm.path.rename(tmp_path / "other.yaml")
    assert [night.id for night in store.nights(load_farm(renamed).name)] == [first.id], "also to reading commands"
    other = load_farm(renamed)
    assert claim_folder(other) == f"{renamed} goes on with the nights of farm 'farm', which {farm.path} had before"
    assert claim_folder(load_farm(renamed)) == ""
    second = nights.run(other, store, JudgingEngine(other, store), lambda _: None, lambda _: None, by_day=True)
    assert [night.id for night in store.nights("farm")] == [first.id, second.id]
    renamed.write_text(renamed.read_text() + "name: mine\n")
    with pytest.raises(NightFault, match=r"folder of farm 'farm', and .* is called 'mine': write `name: farm` to go"):
        claim_folder(load_farm(renamed))


def test_a_database_in_the_folder_that_has_nights_of_another_farm_alone_is_not_taken_over(farm: Farm) -> None:
    with NightStore.open(farm.db, create=True) as own:
        nights.run(farm, own, JudgingEngine(farm, own), lambda _: None, lambda _: None, by_day=True)
        (farm.folder / "farm.json").unlink()
        other = load_farm(farm.path.rename(farm.path.with_name("other.yaml")))
        assert other.name == "other", "nobody knows whose folder it was"
        with pytest.raises(NightFault, match=r"has no night of farm 'other', but those of farm: write `name: farm`"):
            nights.run(other, own, JudgingEngine(other, own), lambda _: None, lambda _: None, by_day=True)


def test_two_farms_of_one_name_do_not_share_their_nights(farm: Farm, store: NightStore, tmp_path: Path) -> None:
    nights.run(farm, store, JudgingEngine(farm, store), lambda _: None, lambda _: None, by_day=True)
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "m.onnx").write_bytes(b"another")
    text = farm.path.read_text() + "db: shared.db\n"
    (beside / "farm.yaml").write_text(text)
    other = load_farm(beside / "farm.yaml")
    with pytest.raises(NightFault, match=r"has a farm 'farm' with another folder than .*: write `name: farm` in"):
        nights.run(other, store, JudgingEngine(other, store), lambda _: None, lambda _: None, by_day=True)
    assert len(store.nights("farm")) == 1
    (beside / "farm.yaml").write_text(text + "name: mine\n")
    other = load_farm(beside / "farm.yaml")
    with pytest.raises(NightFault, match="folder of farm 'farm', and"):
        claim_folder(other)
    shutil.rmtree(other.folder)
    nights.run(other, store, JudgingEngine(other, store), lambda _: None, lambda _: None, by_day=True)
    assert [len(store.nights(name)) for name in ("farm", "mine")] == [1, 1]


@pytest.mark.parametrize("stated", [True, False])
def test_a_further_host_or_a_stated_name_goes_on_with_a_farm(
    farm: Farm, store: NightStore, tmp_path: Path, *, stated: bool
) -> None:
    assert claim(farm, store, joins=True) == [], "a further host waits for the first night"
    assert claim(farm, store) == []
    beside = tmp_path / "beside"
    beside.mkdir()
    (beside / "farm.yaml").write_text(farm.path.read_text() + ("name: farm\n" if stated else ""))
    other = load_farm(beside / "farm.yaml")
    (said,) = claim(other, store, joins=not stated)
    assert said.startswith(f"{other.folder} goes on with the nights of farm 'farm' in ")
    assert claim(other, store) == claim(farm, store) == []


def test_a_note_of_an_earlier_version_gets_an_identity(farm: Farm, store: NightStore) -> None:
    farm.folder.mkdir()
    (farm.folder / "farm.json").write_text(json.dumps({"farm": "farm", "file": "../farm.yaml"}))
    assert claim(farm, store) == []
    assert len(json.loads((farm.folder / "farm.json").read_text())["identity"]) == 32


def test_a_rerun_in_a_night_of_an_earlier_version_asks_for_the_model_that_was_measured(
    farm: Farm, store: NightStore
) -> None:
    (cell,) = cells_of(farm)
    night = begun(store, cell, tool_version=__version__)
    (row,) = store.cells(night)
    verdict = Verdict("first", facts={"exact": {"model": "0" * 64}})
    assert store.judge(row.id, store.start_attempt(row.id, "h"), verdict)
    (row,) = store.cells(night)
    with pytest.raises(UsageError, match="the model has other content in"):
        nights.rerun(farm, JudgingEngine(farm, store), night, row)


@pytest.mark.parametrize("text", ["[]", "{", '{"farm": "../x", "file": "f"}', '{"farm": 3, "file": "f"}'])
def test_a_note_of_somebody_else_names_no_farm(farm: Farm, text: str) -> None:
    farm.folder.mkdir(exist_ok=True)
    (farm.folder / "farm.json").write_text(text)
    assert load_farm(farm.path).name == "farm"


def test_a_night_is_finished_only_with_all_verdicts(store: NightStore) -> None:
    night = begun(store)
    assert not store.finish(night)
    assert store.night(night.id).finished_utc is None
    assert store.cancel(store.cells(night)[0].id, "enough")
    assert store.finish(night)


def test_a_rerun_in_an_open_window_does_not_open_it_for_ever(store: NightStore) -> None:
    end = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    night = begun(store, ends_utc=end)
    (row,) = store.cells(night)
    store.cancel(row.id, "once")
    store.rerun(night, row.id)
    assert store.night(night.id).ends_utc == end


def test_of_two_hosts_that_begin_a_night_one_joins_the_other(store: NightStore, place: Place) -> None:
    begin_at = threading.Barrier(2)
    found: list[Night | None] = []

    def host(name: str) -> None:
        with NightStore.open(place("records.db"), create=True) as own:
            begin_at.wait()
            found.append(own.begin({**FACTS, "limit": 0.02, "host": name}, [CELL]))

    hosts = [threading.Thread(target=host, args=(name,)) for name in ("h1", "h2")]
    for thread in hosts:
        thread.start()
    for thread in hosts:
        thread.join()
    assert sorted(night is None for night in found) == [False, True]
    (night,) = store.nights("farm")
    assert len(store.cells(night)) == 1


def test_a_second_host_with_the_local_engine_is_told_where_the_night_runs(
    farm: Farm, store: NightStore, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    if isinstance(place("records.db"), Path):
        return  # two hosts share no file
    farm.db = place("records.db")
    today = str(datetime.now(UTC).astimezone().date())
    monkeypatch.setattr("edgetune.farm.nights.plan", lambda *_: [])

    class Late(LocalEngine):
        def begin(self, *_: object) -> None:
            begun(store, night=today)

    with pytest.raises(NightFault, match="runs on host h1: go on there"):
        nights.run(farm, store, Late(farm, store), lambda _: None, lambda _: None, by_day=True)


def test_a_twin_waits_for_the_cell_that_searches_and_a_drained_board_is_closed(store: NightStore) -> None:
    night = begun(store, CELL, TWIN)
    first, second = store.cells(night)
    progress = NightProgress(store, night)
    assert progress.runnable("b") == first
    assert progress.runnable("c") is None
    attempt = store.start_attempt(first.id, "h")
    progress.read()
    assert progress.ends(first, attempt) == ""
    drain(store.database, "b")
    drain(store.database, "b")
    progress.read()
    assert "b was drained by " in progress.ends(first, attempt)
    progress.close()
    row, waiting = store.cells(night)
    assert row.verdict is not None
    assert "b was drained by" in row.verdict.reason
    assert waiting.verdict is None
    assert progress.runnable("c") == second
    assert undrain(store.database, "b")
    assert not undrain(store.database, "b")
    assert drains(store.database) == {}


def test_where_the_board_of_a_search_is_lost_a_twin_searches_and_the_others_wait_for_it(store: NightStore) -> None:
    night = begun(store, CELL, TWIN, replace(TWIN, board="d"), replace(TWIN, board="e", model="other", searches=True))
    first, second, third, other = store.cells(night)
    progress = NightProgress(store, night)
    assert not give_up(store, first, MOST_LOST - 1)
    assert give_up(store, first, MOST_LOST)
    progress.read()
    assert (progress.runnable("b"), progress.runnable("d")) == (None, None)
    heir = progress.runnable("c")
    assert heir is not None
    assert heir.id == second.id
    rows = store.cells(night)
    assert [row.cell.searches for row in rows] == [True, True, False, True]
    assert rows[0].verdict is not None
    assert rows[0].verdict.reason == (
        "infrastructure: board b was lost 3 times: `edgetune boards check b`; m@c searches instead"
    )
    assert give_up(store, second, MOST_LOST)
    assert give_up(store, other, MOST_LOST)
    progress.read()
    heir = progress.runnable("d")
    assert heir is not None
    assert heir.id == third.id


def test_a_cell_that_has_a_verdict_is_not_cancelled_and_counts_no_further_attempt(store: NightStore) -> None:
    night = begun(store)
    (row,) = store.cells(night)
    assert store.judge(row.id, store.start_attempt(row.id, "h"), Verdict("first"))
    assert not store.cancel(row.id, "too late")
    (after,) = store.cells(night)
    assert (after.attempt, after.verdict and after.verdict.verdict) == (1, "first")
