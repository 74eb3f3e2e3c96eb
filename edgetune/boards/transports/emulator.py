"""A user-mode emulator as a board: the agent runs as a process of this machine, and instructions are counted."""

from __future__ import annotations

from edgetune.boards.host_resources import OnEvent
from edgetune.boards.reach import Reach
from edgetune.boards.transports.agent import AgentTransport
from edgetune.config.boards_file import BoardAddress
from edgetune.target.board_kind import BoardKind
from edgetune.target.programs import RequiredProgram, emulator_of
from edgetune.target.target import KeyFault, Target, with_cpu

_STARTER = RequiredProgram("gcc", "gcc libc6-dev", "which compiles what starts the emulator")


class EmulatorTransport(AgentTransport):
    """The agent under the target's emulator, a process of this machine."""

    without_address = "it is emulated here"
    alone = "counts instructions, which only the agent can do"
    elsewhere = False
    emulates = True
    counts = True
    sweeps = False
    shown = "instruction counts"

    def link(self, target: BoardKind, address: BoardAddress | None, on_event: OnEvent) -> Reach:  # noqa: ARG002
        """Return processes of this machine under the emulator."""
        from edgetune.boards.process import ProcessReach

        return ProcessReach(target.name, with_cpu(target))

    def target_fault(self, target: Target) -> KeyFault | None:
        """Demand an emulator."""
        if target.clock == "instructions" and not target.emulator:
            return KeyFault("", "needs 'emulator', the command that runs its programs, with 'reach: emulator'")
        return super().target_fault(target)

    def programs(self, target: Target) -> tuple[RequiredProgram, ...]:
        """Return the emulator, and the compiler of the program that starts it."""
        return (_STARTER, *emulator_of(target))


EMULATOR = EmulatorTransport()
