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

from tests.durations.processes import LostEventsError, Use, observed
from tests.durations.recorded import DURATIONS, Row, recorded
from tests.durations.recorder import COLLECTED

NOT_OBSERVED = 77
SHOWN = ("gcc", "clang", "qemu", "nvcc", "python")
SECONDS = ("wall_s", "cpu_s", "long_wall_s", "long_cpu_s", "collecting_cpu_s")


def _notes(folder: Path) -> list[dict[str, Any]]:
    return [
        json.loads(line) for file in sorted(folder.glob("*.jsonl")) for line in file.read_text("utf-8").splitlines()
    ]


def _programs(counts: dict[str, int] | dict[str, float]) -> dict[str, float]:
    """Return the counts of the programs in `SHOWN`, and the sum of all others."""
    named: dict[str, float] = {name: counts[name] for name in SHOWN if counts.get(name)}
    others = sum(count for name, count in counts.items() if name not in SHOWN)
    return {name: round(count, 2) for name, count in (named | {"others": others}).items() if count}


def _table(notes: Iterable[Mapping[str, Any]], uses: Mapping[str, Use]) -> dict[str, Row]:
    rows: dict[str, dict[str, float]] = defaultdict(lambda: dict.fromkeys(SECONDS, 0.0) | {"tests": 0})
    for note in notes:
        file, _, test = note["test"].partition("::")
        row = rows[file]
        if test == COLLECTED:  # each worker collects all files
            row["collecting_cpu_s"] = max(row["collecting_cpu_s"], note["cpu"])
            continue
        row["tests"] += 1
        row["wall_s"] += note["wall"]
        row["cpu_s"] += note["cpu"]
        if note["long"]:
            row["long_wall_s"] += note["wall"]
            row["long_cpu_s"] += note["cpu"]
    return {
        file: {name: round(value, 2) for name, value in rows[file].items()}
        | {"started": _programs(uses[file].started), "programs_cpu_s": _programs(uses[file].cpu)}
        for file in sorted(rows)
        if rows[file]["tests"]
    }


def main(arguments: list[str], written: Path = DURATIONS) -> int:
    """Run pytest with `arguments`; write the rows of the files that ran, unless a test failed."""
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
        except (OSError, LostEventsError) as error:
            sys.stderr.write(f"durations: {error}; run this as root of the whole machine, not of a container\n")
            return NOT_OBSERVED
        notes = _notes(folder)
        if kept := os.environ.get("DURATIONS_NOTES"):  # the seconds of each test
            Path(kept).write_text("".join(f"{json.dumps(note)}\n" for note in notes), encoding="utf-8")
        if status != 0:
            return status
        earlier = {file: row for file, row in recorded(written).items() if Path(file).exists()}
        table = earlier | _table(notes, uses)
    unfinished = written.with_suffix(".new")
    rows = {file: table[file] for file in sorted(table)}
    unfinished.write_text(json.dumps(rows, indent=1) + "\n", encoding="utf-8")
    unfinished.replace(written)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
