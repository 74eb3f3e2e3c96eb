"""A farm of counting cells, and hosts that run its nights: processes with names and homes of their own."""

from __future__ import annotations

import contextlib
import ipaddress
import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self

import numpy as np
import onnx
import psutil
from onnx import TensorProto, helper, numpy_helper
from sqlalchemy import select, update

from edgetune.config.database_location import DatabaseLocation, DatabaseUrl
from edgetune.farm.farm_file import Farm, load_farm
from edgetune.farm.night_store import NightCell, NightStore
from edgetune.farm.night_tables import cell_settings
from edgetune.records import RecordStore
from edgetune.records.database import database_exists
from edgetune.resources import targets_dir

SECONDS = 240.0
BOARDS = ("count-a", "count-b")
TRIALS, MODELS = 2, 2
ENDLESS = 2000
"""Trials of a cell that a fault befalls before it has measured them all, however fast it is."""


@dataclass
class Host:
    """One `edgetune nightly` process of a host."""

    name: str
    process: subprocess.Popen[bytes]
    log: Path

    def tree(self) -> list[psutil.Process]:
        """The process and all below it, the outermost first."""
        try:
            own = psutil.Process(self.process.pid)
            return [own, *own.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def cells(self) -> list[psutil.Process]:
        """The processes of its cells and all below them."""
        found: list[psutil.Process] = []
        for one in self._cell_processes():
            with contextlib.suppress(psutil.Error):  # it has just ended
                found += [one, *one.children(recursive=True)]
        return found

    def runs(self) -> dict[int, int]:
        """The cells that it runs now, with the numbers of their attempts."""
        found: dict[int, int] = {}
        for one in self._cell_processes():
            with contextlib.suppress(psutil.Error):
                cell, attempt = one.cmdline()[-2:]
                found[int(cell)] = int(attempt)
        return found

    def _cell_processes(self) -> Iterator[psutil.Process]:
        for one in self.tree()[1:]:
            with contextlib.suppress(psutil.Error):
                if any("run_cell" in word for word in one.cmdline()):
                    yield one

    def send(self, number: int, *, all_of_it: bool = False) -> None:
        """Send a signal to the process, or to all below it as well, as when the machine itself stops."""
        for one in self.tree() if all_of_it else self.tree()[:1]:
            try:
                one.send_signal(number)
            except psutil.NoSuchProcess:
                continue

    def listens(self) -> list[str]:
        """Addresses off loopback at which it, or a process below it, waits for connections."""
        found = []
        for one in self.tree():
            with contextlib.suppress(psutil.Error):
                for place in one.net_connections("inet"):
                    listens = place.status == psutil.CONN_LISTEN or (
                        place.type == socket.SOCK_DGRAM and not place.raddr
                    )
                    if listens and not ipaddress.ip_address(place.laddr.ip).is_loopback:
                        found.append(f"{place.laddr.ip}:{place.laddr.port}")
        return found

    def said(self) -> str:
        """What it wrote to stderr."""
        return self.log.read_text(errors="replace")


@dataclass
class TestFarm:
    """A folder with `farm.yaml`, its models and the targets of its boards; `hosts` were started for it.

    `python_path` is where its hosts find another edgetune, "" for this one; `variables` are further ones of a host.
    """

    __test__ = False
    folder: Path
    engine: str
    hosts: list[Host] = field(default_factory=list)
    python_path: str = ""
    variables: dict[str, dict[str, str]] = field(default_factory=dict)

    @classmethod
    def make(
        cls,
        folder: Path,
        engine: str,
        db: DatabaseLocation,
        models: int = 1,
        trials: int = 2,
        boards: Mapping[str, str] | None = None,
    ) -> Self:
        """Write the files of a farm; `boards` are the targets that its boards are copies of, by their names.

        Without them it has two boards of different kinds, so that both search.
        """
        given = boards or dict.fromkeys(BOARDS, "qemu-aarch64")
        for number, (board, target) in enumerate(given.items()):
            text = (targets_dir() / f"{target}.yaml").read_text().replace(f"name: {target}", f"name: {board}")
            path = folder / "config" / "edgetune" / "targets" / f"{board}.yaml"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text if boards else re.sub(r"l2_bytes: .*", f"l2_bytes: {(number + 1) << 19}", text))
        names = [f"m{number}" for number in range(models)]
        for number, name in enumerate(names):
            _save_model(folder / f"{name}.onnx", 8 * (number + 4))
        entries = ", ".join(f"{name}: {name}.onnx" for name in names)
        lines = [f"models: {{{entries}}}", f"boards: [{', '.join(given)}]", f"budget: {{trials: {trials}}}"]
        (folder / "farm.yaml").write_text(
            "\n".join([*lines, "folder: out", f"engine: {engine}", f"db: {json.dumps(str(db))}"]) + "\n"
        )
        return cls(folder, engine)

    def budget(self, trials: int) -> None:
        """Change the budget of the farm, also that of its nights, which keep theirs; attempts that have begun go on."""
        change_budget(self.folder, trials)

    def environment(self, host: str) -> dict[str, str]:
        """The environment of a host."""
        own = {"EDGETUNE_HOST": host, "XDG_CONFIG_HOME": str(self.folder / "config"), "COLUMNS": "200"}
        own["PYTHONPATH"] = os.pathsep.join(entry for entry in (self.python_path, *sys.path) if entry)
        return {**os.environ, **own, **self.variables.get(host, {})}

    def start(self, name: str, *words: str) -> Host:
        """Start `edgetune nightly WORDS` on a host."""
        log = self.folder / f"{name}-{len(self.hosts)}.log"
        with log.open("wb") as stderr:
            process = subprocess.Popen(
                [sys.executable, "-m", "edgetune", "nightly", *words], cwd=self.folder, env=self.environment(name),
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
            )  # fmt: skip
        self.hosts.append(Host(name, process, log))
        return self.hosts[-1]

    def call(self, name: str, *words: str, code: int = 0) -> Any:
        """Run `edgetune nightly WORDS --json` on a host to its end; return what it printed."""
        command = [sys.executable, "-m", "edgetune", "nightly", *words, "--json"]
        done = subprocess.run(
            command, cwd=self.folder, env=self.environment(name), capture_output=True, text=True, timeout=SECONDS,
            check=False,
        )  # fmt: skip
        assert done.returncode == code, done.stderr[-3000:]
        text = done.stdout.strip() or (done.stderr.splitlines()[-1] if code else "")
        return json.loads(text) if text else {}

    def load(self) -> Farm:
        """The farm file as it is read."""
        return load_farm(self.folder / "farm.yaml")

    def rows(self) -> list[NightCell]:
        """The cells of the last night, none before there is one."""
        farm = self.load()
        if not isinstance(farm.db, DatabaseUrl) and not farm.db.exists():
            return []
        with NightStore.open(farm.db, create=True) as store:
            past = store.nights(farm.name)
            return store.cells(past[-1]) if past else []

    def attempts(self) -> list[tuple[int, int, str, str]]:
        """Cell, number, host and outcome of all attempts, in their order."""
        from sqlalchemy import select

        from edgetune.farm.night_tables import attempts as table

        with NightStore.open(self.load().db, create=True) as store, store.database.reading() as connection:
            chosen = select(table.c.night_cell_id, table.c.number, table.c.host, table.c.outcome).order_by(table.c.id)
            return [(row[0], row[1], row[2], row[3]) for row in connection.execute(chosen)]

    def measured(self) -> int:
        """How many candidates have a record."""
        with RecordStore.open(self.load().db) as store:
            return len(store.list())

    def most_measured(self) -> int:
        """How many records the candidate has that was measured most often."""
        with RecordStore.open(self.load().db) as store:
            found = Counter((record["workload"], record["target"], record["candidate"]) for record in store.list())
        return max(found.values(), default=0)

    def stop(self) -> None:
        """End all hosts."""
        for host in self.hosts:
            for one in reversed(host.tree()):
                try:
                    one.send_signal(signal.SIGCONT)
                    one.kill()
                except psutil.NoSuchProcess:
                    continue
            host.process.wait()


def change_budget(folder: Path, trials: int) -> None:
    """Change the budget of a farm file, and that of the farm's nights, which keep theirs."""
    path = folder / "farm.yaml"
    path.write_text(re.sub(r"trials: \d+", f"trials: {trials}", path.read_text()))
    db = load_farm(path).db
    if not database_exists(db):
        return
    with NightStore.open(db, create=True) as store, store.database.writing() as connection:
        for number, text in connection.execute(select(cell_settings.c.id, cell_settings.c.settings)).all():
            changed = json.dumps(json.loads(text) | {"trials": trials})
            row = update(cell_settings).where(cell_settings.c.id == number)
            connection.execute(row.values(settings=changed))


def gone(processes: list[psutil.Process]) -> bool:
    """Whether none of these processes lives."""

    def lives(one: psutil.Process) -> bool:
        try:
            return one.is_running() and one.status() != psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return False

    return not any(map(lives, processes))


def _save_model(path: Path, rows: int) -> None:
    """A model of one product of matrices, whose first one has that many rows."""
    weights = numpy_helper.from_array(np.linspace(-1, 1, 64 * 64, dtype=np.float32).reshape(64, 64), "w")
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [rows, 64]) for name in ("x", "y")]
    graph = helper.make_graph([helper.make_node("MatMul", ["x", "w"], ["y"])], "g", ends[:1], ends[1:], [weights])
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)


def wait_for(what: Callable[[], object], seconds: float = SECONDS, words: Callable[[], str] = lambda: "") -> None:
    """Wait until `what` is true."""
    deadline = time.monotonic() + seconds
    while not what():
        assert time.monotonic() < deadline, words()
        time.sleep(0.1)


def measuring(farm: TestFarm, host: Host, seconds: float = SECONDS) -> dict[int, int]:
    """Wait until a host runs a cell on each board, then until each has measured something more; return them."""

    def started() -> bool:
        return len(host.runs()) == len(BOARDS)

    def counts() -> list[int]:
        logs = [log for cell in found for log in farm.folder.glob(f"out/work/*/{names[cell]}/log")]
        return [log.read_text(errors="replace").count('"candidate"') for log in logs]

    wait_for(started, seconds, host.said)
    found, names = host.runs(), {row.id: row.cell.name for row in farm.rows()}
    before = counts()
    wait_for(lambda: all(now > then for now, then in zip(counts(), before, strict=True)), words=host.said)
    return found


def judged_once(farm: TestFarm, before: int) -> None:
    """Each cell has its one verdict, each attempt its end, and the night its page.

    Nothing that was measured is lost, and where it is enough for the budget, nothing more is measured.
    """
    rows = farm.rows()
    assert [row.verdict.verdict for row in rows if row.verdict] == ["first"] * MODELS * len(BOARDS)
    (page,) = farm.folder.glob("out/pages/*/index.html")
    assert all(row.cell.board in page.read_text() for row in rows)
    assert before <= farm.measured() <= before + TRIALS * len(rows)


def ended_by_sigterm(host: Host) -> None:
    """SIGTERM ends a host and its cells within 10 seconds."""
    below, begun = host.cells(), time.monotonic()
    host.send(signal.SIGTERM)
    assert host.process.wait(60.0) == 143, host.said()
    assert time.monotonic() - begun < 10.0
    wait_for(lambda: gone(below), 20.0)
