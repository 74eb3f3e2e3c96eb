"""A night of two hosts, and the same one on a single host: python -m benchmarks.nightly.farm [--models 5] [--boards 8].

Boards of two kinds count instructions. Two hosts, processes with homes of their own, share the cells through an
unprivileged PostgreSQL server. The first and the last model have the same kernels. Every cell must get a verdict, no
candidate may be measured twice, and no board may be idle for over 10 % of the time in which a cell that it may run has
no verdict. The engine `local` with SQLite, where neither psycopg nor procrastinate can be imported, must find the same:
cells, verdicts, bytes of packages, and the page except for times and hosts. The last line is one JSON object. With
--check the exit status is 1 where something is missing.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import re
import shutil
import sys
import tarfile
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

from sqlalchemy import func, select

from edgetune.config.database_location import DatabaseLocation
from edgetune.farm.night_store import Night, NightCell, NightStore
from edgetune.farm.night_tables import attempts
from edgetune.records.tables import starts
from tests.farm.hosts import TestFarm
from tests.postgresql_server import PostgresqlServer

KINDS = ("qemu-aarch64", "qemu-armv7")
HOSTS, ALONE = ("host-1", "host-2"), "host-3"
MOST_IDLE = 0.1
HOURS = 3.0
_HIDDEN = ("psycopg", "procrastinate")

Span = tuple[float, float]


class OwnHome(TestFarm):
    """The farm as one host has it: a home and a folder of its own; an archive that all hosts reach."""

    def environment(self, host: str) -> dict[str, str]:
        """The environment of a host; its home is below its folder."""
        home = self.folder / "home"
        home.mkdir(exist_ok=True)
        return {**super().environment(host), "HOME": str(home), "TMPDIR": str(self.folder)}


@dataclass(frozen=True)
class Found:
    """What a night left: verdicts and packages by cell, its page, and what each board and host did."""

    verdicts: dict[str, str]
    packages: dict[str, dict[str, str]]
    page: str
    idle: dict[str, float]
    hosts: dict[str, int]
    measured: int
    twice: int
    seconds: float


def boards_of(number: int) -> dict[str, str]:
    """That many boards, as many of each kind, and the targets that they are copies of."""
    return {f"{KINDS[i % 2][5:]}-{i // 2 + 1}": KINDS[i % 2] for i in sorted(range(number), key=lambda i: i % 2)}


def farm_at(folder: Path, engine: str, db: DatabaseLocation, given: argparse.Namespace) -> OwnHome:
    """The farm as it lies on one host."""
    folder.mkdir()
    made = OwnHome.make(folder, engine, db, given.models, given.trials, boards_of(given.boards))
    if given.models > 1:  # two models with the same kernels, whose searches must not depend on which comes first
        shutil.copyfile(folder / "m0.onnx", folder / f"m{given.models - 1}.onnx")
    with (folder / "farm.yaml").open("a") as file:
        file.write("archive: ../archive\nname: proof\n")
    return made


def shared_night(folder: Path, given: argparse.Namespace) -> Found:
    """Run the night on two hosts."""
    folder.mkdir()
    server = PostgresqlServer()
    db = server.new_database()
    hosts = [farm_at(folder / name, "procrastinate", db, given) for name in HOSTS]
    try:
        begun = time.monotonic()
        first = hosts[0].start(HOSTS[0], "run", "--now")
        hosts[1].start(HOSTS[1], "work")
        code = first.process.wait(HOURS * 3600)
        if code:
            raise RuntimeError(f"the night ended with code {code}: {first.said()[-2000:]}")
        return found(hosts[0], time.monotonic() - begun)
    finally:
        for host in hosts:
            host.stop()
        server.remove()


def local_night(folder: Path, given: argparse.Namespace) -> Found:
    """Run the night on one host that has neither psycopg nor procrastinate."""
    folder.mkdir()
    farm = farm_at(folder / ALONE, "local", folder / "records.db", given)
    for name in _HIDDEN:
        (folder / "hidden" / name).mkdir(parents=True)
        (folder / "hidden" / name / "__init__.py").write_text(f"raise ModuleNotFoundError({name!r}, name={name!r})\n")
    farm.python_path = str(folder / "hidden")
    try:
        begun = time.monotonic()
        host = farm.start(ALONE, "run", "--now")
        code = host.process.wait(HOURS * 3600)
        if code:
            raise RuntimeError(f"the night ended with code {code}: {host.said()[-2000:]}")
        return found(farm, time.monotonic() - begun)
    finally:
        farm.stop()


def found(farm: TestFarm, seconds: float) -> Found:
    """What the last night of a farm left."""
    os.environ["XDG_CONFIG_HOME"] = str(farm.folder / "config")
    loaded = farm.load()
    with NightStore.open(loaded.db, create=True) as store:
        night = store.nights(loaded.name)[-1]
        rows = store.cells(night)
        with store.database.reading() as connection:
            chosen = select(attempts.c.night_cell_id, attempts.c.host, attempts.c.begun_utc, attempts.c.ended_utc)
            done = [tuple(row) for row in connection.execute(chosen.order_by(attempts.c.id))]
            key = (starts.c.workload, starts.c.target_fingerprint, starts.c.toolchain, starts.c.candidate)
            counted = list(connection.scalars(select(func.count()).select_from(starts).group_by(*key)))
    (page,) = (farm.folder / "out" / "pages").glob("*/index.html")
    return Found(
        {row.cell.name: row.verdict.verdict if row.verdict else "none" for row in rows},
        {row.cell.name: files_of(loaded.archive, row) for row in rows},
        without_times(page.read_text(encoding="utf-8")),
        idle_of(night, rows, done),
        {host: sum(name == host for _, name, _, _ in done) for host in sorted({name for _, name, _, _ in done})},
        farm.measured(),
        sum(number > 1 for number in counted),
        round(seconds, 1),
    )


def files_of(archive: Path, row: NightCell) -> dict[str, str]:
    """Hashes of the files of a cell's archived package, by name."""
    if row.verdict is None or not row.verdict.package:
        return {}
    with tarfile.open(archive / row.verdict.package[:2] / f"{row.verdict.package}.tar") as tar:
        members = [(member.name, tar.extractfile(member)) for member in tar]
        return {name: hashlib.sha256(file.read()).hexdigest() for name, file in members if file is not None}


def without_times(page: str) -> str:
    """A page without times, hosts, and what it says of durations: the longest cell of a board is such a word."""
    page = re.sub(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(:\d\d(\.\d+)?)?(Z|\+00:00)?", "TIME", page)
    page = re.sub(r"\b(\d+ h )?\d+ (min|s)\b", "DURATION", page)
    page = re.sub(r"(DURATION</td><td>)[^<@]+@[^<]+", r"\1LONGEST", page)
    return re.sub("|".join((*HOSTS, ALONE)), "HOST", page)


def idle_of(night: Night, rows: Sequence[NightCell], done: Sequence[Sequence[Any]]) -> dict[str, float]:
    """Share of the time in which a board had a cell to run, but ran none.

    A twin can run once the cell that searches for it has ended.
    """
    spans: dict[int, list[Span]] = {}
    for number, _, begun, ended in done:
        spans.setdefault(number, []).append((at(begun), at(ended or begun)))
    ends = {row.id: max((end for _, end in spans.get(row.id, [])), default=at(night.begun_utc)) for row in rows}
    searched = {(row.cell.model, row.cell.kind): ends[row.id] for row in rows if row.cell.searches}
    idle = {}
    for board in sorted({row.cell.board for row in rows}):
        own = [row for row in rows if row.cell.board == board]
        free = [at(night.begun_utc) if row.cell.searches else searched[row.cell.model, row.cell.kind] for row in own]
        waiting = union([(since, max(since, ends[row.id])) for since, row in zip(free, own, strict=True)])
        busy = union([span for row in own for span in spans.get(row.id, [])])
        both = length(waiting) + length(busy) - length(union([*waiting, *busy]))
        idle[board] = round(1 - both / length(waiting), 3) if waiting else 0.0
    return idle


def at(utc: str) -> float:
    """Seconds since the epoch."""
    return datetime.fromisoformat(utc).timestamp()


def union(spans: Sequence[Span]) -> list[Span]:
    """The same time as spans that do not touch."""
    joined: list[Span] = []
    for begin, end in sorted(spans):
        if joined and begin <= joined[-1][1]:
            joined[-1] = (joined[-1][0], max(end, joined[-1][1]))
        else:
            joined.append((begin, end))
    return joined


def length(spans: Sequence[Span]) -> float:
    """Seconds of spans that do not touch."""
    return sum(end - begin for begin, end in spans)


def faults_of(shared: Found, local: Found, given: argparse.Namespace) -> list[str]:
    """What is not as it must be."""
    faults = [f"{given.models * given.boards} cells, not {len(shared.verdicts)}"] * (
        len(shared.verdicts) != given.models * given.boards
    )
    for name, one in (("two hosts", shared), ("local", local)):
        if missing := sorted(cell for cell, verdict in one.verdicts.items() if verdict != "first"):
            faults.append(f"{name}: no package of {', '.join(missing)}")
        if one.twice:
            faults.append(f"{name}: {one.twice} candidates measured twice")
        if lazy := {board: share for board, share in one.idle.items() if share > MOST_IDLE}:
            faults.append(f"{name}: idle {lazy}")
    if shared.verdicts != local.verdicts:
        faults.append("other cells or verdicts")
    for cell, files in shared.packages.items():
        if other := differing(files, local.packages.get(cell, {})):
            faults.append(f"{cell}: other bytes in {', '.join(other[:4])}")
    if shared.page != local.page:
        faults.append("another page")
    return faults


def differing(files: Mapping[str, str], others: Mapping[str, str]) -> list[str]:
    """Names of the files that are not the same."""
    return sorted(name for name in {*files, *others} if files.get(name) != others.get(name))


def main() -> None:
    """Run both nights, print a table, and check."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--models", type=int, default=5)
    parser.add_argument("--boards", type=int, default=8)
    parser.add_argument("--trials", type=int, default=8, help="candidates per model and kind of board")
    parser.add_argument("--keep", type=Path, help="a new folder for the pages of both nights")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="edgetune-farm-") as name:
        shared = shared_night(Path(name) / "shared", given)
        local = local_night(Path(name) / "local", given)
    if given.keep:
        given.keep.mkdir(parents=True)
        for word, one in (("shared", shared), ("local", local)):
            (given.keep / f"{word}.html").write_text(one.page, encoding="utf-8")
    print("| engine | cells | candidates | twice | most idle board | attempts by host | minutes |")
    print("|---|---|---|---|---|---|---|")
    for word, one in (("procrastinate", shared), ("local", local)):
        idle = max(one.idle.values())
        by_host = ", ".join(f"{host} {number}" for host, number in one.hosts.items())
        cells = f"{len(one.verdicts)} | {one.measured} | {one.twice} | {100 * idle:.1f} %"
        print(f"| {word} | {cells} | {by_host} | {one.seconds / 60:.1f} |")
    faults = faults_of(shared, local, given)
    print("\n".join(faults) or "the same cells, verdicts, packages and page")
    print(json.dumps({"idle": {"shared": shared.idle, "local": local.idle}, "faults": faults}))
    sys.exit(bool(faults) and given.check)


if __name__ == "__main__":
    main()
