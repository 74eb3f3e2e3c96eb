"""The records database under load, SQLite and PostgreSQL.

python -m benchmarks.store [--engines sqlite postgresql] [--records 1000000] [--writers 16] [--seconds 60] [--check]

First, writers, each a process, log starts, add records, measure shared candidates again and count in shared records.
What they were told is stored must be there, once. Then a database gets records of 1,000 kernels, with traces as long
as real ones. Opening it in a new process, and the fastest records of a kernel (`best` with a limit of 50, as a build
asks), also in a branch of a snapshot, are timed warm. What this process's core takes of it stands beside, because a
busy machine makes waits longer. PostgreSQL is an unprivileged server with its defaults, reached by a Unix socket. The
last line is one JSON object. With --check the exit status is 1 where something is lost or doubled, `best` takes over
50 ms or opening over 1 s (medians).
"""

from __future__ import annotations

import argparse
import hashlib
import json
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import IO, Any

from sqlalchemy import func, insert, select

from edgetune.config.database_location import Branch, DatabaseLocation, DatabaseUrl
from edgetune.records import Record, RecordKey, RecordStore
from edgetune.records.branches import take_snapshot
from edgetune.records.history import EARLIER, MOST_EARLIER
from edgetune.records.schema import to_row
from edgetune.records.tables import records, starts
from tests.postgresql_server import PostgresqlServer

KERNELS, ROUND = 1000, 16
SHARED = 20
"""Records that are measured again, and as many that are counted in."""

CHUNK, MODELS = 2000, 1999
MOST_BEST_MS, MOST_OPEN_S = 50.0, 1.0
_LIMIT, _ASKED, _OPENED = 50, 60, 7
_STATUSES = ("ok",) * 17 + ("wrong_result", "build_failed", "crashed")
_ENVIRONMENT: dict[str, Any] = {
    "agent": 2, "bits": 64, "cores": "0,1,2,3", "governor": "performance", "kernel": "6.6.20-v8", "libc": "glibc 2.36",
    "machine": "aarch64", "memory_bytes": 4_000_000_000, "mhz": 1800.0, "page_bytes": 4096, "page_faults": 16,
    "peak_flops": 2.8e10, "peak_bytes": 3.1e9, "temperature": 61.5, "trust": "A", "trust_reason": "quiet and steady",
}  # fmt: skip


def kernel_of(number: int) -> str:
    """Hash of a kernel."""
    return hashlib.sha256(b"kernel %d" % number).hexdigest()


def key_of(kernel: int) -> RecordKey:
    """The key of a kernel on any board."""
    return RecordKey(kernel_of(kernel), "87bb58d3584d7cef", "aarch64-linux-gnu-gcc-12.2.0-bfc30fe35c4410bc", 10)


def record_of(number: int, kernel: int, board: str, traces: list[str]) -> Record:
    """A record as a search makes it; equal numbers give equal records."""
    dice = random.Random(number)  # noqa: S311  no secret
    status = dice.choice(_STATUSES)
    median = 1e4 + 9e4 * dice.random()
    times = [round(median * (0.99 + 0.02 * dice.random()), 2) for _ in range(20)] if status == "ok" else []
    key = key_of(kernel)
    values: dict[str, Any] = {
        "workload": key.workload, "target_fingerprint": key.target_fingerprint, "toolchain": key.toolchain,
        "codegen_version": key.codegen_version, "board": board, "workload_name": "fused_conv2d_add_relu",
        "target": "rpi4", "candidate": hashlib.sha256(b"%d" % number).hexdigest(), "status": status,
        "tool_version": "0.1.0", "trace": f"[{number}, {traces[number % len(traces)]}", "samples_ns": tuple(times),
        "environment": _ENVIRONMENT | {"trust": dice.choice("AAABBCD")}, "round": number // ROUND // KERNELS,
        "created_utc": "2026-01-01T00:00:00Z",
    }  # fmt: skip
    if times:
        values |= {"median_ns": statistics.median(times), "ci_low_ns": min(times), "ci_high_ns": max(times)}
    return Record(**values)


def traces_of(characters: int = 4200) -> list[str]:
    """Ends of traces, of the length that those of a convolution have."""
    dice = random.Random(20)  # noqa: S311
    step = '["SamplePerfectTile", ["l{0}"], [4, 64], ["l{1}", "l{2}", "l{3}", "l{4}"], [{5}, 1, {6}, 2]]'
    found = []
    for _ in range(256):
        text = ""
        while len(text) < characters:
            text += step.format(*(dice.randrange(100) for _ in range(7))) + ", "
        found.append(f"{text}0]")
    return found


@contextmanager
def database_of(engine: str, folder: Path) -> Iterator[DatabaseLocation]:
    """An empty place of an engine."""
    if engine == "sqlite":
        yield folder / "records.db"
        return
    server = PostgresqlServer()
    try:
        server.stop()
        server.start("fsync=on")
        yield server.new_database()
    finally:
        server.remove()


def located(text: str) -> DatabaseLocation:
    """The place that a command line names."""
    return DatabaseUrl(text) if "://" in text else Path(text)


def write(text: str, number: int, seconds: float) -> None:
    """One writer; prints what it was told is stored."""
    traces, own = traces_of(), f"board-{number}"
    told: dict[str, Any] = {"added": [], "starts": 0, "again": [0] * SHARED, "counted": 0}
    took: list[float] = []
    with RecordStore.open(located(text)) as store:
        print("ready", flush=True)
        sys.stdin.readline()
        ends = time.monotonic() + seconds
        step = 0
        while time.monotonic() < ends:
            step += 1
            record = record_of(number * 10**9 + step, step % KERNELS, own, traces)
            store.log_start(record.key, record.candidate)
            told["starts"] += 1
            begun = time.perf_counter()
            store.add(record)
            took.append(time.perf_counter() - begun)
            told["added"].append(record.candidate)
            which = step // 4 % SHARED
            if step % 4 == 0:
                store.add_again(shared(which, traces))
                told["again"][which] += 1
            if step % 4 == 2:
                store.refine(shared(SHARED + which, traces), _count)
                told["counted"] += 1
    told["median_ms"] = round(1e3 * statistics.median(took), 2) if took else None
    told["slowest_ms"] = round(1e3 * max(took), 1) if took else None
    print(json.dumps(told), flush=True)


def shared(number: int, traces: list[str]) -> Record:
    """A record that all writers change."""
    return replace(record_of(10**15 + number, 0, "shared", traces), environment={})


def _count(stored: Record) -> Record:
    return replace(stored, reason=str(int(stored.reason or 0) + 1))


def written(location: DatabaseLocation, writers: int, seconds: float) -> dict[str, Any]:
    """Let writers write at once; return how much, and what is lost or doubled."""
    traces = traces_of()
    with RecordStore.open(location) as store:
        store.add_all(shared(number, traces) for number in range(2 * SHARED))
    code = "import sys; from benchmarks.store import write; write(sys.argv[1], int(sys.argv[2]), float(sys.argv[3]))"
    processes = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(location), str(number), str(seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        )
        for number in range(writers)
    ]  # fmt: skip
    pipes = [pipes_of(one) for one in processes]
    for _, outgoing in pipes:
        outgoing.readline()
    told = []
    for incoming, _ in pipes:
        incoming.write("go\n")
        incoming.flush()
    failed = 0
    for one in processes:
        said, _ = one.communicate()
        failed += one.returncode != 0
        told += [json.loads(said.splitlines()[-1])] if one.returncode == 0 else []
    lost, doubled = lost_and_doubled(location, told)
    return {
        "writers": writers, "failed": failed, "records": sum(len(one["added"]) for one in told),
        "transactions": sum(len(one["added"]) + one["starts"] + sum(one["again"]) + one["counted"] for one in told),
        "median_ms": statistics.median(one["median_ms"] for one in told),
        "slowest_ms": max(one["slowest_ms"] for one in told), "lost": lost, "doubled": doubled,
    }  # fmt: skip


def pipes_of(process: subprocess.Popen[str]) -> tuple[IO[str], IO[str]]:
    """Standard input and output of a writer."""
    if process.stdin is None or process.stdout is None:
        raise ValueError("the writer was started without pipes")
    return process.stdin, process.stdout


def lost_and_doubled(location: DatabaseLocation, told: list[dict[str, Any]]) -> tuple[int, int]:
    """How many rows and changes are missing, and how many are there too often."""
    added = [candidate for one in told for candidate in one["added"]]
    again = [sum(one["again"][which] for one in told) for which in range(SHARED)]
    with RecordStore.open(location, create=False) as store, store.database.reading() as connection:
        found = list(connection.scalars(select(records.c.candidate).where(records.c.board != "shared")))
        logged = connection.scalar(select(func.count()).select_from(starts)) or 0
        counted = sum(int(text or 0) for text in connection.scalars(_shared_column("reason")))
        histories = connection.scalars(_shared_column("environment"))
        kept = sum(len(json.loads(json.loads(text).get(EARLIER, "[]"))) for text in histories)
    missing = [
        len(set(added) - set(found)),
        sum(one["starts"] for one in told) - logged,
        sum(min(times, MOST_EARLIER) for times in again) - kept,
        sum(one["counted"] for one in told) - counted,
    ]
    doubled = len(found) - len(set(found)) + sum(max(-one, 0) for one in missing)
    return sum(max(one, 0) for one in missing), doubled


def _shared_column(name: str) -> Any:
    return select(records.c[name]).where(records.c.board == "shared")


def filled(location: DatabaseLocation, number: int, kernels: int) -> float:
    """Add that many records, a round of each kernel after the other; return the seconds it took."""
    traces, begun = traces_of(), time.monotonic()
    models = [to_row(record_of(one, 0, "shelf-1", traces)) for one in range(MODELS)]
    hashes = [kernel_of(kernel) for kernel in range(kernels)]

    def row(one: int) -> dict[str, Any]:
        own = {"workload": hashes[one // ROUND % kernels], "candidate": hashlib.sha256(b"%d" % one).hexdigest()}
        return {**models[one % MODELS], **own, "trace": f"[{one}, {traces[one % len(traces)]}"}

    with RecordStore.open(location) as store:
        for first in range(0, number, CHUNK):
            with store.database.writing() as connection:
                connection.execute(insert(records), [row(one) for one in range(first, min(first + CHUNK, number))])
    return time.monotonic() - begun


def asked(store: RecordStore, kernels: int) -> tuple[float, float]:
    """Median milliseconds of `best`, each kernel asked for the second time; and those of this process's core."""
    took, core = [], []
    for kernel in random.Random(7).sample(range(kernels), min(kernels, _ASKED)):  # noqa: S311
        key = key_of(kernel)
        store.best(key, _LIMIT)
        begun, used = time.perf_counter(), time.process_time()
        store.best(key, _LIMIT)
        took.append(1e3 * (time.perf_counter() - begun))
        core.append(1e3 * (time.process_time() - used))
    return round(statistics.median(took), 1), round(statistics.median(core), 1)


def opened(location: DatabaseLocation) -> float:
    """Median seconds in which a new process opens the database; importing edgetune does not count."""
    code = """
import sys, time
from benchmarks.store import located
from edgetune.records import RecordStore
RecordStore.open(located(sys.argv[2])).close()
begun = time.perf_counter()
RecordStore.open(located(sys.argv[1])).close()
print(time.perf_counter() - begun)
"""
    with tempfile.TemporaryDirectory() as small:
        words = [sys.executable, "-c", code, str(location), str(Path(small) / "small.db")]
        took = [float(subprocess.run(words, check=True, capture_output=True, text=True).stdout) for _ in range(_OPENED)]
    return round(statistics.median(took), 3)


def read(location: DatabaseLocation, number: int, kernels: int) -> dict[str, Any]:
    """Fill a database, and time what a search and a build ask."""
    seconds = filled(location, number, kernels)
    with RecordStore.open(location) as store:
        best, core = asked(store, kernels)
        with store.database.writing() as connection:
            take_snapshot(store.database, connection, "night")
        branch, branch_core = asked(RecordStore(store.database, Branch("night", "model")), kernels)
    return {
        "records": number, "filled_s": round(seconds, 1), "best_ms": best, "best_core_ms": core,
        "best_in_branch_ms": branch, "best_in_branch_core_ms": branch_core, "open_s": opened(location),
    }  # fmt: skip


def main() -> int:
    """Run both parts on each engine, print a table, and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--engines", nargs="+", choices=("sqlite", "postgresql"), default=["sqlite", "postgresql"])
    parser.add_argument("--records", type=int, default=1_000_000)
    parser.add_argument("--kernels", type=int, default=KERNELS)
    parser.add_argument("--writers", type=int, default=16)
    parser.add_argument("--seconds", type=float, default=60.0)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    found: dict[str, dict[str, Mapping[str, Any]]] = {engine: {} for engine in given.engines}

    def tell(engine: str, part: str, values: Mapping[str, Any]) -> None:
        found[engine][part] = values
        print(f"{engine} {part}: " + ", ".join(f"{name} {value}" for name, value in values.items()), flush=True)

    for engine in given.engines:
        with tempfile.TemporaryDirectory(prefix="edgetune-store-") as name:
            if given.writers:
                with database_of(engine, Path(name)) as location:
                    tell(engine, "write", written(location, given.writers, given.seconds))
            (Path(name) / "read").mkdir()
            if given.records:
                with database_of(engine, Path(name) / "read") as location:
                    tell(engine, "read", read(location, given.records, given.kernels))
    print(json.dumps(found))
    wrong = [
        engine
        for engine, parts in found.items()
        if any(parts.get("write", {}).get(word) for word in ("failed", "lost", "doubled"))
        or parts.get("read", {}).get("open_s", 0.0) > MOST_OPEN_S
        or max(parts.get("read", {}).get(word, 0.0) for word in ("best_ms", "best_in_branch_ms")) > MOST_BEST_MS
    ]
    return int(given.check and bool(wrong))


if __name__ == "__main__":
    sys.exit(main())
