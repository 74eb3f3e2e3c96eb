"""Kills a search at random moments, then lets the same command end: what was measured must all have counted.

Usage: python tests/acceptance/kill9.py [--model FILE] [--board host] [--trials 200] [--kills 10] [--seed 1] [--db FILE]
"""

from __future__ import annotations

import argparse
import os
import random
import sqlite3
import subprocess
import sys
import tempfile
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.acceptance.case import EXAMPLES, child_environment  # noqa: E402

END_SECONDS = 3600.0
ORPHAN_SECONDS = 20.0
MARKER = "ACCEPTANCE_KILL9"
IDENTITY = "workload, target_fingerprint, toolchain, codegen_version, candidate"
# All of a record but what a comparison of the fastest at the end may put in its place.
KEPT = f"id, {IDENTITY}, status, scratch_bytes, code_bytes, seed, round, build_seconds, created_utc, trace"

Rows = list[tuple[Any, ...]]


@dataclass
class State:
    """What a database holds at a moment: records by id, starts by candidate, and starts without a record."""

    records: dict[int, tuple[Any, ...]] = field(default_factory=dict)
    starts: Counter[tuple[Any, ...]] = field(default_factory=Counter)
    in_flight: Counter[tuple[Any, ...]] = field(default_factory=Counter)


def look(db: Path) -> State:
    """The state of the database, which must be clean; an absent file is an empty one."""
    if not db.exists():
        return State()
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True, timeout=60)) as connection:
        verdict = connection.execute("PRAGMA integrity_check").fetchall()
        assert verdict == [("ok",)], f"the database is not clean: {verdict[:3]}"
        records: Rows = connection.execute(f"SELECT {KEPT} FROM records").fetchall()  # noqa: S608 - a constant
        starts: Rows = connection.execute(f"SELECT {IDENTITY} FROM starts").fetchall()  # noqa: S608 - a constant
    counted = Counter(starts)
    recorded = {row[1:6] for row in records}
    flying = Counter({key: number for key, number in counted.items() if key not in recorded})
    return State({row[0]: row[1:] for row in records}, counted, flying)


def kill_and_resume(model: Path, trials: int, kills: int, seed: int, db: Path, out: Path, board: str = "host") -> str:
    """Runs `edgetune tune` to its end with `kills` kills on the way; says what came of it, raises AssertionError."""
    generator = random.Random(seed)  # noqa: S311 - repeatable moments are the point
    command = [sys.executable, "-m", "edgetune", "tune", str(model), "--trials", str(trials), "--seed", str(seed)]
    command += ["--board", board, "--db", str(db), "-o", str(out), "--json"]
    before = look(db)
    for number in range(kills):
        # One kill for each part of the budget, so that they fall all over the search; none waits for the last record.
        share = len(before.records) + (trials - len(before.records)) * generator.random() / (kills - number + 1)
        # A candidate is in flight for a fraction of the time only: every other kill waits for one.
        _kill_at(command, db, int(share), generator.uniform(0.0, 2.0), in_flight=number % 2 == 1)
        after = look(db)
        _nothing_lost(before, after)
        before = after
        sys.stdout.write(f"kill {number + 1}: {len(after.records)} records, {len(after.in_flight)} in flight\n")
        sys.stdout.flush()
    with tempfile.TemporaryFile() as said:
        done = subprocess.run(
            command, env=child_environment(), stdout=said, stderr=said, check=False, timeout=END_SECONDS
        )
        said.seek(0)
        assert done.returncode == 0, said.read().decode()[-2000:]
    final = look(db)
    _nothing_lost(before, final)
    assert len(final.records) == trials, f"{len(final.records)} records, the budget is {trials}"
    # The search may never come back to a candidate that a kill interrupted; nothing else is without a record.
    assert final.in_flight.keys() <= before.in_flight.keys(), "a start of the last, whole run has no record"
    again = sum(count > 1 for count in final.starts.values())
    assert (out / "MANIFEST.json").is_file(), "no package was written"
    litter = [path.name for path in out.parent.iterdir() if path.name.startswith(".")]
    return (
        f"{kills} kills, {len(final.records)} records, {sum(final.starts.values())} starts, "
        f"{again} candidates measured again, {len(final.in_flight)} never again, litter {litter or 'none'}"
    )


def _nothing_lost(before: State, after: State) -> None:
    lost = [number for number, row in before.records.items() if not _is_kept(row, after.records.get(number))]
    assert not lost, f"{len(lost)} records are gone or changed, as {_change(before, after, lost[0])}"
    refused = {row[:5] for row in before.records.values() if _is_refused(row)}
    # A candidate that had a record, or was never begun before, is begun at most once between two looks.
    for key, count in after.starts.items():
        more = count - before.starts[key]
        assert more <= 1, f"candidate {key[-1]} was started {more} times in one run"
        assert not more or not before.starts[key] or key in before.in_flight or key in refused, (
            f"candidate {key[-1]} was measured again, and it was not in flight at the kill"
        )


def _is_kept(old: tuple[Any, ...], new: tuple[Any, ...] | None) -> bool:
    """Whether a record stands as it was; the next search may measure again what was refused because of noise."""
    places = [KEPT.split(", ").index(name) - 1 for name in (*IDENTITY.split(", "), "seed", "round", "trace")]
    if new is not None and _is_refused(old):
        return all(old[place] == new[place] for place in places)
    return old == new


def _is_refused(row: tuple[Any, ...]) -> bool:
    return bool(row[KEPT.split(", ").index("status") - 1] == "refused_noisy")


def _change(before: State, after: State, number: int) -> str:
    """What became of a record."""
    old, new = before.records[number], after.records.get(number)
    if new is None:
        return f"{number}: gone"
    names = KEPT.split(", ")[1:]
    return f"{number}: {[one for one in zip(names, old, new, strict=True) if one[1] != one[2]]}"


def _kill_at(command: list[str], db: Path, records: int, delay: float, *, in_flight: bool) -> None:
    """Starts the command, waits until the database holds `records` records and then `delay` seconds, and kills it.

    With `in_flight` it waits further until a candidate has started that had not by then.
    """
    mark = f"{os.getpid()}-{time.monotonic_ns()}"
    environment = child_environment() | {MARKER: mark}
    with (
        tempfile.TemporaryFile() as said,
        subprocess.Popen(command, env=environment, stdout=said, stderr=said) as process,
    ):
        limit = time.monotonic() + END_SECONDS
        while process.poll() is None and _count(db, "records") < records and time.monotonic() < limit:
            time.sleep(0.05)
        try:
            process.wait(delay)
        except subprocess.TimeoutExpired:
            begun = _count(db, "starts")
            while in_flight and process.poll() is None and _count(db, "starts") == begun:
                time.sleep(0.002)
            process.kill()
        process.wait()
        said.seek(0)
        assert process.returncode == -9, f"the search ended before it was killed: {said.read().decode()[-2000:]}"
    limit = time.monotonic() + ORPHAN_SECONDS
    while (left := _marked(mark)) and time.monotonic() < limit:
        time.sleep(0.2)
    assert not left, f"processes {left} outlive the killed one by {ORPHAN_SECONDS:g} s"


def _count(db: Path, table: str) -> int:
    try:
        with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True, timeout=60)) as connection:
            query = f"SELECT count(*) FROM {table}"  # noqa: S608 - one of our own two tables
            return int(connection.execute(query).fetchone()[0])
    except sqlite3.OperationalError:
        return 0  # not there yet


def _marked(mark: str) -> list[int]:
    """Processes whose environment has our mark."""
    wanted = f"{MARKER}={mark}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                text = (folder / "environ").read_bytes()
            except OSError:
                continue  # gone, or not ours
            if wanted in text.split(b"\0"):
                found.append(int(folder.name))
    return found


def main() -> int:
    """Runs the whole trial; 0 when nothing was lost."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--model", type=Path, default=EXAMPLES / "ds_cnn.onnx")
    parser.add_argument("--board", default="host")
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--kills", type=int, default=10)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--db", type=Path, help="a new one in a temporary folder by default")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="kill9-") as folder:
        db = options.db.resolve() if options.db else Path(folder) / "records.db"
        model, out = options.model.resolve(), Path(folder) / "out" / "package"
        told = kill_and_resume(model, options.trials, options.kills, options.seed, db, out, options.board)
        sys.stdout.write(told + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
