"""Recovery of a lost board with retries: repeats the board's own recovery after waits, because the cause may pass."""

from __future__ import annotations

import time
from collections.abc import Callable

from edgetune.boards.protocol import Board
from edgetune.errors import BoardFull, BoardLost, BoardUnavailable, HostUnknown, ProtocolViolation

WAITS_S = (5.0, 15.0, 45.0)
SENSELESS = (ValueError, ArithmeticError, LookupError)
"""Errors that our own steps raise when a board's answer makes no sense."""
LOSSES = (BoardUnavailable, OSError, EOFError, *SENSELESS)
"""Errors that a board's methods may raise when the board is lost."""
_PASSING = (BoardLost, ProtocolViolation, HostUnknown, BoardFull)


def loss_of(board: str, step: str, error: Exception) -> BoardUnavailable:
    """Convert one of `LOSSES`, raised in `step`, into an error of the board called `board`."""
    if isinstance(error, BoardUnavailable):
        return error
    words = f"{type(error).__name__}: {error}"
    if isinstance(error, SENSELESS):
        return ProtocolViolation(
            f"board '{board}': its answer in step '{step}' is not valid ({words}): check the board"
        )
    return BoardLost(f"board '{board}' was lost in step '{step}' ({words})")


def bring_back(
    board: Board, within_s: float, tell: Callable[[str, str], None], pause: Callable[[float], None] = time.sleep
) -> None:
    """Recover `board`, with retries after each of `WAITS_S`, as long as a retry begins within `within_s` seconds.

    `tell` is called with "rung" and a sentence before each wait; `pause` waits, and may raise to end this. Raises
    BoardLost, or another class of BoardUnavailable, when nothing helped.
    """
    until = time.monotonic() + within_s
    for wait in (*WAITS_S, None):
        try:
            board.recover()
        except LOSSES as error:
            loss = loss_of(board.name, "recover", error)
            if wait is None or not isinstance(loss, _PASSING) or time.monotonic() + wait >= until:
                raise loss from error
            tell("rung", f"it is tried again in {wait:g} s ({loss.message})")
            pause(wait)
        else:
            return
