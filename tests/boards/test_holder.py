"""Who holds a board: the line in its lock, from this and other versions and from strangers."""

from __future__ import annotations

import math
from datetime import UTC, datetime, timedelta

import pytest

from edgetune.boards.holder import MOST_BYTES, Holder, stamp
from edgetune.config.host import RUN, RUN_ENDS

ENDS = datetime(2026, 11, 24, 23, 40, tzinfo=UTC)


@pytest.fixture(autouse=True)
def _utc(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in (RUN, RUN_ENDS):
        monkeypatch.delenv(name, raising=False)


def test_a_run_says_who_it_is_and_since_when() -> None:
    own = Holder.of_this_process("me@desk process 7")
    assert Holder.read(own.line) == Holder(
        "me@desk process 7", own.since and own.since.replace(second=0, microsecond=0)
    )
    assert own.since is not None
    assert own.words == f"me@desk process 7 since {own.since.astimezone():%H:%M}"
    assert own.remedy == ""


def test_a_cell_of_a_night_says_which_one_when_it_ends_and_how_to_take_the_board(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv(RUN, "2026-11-24.2 ds_cnn@shelf-7")
    found = Holder.read(Holder.of_this_process("farm@h process 7").line)
    assert (found.night, found.cell, found.board, found.until) == ("2026-11-24.2", "ds_cnn@shelf-7", "shelf-7", None)
    assert found.words.endswith(", for cell ds_cnn@shelf-7 of night 2026-11-24.2")
    assert found.remedy == "; `edgetune nightly drain shelf-7` takes the board out of the night"
    monkeypatch.setenv(RUN_ENDS, stamp(ENDS))
    found = Holder.read(Holder.of_this_process("farm@h process 7").line)
    assert found.until == ENDS
    assert found.words.endswith(f", which probably ends at {ENDS.astimezone():%Y-%m-%d %H:%M}")


def test_another_run_with_a_name_is_no_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(RUN, "job 1234")
    assert Holder.of_this_process("me").cell == ""


def test_the_line_of_a_long_cell_fits_and_keeps_its_board(monkeypatch: pytest.MonkeyPatch) -> None:
    model, board = "m" * 64, "b" * 64
    monkeypatch.setenv(RUN, f"2026-11-24 {model}@{board}")
    monkeypatch.setenv(RUN_ENDS, stamp(ENDS))
    line = Holder.of_this_process("w" * 60).line
    assert len(line.encode()) <= MOST_BYTES
    assert Holder.read(line).board == board


@pytest.mark.parametrize(
    "line",
    [
        "friend@desk-1",
        "me since 2026-13-40T99:99Z",
        "me since 2026-11-24T10:00Z night 2026-11-24 cell m@`reboot`",
        "me since 2026-11-24T10:00Z night 2026-11-24 cell m@-f",
    ],
)
def test_what_is_no_such_line_is_who_holds_it(line: str) -> None:
    assert Holder.read(line) == Holder(line)
    assert Holder.read(line).remedy == ""


def test_a_stranger_cannot_write_on_the_terminal_or_without_end() -> None:
    assert Holder.read("\x1b[2Jme\n\0").words == "[2Jme"
    assert len(Holder.read("x" * 10**6).words) == 300
    assert Holder.read("").words == "another user"
    assert Holder.read("me since 0001-01-01T00:00Z").words


def test_a_time_beside_the_line_is_believed_where_it_is_one() -> None:
    then = datetime.now(UTC) - timedelta(days=3)
    assert Holder.read("friend@desk", then.timestamp()).words == f"friend@desk since {then.astimezone():%Y-%m-%d %H:%M}"
    wrong: list[object] = [None, True, "now", math.nan, math.inf, 1e300, -1e300, [1]]
    assert {Holder.read("friend@desk", since).words for since in wrong} == {"friend@desk"}
