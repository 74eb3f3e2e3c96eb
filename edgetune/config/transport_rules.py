"""Rules of transports for the files of boards and targets; the installed transports have them, above this room."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from edgetune.target.board_kind import BoardKind
from edgetune.target.target import KeyFault

if TYPE_CHECKING:
    from edgetune.config.boards_file import BoardEntry


class TransportRules(Protocol):
    """What transports demand of the files that name them."""

    def target_fault(self, target: BoardKind) -> KeyFault | None:
        """Return what is wrong in a target's file; None where nothing is."""

    def address_fault(self, address: BoardEntry, target: BoardKind) -> KeyFault | None:
        """Return the key of a board of `target` that is wrong or has no effect; None where there is none."""

    def rpc_fault(self, name: str) -> str:
        """Return why `name` is no transport to an address, "" where it is one."""

    def without_address(self, target: BoardKind) -> str:
        """Return why boards of a target that is not `addressable` need no address."""

    def here(self, target: BoardKind) -> bool:
        """Whether the board of `target` is this machine."""


class AnyTransport:
    """Rules of no transport: files are checked by their form alone."""

    def target_fault(self, target: BoardKind) -> KeyFault | None:  # noqa: ARG002
        """Return None."""
        return None

    def address_fault(self, address: BoardEntry, target: BoardKind) -> KeyFault | None:  # noqa: ARG002
        """Return None."""
        return None

    def rpc_fault(self, name: str) -> str:  # noqa: ARG002
        """Return ""."""
        return ""

    def without_address(self, target: BoardKind) -> str:
        """Return that its target file says how it is reached."""
        return f"it is reached by '{target.reach}'"

    def here(self, target: BoardKind) -> bool:  # noqa: ARG002
        """Return False."""
        return False


ANY_TRANSPORT = AnyTransport()
