"""Torments boards while they are tuned on: faults at random times, and nothing may be lost, doubled, hung or unnamed.

Usage: python tests/acceptance/soak.py [--faults 200] [--boards 4] [--seed 1] [--pause 6] [--hostile 25]

The boards are SSH servers on loopback that run what they are told on this machine; candidates are real ones, some of
them hostile. At the end the search is asked to finish, and must leave a package, a clean database and clean boards.
"""

from __future__ import annotations

import argparse
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import paramiko

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from edgetune.tuning.tally import without_numbers  # noqa: E402
from tests.acceptance.case import EXAMPLES, child_environment, command_line, edgetune  # noqa: E402
from tests.acceptance.soak_faults import Mischief, hostile_compiler  # noqa: E402
from tests.boards.listening import listeners  # noqa: E402
from tests.boards.ssh_server import SshBoard  # noqa: E402

SILENCE_S = 180.0
"""Longest that the search may say nothing: longer than any deadline of a step."""
END_S = 300.0
MARKER = "ACCEPTANCE_SOAK"
TARGET = """\
name: soak
description: stand-ins on this machine
isa: x86_64
triple: x86_64-linux-gnu
cpu: x86-64-v3
vector_bits: 256
vector_registers: 16
cores: 1
l1_bytes: 32768
l2_bytes: 1048576
reach: ssh
compiler:
  cc: {cc}
  cflags: [-O2, -mavx2, -mfma]
"""


@dataclass
class Home:
    """A user with a key, a target and boards of it."""

    path: Path
    boards: dict[str, SshBoard] = field(default_factory=dict)

    def furnish(self, count: int, hostile: int) -> None:
        """Write the user's files, start the boards."""
        (self.path / ".ssh").mkdir(parents=True)
        config = self.path / ".config" / "edgetune"
        (config / "targets").mkdir(parents=True)
        compiler = hostile_compiler(self.path, hostile)
        (config / "targets" / "soak.yaml").write_text(TARGET.format(cc=compiler))
        key = paramiko.ECDSAKey.generate()
        key.write_private_key_file(str(self.path / ".ssh" / "id_ecdsa"))
        entries = []
        for number in range(count):
            board = SshBoard(self.path / f"board{number}", user_key=key)
            name = f"soak-{number}"
            self.boards[name] = board
            way = f"ssh: pi@127.0.0.1:{board.port}, folder: {board.folders[0]}, reboot: reboot"
            entries.append(f"  {name}: {{target: soak, {way}}}\n")
        (config / "boards.yaml").write_text("boards:\n" + "".join(entries))
        lines = "".join(board.known_hosts_line for board in self.boards.values())
        (self.path / ".ssh" / "known_hosts").write_text(lines)

    def environment(self) -> dict[str, str]:
        """What the user's commands see."""
        own = {"HOME": str(self.path), "XDG_CONFIG_HOME": str(self.path / ".config"), MARKER: str(os.getpid())}
        own["XDG_CACHE_HOME"] = str(self.path / ".cache")
        return {name: value for name, value in child_environment().items() if name != "SSH_AUTH_SOCK"} | own


class Search:
    """`edgetune tune` in a process; reads its events, and notes the longest silence between two of them."""

    def __init__(self, home: Home, words: list[str], log: Path) -> None:
        self.events: list[dict[str, Any]] = []
        self.longest_silence = 0.0
        self.candidates = threading.Event()
        self.count = 0
        self._result = log
        with log.open("w") as result:
            self.process = subprocess.Popen(
                command_line("tune", str(EXAMPLES / "ds_cnn.onnx"), "--board", "soak", "--json", *words),
                cwd=home.path,
                env=home.environment(),
                stdin=subprocess.DEVNULL,
                stdout=result,
                stderr=subprocess.PIPE,
                text=True,
                start_new_session=True,
            )
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()

    def _read(self) -> None:
        assert self.process.stderr is not None
        last = time.monotonic()
        for line in self.process.stderr:
            now = time.monotonic()
            self.longest_silence, last = max(self.longest_silence, now - last), now
            if not line.startswith("{"):
                sys.stdout.write(line)
                continue
            self.events.append(json.loads(line))
            if _kind(self.events[-1]) == "candidate":
                self.count += 1
                self.candidates.set()

    def wait(self, seconds: float) -> int:
        """Return the exit code."""
        code = self.process.wait(seconds)
        self.close()
        return code

    def close(self) -> None:
        """End the process if it has not ended, and read what it said last."""
        self.process.kill()
        self.process.wait()
        self._reader.join(10.0)
        if self.process.stderr is not None:
            self.process.stderr.close()

    def result(self) -> dict[str, Any]:
        """What the command answered."""
        return dict(json.loads(self._result.read_text()))


def _kind(event: dict[str, Any]) -> str:
    return str(event.get("event", event.get("kind", "")))


def soak(folder: Path, options: argparse.Namespace) -> str:
    """Run the whole thing; return a line of what was seen, raise AssertionError for what must not be."""
    home = Home(folder / "home")
    home.furnish(options.boards, options.hostile)
    db, out = folder / "records.db", folder / "package"
    words = ["--trials", "100000", "--seed", str(options.seed), "--db", str(db), "-o", str(out)]
    started = time.monotonic()
    search = Search(home, words, folder / "tune.json")
    mischief = Mischief(home.boards, options.faults, options.seed, options.pause, lambda: search.count)
    try:
        assert search.candidates.wait(300.0), "no candidate was measured within 5 minutes"
        mischief.start()
        _watch(search, mischief)
        mischief.stop()
        os.kill(search.process.pid, signal.SIGINT)
        code = search.wait(END_S)
    finally:
        mischief.stop()
        search.close()
    assert code in {0, 130}, f"the search ended with {code}"
    said = _judge_events(search, db)
    _judge_package(home, out, db)
    for name, board in home.boards.items():
        assert not board.processes(), f"{name} is left with processes {board.processes()}"
        assert not board.files(), f"{name} is left with files {board.files()[:5]}"
        board.close()
    faults = ", ".join(f"{count} {name}" for name, count in sorted(mischief.done.items()))
    minutes = (time.monotonic() - started) / 60
    return f"{sum(mischief.done.values())} faults in {minutes:.1f} min ({faults}); {said}"


def _watch(search: Search, mischief: Mischief) -> None:
    while not mischief.finished.wait(1.0):
        assert search.process.poll() is None, f"the search ended by itself with {search.process.returncode}"
        pids = [search.process.pid, *_marked()]
        abroad = [where for where in listeners(pids) if not where[0].startswith(("127.", "::1"))]
        assert not abroad, f"something listens off loopback: {abroad}"
        assert search.longest_silence < SILENCE_S, f"the search was silent for {search.longest_silence:.0f} s"


def _marked() -> list[int]:
    wanted = f"{MARKER}={os.getpid()}".encode()
    found = []
    for folder in Path("/proc").iterdir():
        if folder.name.isdigit():
            try:
                if wanted in (folder / "environ").read_bytes().split(b"\0"):
                    list((folder / "fd").iterdir())
                    found.append(int(folder.name))
            except OSError:
                continue  # gone, or not ours
    return found


def _judge_events(search: Search, db: Path) -> str:
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)], "the database is not clean"
        rows = connection.execute("SELECT workload, candidate, status, board FROM records").fetchall()
    doubled = [key for key, count in Counter(row[:2] for row in rows).items() if count > 1]
    assert not doubled, f"{len(doubled)} candidates have two records, the first is {doubled[0]}"
    told = [event for event in search.events if _kind(event) == "candidate"]
    measured = [event for event in told if event.get("status") != "duplicate"]
    assert len(measured) <= len(rows), f"{len(measured)} candidates were told, {len(rows)} are recorded"
    events = [event for event in search.events if _kind(event) == "board"]
    summary = next((event for event in reversed(search.events) if _kind(event) == "summary"), None)
    assert summary is not None, "there is no summary"
    named: Counter[tuple[str, str, str]] = Counter()
    for event in summary["board_events"]:
        named[event["board"], event["what"], without_numbers(event["detail"])] += event["times"]
    told_events = [event for event in events if event["what"] != "noisy"]  # these are counted, not named
    missing = Counter((e["board"], e["what"], without_numbers(e["detail"])) for e in told_events) - named
    assert not missing, f"{sum(missing.values())} events are not in the summary, such as {next(iter(missing))}"
    statuses = ", ".join(f"{count} {status}" for status, count in sorted(Counter(row[2] for row in rows).items()))
    kinds = ", ".join(f"{count} {what}" for what, count in sorted(Counter(e["what"] for e in events).items()))
    return (
        f"{len(rows)} records ({statuses}) on {len({row[3] for row in rows})} boards; events: {kinds}; "
        f"longest silence {search.longest_silence:.0f} s"
    )


def _judge_package(home: Home, out: Path, db: Path) -> None:
    """The package is there and right; the same command goes on where it ended."""
    assert (out / "MANIFEST.json").is_file(), "no package was written"
    done = edgetune("verify", out, "-q", cwd=home.path, environment=home.environment())
    assert done.returncode == 0, f"the package is wrong: {done.stderr[-500:]}"
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        before = set(connection.execute("SELECT id, workload, candidate FROM records").fetchall())
    more = ["--trials", str(len(before) + 16), "--db", str(db), "-o", str(out)]
    search = Search(home, more, out.with_name("again.json"))
    assert search.wait(END_S) == 0, "the search does not go on"
    with closing(sqlite3.connect(f"file:{db}?mode=ro", uri=True)) as connection:
        after = connection.execute("SELECT id, workload, candidate FROM records").fetchall()
    assert before <= set(after), "records were lost by going on"
    assert len({row[1:] for row in after}) == len(after), "going on measured a candidate again"


def main() -> int:
    """Run the soak; 0 when all held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--boards", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=6.0, help="mean seconds between two faults of a board")
    parser.add_argument("--hostile", type=int, default=25, help="one candidate of so many is hostile")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        sys.stdout.write(soak(Path(folder), options) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
