"""What people and programs see: tables, JSON, progress."""

from __future__ import annotations

import json

import pytest

from edgetune.cli.output import Output, to_plain
from edgetune.cli.progress import eta_seconds, plain_line, share_done, show_progress
from edgetune.events import Event

ROUND = Event(
    "round",
    {
        "task": "conv_3",
        "best_us": 12.345678,
        "trials": 64,
        "budget_trials": 256,
        "elapsed_s": 10.0,
        "end_to_end_us": None,
    },
)


def test_results_as_json_have_no_nan(capsys: pytest.CaptureFixture[str]) -> None:
    Output(as_json=True, verbosity=0).result({"a": float("nan"), "b": [1, (2.5, None)]})
    assert json.loads(capsys.readouterr().out) == {"a": None, "b": [1, [2.5, None]]}
    assert to_plain({"x": {3}}) == {"x": [3]}


def test_results_for_people_show_every_field_and_no_markup(capsys: pytest.CaptureFixture[str]) -> None:
    value = {
        "median_us": 61.5,
        "package": "build/[bold]x[/bold] :smile:",
        "passed": True,
        "kernels": [{"kernel": "conv_1\x1b[31m", "us": 3.0}, {"kernel": "dense", "us": None}],
        "limits": {"ram": 65536},
    }
    Output(as_json=False, verbosity=0).result(value, title="ds_cnn on host")
    out = capsys.readouterr().out
    for text in (
        "ds_cnn on host",
        "median us",
        "61.50",
        "[bold]x[/bold] :smile:",
        "yes",
        "conv_1?[31m",
        "dense",
        "65536",
    ):
        assert text in out
    assert "\x1b" not in out


def test_eta_and_share() -> None:
    assert eta_seconds(ROUND.data) == 30.0
    assert share_done(ROUND.data) == 0.25
    assert eta_seconds({"elapsed_s": 100.0, "budget_s": 60.0}) == 0.0
    assert share_done({"elapsed_s": 100.0, "budget_s": 60.0}) == 1.0
    assert eta_seconds({"elapsed_s": 1.0, "budget_s": 60.0, "eta_s": 7.0}) == 7.0
    assert eta_seconds({}) is None
    assert share_done({"trials": 3}) is None


def test_plain_lines_away_from_a_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    candidate = Event("candidate", {"task": "conv_3", "status": "ok", "us": 12.0})
    with show_progress(Output(as_json=False, verbosity=0), "t") as events:
        for event in (ROUND, candidate, Event("warning", {"message": "noisy\nmachine"})):
            events(event)
    lines = capsys.readouterr().err.splitlines()
    assert lines[0] == "edgetune: 64 of 256 trials, conv_3 12.35 us, 10s so far, 30s left"
    assert lines[1:] == ["edgetune: warning: noisy machine"]
    with show_progress(Output(as_json=False, verbosity=1), "t") as events:
        events(candidate)
    assert capsys.readouterr().err == "edgetune: candidate task=conv_3 status=ok us=12\n"
    with show_progress(Output(as_json=False, verbosity=0), "t", unit="k instructions") as events:
        events(Event("board", {"board": "b", "what": "agent", "detail": "started"}))
        events(ROUND)
    assert "conv_3 12.35 k instructions," in capsys.readouterr().err
    with show_progress(Output(as_json=False, verbosity=-1), "t") as events:
        events(ROUND)
    assert capsys.readouterr().err == ""


def test_json_lines_for_programs(capsys: pytest.CaptureFixture[str]) -> None:
    with show_progress(Output(as_json=True, verbosity=0), "t") as events:
        events(ROUND)
        events(Event("summary", {"seconds": 1.0}))
    said = capsys.readouterr()
    assert said.out == ""
    first, second = (json.loads(line) for line in said.err.splitlines())
    assert (first["event"], first["trials"], second) == ("round", 64, {"event": "summary", "seconds": 1.0})
    assert plain_line(Event("phase", {"name": "import"})) == "import ..."
    more: dict[str, object] = {"trials": 94, "budget_trials": 24}
    assert plain_line(Event("round", more)) == "94 trials are recorded, which is more than 24"
    assert plain_line(Event("round", more | {"budget_trials": 102})) == "94 of 102 trials"
    assert plain_line(Event("phase", {"name": "import", "seconds": 90.2})) == "import took 1m30s"
    lost = Event("board", {"board": "shelf-1", "what": "lost", "detail": "no answer within 5 s"})
    assert plain_line(lost) == "shelf-1: lost: no answer within 5 s"


def test_live_display_on_a_terminal(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr("sys.stderr.isatty", lambda: True)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    with show_progress(Output(as_json=False, verbosity=0), "ds_cnn on host") as events:
        events(Event("phase", {"name": "search"}))
        events(Event("task", {"task": "conv_3", "best_us": 12.0, "weight": 4}))
        events(Event("round", {**ROUND.data, "end_to_end_us": 88.0}))
        events(Event("warning", {"message": "noisy machine"}))
        events(Event("board", {"board": "shelf-1", "what": "lost", "detail": "no answer"}))
    err = capsys.readouterr().err
    for text in (
        "ds_cnn on host",
        "search",
        "conv_3",
        "64 trials",
        "30s left",
        "88.0 us",
        "noisy machine",
        "shelf-1: lost: no answer",
    ):
        assert text in err
