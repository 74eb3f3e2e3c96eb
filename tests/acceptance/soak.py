"""Torments boards while they are tuned on: faults at random times, and nothing may be lost, doubled, hung or unnamed.

Usage: python tests/acceptance/soak.py [--faults 200] [--boards 4] [--seed 1] [--pause 6] [--hostile 25] | --each

The boards are SSH servers on loopback that run all commands on this machine; candidates are real ones, some of
them hostile. At the end the search is asked to finish, and must leave a package, a clean database and clean boards.
With `--each` every kind of fault has a small tune of its own instead, which must end by itself.
"""

from __future__ import annotations

import argparse
import os
import signal
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
sys.path.insert(0, str(ROOT))

from tests.acceptance import ledger  # noqa: E402
from tests.acceptance.case import EXAMPLES, edgetune  # noqa: E402
from tests.acceptance.each_fault import each_fault  # noqa: E402
from tests.acceptance.kill9 import State, look  # noqa: E402
from tests.acceptance.soak_faults import Mischief, hostile_compiler  # noqa: E402
from tests.acceptance.stand_ins import MARKER, Home, Search  # noqa: E402
from tests.boards.listening import listeners  # noqa: E402

FIRST_S = 300.0
SILENCE_S = 180.0
"""Longest that the search may say nothing: longer than any deadline of a step."""
BACK_S = 240.0
"""Longest until every board measures again, or is given up, once the faults are over."""
END_S = 300.0
LAST_WORDS = 60
"""Events of the search that are shown when something did not hold."""


def soak(folder: Path, options: argparse.Namespace) -> str:
    """Run the whole thing; return a line of what was seen, raise AssertionError for what must not be."""
    home = Home(folder / "home")
    home.furnish(options.boards, hostile_compiler(folder / "cc", options.hostile))
    db, out = folder / "records.db", folder / "package"
    words: list[str | Path] = [EXAMPLES / "vww.onnx", "--board", "soak", "--db", db, "-o", out]
    trials = ["--trials", "100000", "--seed", str(options.seed)]
    started = time.monotonic()
    search = Search([*words, *trials], folder / "tune.json", cwd=home.path, environment=home.environment())
    mischief = Mischief(home.boards, options.faults, options.seed, options.pause, lambda: search.count)
    try:
        search.until(lambda: search.count > 0, FIRST_S, "the first candidate")
        mischief.start()
        _watch(search, mischief)
        mischief.stop()
        last = max(look(db).records, default=0)
        names = list(home.boards)
        search.until(lambda: not ledger.boards_behind(search, db, names, last), BACK_S, "all boards measure again")
        os.kill(search.process.pid, signal.SIGINT)
        code = search.wait(END_S)
    except AssertionError:
        sys.stderr.writelines(f"{event}\n" for event in search.events[-LAST_WORDS:])
        raise
    finally:
        mischief.stop()
        search.close()
    assert code in {0, 130}, f"the search ended with {code}"
    state = look(db)
    ledger.judge_run(search, State(), state, in_flight=options.boards)
    ledger.judge_names(search)
    ledger.judge_deeds(search, mischief.deeds)
    _judge_package(home, words, state)
    home.leave()
    faults = ", ".join(f"{count} {name}" for name, count in sorted(mischief.done.items()))
    minutes = (time.monotonic() - started) / 60
    return f"{len(mischief.deeds)} faults in {minutes:.1f} min ({faults}); {ledger.described(search, state)}"


def _watch(search: Search, mischief: Mischief) -> None:
    while not mischief.finished.wait(1.0):
        assert search.process.poll() is None, f"the search ended by itself with {search.process.returncode}"
        pids = [search.process.pid, *_marked()]
        abroad = [where for where in listeners(pids) if not where[0].startswith(("127.", "::1"))]
        assert not abroad, f"something listens off loopback: {abroad}"
        assert search.silence < SILENCE_S, f"the search was silent for {search.silence:.0f} s"


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


def _judge_package(home: Home, words: list[str | Path], before: State) -> None:
    """The package is there and right; the same command goes on where it ended."""
    db, out = Path(words[-3]), Path(words[-1])
    assert (out / "MANIFEST.json").is_file(), "no package was written"
    done = edgetune("verify", out, "-q", cwd=home.path, environment=home.environment())
    assert done.returncode == 0, f"the package is wrong: {done.stderr[-500:]}"
    more = ["--trials", str(len(before.records) + 16)]
    again = out.with_name("again.json")
    search = Search([*words, *more], again, cwd=home.path, environment=home.environment())
    assert search.wait(END_S) == 0, f"the search does not go on:\n{search.told_last()}"
    ledger.judge_run(search, before, look(db))


def main() -> int:
    """Run the soak; 0 when all held."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--faults", type=int, default=200)
    parser.add_argument("--boards", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--pause", type=float, default=6.0, help="mean seconds between two faults of a board")
    parser.add_argument("--hostile", type=int, default=25, help="one candidate of so many is hostile")
    parser.add_argument("--each", action="store_true", help="a small tune for each kind of fault instead")
    options = parser.parse_args()
    signal.signal(signal.SIGINT, signal.default_int_handler)  # shells start jobs in the background without it
    with tempfile.TemporaryDirectory(prefix="soak-") as folder:
        said = each_fault(Path(folder)) if options.each else soak(Path(folder), options)
        sys.stdout.write(said + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
