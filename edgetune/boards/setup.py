"""`edgetune boards setup`: prepares the boards that a name resolves to, and reports what they lack."""

from __future__ import annotations

import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from edgetune.boards.access import BoardAccess
from edgetune.boards.check import check, check_here, own_transport
from edgetune.boards.cores import split_cores
from edgetune.boards.host_resources import HostResources
from edgetune.errors import EdgetuneError
from edgetune.events import Event
from edgetune.findings import Finding
from edgetune.target.board_check import StartWords, hosted
from edgetune.target.target import Target

Events = Callable[[Event], None]
_LOCK_S = 5.0


def prepare(
    target: Target, boards: Sequence[BoardAccess], events: Events, start: StartWords = hosted
) -> Iterator[Finding]:
    """Prepare everything that the first measurement would otherwise wait for; yield the findings.

    A target's own transport prepares this machine, for example the image of an emulated one. Compiles the agent, brings
    it to each board that passes its check, starts it, asks it, and removes it again. `start` is that of the target's
    backend. Raises what the transport raises.
    """
    own = own_transport(boards)
    findings = list(check(target, boards, start) if own is None else check_here(target, boards, start))
    yield from findings
    failed = {finding.board for finding in findings if not finding.ok and finding.required}
    if "" in failed:
        return  # without a compiler there is no agent
    if own is not None:
        yield from own.prepare(target, events)
    for access in boards:
        if access.name not in failed and not access.carrier.here:
            yield replace(_started(access, events), board=access.name)


def _started(access: BoardAccess, events: Events) -> Finding:
    """Open the board as a session does, and close it again."""
    what = access.transport.server
    started = time.monotonic()
    try:
        with tempfile.TemporaryDirectory(prefix="edgetune-setup-") as folder:
            host = HostResources(Path(folder), split_cores(), lock_timeout_s=_LOCK_S, on_event=events)
            board = access.board(host)
            try:
                board.reserve()
                board.release()
            finally:
                board.close()
    except EdgetuneError as error:
        return Finding(what, False, error.message, f"edgetune boards check {access.name}", True, error.exit_code)
    return Finding(what, True, f"ran there and was removed again; took {time.monotonic() - started:.1f} s")
