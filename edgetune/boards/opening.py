"""Factory of boards: makes the boards of a search, or one with an agent for a package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.boards.access import BoardAccess
from edgetune.boards.cores import CoreSplit, split_cores
from edgetune.boards.lock import LOCK_TIMEOUT_S
from edgetune.boards.protocol import Board
from edgetune.boards.transport import OnEvent

if TYPE_CHECKING:
    from edgetune.boards.agent.board import AgentBoard


@dataclass(frozen=True)
class BoardFactory:
    """Makes the boards of a session, given a folder of this machine for their files and a callback for events.

    `here`: this machine is one of them, so that builds must stay away from the core that measures.
    """

    make: Callable[[Path, OnEvent], Sequence[Board]]
    here: bool = False


def open_boards(
    boards: Sequence[BoardAccess],
    folder: Path,
    split: CoreSplit,
    *,
    lock_file: Path | None = None,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
    on_event: OnEvent = lambda _: None,
) -> list[Board]:
    """Return the boards to measure on; none is connected yet. The arguments are those of `BoardRequest`.

    Raises BoardUnavailable when a board cannot be reached from here, and UsageError when its transport cannot time
    what its target requires.
    """
    return [
        access.board(folder, split, lock_file=lock_file, lock_timeout_s=lock_timeout_s, on_event=on_event)
        for access in boards
    ]


def boards_of(boards: Sequence[BoardAccess], *, lock_file: Path | None = None) -> BoardFactory:
    """Return the factory of these boards for a measuring session."""

    def make(folder: Path, on_event: OnEvent) -> list[Board]:
        return open_boards(boards, folder, split_cores(), lock_file=lock_file, on_event=on_event)

    return BoardFactory(make, here=any(access.transport.here for access in boards))


def open_agent_board(
    access: BoardAccess,
    *,
    lock_timeout_s: float = LOCK_TIMEOUT_S,
    on_event: OnEvent = lambda _: None,
) -> AgentBoard:
    """Return a board that our agent serves, whatever its transport; it is not yet connected.

    Its lock is the same one that our TVM RPC server takes on such a board. Raises BoardUnavailable when the board
    cannot be reached from here.
    """
    from edgetune.boards.transports.agent import agent_board

    return agent_board(
        access.link(on_event), access.target, access.cores, lock_timeout_s=lock_timeout_s, on_event=on_event
    )
