"""`edgetune boards setup`: a resolved board enters, a board that is ready to measure leaves, or what it lacks."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from edgetune.boards.check import check
from edgetune.boards.opening import open_boards
from edgetune.config.boards_file import BoardAddress, ResolvedBoard
from edgetune.config.findings import Finding
from edgetune.config.quantities import format_bytes
from edgetune.config.target import Target
from edgetune.errors import EdgetuneError
from edgetune.events import Event
from edgetune.measure.cores import split_cores
from edgetune.measure.options import MeasuringOptions

Events = Callable[[Event], None]


def prepare(resolved: ResolvedBoard, events: Events) -> Iterator[Finding]:
    """Make everything that the first measurement would otherwise wait for; yield what was found on the way.

    The image of an emulated machine is built into the user's cache. The agent is compiled, brought to each board that
    passes its check, started, asked, and removed again. Raises what building the image raises.
    """
    if resolved.target.reach == "machine":
        yield _image(resolved.target, events)
    findings = list(check(resolved))
    yield from findings
    failed = {finding.board for finding in findings if not finding.ok and finding.required}
    if "" in failed:
        return  # without a compiler there is no agent
    for address in resolved.addresses:
        if address.name not in failed:
            yield replace(_agent(resolved.target, address, events), board=address.name)


def _image(target: Target, events: Events) -> Finding:
    from edgetune.boards.machine.image import setup

    image = setup(target, events)
    size = format_bytes(image.kernel.stat().st_size + image.file_system.stat().st_size)
    return Finding("image", True, f"{image.folder}, {size}")


def _agent(target: Target, address: BoardAddress, events: Events) -> Finding:
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="edgetune-setup-") as folder:
            options = MeasuringOptions(addresses=(address,))
            (board,) = open_boards(target, options, Path(folder), split_cores(), lock_timeout_s=5.0, on_event=events)
            try:
                board.reserve()
                board.release()
            finally:
                board.close()
    except EdgetuneError as error:
        return Finding("agent", False, error.message, "", True, error.exit_code)
    return Finding("agent", True, f"runs there; {time.monotonic() - started:.1f} s from here to its answer")
