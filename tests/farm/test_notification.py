"""Who is told of a night: once, only of what is new, and a command that fails or hangs loses nothing."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from sqlalchemy import update

from edgetune.cli.nightly import command
from edgetune.farm import notification
from edgetune.farm.cells import Cell
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.night_store import Night, NightStore, Verdict
from edgetune.farm.night_tables import notifications
from edgetune.farm.notification import changes_of, notify
from edgetune.farm.page.document import html
from edgetune.farm.report import report
from tests.postgresql_server import Place

CELL = Cell("m", "b", "k", searches=True, settings="s")
HEAR = "import os, sys; open('heard', 'a').write(os.environ['EDGETUNE_NIGHT_JSON'] + chr(10) + sys.stdin.read())"


@pytest.fixture
def store(place: Place) -> Iterator[NightStore]:
    with NightStore.open(place("records.db"), create=True) as opened:
        yield opened


def farm_with(tmp_path: Path, script: str) -> Farm:
    (tmp_path / "m.onnx").write_bytes(b"")
    lines = ["models: {m: m.onnx}", "boards: [qemu-aarch64]", "budget: {trials: 1}"]
    lines.append(f"notify: {json.dumps([sys.executable, '-c', script])}")
    (tmp_path / "farm.yaml").write_text("\n".join(lines) + "\n")
    return load_farm(tmp_path / "farm.yaml")


def judged(word: Any, *, against: str = "p", **facts: object) -> Verdict:
    return Verdict(word, facts={"accepted": {"night": "n", "package": against}, **facts})


def a_night(store: NightStore, number: int, verdict: Verdict) -> Night:
    facts = {"farm": "farm", "night": f"2026-01-{number:02}", "ends_utc": None, "host": "h", "tool_version": "1"}
    night = store.begin({**facts, "owner": "", "limit": 0.02}, [CELL])
    assert night is not None
    (row,) = store.cells(night)
    assert store.judge(row.id, store.start_attempt(row.id, "h"), verdict)
    assert store.finish(night)
    return store.night(night.id)


@pytest.mark.long
def test_each_change_is_told_once_until_it_is_gone_or_accepted(store: NightStore, tmp_path: Path) -> None:
    farm = farm_with(tmp_path, HEAR)
    verdicts = [
        (judged("first"), False),
        (judged("slower", ratio=1.031), True),
        (judged("slower"), False),
        (judged("cannot tell"), False),
        (judged("slower"), False),
        (Verdict("not measured", "the board is busy"), True),
        (Verdict("not measured", "the board is busy"), False),
        (judged("slower"), False),
        (judged("slower", worse=["arena 8 bytes instead of 4"]), True),
        (judged("slower", worse=["arena 9 bytes instead of 4"]), False),
        (judged("same"), False),
        (judged("slower"), True),
        (judged("slower", against="q"), True),
        (judged("faster", against="q"), True),
        (judged("same", against="r"), False),
    ]
    for number, (verdict, told) in enumerate(verdicts, 1):
        night = a_night(store, number, verdict)
        assert notify(farm, store, night, "Headline.") == ""
        assert notify(farm, store, night, "Headline.") == ""  # the same command goes on after any death
        heard = tmp_path / "heard"
        assert heard.exists() == told, number
        if number == 2:
            path, first, line, *_ = heard.read_text().splitlines()
            assert path == str(tmp_path / "nightly" / "pages" / night.night / "night.json")
            assert first == f"farm, night of {night.night}: Headline."
            assert line == "- m@b: slower +3.10 %"
        if told:
            assert heard.read_text().count("Headline.") == 1
        heard.unlink(missing_ok=True)


def slower(ratio: float, *factors: str, unit: str = "ns", layer: float | None = None) -> Verdict:
    layers = [] if layer is None else [{"name": "k", "word": "slower", "ratio": layer}]
    return judged("slower", ratio=ratio, factors=list(factors), unit=unit, layers=layers)


def larger(arena: int) -> Verdict:
    return judged("same", worse=[f"arena {arena} bytes instead of 4"], exact={"arena_bytes": arena})


STORIES = {
    "it grew by less than the limit": [(slower(1.03), True), (slower(1.045), False), (slower(1.049), False)],
    "it grew by more": [(slower(1.03), True), (slower(1.06), True), (slower(1.06), False)],
    "a count grew": [
        (slower(1.0043, "generator", unit="instructions"), True),
        (slower(1.0575, "generator", unit="instructions"), True),
        (slower(1.0575, "generator", unit="instructions"), False),
    ],
    "another cause": [
        (slower(1.03, "search"), True),
        (slower(1.03, "toolchain"), True),
        (slower(1.03, "search"), False),
    ],
    "a cause is lost": [(slower(1.03, "search"), True), (slower(1.03), False), (slower(1.03, "search"), False)],
    "a cause is found": [(slower(1.03), True), (slower(1.03, "search"), False)],
    "a layer became slower": [(slower(1.03), True), (slower(1.03, layer=1.08), True), (slower(1.03, layer=1.1), False)],
    "a layer grew": [(slower(1.03, layer=1.08), True), (slower(1.03, layer=1.2), True)],
    "it shrank and came back": [(slower(1.1), True), (slower(1.03), False), (slower(1.1), False)],
    "the arena grew further": [(larger(9), True), (larger(9), False), (larger(12), True)],
    "what it was compared with was lost": [
        (Verdict("first", "nothing to compare with yet"), False),
        (Verdict("first", "nothing to compare with: p is gone", facts={"lost": "p is gone"}), True),
        (judged("same"), False),
    ],
    "another error": [
        (Verdict("not measured", "busy", facts={"error": "BoardBusy"}), True),
        (Verdict("not measured", "busy still", facts={"error": "BoardBusy"}), False),
        (Verdict("not measured", "no model", facts={"error": "ModelError"}), True),
    ],
}


@pytest.mark.parametrize("story", sorted(STORIES))
def test_what_has_grown_or_has_another_cause_is_told_again(tmp_path: Path, story: str) -> None:
    farm, told = farm_with(tmp_path, "pass"), []
    with NightStore.open(farm.db, create=True) as store:
        for number, (verdict, _) in enumerate(STORIES[story], 1):
            night = a_night(store, number, verdict)
            told.append(bool(changes_of(store, night)))
            assert notify(farm, store, night, "") == ""
    assert told == [expected for _, expected in STORIES[story]]


def test_growth_is_told_with_what_was_told_before(tmp_path: Path) -> None:
    farm = farm_with(tmp_path, HEAR)
    with NightStore.open(farm.db, create=True) as store:
        for number, ratio in enumerate((1.0043, 1.0575), 1):
            assert notify(farm, store, a_night(store, number, slower(ratio, unit="instructions")), "") == ""
    assert "- m@b: slower +5.75 %, told before with +0.43 %" in (tmp_path / "heard").read_text()


def test_what_an_earlier_version_told_is_known_by_the_verdict_of_that_night(tmp_path: Path) -> None:
    """It wrote words without amounts."""
    farm = farm_with(tmp_path, "pass")
    with NightStore.open(farm.db, create=True) as store:
        assert notify(farm, store, a_night(store, 1, slower(1.0043, "search", unit="instructions")), "") == ""
        with store.database.writing() as connection:
            connection.execute(update(notifications).values(told=json.dumps({CELL.name: ["slower than p"]})))
        assert not changes_of(store, a_night(store, 2, slower(1.0043, "search", unit="instructions")))
        assert changes_of(store, a_night(store, 3, slower(1.0575, "search", unit="instructions")))
        assert changes_of(store, a_night(store, 4, slower(1.0043, "toolchain", unit="instructions")))


@pytest.mark.parametrize(
    ("script", "said"),
    [
        ("print('no route'); raise SystemExit(3)", "ended with code 3: no route"),
        ("import time; time.sleep(600)", "did not end within 1 s"),
        ("import os, time; os.fork() or time.sleep(30)", ""),
    ],
)
def test_a_command_that_fails_is_on_the_page_and_the_next_night_tells_it_again(
    store: NightStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, said: str
) -> None:
    monkeypatch.setattr(notification, "LIMIT_S", 1.0 if "sleep(600)" in script and said else 30.0)
    farm = farm_with(tmp_path, script)
    night = a_night(store, 1, judged("slower"))
    begun = time.monotonic()
    fault = notify(farm, store, night, "Headline.")
    assert time.monotonic() - begun < 25  # what the command leaves behind is not waited for
    assert (said in fault) if said else not fault
    assert notify(farm, store, night, "Headline.") == fault
    page = html(report(farm, store, night))
    assert ("Nobody was notified" in page) == bool(said)
    again = changes_of(store, a_night(store, 2, judged("slower")))
    assert bool(again) == bool(said)


def test_a_night_that_is_not_over_or_a_missing_program_loses_nothing(store: NightStore, tmp_path: Path) -> None:
    farm = farm_with(tmp_path, HEAR)
    night = a_night(store, 1, judged("slower"))
    store.rerun(night, store.cells(night)[0].id)
    assert notify(farm, store, store.night(night.id), "") == ""
    farm.content = farm.content.model_copy(update={"notify": ("./no-such-program",)})
    assert "cannot be started" in notify(farm, store, a_night(store, 2, judged("slower")), "")


def test_what_the_command_leaves_running_delivers_it(tmp_path: Path) -> None:
    script = "import subprocess; subprocess.Popen(['sh', '-c', 'sleep 0.3; touch delivered'])"
    assert notification.call(farm_with(tmp_path, script), "", "") == ""
    deadline = time.monotonic() + 20.0
    while not (tmp_path / "delivered").exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)


def test_what_a_failed_service_said_reaches_the_command(tmp_path: Path) -> None:
    farm = farm_with(tmp_path, HEAR)
    done = CliRunner().invoke(command, ["notify", str(farm.path)], input="unit failed\n")
    assert done.exit_code == 0, done.output
    assert (tmp_path / "heard").read_text() == "\nunit failed\n"


def test_what_a_rerun_takes_back_is_told_when_it_comes_again(store: NightStore, tmp_path: Path) -> None:
    farm = farm_with(tmp_path, HEAR)
    night = a_night(store, 1, judged("slower"))
    assert notify(farm, store, night, "") == ""
    (row,) = store.cells(night)
    store.rerun(night, row.id)
    assert store.judge(row.id, store.start_attempt(row.id, "h"), judged("same"))
    assert store.finish(night)
    assert changes_of(store, a_night(store, 2, judged("slower")))
