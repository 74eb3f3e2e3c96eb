"""Attempts at a cell: each is a process that dies with this one. A cell without a verdict is tried again."""

from __future__ import annotations

import contextlib
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

from edgetune.boards.holder import stamp
from edgetune.config.host import RUN, RUN_ENDS, host_name
from edgetune.errors import BoardLost, DatabaseError, DiskFull, ToolHung
from edgetune.farm.attempt_outcomes import FROZEN
from edgetune.farm.farm_file import Farm
from edgetune.farm.health.board_health import INFRASTRUCTURE
from edgetune.farm.night_store import Night, NightCell, NightStore, Verdict
from edgetune.farm.run_cell import FROZEN_S, folder_of, log_of
from edgetune.ipc.child_process import describe_exit
from edgetune.ipc.process_group import kill_group, program

MOST_CRASHES = 3
POLL_S = 0.2
FARM = "farm.json"
"""Name of the file that gives the process of an attempt its farm."""
_LAST_WORDS = 300

Ends = Callable[[int], str]
"""Why the attempt of that number is to end now, "" to let it run. It is asked every `POLL_S` and answers at once."""

LOST = "the board was lost"
TAKEN = "cancelled"
"""What `Ends` answers for an attempt that is not the present one any more, or whose cell has a verdict."""


@dataclass
class _Running:
    """An attempt that runs in this process: when it was looked at last, and its longest time without a look."""

    cell: int
    attempt: int
    seen: float
    frozen_s: float = 0.0

    def look(self) -> None:
        """Notice how long this process did not run since the last look."""
        self.seen, gap = _clock(), _clock() - self.seen
        self.frozen_s = max(self.frozen_s, gap)

    @property
    def frozen(self) -> str:
        """The outcome of the attempt where this process was frozen."""
        return f"{FROZEN}{self.frozen_s:.0f} s"


_running: dict[int, _Running] = {}
"""All attempts that run in this process, by their process groups."""


def end_frozen_attempts(store: NightStore) -> None:
    """Kill the processes of all attempts, for a process that was frozen and is about to start anew, and note why."""
    left = dict(_running)
    for group in left:
        kill_group(group)
    with contextlib.suppress(DatabaseError, DiskFull):  # it is only noted
        for one in left.values():
            one.look()
            store.end_attempt(one.cell, one.attempt, one.frozen)


def to_verdict(farm: Farm, store: NightStore, night: Night, row: NightCell, ends: Ends) -> str:
    """Try a cell until it has a verdict.

    Return "" where it has one, or another attempt is present, `LOST`, or what `ends` answered. The kernel ends the
    process of an attempt with the thread that calls this. Raises DatabaseError, DiskFull and NightFault; nothing runs
    any more then.
    """
    for crashes in range(1, MOST_CRASHES + 1):
        attempt = store.start_attempt(row.id, host_name())
        try:
            code, why, frozen = _run(farm, night, row, attempt, run_of(farm, store, night, row), ends)
        except ToolHung as error:  # the kernel does not end it, so that nobody can measure on its board
            store.end_attempt(row.id, attempt, error.message)
            reason = f"{INFRASTRUCTURE}host {host_name()}: {error.message}"
            store.judge(row.id, attempt, Verdict("not measured", reason, facts={"error": "ToolHung"}))
            return ""
        words = _last_words(log_of(farm, night.night, row.cell)) if code else ""
        outcome = why or "; ".join(filter(None, (frozen, f"{describe_exit(code or 0)}{words}")))
        store.end_attempt(row.id, attempt, outcome)
        if why and why != TAKEN:
            return why
        if not store.is_present(row.id, attempt):
            return ""
        if code == BoardLost.exit_code:
            return LOST
        if crashes == MOST_CRASHES:
            reason = f"the cell's process ended {MOST_CRASHES} times without a verdict ({outcome})"
            store.judge(row.id, attempt, Verdict("not measured", reason))
    return ""


def run_of(farm: Farm, store: NightStore, night: Night, row: NightCell) -> dict[str, str]:
    """Variables that name the run of a cell, and say when it ends if it takes as long as in its last night."""
    run = {RUN: f"{night.night} {row.cell.name}"}
    took = store.minutes(farm.name, row.cell.name).get(row.cell.name)
    return run | ({RUN_ENDS: stamp(datetime.now(UTC) + timedelta(minutes=took.all))} if took else {})


def _run(
    farm: Farm, night: Night, row: NightCell, attempt: int, run: dict[str, str], ends: Ends
) -> tuple[int | None, str, str]:
    """Run the process of one attempt; return its exit code, why it was ended, and how long this process was frozen.

    The words are "" where it ended by itself, and where this process was not frozen.
    """
    folder = folder_of(farm, night.night, row.cell)
    temporary = folder / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)  # of an attempt that was killed
    temporary.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ) | {"TMPDIR": str(temporary)} | run
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    saved = temporary / FARM
    words = [str(os.getpid()), str(saved), night.night, str(row.id), str(attempt)]
    command = [sys.executable, "-P", "-c", "from edgetune.farm.run_cell import main; main()", *words]
    try:
        farm.save(saved)  # whatever is edited meanwhile
        with (
            log_of(farm, night.night, row.cell).open("ab") as log,
            program(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log, env=environment) as process,
        ):
            one = _running[process.pid] = _Running(row.id, attempt, _clock())
            try:
                return *_ended(process, one, ends), one.frozen if one.frozen_s > FROZEN_S else ""
            finally:
                del _running[process.pid]
    finally:
        shutil.rmtree(temporary, ignore_errors=True)


def _ended(process: subprocess.Popen[bytes], one: _Running, ends: Ends) -> tuple[int | None, str]:
    """Wait for the end of an attempt; return its exit code, and why it is to end now, where it has not ended.

    Cells go on where they were, so nobody waits for one that is ended.
    """
    while True:
        ended = process.poll() is not None
        why = ends(one.attempt)  # also where it has ended: this process may have been frozen, and nothing is its own
        if why == TAKEN:
            with contextlib.suppress(subprocess.TimeoutExpired):
                process.wait(1.0)  # it has just written its verdict
        if ended or why:
            return process.returncode, "" if process.returncode is not None else why
        time.sleep(POLL_S)
        one.look()


def _clock() -> float:
    """Seconds, those in which the machine was suspended included."""
    return time.clock_gettime(time.CLOCK_BOOTTIME)


def _last_words(log: Path) -> str:
    text = log.read_text(errors="replace").strip() if log.exists() else ""
    return f": {text.splitlines()[-1][-_LAST_WORDS:]}" if text else ""
