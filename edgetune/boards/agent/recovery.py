"""Recovery levels of a lost board, tried in order; each one costs more than the one before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetune.errors import BoardBusy, BoardLost, EdgetuneError
from edgetune.events import Event

PING_S = 3.0
AGENT_S = 15.0
CONNECT_S = 30.0
REBOOT_S = 180.0
POWER_S = 240.0


@dataclass(frozen=True)
class RecoveryLevel:
    """One way to recover a board within `deadline_s`; `climb` returns False where it is not possible for this board.

    After `climb`, the board answers, or it has raised an EdgetuneError.
    """

    name: str
    deadline_s: float
    climb: Callable[[float], bool]


def recover_by_levels(
    board: str, rungs: Sequence[RecoveryLevel], on_event: Callable[[Event], None], ended: threading.Event
) -> None:
    """Try each recovery level in turn until one helps.

    An event reports each level and its result. Raises BoardLost, which lists all results, when no level helped or when
    the board was `ended` meanwhile, and BoardBusy when another user took it.
    """
    failures = []
    for rung in rungs:
        if ended.is_set():
            raise BoardLost(f"board '{board}' was closed during its recovery")
        _tell(board, f"{rung.name}: trying it for at most {rung.deadline_s:.0f} s", on_event)
        started = time.monotonic()
        try:
            possible = rung.climb(rung.deadline_s)
        except BoardBusy:
            raise
        except EdgetuneError as error:
            failures.append(f"{rung.name}: {error.message}")
            _tell(board, f"{rung.name}: {error.message}", on_event)
            continue
        if possible:
            _tell(board, f"{rung.name}: succeeded after {time.monotonic() - started:.1f} s", on_event)
            return
        failures.append(f"{rung.name}: not set up for this board")
        _tell(board, f"{rung.name}: not set up for this board", on_event)
    raise BoardLost(f"board '{board}' is lost: {'; '.join(failures)}")


def _tell(board: str, detail: str, on_event: Callable[[Event], None]) -> None:
    on_event(Event("board", {"board": board, "what": "rung", "detail": detail}))
