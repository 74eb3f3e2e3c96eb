"""A host with a GPU behind SSH: candidates run there in rounds, while the host's lock is held, without an agent."""

from __future__ import annotations

from collections.abc import Iterator
from typing import NoReturn

from edgetune.boards.host_resources import OnEvent
from edgetune.boards.reach import Reach
from edgetune.boards.transport import BoardRequest, Transport
from edgetune.config.boards_file import BoardAddress, BoardEntry
from edgetune.errors import BoardUnavailable
from edgetune.findings import Finding
from edgetune.target.board_kind import BoardKind
from edgetune.target.gpu import GpuTarget
from edgetune.target.target import KeyFault


class GpuTransport(Transport):
    """Rounds of candidates for the GPU of a host with an SSH address."""

    elsewhere = False
    server = "the runner of rounds"

    def serves(self, target: BoardKind) -> bool:
        """Those with a GPU."""
        return isinstance(target, GpuTarget)

    def link(self, target: BoardKind, address: BoardAddress | None, on_event: OnEvent) -> Reach:
        """Return the host's shell and files over SSH; its CPU may be any."""
        from edgetune.boards.ssh.reach import SshReach

        if address is None:
            raise BoardUnavailable(
                f"board '{target.name}' has no address: `edgetune boards add NAME --target {target.name} --ssh "
                "USER@HOST` gives one"
            )
        return SshReach(address, None, on_event=on_event)

    def board(self, request: BoardRequest) -> NoReturn:
        """Raise BoardUnavailable: a GPU takes rounds, not one candidate at a time."""
        raise BoardUnavailable(
            f"board '{request.target.name}' times rounds of candidates, and takes none alone: use `edgetune tune`"
        )

    def conflict(self, address: BoardEntry, target: BoardKind) -> KeyFault | None:
        """Refuse cores, and what needs an agent or a tracker."""
        if address.cores:
            return KeyFault("cores", "has no effect on a GPU: leave it out")
        if address.reboot is not None or address.power is not None:
            key = "reboot" if address.reboot is not None else "power"
            return KeyFault(key, "has no effect on a GPU, whose host is not recovered: leave it out")
        return super().conflict(address, target)

    def inspect(self, reach: Reach, target: BoardKind, address: BoardAddress | None) -> Iterator[Finding]:
        """Yield what the host says of its GPU, and what its rounds need."""
        from edgetune.boards.gpu_check import inspect_gpu

        return inspect_gpu(reach, target, address.name if address is not None else target.name)


GPU = GpuTransport()
