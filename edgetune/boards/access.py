"""Access to one board: its target, its address, and the transports that reach it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetune.boards.host_resources import HostResources, OnEvent
from edgetune.boards.protocol import Board
from edgetune.boards.reach import Reach
from edgetune.boards.transport import BoardRequest, Transport
from edgetune.config.boards_file import BoardAddress
from edgetune.target.board_kind import BoardKind
from edgetune.target.programs import MAKE, RequiredProgram, compiler_of
from edgetune.target.target import with_cpu


@dataclass(frozen=True)
class BoardAccess:
    """How one board of `target` is reached; `address` is None where the target needs none.

    Candidates are timed by `transport`. Shell and files are those of `carrier`: the target's own transport, or else
    the same one.
    """

    target: BoardKind
    address: BoardAddress | None
    transport: Transport
    carrier: Transport

    @property
    def name(self) -> str:
        """Name of the board in records."""
        return self.address.name if self.address is not None else self.target.name

    @property
    def cores(self) -> tuple[int, ...]:
        """Cores of the board to time on, as its address names them; none: the board's last one."""
        return self.address.cores if self.address is not None else ()

    @property
    def lent(self) -> bool:
        """Whether a farm lends the board, so that no package can be brought to it."""
        return self.address is not None and self.transport.lends(self.address)

    @property
    def programs(self) -> tuple[RequiredProgram, ...]:
        """Programs of this machine that a search on the board needs, up to the verification of the package."""
        cpu = with_cpu(self.target)
        make = () if self.carrier.here else (MAKE,)
        extra = (*self.carrier.programs(cpu), *self.transport.programs(cpu))
        return tuple(dict.fromkeys((compiler_of(cpu), *make, *extra)))

    def link(self, on_event: OnEvent = lambda _: None) -> Reach:
        """Return its shell and files, not yet connected; raises BoardUnavailable where it has none."""
        return self.carrier.link(self.target, self.address, on_event)

    def shell_command(self, words: Sequence[str]) -> list[str]:
        """Return the command line of its shell; raises UsageError where there is none."""
        return self.carrier.shell_command(self.target, self.address, words)

    def enter(self, words: Sequence[str], note: Callable[[str], None]) -> int:
        """Run its shell, or `words` there, and return the exit status; raises what `Transport.enter` raises."""
        return self.carrier.enter(self.target, self.address, words, note)

    def board(self, host: HostResources) -> Board:
        """Return the board, not yet connected.

        Raises BoardUnavailable when it cannot be reached from here, and UsageError when its transport cannot time what
        its target requires.
        """
        request = BoardRequest(with_cpu(self.target), self.address, lambda: self.link(host.on_event), self.cores, host)
        return self.transport.board(request)
