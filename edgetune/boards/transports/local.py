"""This machine as a board: candidates run in a process of its measuring core."""

from __future__ import annotations

from edgetune.boards.host_resources import OnEvent
from edgetune.boards.protocol import Board
from edgetune.boards.reach import Reach
from edgetune.boards.transport import BoardRequest, Transport
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import BoardUnavailable
from edgetune.target.board_kind import BoardKind


class LocalTransport(Transport):
    """This machine, without any link."""

    without_address = "it is this machine"
    alone = "is this machine"
    here = True
    elsewhere = False
    linked = False
    sweeps = False
    shown = "here"

    def link(self, target: BoardKind, address: BoardAddress | None, on_event: OnEvent) -> Reach:  # noqa: ARG002
        """Raise BoardUnavailable: there is no link."""
        raise BoardUnavailable(f"board '{target.name}' is this machine: no link leads to it")

    def board(self, request: BoardRequest) -> Board:
        """Return this machine."""
        from edgetune.boards.local.board import LocalBoard

        return LocalBoard(request.target, request.host)


LOCAL = LocalTransport()
