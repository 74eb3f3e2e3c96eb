"""A soak: `edgetune tune` over several boards behind SSH, while faults befall them at random times.

python tests/soak/boards.py [--faults 200] [--boards 3] [--seed 1] [--pace 2.0] [--model FILE] [--keep FOLDER]

The boards are processes of this machine behind SSH servers of their own, so nothing is said about times. The run must
end by itself with a package that is verified, no record may be missing, doubled or of a wrong result, every event
must be in the summary, and nothing may be left on the boards. Prints what happened, and in the last line one JSON
object; exits with 1 when anything of that does not hold.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import click
import paramiko

ROOT = Path(__file__).resolve().parents[2]
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from tests.boards.ssh_server import SshBoard  # noqa: E402  the path comes first

TARGET = "generic-x86_64"
COMMAND = "import sys; from edgetune.cli.main import main; sys.exit(main())"
MODEL = ROOT / "examples" / "models" / "ds_cnn.onnx"
CALM_S = 45.0
"""Of the run's time are for its start, and as many for its end, without faults."""
START_S = 300.0
"""In which the first candidate must be there."""
ENDS_S = 240.0
"""Beyond its time budget, after which the run counts as hung: every ladder has ended by then."""

Fault = Callable[[SshBoard, random.Random], None]


def _for_a_while(seconds: float, begin: Callable[[], None], end: Callable[[], None]) -> None:
    begin()
    time.sleep(seconds)
    end()


def kill_programs(board: SshBoard, _: random.Random) -> None:
    """Every process of the board is killed: the agent, or a candidate with it."""
    board.kill_programs()


def stop_programs(board: SshBoard, _: random.Random) -> None:
    """Every process of the board is stopped, and stays so."""
    for pid in board.processes():
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGSTOP)


def drop_link(board: SshBoard, _: random.Random) -> None:
    """All connections are cut."""
    board.link.drop()


def freeze_link(board: SshBoard, draw: random.Random) -> None:
    """Nothing goes through for a while, and then everything."""
    _for_a_while(draw.uniform(0.5, 8.0), board.link.freeze, board.link.thaw)


def cut_answer(board: SshBoard, draw: random.Random) -> None:
    """Connections end in the middle of what the board says."""
    board.link.drop_after = draw.randrange(1, 20000)
    time.sleep(draw.uniform(0.5, 3.0))
    board.link.drop_after = None


def slow_link(board: SshBoard, draw: random.Random) -> None:
    """The link is slow for a while."""
    board.link.bytes_per_s = 2e5
    time.sleep(draw.uniform(1.0, 5.0))
    board.link.bytes_per_s = None


def reboot(board: SshBoard, draw: random.Random) -> None:
    """The board is away for some seconds, and has forgotten everything."""
    board.reboot(draw.uniform(0.5, 6.0))


def refuse_channels(board: SshBoard, draw: random.Random) -> None:
    """The board takes no more sessions for a while, and loses those that it has."""
    board.faults.refuse_channels = True
    board.link.drop()
    time.sleep(draw.uniform(0.5, 4.0))
    board.faults.refuse_channels = False


def hang_commands(board: SshBoard, draw: random.Random) -> None:
    """The board takes commands and does not answer them, for a while."""
    board.faults.hang_commands = True
    board.kill_programs()
    time.sleep(draw.uniform(0.5, 4.0))
    board.faults.hang_commands = False


def full_disk(board: SshBoard, draw: random.Random) -> None:
    """The disk of the board is full for a while, and its agent is gone."""
    board.faults.disk_bytes = 4096
    board.kill_programs()
    time.sleep(draw.uniform(0.5, 4.0))
    board.faults.disk_bytes = None


FAULTS: tuple[Fault, ...] = (
    kill_programs,
    stop_programs,
    drop_link,
    freeze_link,
    cut_answer,
    slow_link,
    reboot,
    refuse_channels,
    hang_commands,
    full_disk,
)


@dataclass
class Shelf:
    """Boards, and a home of a user who knows them."""

    home: Path
    boards: dict[str, SshBoard] = field(default_factory=dict)

    def fill(self, count: int) -> None:
        """Start the boards, write keys, known hosts and addresses."""
        (self.home / ".ssh").mkdir(parents=True, mode=0o700)
        key = paramiko.ECDSAKey.generate()
        key.write_private_key_file(str(self.home / ".ssh" / "id_ecdsa"))
        native = {"uname -m": os.uname().machine, "getconf GNU_LIBC_VERSION": "glibc 2.36"}
        lines = ["boards:"]
        for number in range(1, count + 1):
            board = SshBoard(self.home / f"board{number}", native, user_key=key)
            self.boards[f"shelf-{number}"] = board
            with (self.home / ".ssh" / "known_hosts").open("a") as stream:
                stream.write(board.known_hosts_line)
            lines.append(
                f"  shelf-{number}: {{target: {TARGET}, ssh: 'pi@127.0.0.1:{board.port}', folder: {board.folders[0]}}}"
            )
        config = self.home / ".config" / "edgetune"
        config.mkdir(parents=True)
        (config / "boards.yaml").write_text("\n".join(lines) + "\n")

    @property
    def environment(self) -> dict[str, str]:
        """What the run sees."""
        caches = {"XDG_CACHE_HOME": str(self.home / ".cache"), "XDG_CONFIG_HOME": str(self.home / ".config")}
        python = os.pathsep.join(entry for entry in (str(ROOT), os.environ.get("PYTHONPATH", "")) if entry)
        inherited = {name: value for name, value in os.environ.items() if name != "SSH_AUTH_SOCK"}
        return {**inherited, "HOME": str(self.home), "PYTHONPATH": python, **caches}

    def left(self) -> dict[str, list[str]]:
        """What lies on the boards, and the processes that run there."""
        return {
            name: [*board.files(), *map(str, board.processes())]
            for name, board in self.boards.items()
            if board.files() or board.processes()
        }

    def close(self) -> None:
        """End the boards."""
        for board in self.boards.values():
            board.close()


class Misfortune:
    """Inflicts `count` faults, `pace` seconds apart on average, on boards that have none at the moment."""

    def __init__(self, shelf: Shelf, count: int, pace: float, seed: int, ended: Callable[[], bool]) -> None:
        self.inflicted: Counter[str] = Counter()
        self._shelf, self._count, self._pace, self._ended = shelf, count, pace, ended
        self._draw = random.Random(seed)  # noqa: S311  which fault comes when
        self._busy: set[str] = set()

    def run(self) -> None:
        """Inflict them all; returns early when the run has ended."""
        threads = []
        while sum(self.inflicted.values()) < self._count and not self._ended():
            time.sleep(self._draw.expovariate(1 / self._pace))
            free = sorted(set(self._shelf.boards) - self._busy)
            if not free:
                continue
            name, fault = self._draw.choice(free), self._draw.choice(FAULTS)
            self.inflicted[fault.__name__] += 1
            self._busy.add(name)
            threads.append(threading.Thread(target=self._inflict, args=(name, fault, self._draw.random())))
            threads[-1].start()
        for thread in threads:
            thread.join()

    def _inflict(self, name: str, fault: Fault, seed: float) -> None:
        click.echo(f"{time.strftime('%H:%M:%S')} {name}: {fault.__name__}")
        try:
            fault(self._shelf.boards[name], random.Random(seed))  # noqa: S311
        finally:
            self._busy.discard(name)


def judge(folder: Path, status: int, report: dict[str, object], told: Counter[str], shelf: Shelf) -> list[str]:
    """Say what does not hold."""
    from edgetune.tuning.records import RecordStore

    problems = []
    if status != 0:
        problems.append(f"the run ended with exit code {status}")
    if not (folder / "package" / "MANIFEST.json").is_file():
        problems.append("there is no package")
    if not report.get("verified"):
        problems.append("the package was not verified on a board")
    with RecordStore.open(folder / "records.db") as store:
        rows = store.list()
    names = Counter((row["workload"], row["candidate"]) for row in rows)
    problems += [f"candidate {key[1]} has {count} records" for key, count in names.items() if count > 1]
    wrong = [row["candidate"] for row in rows if row["status"] == "wrong_result"]
    problems += [f"candidate {candidate} gave a wrong result" for candidate in wrong]
    search = report.get("search")
    search = search if isinstance(search, dict) else {}
    if search.get("records") != len(rows):
        problems.append(f"the run counts {search.get('records')} records, the database holds {len(rows)}")
    accounts = search.get("boards")
    accounts = accounts if isinstance(accounts, dict) else {}
    for what in ("lost", "recovered"):
        counted = sum(int(account.get(what, 0)) for account in accounts.values())
        if counted > told[what]:  # boards say "lost" of what could not be tidied up as well
            problems.append(f"{told[what]} events say '{what}', the summary counts {counted}")
    if not search.get("bottleneck"):
        problems.append("the summary names no bottleneck")
    problems += [f"left on {name}: {', '.join(rest)}" for name, rest in shelf.left().items()]
    return problems


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 when anything does not hold."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--boards", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pace", type=float, default=2.0, help="seconds between faults, on average")
    parser.add_argument("--model", type=Path, default=MODEL)
    parser.add_argument("--keep", type=Path, help="folder for the records, the package and what the run printed")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="edgetune-soak-") as name, contextlib.ExitStack() as stack:
        shelf = Shelf(Path(name))
        stack.callback(shelf.close)
        shelf.fill(options.boards)
        folder: Path = options.keep or Path(name, "run")
        folder.mkdir(parents=True, exist_ok=True)
        return soak(shelf, folder, options)


def soak(shelf: Shelf, folder: Path, options: argparse.Namespace) -> int:
    """Tune while faults come, then judge."""
    seconds = 2 * CALM_S + options.faults * options.pace * 1.2
    command = [sys.executable, "-c", COMMAND, "tune", str(options.model.resolve()), "--board", TARGET]
    command += [
        "--time",
        f"{seconds:.0f}s",
        "--seed",
        str(options.seed),
        "--json",
        "-o",
        "package",
        "--db",
        "records.db",
    ]
    with (folder / "events.jsonl").open("w") as events, (folder / "report.json").open("w") as report:
        run = subprocess.Popen(command, cwd=folder, stdout=report, stderr=events, env=shelf.environment)
        started = time.monotonic()
        misfortune = Misfortune(shelf, options.faults, options.pace, options.seed, lambda: run.poll() is not None)
        try:
            while run.poll() is None and time.monotonic() - started < START_S:
                if '"event": "candidate"' in (folder / "events.jsonl").read_text():
                    misfortune.run()
                    break
                time.sleep(0.5)
            status = run.wait(max(1.0, seconds + START_S + ENDS_S - (time.monotonic() - started)))
        except subprocess.TimeoutExpired:
            status = -1
        finally:
            if run.poll() is None:
                run.send_signal(signal.SIGINT)
                with contextlib.suppress(subprocess.TimeoutExpired):
                    run.wait(30)
                run.kill()
                run.wait()
    told: Counter[str] = Counter()
    for line in (folder / "events.jsonl").read_text().splitlines():
        with contextlib.suppress(ValueError, AttributeError):
            event = json.loads(line)
            if event.get("event") == "board":
                told[str(event.get("what"))] += 1
                click.echo(f"{event.get('board')}: {event.get('what')}: {event.get('detail')}")
    text = (folder / "report.json").read_text()
    found = json.loads(text) if text.strip().startswith("{") else {}
    problems = judge(folder, status, found, told, shelf)
    for problem in problems:
        click.echo(f"PROBLEM: {problem}")
    search = found.get("search", {})
    click.echo(
        json.dumps(
            {
                "faults": dict(sorted(misfortune.inflicted.items())),
                "events": dict(sorted(told.items())),
                "records": search.get("records"),
                "bottleneck": search.get("bottleneck"),
                "status": status,
                "seconds": round(time.monotonic() - started, 1),
                "problems": problems,
            }
        )
    )
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
