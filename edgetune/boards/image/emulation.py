"""Runs an image under a system emulator: bounded time, bounded output, and the records of the counting plugin."""

from __future__ import annotations

import os
import select
import struct
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from edgetune.boards.agent.frames import printable
from edgetune.errors import BoardLost
from edgetune.ipc.process_group import program
from edgetune.target.tool_process import tool_environment

MOST_OUTPUT_BYTES = 4096
"""Output of an image after which it is ended; a report takes less than 100 bytes."""

# No core dump, and at most 4 MiB in a file (8192 blocks): of records, or of whatever an image writes by semihosting.
_LIMITS = 'ulimit -c 0; ulimit -f 8192; exec "$@"'
_CHUNK = 4096
_RECORD_WORD = 0x5244434E54474E45  # in front of each record, as in templates/image/plugin/regions.c
_WORDS = struct.Struct("<QQ")


@dataclass(frozen=True)
class Emulation:
    """How the emulation of an image ended.

    `output` is what was printed, at most `MOST_OUTPUT_BYTES` ("flooded": there was more). `counts` are the counters of
    each marked region, in order; the first counter is instructions. `status` is the emulator's exit status (negative:
    the signal that ended it), `late` whether it was ended at its deadline.
    """

    output: bytes
    counts: tuple[tuple[int, ...], ...]
    status: int
    late: bool
    flooded: bool

    @property
    def last_words(self) -> str:
        """The last printed line, printable."""
        lines = [line for line in self.output.splitlines() if line.strip()]
        return printable(lines[-1]).strip() if lines else ""


def emulate(
    board: str,
    emulator: Sequence[str],
    plugin: Path,
    image: Path,
    arguments: Sequence[str],
    timeout_s: float,
    on_start: Callable[[int], None],
) -> Emulation:
    """Run `image` under the command `emulator` with `plugin`; `on_start` gets its process group.

    The emulator and all that it starts are ended after `timeout_s`. Raises BoardLost where it cannot be started.
    """
    folder = image.parent
    records = folder / "records"
    # Nothing that an image does by semihosting may start a program of this machine.
    words = [emulator[0], "-sandbox", "on,spawn=deny", "-plugin", f"file={plugin},records={records}"]
    try:
        with program(
            ["/bin/sh", "-c", _LIMITS, "sh", *words, *emulator[1:], str(image), *arguments],
            cwd=folder,
            env=tool_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            bufsize=0,
        ) as process:
            on_start(process.pid)
            output, late = _output(process, deadline := time.monotonic() + timeout_s)
            flooded, status = len(output) > MOST_OUTPUT_BYTES, 0
            if not late and not flooded:
                status, late = exit_status(process, deadline)
    except OSError as error:
        raise BoardLost(f"board '{board}': {emulator[0]} cannot be started: {error.strerror}") from error
    return Emulation(output[:MOST_OUTPUT_BYTES], read_records(records), status, late, flooded)


def exit_status(process: subprocess.Popen[bytes], deadline: float) -> tuple[int, bool]:
    """Return the exit status of what has closed its output, and whether it goes on after the deadline; then 0."""
    try:
        return process.wait(max(deadline - time.monotonic(), 0)), False
    except subprocess.TimeoutExpired:
        return 0, True


def _output(process: subprocess.Popen[bytes], deadline: float) -> tuple[bytes, bool]:
    """What is printed until the end, the deadline, or too much of it; whether it was the deadline."""
    pipe: IO[bytes] | None = process.stdout
    if pipe is None:
        raise ValueError("the emulator was started without a pipe")
    output = b""
    while len(output) <= MOST_OUTPUT_BYTES:
        left = deadline - time.monotonic()
        if left <= 0 or not select.select([pipe], [], [], left)[0]:
            return output, True
        data = os.read(pipe.fileno(), _CHUNK)
        if not data:
            break
        output += data
    return output, False


def read_records(path: Path) -> tuple[tuple[int, ...], ...]:
    """Return the counters of each record of the plugin; () where the file is missing or is none of the plugin's."""
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        return ()
    found, at = [], 0
    while at + _WORDS.size <= len(data):
        word, counters = _WORDS.unpack_from(data, at)
        at += _WORDS.size
        if word != _RECORD_WORD or at + 8 * counters > len(data):
            return ()
        found.append(struct.unpack_from(f"<{counters}Q", data, at))
        at += 8 * counters
    return tuple(found)
