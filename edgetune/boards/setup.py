"""`edgetune boards setup`: prepares the boards that a name resolves to, and reports what they lack."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

from edgetune.boards.check import check, check_here
from edgetune.boards.cores import split_cores
from edgetune.boards.opening import open_boards
from edgetune.boards.options import MeasuringOptions
from edgetune.config.boards_file import BoardAddress, ResolvedBoard
from edgetune.errors import EdgetuneError
from edgetune.events import Event
from edgetune.findings import Finding
from edgetune.target.target import Target
from edgetune.yaml_reader.quantities import format_bytes

Events = Callable[[Event], None]
_LOCK_S = 5.0


def prepare(resolved: ResolvedBoard, events: Events) -> Iterator[Finding]:
    """Prepare everything that the first measurement would otherwise wait for; yield the findings.

    Builds the image of an emulated machine into the user's cache. Compiles the agent, brings it to each board that
    passes its check, starts it, asks it, and removes it again. Raises what building the image raises.
    """
    target = resolved.target
    findings = list(check_here(target, alone=True)) if target.emulated else list(check(resolved))
    yield from findings
    failed = {finding.board for finding in findings if not finding.ok and finding.required}
    if "" in failed:
        return  # without a compiler there is no agent
    if target.reach == "machine":
        yield _image(target, events)
    boards: tuple[BoardAddress | None, ...] = resolved.addresses or ((None,) if target.emulated else ())
    for address in boards:
        name = address.name if address else target.name
        if name not in failed:
            yield replace(_agent(target, address, events), board=name)


def _image(target: Target, events: Events) -> Finding:
    from edgetune.boards.machine.image import setup

    image = setup(target, events)
    size = format_bytes(image.kernel.stat().st_size + image.file_system.stat().st_size)
    return Finding("image", True, f"{image.folder}, {size}", board=target.name)


def _agent(target: Target, address: BoardAddress | None, events: Events) -> Finding:
    """Open the board as a session does, and close it again."""
    what = "TVM's RPC server" if address and address.rpc == "tvm" else "agent"
    started = time.monotonic()
    options = MeasuringOptions(addresses=(address,) if address else ())
    try:
        with tempfile.TemporaryDirectory(prefix="edgetune-setup-") as folder:
            (board,) = open_boards(
                target, options, Path(folder), split_cores(), lock_timeout_s=_LOCK_S, on_event=events
            )
            try:
                board.reserve()
                board.release()
            finally:
                board.close()
    except EdgetuneError as error:
        fix = f"edgetune boards check {address.name if address else target.name}"
        return Finding(what, False, error.message, fix, True, error.exit_code)
    return Finding(what, True, f"ran there and was removed again; took {time.monotonic() - started:.1f} s")
