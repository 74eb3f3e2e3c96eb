"""Factory of boards: makes the boards of a search, or one with an agent for a package."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.boards.access import BoardAccess
from edgetune.boards.cores import split_cores
from edgetune.boards.host_resources import HostResources, OnEvent
from edgetune.boards.protocol import Board
from edgetune.target.target import with_cpu

if TYPE_CHECKING:
    from edgetune.boards.agent.board import AgentBoard


@dataclass(frozen=True)
class BoardFactory:
    """Makes the boards of a session, given a folder of this machine for their files and a callback for events.

    `here`: this machine is one of them, so that builds must stay away from the core that measures.
    """

    make: Callable[[Path, OnEvent], Sequence[Board]]
    here: bool = False


def boards_of(boards: Sequence[BoardAccess], *, lock_file: Path | None = None) -> BoardFactory:
    """Return the factory of these boards for a measuring session; it raises what `BoardAccess.board` raises."""

    def make(folder: Path, on_event: OnEvent) -> list[Board]:
        host = HostResources(folder, split_cores(), lock_file, on_event=on_event)
        return [access.board(host) for access in boards]

    return BoardFactory(make, here=any(access.transport.here for access in boards))


def open_agent_board(access: BoardAccess, on_event: OnEvent) -> AgentBoard:
    """Return a board that our agent serves, whatever its transport; it is not yet connected.

    Its lock is the same one that our TVM RPC server takes on such a board. Raises BoardUnavailable when the board
    cannot be reached from here.
    """
    from edgetune.boards.agent.board import AgentBoard

    return AgentBoard(with_cpu(access.target), access.link(on_event), cores=access.cores, on_event=on_event)
