"""A package on a board that is not this machine: which board, the way there, and leaving nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any, TypeVar

from edgetune.boards.opening import open_reach
from edgetune.boards.reach import Reach
from edgetune.config.boards_file import BoardAddress, ResolvedBoard, load_board
from edgetune.errors import BoardLost, BoardUnavailable, ConfigError, HostUnknown, UnknownBoard
from edgetune.events import Event
from edgetune.package.place import Here, OnBoard
from edgetune.package.toolchain import Toolchain

Events = Callable[[Event], None]
Answer = TypeVar("Answer")

_AGAIN_WITHIN_S = 300.0  # a loss after longer is more likely a program that hangs, and would hang again


def elsewhere(resolved: ResolvedBoard) -> bool:
    """Whether there is a board of its own to run on: one with an address, or an emulated machine."""
    return bool(resolved.addresses) or resolved.target.reach == "machine"


def tell_here(manifest: dict[str, Any], events: Events) -> None:
    """Say that a package which was made for another board runs on this machine, and which `--board` changes that."""
    tools = Toolchain.of(manifest)
    try:
        made_for = load_board(tools.board)
    except (UnknownBoard, ConfigError):  # its target is not here, or boards.yaml is wrong, which is no matter of ours
        reachable, other = False, bool(tools.emulator)
    else:
        reachable = elsewhere(made_for) and not made_for.farm
        other = reachable or made_for.target.addressable
    if not other:
        return
    where = Here(tools).where
    advice = f"`--board {tools.board}` runs it there" if reachable else "`--board` names a board to run it on"
    events(Event("warning", {"message": f"made for {tools.board}, the package runs on {where}: {advice}"}))


def at_board(
    resolved: ResolvedBoard, events: Events, use: Callable[[OnBoard, Sequence[int]], Answer], again: bool = True
) -> Answer:
    """Return what `use` makes of the board and its cores; a board that is lost soon is tried once more, announced.

    Nothing of ours is left there. Raises BoardUnavailable and its kin, as `on_board`, and what `use` raises.
    """
    begun = time.monotonic()
    try:
        with on_board(resolved, events) as (place, cores):
            return use(place, cores)
    except (BoardLost, HostUnknown) as error:
        if not again or time.monotonic() - begun > _AGAIN_WITHIN_S:
            raise
        name = resolved.addresses[0].name if len(resolved.addresses) == 1 else resolved.target.name
        _tell(events, name, f"{error.message}; it is tried once more", "lost")
    return at_board(resolved, events, use, again=False)


@contextmanager
def on_board(resolved: ResolvedBoard, events: Events) -> Iterator[tuple[OnBoard, Sequence[int]]]:
    """Give the board, or the first of several that answers, and its cores; afterwards nothing of ours is left there.

    There are no cores where its address names none. Raises BoardUnavailable and its kin when no board answers, or when
    no package can be brought to any of them: those of farms are reached by a server of TVM alone.
    """
    reach, cores = _first(resolved, events)
    try:
        place = OnBoard(reach, reach.facts(), emulated=resolved.target.emulated)
        yield place, cores
        if place.unpinned:
            _tell(events, reach.name, "the board has no taskset: its scheduler chose the core")
    finally:
        try:
            reach.clean()
        except BoardUnavailable as error:
            _tell(events, reach.name, f"what was put there may still be there: {error.message}")
        finally:
            reach.close()


def _first(resolved: ResolvedBoard, events: Events) -> tuple[Reach, Sequence[int]]:
    if resolved.farm:
        names = ", ".join(f"'{address.name}'" for address in resolved.addresses)
        raise BoardUnavailable(
            f"board {names} is lent by a tracker, and its ssh host is only the way there, so no package can be brought "
            "to it: leave out --board to run it here"
        )
    own = tuple(address for address in resolved.addresses if not address.farm)
    choices: tuple[BoardAddress | None, ...] = own or (None,)
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
            return reach, address.cores if address is not None else ()
    raise BoardUnavailable(f"no board of target '{resolved.target.name}' is known: `edgetune boards add` tells one")


def _tell(events: Events, board: str, detail: str, what: str = "fallback") -> None:
    events(Event("board", {"board": board, "what": what, "detail": detail}))
