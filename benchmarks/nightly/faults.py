"""Nights that faults befall: python -m benchmarks.nightly.faults [--each 5] [--results FILE] [--only KIND] [--check].

A night of two counting boards runs while a host is killed, frozen and woken, drained, or ended, while a worker or its
emulators are killed, while a board behind SSH is lost for a minute, the database is away or cut off, the archive's disk
is full, the compiler hangs, or the clock goes back. Between two nights, a model vanishes.
Afterwards every cell must have one verdict, no record may be lost or measured beyond the budget, and no board may have
had two live attempts. Each fault is a line of JSON in FILE; what
stands there is not repeated, so the same command goes on after a stop. With --check the exit status is 1 where a night
was harmed.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import signal
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path

import psutil

from benchmarks.nightly.full_disk import FullDisk
from benchmarks.nightly.hanging_tool import TOOL, HangingTool
from benchmarks.nightly.proxy import Proxy
from benchmarks.nightly.shelf import Shelf
from tests.boards.clock_shift import Clock
from tests.farm.hosts import BOARDS, Host, TestFarm, wait_for
from tests.postgresql_server import PostgresqlServer

ENDLESS, TRIALS = 2000, 2
"""Trials of the cells that a fault befalls, and of later attempts, which read the farm file again."""

FREEZE_S, CUT_S, AWAY_S = 75.0, 60.0, 60.0
AHEAD_S = 3600
LATEST_S = {"host killed": 45.0, "worker killed": 45.0, "host drained": 15.0, "host ended": 15.0, "network cut": 45.0}
"""Within which time cells go on at another host."""


@dataclass
class Means:
    """What faults need: the clock of both hosts, the network of the victim, the archive's disk, a board, a tool."""

    clock: Clock | None = None
    proxy: Proxy | None = None
    disk: FullDisk | None = None
    shelf: Shelf | None = None
    tool: HangingTool | None = None


@dataclass
class Night:
    """A farm, its server (None: SQLite), the host that a fault befalls, and when its cells were running elsewhere."""

    farm: TestFarm
    server: PostgresqlServer | None
    victim: Host
    means: Means
    number: int = 0
    measured: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a fault did: whether the night was harmed and how, and after how long the cells went on (None: here)."""

    kind: str
    engine: str
    number: int
    harm: str
    seconds: float | None
    attempts: int


def kill_host(night: Night) -> None:
    """The host and all its processes die at once."""
    night.victim.send(signal.SIGKILL, all_of_it=True)


def kill_worker(night: Night) -> None:
    """The first process dies; the kernel ends its cells."""
    night.victim.send(signal.SIGKILL)


def kill_emulators(night: Night) -> None:
    """All emulators below the host die."""
    for one in night.victim.tree():
        try:
            if one.name().startswith("qemu-"):
                one.kill()
        except psutil.NoSuchProcess:
            continue


def freeze(night: Night) -> None:
    """All processes of the host stop for 75 s."""
    tree = night.victim.tree()
    night.victim.send(signal.SIGSTOP, all_of_it=True)
    time.sleep(FREEZE_S)
    for one in tree:
        try:
            one.send_signal(signal.SIGCONT)
        except psutil.NoSuchProcess:
            continue


def drain(night: Night) -> None:
    """The host is drained."""
    night.farm.call(night.victim.name, "drain", night.victim.name)


def end(night: Night) -> None:
    """The host gets SIGTERM."""
    night.victim.send(signal.SIGTERM)


def cut_database(seconds: float) -> Callable[[Night], None]:
    """The server stops for some seconds."""

    def away(night: Night) -> None:
        if night.server is not None:
            night.server.stop()
            time.sleep(seconds)
            night.server.start()

    return away


def cut_network(night: Night) -> None:
    """The victim reaches the database's server no more for 60 s; the other host does."""
    if night.means.proxy is not None:
        night.means.proxy.cut()
        threading.Timer(CUT_S, night.means.proxy.mend).start()


def turn_clock_back(night: Night) -> None:
    """The clocks of both hosts, which are an hour ahead, go right."""
    if night.means.clock is not None:
        night.means.clock.jump(0)


def fill_disk(night: Night) -> None:
    """The archive's disk is full."""
    if night.means.disk is not None:
        night.means.disk.fill()


def hang_tool(night: Night) -> None:
    """The compiler hangs, wherever it is asked or where a candidate is compiled, until the night is over."""
    if night.means.tool is not None:
        night.means.tool.hang(("*", "*unit.c*")[night.number // 2 % 2])


def lose_board(night: Night) -> None:
    """A board behind SSH, which is measuring, is reached no more for 60 s."""
    shelf = night.means.shelf
    if shelf is not None:
        wait_for(shelf.measured, 240.0, night.victim.said)
        shelf.lose()
        time.sleep(AWAY_S)
        shelf.bring_back()


MODEL_VANISHES = "model vanishes between nights"

KINDS: dict[str, tuple[Callable[[Night], None], tuple[str, ...]]] = {
    "host killed": (kill_host, ("local", "procrastinate")),
    "worker killed": (kill_worker, ("local", "procrastinate")),
    "emulators killed": (kill_emulators, ("local", "procrastinate")),
    "host frozen and woken": (freeze, ("local", "procrastinate")),
    "host drained": (drain, ("local", "procrastinate")),
    "host ended": (end, ("local", "procrastinate")),
    "board lost": (lose_board, ("local", "procrastinate")),
    "database away 20 s": (cut_database(20.0), ("procrastinate",)),
    "database away 180 s": (cut_database(180.0), ("procrastinate",)),
    "network cut": (cut_network, ("procrastinate",)),
    "archive full": (fill_disk, ("local", "procrastinate")),
    "tool hangs": (hang_tool, ("local", "procrastinate")),
    "clock back": (turn_clock_back, ("local", "procrastinate")),
    MODEL_VANISHES: (lambda _: None, ("local", "procrastinate")),
}


ENDLESS_STILL = {
    "local": {"board lost", "emulators killed", "host frozen and woken", "archive full", "tool hangs", "clock back"},
    "procrastinate": {"board lost", "emulators killed", "archive full", "tool hangs", "clock back"},
}
"""Faults after which the same attempts go on; they are ended, because they would measure for ever."""


def befall(kind: str, engine: str, number: int) -> Outcome:
    """Run one night with one fault."""
    rng = random.Random(f"{kind} {engine} {number}")  # noqa: S311  no secret
    server, means = PostgresqlServer() if engine == "procrastinate" else None, Means()
    with tempfile.TemporaryDirectory(prefix="edgetune-faults-") as name:
        folder = Path(name)
        os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
        farm = TestFarm.make(folder, engine, server.new_database() if server else folder / "records.db", trials=ENDLESS)
        try:
            means = _means(kind, farm, server)
            night = Night(farm, server, _begin(farm), means, number)
            with _watch(farm) as doubled:
                time.sleep(rng.uniform(0.0, 12.0))
                farm.budget(TRIALS)
                before = farm.attempts()
                fault = time.monotonic()
                KINDS[kind][0](night)
                seconds = _elsewhere(farm, night.victim, before, fault) if server and kind in LATEST_S else None
                _finish(night, kind)
            return Outcome(kind, engine, number, _harm(night, kind, seconds, doubled), seconds, len(farm.attempts()))
        except (AssertionError, psutil.Error, OSError) as error:
            return Outcome(kind, engine, number, f"{type(error).__name__}: {error}"[-600:], None, 0)
        finally:
            farm.stop()
            if means.proxy:
                means.proxy.close()
            if means.shelf:
                means.shelf.close()
            if server:
                server.remove()


def vanish(engine: str, number: int) -> Outcome:
    """Run a night, another one while one of two models is missing, and a third one with it."""
    kind, server = MODEL_VANISHES, PostgresqlServer() if engine == "procrastinate" else None
    with tempfile.TemporaryDirectory(prefix="edgetune-faults-") as name:
        folder = Path(name)
        os.environ["XDG_CONFIG_HOME"] = str(folder / "config")
        place = server.new_database() if server else folder / "records.db"
        farm = TestFarm.make(folder, engine, place, models=2, trials=TRIALS)
        try:
            if server:
                farm.start("h2", "work")
            harm = _without_model(farm, f"m{number % 2}")
            return Outcome(kind, engine, number, harm, None, len(farm.attempts()))
        except (AssertionError, psutil.Error, OSError) as error:
            return Outcome(kind, engine, number, f"{type(error).__name__}: {error}"[-600:], None, 0)
        finally:
            farm.stop()
            if server:
                server.remove()


def _without_model(farm: TestFarm, model: str) -> str:
    """What is wrong in three nights, of which the second one misses a model, "" where nothing is."""
    file, aside = farm.folder / f"{model}.onnx", farm.folder / "aside.onnx"
    for night in range(3):
        if night == 1:
            file.rename(aside)
        cells = farm.call("h1", "run", "--now")["cells"]
        for command in (["status"], ["report"], ["log", cells[0]["cell"]], ["plan"], ["doctor"]):
            farm.call("h1", *command)
        if night == 1:
            aside.rename(file)
        for cell in cells:
            missing = night == 1 and cell["model"] == model
            expected = "not measured" if missing else "same" if night else "first"
            named = f"'models.{model}' names {file}" in cell["reason"]
            if cell["verdict"] != expected or named != missing or cell["attempts"] != 1:
                return f"night {night}: {cell['cell']} is {cell['verdict']} ({cell['reason']})"
    pages = len([*farm.folder.glob("out/pages/*/index.html")])
    return "" if pages == 3 else f"{pages} pages of three nights"


def _means(kind: str, farm: TestFarm, server: PostgresqlServer | None) -> Means:
    """What a fault needs, and the variables by which the hosts of a farm get it."""
    if kind == "network cut" and server:
        proxy = Proxy(server.folder, farm.folder / "proxy")
        path = farm.folder / "farm.yaml"
        path.write_text(path.read_text().replace(f"?host={server.folder}", ""))
        os.environ["PGHOST"] = str(server.folder)
        farm.variables = {"h2": {"PGHOST": str(proxy.folder)}}
        return Means(proxy=proxy)
    if kind == "clock back":
        clock = Clock(farm.folder / "clock")
        clock.jump(AHEAD_S)
        farm.variables = dict.fromkeys(("h1", "h2"), clock.environment)
        return Means(clock=clock)
    if kind == "board lost":
        shelf = Shelf(farm)
        farm.variables = dict.fromkeys(("h1", "h2"), shelf.environment)
        return Means(shelf=shelf)
    if kind == "archive full":
        disk = FullDisk(farm.folder / "disk", farm.folder / "out" / "archive")
        farm.variables = dict.fromkeys(("h1", "h2"), disk.environment)
        return Means(disk=disk)
    if kind == "tool hangs":
        tool = HangingTool(farm.folder / "tool")
        farm.variables = dict.fromkeys(("h1", "h2"), tool.environment)
        return Means(tool=tool)
    return Means()


def _begin(farm: TestFarm) -> Host:
    """Begin a night whose cells run on the host that is returned; a second one stands by where there are several."""
    if farm.engine == "local":
        host = farm.start("h1", "run", "--now")
    else:
        farm.call("h1", "drain", "h1")
        farm.call("h1", "run", "--now", code=28)
        host = farm.start("h2", "work")
    wait_for(farm.attempts, 120.0, host.said)
    if farm.engine != "local":
        farm.call("h1", "drain", "--off", "h1")
        farm.start("h1", "run", "--now")
    return host


def _elsewhere(farm: TestFarm, victim: Host, before: list[tuple[int, int, str, str]], fault: float) -> float | None:
    """Seconds until the cells that the victim ran have another attempt; None where it ran none."""
    judged = {row.id for row in farm.rows() if row.verdict}
    left = {(cell, number) for cell, number, host, outcome in before if host == victim.name and not outcome} - {
        (cell, number) for cell, number, _, _ in before if cell in judged
    }
    if not left:
        return None
    numbers = dict(left)

    def gone_on() -> bool:
        present = {row.id: row for row in farm.rows()}
        return all(present[cell].attempt > number or present[cell].verdict for cell, number in numbers.items())

    wait_for(gone_on, 120.0)
    return round(time.monotonic() - fault, 1)


def _finish(night: Night, kind: str) -> None:
    """Let the night come to its end, with the command again where its only host is gone."""
    farm = night.farm
    if kind == "host drained":
        farm.call(night.victim.name, "drain", "--off", night.victim.name)
    if kind in ENDLESS_STILL[farm.engine]:
        night.victim.send(signal.SIGTERM)
        night.victim.process.wait(60)
    night.measured = farm.measured()
    tried = len(farm.attempts())
    if farm.engine == "local":
        farm.call("h1", "run", "--now")
    else:
        host = next(host for host in reversed(farm.hosts) if host.name == "h1")
        if host.process.wait(400) != 0:  # as the unit of systemd has it: it goes on after a lost database
            farm.call("h1", "run", "--now")
    if night.means.disk is not None:
        reasons = {row.verdict.reason for row in farm.rows() if row.verdict}
        assert all("no space is left for the archive" in reason for reason in reasons), reasons  # noqa: S101  harm
        night.means.disk.free()
    if night.means.tool is not None:
        _hung(night, night.means.tool, tried)
        night.means.tool.mend()
    if night.means.disk is not None or night.means.tool is not None:
        for row in farm.rows():
            farm.call("h1", "rerun", row.cell.name)
        farm.call("h1", "run", "--now")


def _hung(night: Night, tool: HangingTool, tried: int) -> None:
    """Each cell says which tool hung on what, after one attempt, and nothing of it lives on."""
    reasons = [row.verdict.reason if row.verdict else "" for row in night.farm.rows()]
    assert all(re.search(rf"{TOOL} hung (on|in) .*: it did not end within \d+ s", one) for one in reasons), reasons  # noqa: S101  harm
    further = night.farm.attempts()[tried:]
    assert len(further) <= len(reasons), further  # noqa: S101  harm
    assert not tool.left(), tool.left()  # noqa: S101  harm


@contextmanager
def _watch(farm: TestFarm) -> Iterator[Counter[str]]:
    """Count how often a cell, and so its board, was seen with two processes that are not stopped."""
    doubled: Counter[str] = Counter()
    over = threading.Event()

    def look() -> None:
        while not over.wait(0.5):
            found: dict[int, tuple[int, str]] = {}
            for one in psutil.process_iter(["cmdline", "status", "cwd", "ppid"]):
                words, cwd = one.info["cmdline"] or [], one.info["cwd"] or ""
                awake = one.info["status"] not in {"stopped", "zombie"}
                if awake and str(farm.folder) in cwd and any("run_cell" in word for word in words):
                    found[one.pid] = (one.info["ppid"], words[-2])
            # A process that a cell has just forked has its words until it runs another program.
            cells = Counter(cell for parent, cell in found.values() if parent not in found)
            doubled.update({cell: 1 for cell, number in cells.items() if number > 1})

    thread = threading.Thread(target=look, daemon=True)
    thread.start()
    try:
        yield doubled
    finally:
        over.set()
        thread.join()


def _harm(night: Night, kind: str, seconds: float | None, doubled: Counter[str]) -> str:
    """What is wrong after a night, "" where nothing is."""
    farm = night.farm
    rows = farm.rows()
    words = [row.verdict.verdict if row.verdict else "none" for row in rows]
    if words != ["first"] * len(BOARDS):
        return f"verdicts {words}: {[row.verdict.reason for row in rows if row.verdict]}"
    if not night.measured <= farm.measured() <= night.measured + TRIALS * len(BOARDS):
        return f"{farm.measured()} records after {night.measured}"
    if (most := farm.most_measured()) > 1:
        return f"a candidate has {most} records"
    if untold := [one for one in farm.attempts() if not one[3]]:
        return f"attempts without an outcome: {untold}"
    if kind == "host frozen and woken" and "memory" in night.victim.said():
        return f"a host that was woken says: {night.victim.said()[-300:]}"
    if doubled:
        return f"two processes at once on {dict(doubled)}"
    pages = [
        page
        for page in farm.folder.glob("out/pages/*/index.html")
        if all(row.cell.board in page.read_text() for row in rows)
    ]
    if len(pages) != 1:
        return "no page with all cells"
    limit = LATEST_S.get(kind)
    return f"cells went on after {seconds} s" if limit and seconds is not None and seconds > limit else ""


def main() -> None:
    """Let faults befall nights, and print a table."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--each", type=int, default=5, help="faults of each kind, its engines in turns")
    parser.add_argument("--results", type=Path, default=Path("build/nightly-faults.jsonl"))
    parser.add_argument("--only", choices=sorted(KINDS), action="append", help="only this kind")
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    given.results.parent.mkdir(parents=True, exist_ok=True)
    lines = given.results.read_text().splitlines() if given.results.exists() else []
    found = [Outcome(**json.loads(line)) for line in lines]
    done = {(one.kind, one.engine, one.number) for one in found}
    chosen = [kind for kind in KINDS if not given.only or kind in given.only]
    for number in range(given.each):
        for kind in chosen:
            engines = KINDS[kind][1]
            engine = engines[number % len(engines)]
            if (kind, engine, number) in done:
                continue
            found.append(vanish(engine, number) if kind == MODEL_VANISHES else befall(kind, engine, number))
            with given.results.open("a") as file:
                file.write(json.dumps(asdict(found[-1])) + "\n")
            print(found[-1], flush=True)
    print("| fault | engine | nights | harmed | cells went on elsewhere after |\n|---|---|---|---|---|")
    for kind, (_, engines) in KINDS.items():
        for engine in engines:
            own = [one for one in found if (one.kind, one.engine) == (kind, engine)]
            times = [one.seconds for one in own if one.seconds is not None]
            span = f"{min(times):.1f} to {max(times):.1f} s" if times else "-"
            print(f"| {kind} | {engine} | {len(own)} | {sum(bool(one.harm) for one in own)} | {span} |")
    sys.exit(given.check and any(one.harm for one in found))


if __name__ == "__main__":
    main()
