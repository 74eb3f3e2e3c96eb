"""The benchmark of the agent's overhead says what it measured; how much is a matter of how quiet the machine is."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SCRIPT = Path(__file__).resolve().parents[2] / "benchmarks" / "agent_overhead.py"


def test_it_tells_what_sessions_candidates_and_calls_cost() -> None:
    command = [sys.executable, str(SCRIPT), "--boards", "host,qemu-aarch64", "--candidates", "4"]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    assert done.returncode == 0, done.stderr
    told = json.loads(done.stdout.splitlines()[-1])
    assert told["milliseconds"].keys() == {"host", "qemu-aarch64"}
    for spreads in told["milliseconds"].values():
        assert 0 < spreads["session"]["smallest"] <= spreads["session"]["median"]
        assert 0 < spreads["candidate"]["smallest"] <= spreads["candidate"]["median"]
    assert told["limits"] == {"session": 1000.0, "candidate": 10.0, "call": 0.05}
