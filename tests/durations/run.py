"""Runs the tests and writes `tests/durations.json`: what each test file costs. It needs two idle cores, and root.

`make durations`, or `python -m tests.durations.run [PYTEST'S ARGUMENTS]`. `DURATIONS_NOTES=FILE` keeps a line a test.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections import defaultdict
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from tests.durations.processes import Use, observed
from tests.durations.recorder import COLLECTED

DURATIONS = Path(__file__).parents[1] / "durations.json"
SHOWN = ("gcc", "clang", "qemu", "nvcc", "python")
_SECONDS = ("wall_s", "cpu_s", "long_cpu_s", "collecting_cpu_s")


def _notes(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text("utf-8").splitlines()
    ]


def _programs(counts: dict[str, int] | dict[str, float]) -> dict[str, float]:
    """Return the counts of the programs that are told apart, and all others as one."""
    named: dict[str, float] = {name: counts[name] for name in SHOWN if counts.get(name)}
    others = sum(count for name, count in counts.items() if name not in SHOWN)
    return {name: round(count, 2) for name, count in (named | {"others": others}).items() if count}


def _table(notes: Iterable[Mapping[str, Any]], uses: Mapping[str, Use]) -> dict[str, object]:
    rows: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(_SECONDS, 0.0) | {"tests": 0})
    for note in notes:
        file, _, test = note["test"].partition("::")
        row = rows[file]
        if test == COLLECTED:  # each worker collects all files
            row["collecting_cpu_s"] = max(row["collecting_cpu_s"], note["cpu"])
            continue
        row["tests"] += 1
        row["wall_s"] += note["wall"]
        row["cpu_s"] += note["cpu"]
        row["long_cpu_s"] += note["cpu"] if note["long"] else 0
    return {
        file: {name: round(value, 2) for name, value in rows[file].items()}
        | {"started": _programs(uses[file].started), "programs_cpu_s": _programs(uses[file].cpu)}
        for file in sorted(rows)
        if rows[file]["tests"]
    }


def main(arguments: list[str]) -> int:
    """Run pytest with `arguments`; write the file where no test failed."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-p",
            "tests.durations.recorder",
            f"--durations-to={name}",
            *arguments,
        ]
        try:
            with observed(folder) as uses:
                status = subprocess.run(command, check=False).returncode
        except PermissionError:
            sys.stderr.write("durations: the kernel tells root alone which processes start: run this as root\n")
            return 1
        if kept := os.environ.get("DURATIONS_NOTES"):  # the seconds of each test
            Path(kept).write_text("".join(f"{json.dumps(note)}\n" for note in _notes(folder)), encoding="utf-8")
        table = _table(_notes(folder), uses)
    written = DURATIONS.with_suffix(".new")
    written.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")
    written.replace(DURATIONS)
    return status


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
