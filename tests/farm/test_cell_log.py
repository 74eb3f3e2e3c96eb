"""`edgetune nightly log`: the log of a cell as it grows, and where it is if not here."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace

import pytest

from edgetune.cli.main import run
from edgetune.farm.cells import Cell
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.night_store import NightCell, NightStore, Verdict
from edgetune.farm.run_cell import log_of

Log = Callable[..., tuple[int, str, str]]


@pytest.fixture
def farm(tmp_path: Path) -> Farm:
    (tmp_path / "m.onnx").write_bytes(b"")
    (tmp_path / "farm.yaml").write_text("models: {m: m.onnx}\nboards: [host]\nbudget: {trials: 1}\n")
    return load_farm(tmp_path / "farm.yaml")


@pytest.fixture
def store(farm: Farm, monkeypatch: pytest.MonkeyPatch) -> Iterator[NightStore]:
    monkeypatch.setenv("EDGETUNE_HOST", "h1")
    facts = {"farm": farm.name, "night": "2026-01-01", "ends_utc": None, "host": "h", "tool_version": "1", "owner": ""}
    with NightStore.open(farm.db, create=True) as store:
        store.begin({**facts, "limit": 0.02}, [Cell("m", "host", "k", searches=True, settings="s")])
        yield store


@pytest.fixture
def log(farm: Farm, capsys: pytest.CaptureFixture[str]) -> Log:
    def call(*words: str) -> tuple[int, str, str]:
        code = run(["nightly", "log", "m@host", "--farm", str(farm.path), *words])
        return code, *capsys.readouterr()

    return call


def the_cell(farm: Farm, store: NightStore) -> NightCell:
    return store.cells(store.nights(farm.name)[0])[0]


def write(farm: Farm, store: NightStore, text: str) -> None:
    file = log_of(farm, "2026-01-01", the_cell(farm, store).cell)
    file.parent.mkdir(parents=True, exist_ok=True)
    with file.open("a") as log:
        log.write(text)


def test_a_cell_that_ran_on_another_host_is_told_with_that_host(farm: Farm, store: NightStore, log: Log) -> None:
    store.start_attempt(the_cell(farm, store).id, "h2")
    for words in ((), ("-f",)):
        code, out, told = log(*words)
        assert (code, out) == (28, "")
        assert "m@host ran on host h2 in night 2026-01-01, this host has no log of it: type the command there" in told
    write(farm, store, "first attempt\n")
    code, out, told = log()
    assert (code, out) == (28, "first attempt\n")
    assert "ran on host h2 in night 2026-01-01, this host has the log of an earlier attempt alone" in told


EVENTS = (
    '{"event": "phase", "name": "search"}\n'
    '{"utc": "2026-01-01T12:00:00.25Z", "event": "phase", "name": "attempt 1 on host h1", "clock": "instructions"}\n'
    "gcc: warning: a program wrote this\n"
    '{"utc": "2026-01-01T12:00:01.5Z", "event": "round", "task": "conv", "best_us": 2.5, "trials": 1}\n'
    '{"utc": "yesterday", "event": "phase"}\n[1]'
)


def test_events_are_lines_with_their_times_in_the_farms_zone_and_json_gives_them_as_they_are(
    farm: Farm, store: NightStore, log: Log
) -> None:
    farm.path.write_text(farm.path.read_text() + "timezone: America/New_York\n")
    row = the_cell(farm, store)
    store.judge(row.id, store.start_attempt(row.id, "h1"), Verdict("first"))
    write(farm, store, EVENTS)
    assert log()[1].splitlines() == [
        "search ...",  # of an earlier version
        "2026-01-01 07:00:00 EST  attempt 1 on host h1 ...",
        "gcc: warning: a program wrote this",
        "2026-01-01 07:00:01 EST  1 trials, conv 2.50 k instructions",
        '{"utc": "yesterday", "event": "phase"}',
        "[1]",
    ]
    raw = [json.loads(line) for line in log("--json")[1].splitlines()]
    assert raw[1] == json.loads(EVENTS.splitlines()[1])
    assert raw[2] == {"event": "stderr", "message": "gcc: warning: a program wrote this"}
    assert len(raw) == 6


def test_a_cell_without_a_log_says_why(farm: Farm, store: NightStore, log: Log) -> None:
    assert "m@host has not begun in night 2026-01-01: -f waits for it" in log()[2]
    store.cancel(the_cell(farm, store).id, "cancelled")
    assert "night 2026-01-01 has no log of m@host: nobody tried it" in log("-f")[2]


def test_a_log_that_was_deleted_is_told(farm: Farm, store: NightStore, log: Log) -> None:
    row = the_cell(farm, store)
    store.judge(row.id, store.start_attempt(row.id, "h1"), Verdict("first"))
    assert "no log of m@host: it was deleted, as `edgetune nightly prune` does" in log()[2]


def test_a_log_is_followed_until_the_cell_has_its_verdict(
    farm: Farm, store: NightStore, log: Log, monkeypatch: pytest.MonkeyPatch
) -> None:
    row = the_cell(farm, store)
    attempt = store.start_attempt(row.id, "h1")
    write(farm, store, "one\n")
    slept = threading.Event()

    def sleep(_: float) -> None:
        if slept.is_set():
            assert store.judge(row.id, attempt, Verdict("first"))
            write(farm, store, "three\n")
        else:
            slept.set()
            write(farm, store, "two\n")

    monkeypatch.setattr("edgetune.farm.cell_log.time", SimpleNamespace(sleep=sleep))  # other threads sleep as they did
    assert log("-f") == (0, "one\ntwo\nthree\n", "")
    assert log() == (0, "one\ntwo\nthree\n", "")
