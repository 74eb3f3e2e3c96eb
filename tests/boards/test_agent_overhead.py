"""The benchmark of the agent's overhead says what it measured; `--check` judges it, on a machine that is quiet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "agent_overhead.py"


def run(*words: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, str(SCRIPT), *words], capture_output=True, text=True, check=False, timeout=300
    )


@pytest.mark.long
def test_it_tells_what_sessions_candidates_and_calls_cost() -> None:
    done = run("--boards", "host,qemu-aarch64", "--candidates", "6")
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["limits"] == {"session": 1000.0, "candidate": 10.0, "call": 0.05}
    assert told["milliseconds"].keys() == {"host", "qemu-aarch64"}
    for spreads in told["milliseconds"].values():
        assert spreads.keys() == {*told["limits"], "link", "way"}
        for what in ("link", "session", "candidate"):
            assert 0 < spreads[what]["smallest"] <= spreads[what]["median"]


def test_a_board_that_needs_an_address_is_refused() -> None:
    done = run("--boards", "rpi4", "--candidates", "2")
    assert (done.returncode, done.stdout) == (8, "")
    assert "no board of target 'rpi4' has an address" in done.stderr
