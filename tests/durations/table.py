"""Prints `tests/durations.json` by room, by program, and the files that cost most: `make durations-table`."""

from __future__ import annotations

import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping

from tests.durations.recorded import Row, recorded
from tests.durations.run import SHOWN
from tests.selection import room

DEAR_S = 60.0
DEAREST = 25
# Why a file needs more than DEAR_S seconds of CPU time.
REASONS: dict[str, str] = {
    "tests/acceptance/test_packages.py": "packages of whole models are tuned, killed and checked",
    "tests/acceptance/test_soak.py": "faults befall boards while they are tuned on",
    "tests/backends/test_cuda.py": "nvcc compiles packages for each GPU",
    "tests/boards/test_tune_on_boards.py": "searches run on a whole machine that is emulated",
    "tests/bundle/test_rounds.py": "nvcc compiles the candidates of several rounds",
    "tests/cli/test_nightly.py": "whole nights are run by their commands",
    "tests/farm/test_nights_of_engines.py": "whole nights are run by both engines",
    "tests/package/test_flags.py": "a package is compiled with many flags and for many machines",
    "tests/search/test_loop_supervise.py": "each search is a process that imports TVM and crashes",
}

_PROGRAMS = (*SHOWN, "others")
_WORKERS = "Python of the tests"


def own_cpu(row: Row) -> float:
    """Return the CPU seconds that the worker itself spent: all but those of the programs that were started."""
    programs: Mapping[str, float] = row["programs_cpu_s"]
    return max(0.0, float(row["cpu_s"]) - sum(programs.values()))


def by_room(table: Mapping[str, Row]) -> list[list[str]]:
    """Return rows of text: each room's tests, wall and CPU seconds, those of long tests, and CPU seconds by program."""
    rooms: dict[str, list[Row]] = defaultdict(list)
    for file, row in table.items():
        rooms[str(room(file))].append(row)
    rows = [_row(name, rooms[name]) for name in sorted(rooms, key=lambda one: -_sum(rooms[one], "cpu_s"))]
    head = ["room", "tests", "wall s", "CPU s", "long CPU s", _WORKERS, *_PROGRAMS]
    return [head, *rows, _row("all", table.values())]


def _row(name: str, rows: Iterable[Row]) -> list[str]:
    kept = list(rows)
    programs = [sum(row["programs_cpu_s"].get(program, 0.0) for row in kept) for program in _PROGRAMS]
    numbers = [_sum(kept, "wall_s"), _sum(kept, "cpu_s"), _sum(kept, "long_cpu_s"), sum(map(own_cpu, kept)), *programs]
    return [name, f"{_sum(kept, 'tests'):.0f}", *(f"{number:.0f}" for number in numbers)]


def _sum(rows: Iterable[Row], key: str) -> float:
    return sum(float(row[key]) for row in rows)


def started(table: Mapping[str, Row]) -> str:
    """Return how many processes were started, by program."""
    counts = {name: sum(row["started"].get(name, 0) for row in table.values()) for name in _PROGRAMS}
    return ", ".join(f"{count:.0f} of {name}" for name, count in counts.items())


def _lines(rows: list[list[str]]) -> Iterable[str]:
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]))]
    for row in rows:
        first, *others = (cell.rjust(width) for cell, width in zip(row, widths, strict=True))
        yield "  ".join([first.strip().ljust(widths[0]), *others])


def main() -> int:
    """Print the tables; returns 1 where a file needs a reason and has none."""
    table = recorded()
    write = sys.stdout.write
    write("".join(f"{line}\n" for line in _lines(by_room(table))))
    write(f"\nprocesses started: {started(table)}\n\nCPU s of the files that cost most:\n")
    dearest = sorted(table, key=lambda file: -table[file]["cpu_s"])
    for file in dearest[:DEAREST]:
        row = table[file]
        reason = f"  {REASONS.get(file, 'NO REASON GIVEN')}" if row["cpu_s"] > DEAR_S else ""
        write(f"{row['cpu_s']:7.1f}  {file} ({row['tests']} tests, {row['long_cpu_s']:.1f} s of long ones){reason}\n")
    return int(any(table[file]["cpu_s"] > DEAR_S and file not in REASONS for file in table))


if __name__ == "__main__":
    sys.exit(main())
