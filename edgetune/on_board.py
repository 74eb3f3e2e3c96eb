"""A package on a board that is not this machine: which board, the way there, and leaving nothing behind."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

from edgetune.boards.opening import open_reach
from edgetune.boards.reach import Reach
from edgetune.config.boards_file import BoardAddress, ResolvedBoard
from edgetune.errors import BoardUnavailable
from edgetune.events import Event
from edgetune.package.place import OnBoard

Events = Callable[[Event], None]


def elsewhere(resolved: ResolvedBoard) -> bool:
    """Whether there is a board of its own to run on: one with an address, or an emulated machine."""
    return bool(resolved.addresses) or resolved.target.reach == "machine"


@contextmanager
def on_board(resolved: ResolvedBoard, events: Events) -> Iterator[OnBoard]:
    """Give the board, or the first of several that answers; afterwards nothing of ours is left there.

    Raises BoardUnavailable and its kin when no board answers.
    """
    reach = _first(resolved, events)
    try:
        place = OnBoard(reach, reach.facts(), emulated=resolved.target.emulated)
        yield place
        if place.unpinned:
            _tell(events, reach.name, "the board has no taskset: its scheduler chose the core")
    finally:
        try:
            reach.clean()
        except BoardUnavailable as error:
            _tell(events, reach.name, f"what was put there may still be there: {error.message}")
        finally:
            reach.close()


def _first(resolved: ResolvedBoard, events: Events) -> Reach:
    choices: tuple[BoardAddress | None, ...] = resolved.addresses or (None,)
    for left, address in zip(range(len(choices) - 1, -1, -1), choices, strict=True):
        reach = open_reach(resolved.target, address, events)
        try:
            reach.connect()
        except BoardUnavailable as error:
            reach.close()
            if not left:
                raise
            _tell(events, reach.name, f"{error.message}; another board of its kind is tried", "lost")
        else:
            return reach
    raise BoardUnavailable(f"no board of target '{resolved.target.name}' is known: `edgetune boards add` tells one")


def _tell(events: Events, board: str, detail: str, what: str = "fallback") -> None:
    events(Event("board", {"board": board, "what": what, "detail": detail}))
