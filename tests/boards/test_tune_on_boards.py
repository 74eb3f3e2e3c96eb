"""The whole flow from the command line on emulated boards: search, package, self-test there."""

from __future__ import annotations

import filecmp
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest

from tests.acceptance.case import EXAMPLES, child_environment, edgetune
from tests.acceptance.kill9 import State, look
from tests.acceptance.ledger import judge_names, judge_run
from tests.acceptance.stand_ins import Search

MODEL = EXAMPLES / "ds_cnn.onnx"
SEARCH_S = 1200.0
BEFORE = 3  # candidates before something breaks


def tuned(folder: Path, board: str, trials: int, *more: str) -> tuple[Path, dict[str, Any]]:
    """Tune in `folder`; return the package and what the command answered."""
    folder.mkdir()
    words = ("--board", board, "--trials", str(trials), "--seed", "7", "-o", folder / "p", "--db", folder / "r.db")
    done = edgetune("tune", MODEL, *words, *more, "--json", cwd=folder)
    assert done.returncode == 0, done.stderr[-3000:]
    return folder / "p", json.loads(done.stdout)


def cut_power(search: Search) -> None:
    """Kill the emulator: the ladder must start the machine again."""
    kill(search, lambda command: command[0].endswith("qemu-system-aarch64"))


def kill_tracker(search: Search) -> None:
    """Kill the tracker, and our own end of the session with the server: the next lease needs a tracker again."""
    kill(search, lambda command: "tracker" in command)
    kill(search, lambda command: "from edgetune.boards.tvm_rpc.worker import main" in " ".join(command))


def kill(search: Search, wanted: Callable[[list[str]], bool]) -> None:
    """Kill the processes below the search whose command lines are wanted; there must be one."""
    found = [process for process in psutil.Process(search.process.pid).children(True) if wanted(_command(process))]
    assert found
    for process in found:
        process.kill()


def _command(process: psutil.Process) -> list[str]:
    try:
        return process.cmdline() or [""]
    except psutil.NoSuchProcess:
        return [""]


@pytest.mark.long
@pytest.mark.parametrize(
    ("rpc", "trials", "break_it", "told"),
    [
        ("agent", 16, cut_power, ("qemu-rpi4", ": succeeded after")),
        ("tvm", 7, kill_tracker, ("tracker", "had ended and is started again")),
    ],
)
def test_emulated_raspberry_pi(
    tmp_path: Path, rpc: str, trials: int, break_it: Callable[[Search], None], told: tuple[str, str]
) -> None:
    """A machine with its own kernel and sshd; over TVM's RPC the server is brought there and joins a tracker.

    In the middle of the search the machine's power fails, or the tracker dies: the search ends with its package.
    """
    setup = edgetune("boards", "setup", "qemu-rpi4", cwd=tmp_path)
    assert setup.returncode == 0, setup.stderr[-3000:]
    db, package = tmp_path / "r.db", tmp_path / "p"
    words: list[str | Path] = [
        MODEL,
        "--board",
        "qemu-rpi4",
        "--rpc",
        rpc,
        "--trials",
        str(trials),
        "--seed",
        "7",
        "--db",
        db,
    ]
    search = Search([*words, "-o", package], tmp_path / "tune.json", cwd=tmp_path, environment=child_environment())
    try:
        search.until(lambda: search.count >= BEFORE, SEARCH_S, f"{BEFORE} candidates")
        break_it(search)
        assert search.wait(SEARCH_S) == 0, search.told_last()
    finally:
        search.close()
    state = look(db)
    judge_run(search, State(), state)
    judge_names(search)
    result = search.result()
    assert len(state.records) == result["search"]["records"] == trials
    assert {row[5] for row in state.records.values()} <= {"ok", "refused_noisy"}, "no candidate is blamed for it"
    assert "qemu-rpi4" in result["search"]["boards"]
    board, words_of_it = told
    assert [e for e in result["search"]["board_events"] if e["board"] == board and words_of_it in e["detail"]]
    assert {"lost", "recovered"} <= search.told("qemu-rpi4", 0.0)
    assert result["unverified"] == ""
    assert "emulated board qemu-rpi4" in result["verified"]["ran_on"]
    assert (package / "MANIFEST.json").is_file()


@pytest.mark.long
def test_counted_instructions_give_the_same_package_twice(tmp_path: Path) -> None:
    """T0 is exact: one seed, the same programs, the same bytes; and the report says what was counted."""
    first, _ = tuned(tmp_path / "first", "qemu-aarch64", 18)
    second, _ = tuned(tmp_path / "second", "qemu-aarch64", 18)
    names = sorted(str(path.relative_to(first)) for path in first.rglob("*") if path.is_file())
    assert names == sorted(str(path.relative_to(second)) for path in second.rglob("*") if path.is_file())
    _, different, unread = filecmp.cmpfiles(first, second, names, shallow=False)
    assert (different, unread) == ([], [])
    report = (first / "REPORT.md").read_text()
    assert "instructions" in report
    assert " us " not in report
