"""Transport: the protocol of a way by which boards are reached and candidates are timed on them.

A member of the registry `edgetune.transports` derives from `Transport`, or from another member, and overrides what
differs. It travels to the process that measures, so it is an instance without state, of a class of its module.
"""

from __future__ import annotations

import subprocess
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import ClassVar, Protocol

from edgetune.boards.host_resources import HostResources, OnEvent
from edgetune.boards.protocol import Board
from edgetune.boards.reach import Reach
from edgetune.config.boards_file import BoardAddress, BoardEntry
from edgetune.errors import UsageError
from edgetune.findings import Finding
from edgetune.target.board_kind import BoardKind
from edgetune.target.programs import RequiredProgram
from edgetune.target.target import KeyFault, Target


@dataclass(frozen=True)
class BoardRequest:
    """What a transport makes a board of.

    `link` makes the shell and files of the board, not yet connected. `cores` of the board time candidates (none: its
    last one).
    """

    target: Target
    address: BoardAddress | None
    link: Callable[[], Reach]
    cores: tuple[int, ...]
    host: HostResources


class Transport(Protocol):
    """A way to boards. Only `link` and `board` have no default.

    An `address` is None where the boards of the target need none. `without_address` is the reason for that, such as
    "it is this machine": then `reach` of a target names the transport. Where it is "", `rpc` of an address does.
    `alone` is the reason why `--rpc` cannot name another transport ("": it can, and uses this one's link). `here`: the
    board is this machine, whose measuring core times the candidates, and there is no link. `elsewhere`: our agent and
    programs of a package run at the other end of the link, so that is where packages are verified. `linked`: there is a
    link, with a shell and files at its other end. `emulates`: no real core is timed. `counts`: it counts instructions
    instead of time. `sweeps`: it can sweep the caches before each call. `shown` is how `boards list` says that boards
    are tuned, `server` is the program on a board that times candidates.
    """

    without_address: ClassVar[str] = ""
    alone: ClassVar[str] = ""
    here: ClassVar[bool] = False
    linked: ClassVar[bool] = True
    elsewhere: ClassVar[bool] = True
    emulates: ClassVar[bool] = False
    counts: ClassVar[bool] = False
    sweeps: ClassVar[bool] = True
    shown: ClassVar[str] = "needs an address"
    server: ClassVar[str] = "agent"

    @abstractmethod
    def link(self, target: BoardKind, address: BoardAddress | None, on_event: OnEvent) -> Reach:
        """Return the shell and files of a board, not yet connected.

        Raises BoardUnavailable where the board cannot be reached from here.
        """

    @abstractmethod
    def board(self, request: BoardRequest) -> Board:
        """Return the board, not yet connected; it owns its link. Raises UsageError where the target rules it out."""

    def serves(self, target: BoardKind) -> bool:
        """Whether it times candidates of such a kind of board: those with a CPU, where a member says nothing else."""
        return isinstance(target, Target)

    def target_fault(self, target: Target) -> KeyFault | None:
        """Return what is wrong in the file of a target that is reached so; None where nothing is."""
        if target.clock == "instructions" and not self.counts:
            return KeyFault("clock", f"is 'instructions', but 'reach: {target.reach}' measures time: leave it out")
        if target.clock != "instructions" and self.counts:
            return KeyFault("reach", f"is '{target.reach}', which counts instructions: add 'clock: instructions'")
        if target.caches == "cold" and not self.sweeps:
            why = "needs 'reach: ssh' or 'reach: machine' with 'caches: cold': the agent flushes them"
            return KeyFault("", why)
        if self.emulates and not target.emulated:
            why = f"is '{target.reach}', where no real core is timed: add 'emulated: true', which older files lack"
            return KeyFault("reach", why)
        return None

    def conflict(self, address: BoardEntry, target: BoardKind) -> KeyFault | None:  # noqa: ARG002  for members
        """Return a key of boards.yaml that has no effect on a board of `target`, which it serves; None: none has."""
        if address.tracker is not None:
            return KeyFault("tracker", "needs rpc tvm: add that, or leave the tracker out")
        if address.key is not None:
            why = "is for boards of a farm: add rpc tvm and the tracker's host:port, or leave the key out"
            return KeyFault("key", why)
        if address.priority != 1:
            why = "is for boards that a tracker lends: add rpc tvm and the tracker, or leave the priority out"
            return KeyFault("priority", why)
        return None

    def lends(self, address: BoardEntry) -> bool:  # noqa: ARG002  for members
        """Whether the address is that of a farm: only this transport reaches its boards, and no package does."""
        return False

    def programs(self, target: Target) -> tuple[RequiredProgram, ...]:  # noqa: ARG002  for members
        """Return the programs of this machine that measuring needs beside the compiler, such as an emulator."""
        return ()

    def findings_here(self, target: Target) -> Iterator[Finding]:  # noqa: ARG002  for members
        """Yield what `boards check` reports about this machine beside the compiler; `programs` are installed."""
        yield from ()

    def inspect(self, reach: Reach, target: BoardKind, address: BoardAddress | None) -> Iterator[Finding]:
        """Yield what `boards check` reports about a board, to which `reach` is connected."""
        from edgetune.boards.check import inspect_board

        return inspect_board(reach, target, address)

    def prepare(self, target: Target, on_event: OnEvent) -> Iterator[Finding]:  # noqa: ARG002  for members
        """Prepare what the first link needs on this machine, as `boards setup` does; yield what was prepared."""
        yield from ()

    def shell_command(self, target: BoardKind, address: BoardAddress | None, words: Sequence[str]) -> list[str]:
        """Return the command line for a shell on the board, or for the command `words` there.

        Raises UsageError where there is no such command line.
        """
        from edgetune.boards.ssh.command_line import ssh_command

        if address is None:
            raise UsageError(f"'{target.name}' has no address: {self.without_address}")
        return ssh_command(address, words)

    def enter(
        self,
        target: BoardKind,
        address: BoardAddress | None,
        words: Sequence[str],
        note: Callable[[str], None],  # noqa: ARG002  for members
    ) -> int:
        """Run a shell (or `words`) on the board and return its exit status.

        `note` receives a sentence before each step that takes time. Raises ToolchainMissing, what `shell_command`
        raises, and what starting the board raises.
        """
        from edgetune.boards.ssh.command_line import require_ssh

        require_ssh()
        return subprocess.run(self.shell_command(target, address, words), check=False).returncode
