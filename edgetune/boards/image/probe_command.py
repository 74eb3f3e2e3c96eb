"""Runs an image on a real board by the command of its debug probe, and reads what the image prints by semihosting.

Such a command (probe-rs, pyOCD, OpenOCD) writes the lines of the image to its standard output, perhaps among lines of
its own; it may go on when the image has ended. So a line of the image can say that it has ended: then the command may
end by itself, is interrupted, and is killed.
"""

from __future__ import annotations

import contextlib
import os
import select
import signal
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from edgetune.boards.agent.frames import printable
from edgetune.boards.image.emulation import exit_status
from edgetune.errors import BoardLost
from edgetune.ipc.process_group import program
from edgetune.target.tool_process import tool_environment

MOST_OUTPUT_BYTES = 1 << 20
"""Output of a probe's command after which it is ended: progress bars take some kilobytes."""

_CHUNK = 4096
_END_S = 0.5  # for a command that ends by itself after the image
_INTERRUPTED_S = 4.0  # for one that is interrupted: it releases the probe
_TICK_S = 0.05


@dataclass(frozen=True)
class ProbeOutput:
    """What a probe's command printed: `lines` of its standard output without their ends, as far as they are whole.

    `ended` says whether the last of them is one that ends the image, after which nothing is read; `late` whether the
    deadline came before, `flooded` whether there was too much; `status` is the exit status of a command that ended
    without such a line. `last_words` is the last line of all that it printed, printable.
    """

    lines: tuple[bytes, ...]
    last_words: str
    ended: bool = False
    late: bool = False
    flooded: bool = False
    status: int = 0


@dataclass
class _Stream:
    """Whole lines of a pipe, and the rest. A progress bar goes back to the beginning of its line."""

    descriptor: int
    lines: list[bytes] = field(default_factory=list)
    rest: bytes = b""

    def take(self, data: bytes) -> list[bytes]:
        """Add data; return the lines that it completes."""
        *whole, self.rest = (self.rest + data).split(b"\n")
        new = [line.removesuffix(b"\r").rpartition(b"\r")[2] for line in whole]
        self.lines += new
        return new

    @property
    def last_words(self) -> str:
        """The last line that is not empty, printable."""
        words = (printable(line.rpartition(b"\r")[2]).strip() for line in (self.rest, *reversed(self.lines)))
        return next(filter(None, words), "")


def run_by_probe(
    board: str,
    command: Sequence[str],
    folder: Path,
    timeout_s: float,
    ends: Callable[[bytes], bool],
    on_start: Callable[[int], None] = lambda _: None,
) -> ProbeOutput:
    """Run the `command` of a probe in `folder` until a line of which `ends` is true, for at most `timeout_s`.

    `on_start` gets its process group, which is ended in any case. Raises BoardLost where it cannot be started.
    """
    try:
        with program(
            command,
            cwd=folder,
            env=tool_environment(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            bufsize=0,
        ) as process:
            on_start(process.pid)
            return _read(process, time.monotonic() + timeout_s, ends)
    except OSError as error:
        raise BoardLost(f"board '{board}': {command[0]} cannot be started: {error.strerror}") from error


def _read(process: subprocess.Popen[bytes], deadline: float, ends: Callable[[bytes], bool]) -> ProbeOutput:
    if process.stdout is None or process.stderr is None:
        raise ValueError("the command of the probe was started without pipes")
    image, own = _Stream(process.stdout.fileno()), _Stream(process.stderr.fileno())
    open_ones, said, size = [image, own], image, 0
    ended = late = False
    while open_ones and size <= MOST_OUTPUT_BYTES and not ended:
        left = deadline - time.monotonic()
        ready = select.select([one.descriptor for one in open_ones], [], [], max(0.0, left))[0]
        if left <= 0 or not ready:
            late = True
            break
        for one in [one for one in open_ones if one.descriptor in ready]:
            data = os.read(one.descriptor, _CHUNK)
            if not data:
                open_ones.remove(one)
                continue
            said, size = one, size + len(data)
            new = one.take(data)
            if one is image and (last := next((at for at, line in enumerate(new) if ends(line)), None)) is not None:
                ended = True  # what the command says itself after it is none of the image's
                del image.lines[len(image.lines) - len(new) + last + 1 :]
    flooded = size > MOST_OUTPUT_BYTES and not ended
    status = 0
    if not ended and not late and not flooded:
        status, late = exit_status(process, deadline)
    if process.poll() is None:
        _let_go(process, [one.descriptor for one in open_ones])
    words = said.last_words or own.last_words or image.last_words
    return ProbeOutput(tuple(image.lines), words, ended, late, flooded, status)


def _let_go(process: subprocess.Popen[bytes], open_ones: list[int]) -> None:
    """Wait for the end of a command, then interrupt it and wait again: it releases the probe. The caller kills it."""
    if _gone(process, open_ones, _END_S):
        return
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGINT)
    _gone(process, open_ones, _INTERRUPTED_S)


def _gone(process: subprocess.Popen[bytes], open_ones: list[int], within_s: float) -> bool:
    """Whether a command ends `within_s`; what it prints is read, so that no full pipe stops it."""
    until = time.monotonic() + within_s
    while process.poll() is None:
        if time.monotonic() >= until:
            return False
        ready = select.select(open_ones, [], [], _TICK_S)[0] if open_ones else []
        for descriptor in ready:
            if not os.read(descriptor, _CHUNK):
                open_ones.remove(descriptor)
        if not open_ones:
            time.sleep(_TICK_S)
    return True
