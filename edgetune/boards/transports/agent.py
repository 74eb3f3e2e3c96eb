"""Our agent, a C program on the board, over SSH; other transports take it over their own link."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.boards.host_resources import OnEvent
from edgetune.boards.protocol import Board
from edgetune.boards.reach import Reach
from edgetune.boards.transport import BoardRequest, Transport
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import BoardUnavailable
from edgetune.target.board_kind import BoardKind
from edgetune.target.target import Target, with_cpu

if TYPE_CHECKING:
    pass


class AgentTransport(Transport):
    """The agent on a board with an SSH address."""

    def link(self, target: BoardKind, address: BoardAddress | None, on_event: OnEvent) -> Reach:
        """Return the board's shell and files over SSH."""
        return ssh_link(with_cpu(target), address, on_event)

    def board(self, request: BoardRequest) -> Board:
        """Return the board whose agent runs at the other end of the link."""
        from edgetune.boards.agent.board import AgentBoard

        return AgentBoard(
            request.target,
            request.link(),
            cores=request.cores,
            lock_timeout_s=request.host.lock_timeout_s,
            on_event=request.host.on_event,
        )


def ssh_link(target: Target, address: BoardAddress | None, on_event: OnEvent) -> Reach:
    """Return the shell and files of a board with an SSH address; raises BoardUnavailable where it has none."""
    from edgetune.boards.ssh.reach import SshReach

    if address is None:
        raise BoardUnavailable(
            f"board '{target.name}' has no address: `edgetune boards add NAME --target {target.name} --ssh "
            "USER@HOST` gives one"
        )
    return SshReach(address, target, on_event=on_event)


AGENT = AgentTransport()
