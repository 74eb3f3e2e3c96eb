"""Attempts at a cell: each is a process that dies with this one. A cell without a verdict is tried again."""

from __future__ import annotations

import contextlib
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

from edgetune.boards.holder import stamp
from edgetune.config.host import RUN, RUN_ENDS, host_name
from edgetune.errors import BoardLost
from edgetune.farm.farm_file import Farm
from edgetune.farm.night_store import Night, NightCell, NightStore, Verdict
from edgetune.farm.run_cell import folder_of, log_of
from edgetune.ipc.child_process import describe_exit

MOST_CRASHES = 3
POLL_S = 0.2
_LAST_WORDS = 300

Ends = Callable[[int], str]
"""Why the attempt of that number is to end now, "" to let it run. It is asked every `POLL_S` and answers at once."""

LOST = "the board was lost"
TAKEN = "cancelled"
"""What `Ends` answers for an attempt that is not the present one any more, or whose cell has a verdict."""


_groups: set[int] = set()
"""Process groups of all attempts that run in this process."""


def kill_attempts() -> None:
    """Kill the processes of all attempts, for a process that is about to be replaced."""
    for group in tuple(_groups):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def to_verdict(farm: Farm, store: NightStore, night: Night, row: NightCell, ends: Ends) -> str:
    """Try a cell until it has a verdict.

    Return "" where it has one, or another attempt is present, `LOST`, or what `ends` answered. The kernel ends the
    process of an attempt with the thread that calls this. Raises DatabaseError and DiskFull; nothing runs any more
    then.
    """
    for crashes in range(1, MOST_CRASHES + 1):
        attempt = store.start_attempt(row.id, host_name())
        code, why = _run(farm, night, row, attempt, run_of(farm, store, night, row), ends)
        outcome = why or describe_exit(code or 0)
        store.end_attempt(row.id, attempt, outcome)
        if why and why != TAKEN:
            return why
        if not store.is_present(row.id, attempt):
            return ""
        if code == BoardLost.exit_code:
            return LOST
        if crashes == MOST_CRASHES:
            words = _last_words(log_of(farm, night.night, row.cell))
            reason = f"the cell's process ended {MOST_CRASHES} times without a verdict ({outcome}{words})"
            store.judge(row.id, attempt, Verdict("not measured", reason))
    return ""


def run_of(farm: Farm, store: NightStore, night: Night, row: NightCell) -> dict[str, str]:
    """Variables that name the run of a cell, and say when it ends if it takes as long as in its last night."""
    run = {RUN: f"{night.night} {row.cell.name}"}
    took = store.minutes(farm.name, row.cell.name).get(row.cell.name)
    return run | ({RUN_ENDS: stamp(datetime.now(UTC) + timedelta(minutes=took.all))} if took else {})


def _run(
    farm: Farm, night: Night, row: NightCell, attempt: int, run: dict[str, str], ends: Ends
) -> tuple[int | None, str]:
    """Run the process of one attempt; return its exit code, and why it was ended ("" where it ended by itself)."""
    folder = folder_of(farm, night.night, row.cell)
    temporary = folder / "tmp"
    shutil.rmtree(temporary, ignore_errors=True)  # of an attempt that was killed
    temporary.mkdir(parents=True, exist_ok=True)
    environment = dict(os.environ) | {"TMPDIR": str(temporary)} | run
    environment["PYTHONPATH"] = os.pathsep.join(entry for entry in sys.path if entry)
    words = [str(os.getpid()), str(farm.path), night.night, str(row.id), str(attempt)]
    with log_of(farm, night.night, row.cell).open("ab") as log:
        process = subprocess.Popen(
            [sys.executable, "-P", "-c", "from edgetune.farm.run_cell import main; main()", *words],
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=log,
            env=environment,
            start_new_session=True,
        )
    _groups.add(process.pid)
    try:
        while process.poll() is None:
            why = ends(attempt)
            if why == TAKEN:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    process.wait(1.0)  # it has just written its verdict
            if why:
                return process.returncode, "" if process.returncode is not None else why
            time.sleep(POLL_S)
        return process.returncode, ""
    finally:
        if process.poll() is None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)  # cells go on where they were, so nobody waits for them
        process.wait()
        _groups.discard(process.pid)
        shutil.rmtree(temporary, ignore_errors=True)


def _last_words(log: Path) -> str:
    text = log.read_text(errors="replace").strip() if log.exists() else ""
    return f": {text.splitlines()[-1][-_LAST_WORDS:]}" if text else ""
