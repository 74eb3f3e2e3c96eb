"""Remote execution: runs a package on a free board under its lock, recovers a lost board, and leaves nothing behind."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, TypeVar

from edgetune.boards.access import BoardAccess
from edgetune.boards.agent.board import AgentBoard
from edgetune.boards.lock import LOCK_TIMEOUT_S
from edgetune.boards.opening import open_agent_board
from edgetune.boards.options import MeasuringOptions
from edgetune.errors import (
    BoardBusy,
    BoardLost,
    BoardUnavailable,
    ConfigError,
    HostUnknown,
    ProtocolViolation,
    UnknownBoard,
)
from edgetune.events import Event
from edgetune.measure.lost_board import bring_back
from edgetune.pipeline.boards import accesses, elsewhere, load_board
from edgetune.verify.place import OnBoard
from edgetune.verify.probed import execution_place
from edgetune.verify.toolchain import PackageToolchain

Events = Callable[[Event], None]
Answer = TypeVar("Answer")

_AGAIN_WITHIN_S = 300.0  # after a later loss the program probably hangs, and would hang again
_RETRY_S = 5.0  # each attempt to lock starts a program beside another run's measurement
_LOST = (BoardLost, HostUnknown, ProtocolViolation)


def tell_here(manifest: dict[str, Any], events: Events) -> None:
    """Report that a package for another board runs on this machine, and which `--board` changes that."""
    tools = PackageToolchain.of(manifest)
    if not tools.runs_here:
        return  # it is refused
    try:
        made_for = load_board(tools.board)
    except (UnknownBoard, ConfigError):  # its target is not here, or boards.yaml is wrong: neither matters here
        reachable, other = False, bool(tools.emulator)
    else:
        boards = accesses(made_for)
        reachable = elsewhere(boards) and not all(access.lent for access in boards)
        other = reachable or made_for.target.addressable
    if not other:
        return
    where = execution_place(tools).where
    advice = f"`--board {tools.board}` runs it there" if reachable else "`--board` names a board to run it on"
    events(Event("warning", {"message": f"made for {tools.board}, the package runs on {where}: {advice}"}))


@dataclass(frozen=True)
class _Choice:
    """A candidate board, and the cores that its address names."""

    board: AgentBoard
    cores: Sequence[int]


def at_board(boards: Sequence[BoardAccess], events: Events, use: Callable[[OnBoard, Sequence[int]], Answer]) -> Answer:
    """Reserve a free board, call `use` with it and the cores that its address names, and return the result.

    A lost board is recovered as in a search; events report it. If the loss came early, `use` is called once more, on
    another board of the kind where this one stays lost. No files stay on the board. Raises BoardBusy when other runs
    hold all boards for `LOCK_TIMEOUT_S`, BoardUnavailable and its subclasses when no board answers or no package can be
    copied to any of them (boards of farms are reachable only through a server of TVM), and what `use` raises.
    """
    again = True
    with _open(boards, events) as choices:
        while True:
            choice = _take(choices, events)
            place, begun = OnBoard(choice.board), time.monotonic()
            try:
                return _used(place, choice, use, events)
            except _LOST as error:
                again = again and time.monotonic() - begun <= _AGAIN_WITHIN_S
                following = "edgetune tries once more" if again else "the board is recovered for other runs"
                _tell(events, choice.board.name, f"{error.message}; {following}", "lost")
                lost = error
            choices.remove(choice)
            try:
                _recovered(choice.board, events)
                place.end_programs()
                choices.insert(0, choice)
            except BoardUnavailable as error:
                choice.board.close()
                if not again or not choices:
                    raise
                _tell(events, choice.board.name, f"{error.message}; edgetune tries another board of its kind", "lost")
            if not again:
                raise lost
            again = False


def _used(place: OnBoard, choice: _Choice, use: Callable[[OnBoard, Sequence[int]], Answer], events: Events) -> Answer:
    answer = use(place, choice.cores)
    if place.unpinned:
        _tell(events, choice.board.name, "the board has no taskset, so its scheduler chose the core")
    return answer


@contextmanager
def _open(boards: Sequence[BoardAccess], events: Events) -> Iterator[list[_Choice]]:
    """Give the candidate boards, not yet connected; at the end, close them and leave no files on them."""
    own = [access for access in boards if not access.lent]
    if not own:
        names = ", ".join(f"'{access.name}'" for access in boards)
        raise BoardUnavailable(
            f"board {names} is lent by a tracker, and its ssh host only reaches the tracker, so no package can be "
            "copied to it: leave out --board to run it here"
        )
    choices: list[_Choice] = []
    try:
        for access in own:
            board = open_agent_board(access, events)
            choices.append(_Choice(board, access.cores))
        yield choices
    finally:
        for choice in choices:
            choice.board.close()


def _take(choices: list[_Choice], events: Events) -> _Choice:
    """Reserve the first board that is free; boards that do not answer are removed from the list.

    A single board is waited for as in a search; several are tried repeatedly.
    """
    until, told = time.monotonic() + LOCK_TIMEOUT_S, False
    while True:
        wait_s = max(0.0, until - time.monotonic()) if len(choices) == 1 else 0.0
        busy: BoardBusy | None = None
        for choice in list(choices):
            try:
                _reserve(choice.board, wait_s, events, alone=len(choices) == 1)
            except BoardBusy as error:
                busy = error
            except BoardUnavailable as error:
                choices.remove(choice)
                choice.board.close()
                if not choices:
                    raise
                _tell(events, choice.board.name, f"{error.message}; edgetune tries another board of its kind", "lost")
            else:
                return choice
        if busy is None:
            continue
        if time.monotonic() >= until:
            raise busy
        if not told:
            told = True
            names = ", ".join(choice.board.name for choice in choices)
            events(Event("board", {"board": names, "what": "locked", "detail": f"waiting: {busy.message}"}))
        time.sleep(min(_RETRY_S, max(0.0, until - time.monotonic())))


def _reserve(board: AgentBoard, wait_s: float, events: Events, *, alone: bool) -> None:
    """Take the board's lock. A board lost during this is recovered when there is no other board."""
    try:
        board.reserve(wait_s)
    except HostUnknown as error:
        if not alone:
            raise
        _tell(events, board.name, f"{error.message}; edgetune tries once more", "lost")
        board.reserve(wait_s)
    except (BoardLost, ProtocolViolation) as error:
        if not alone:
            raise
        _tell(events, board.name, f"{error.message}; edgetune recovers it", "lost")
        _recovered(board, events)


def _recovered(board: AgentBoard, events: Events) -> None:
    def tell(what: str, detail: str) -> None:
        _tell(events, board.name, detail, what)

    bring_back(board, MeasuringOptions().recovery_s, tell)


def _tell(events: Events, board: str, detail: str, what: str = "fallback") -> None:
    events(Event("board", {"board": board, "what": what, "detail": detail}))
