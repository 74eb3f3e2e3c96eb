"""Images on a real board without operating system: the command of a debug probe writes and runs each candidate."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from edgetune.boards.protocol import Board
from edgetune.boards.transport import BoardRequest
from edgetune.boards.transports.image import ImageTransport
from edgetune.errors import BoardUnavailable
from edgetune.target.programs import RequiredProgram, probe_of, require_programs
from edgetune.target.target import KeyFault, Probe, Target

if TYPE_CHECKING:
    from edgetune.boards.image.runner import ImageRunner


class ProbeTransport(ImageTransport):
    """Each candidate is an image of its own. The probe writes it to a real board, where it counts its cycles."""

    without_address = "a debug probe reaches it"
    alone = "runs images by a debug probe, which no other transport does"
    emulates = False
    counts = False
    shown = "cycles, by a debug probe"
    finding = "counts cycles"

    def runner(self, target: Target) -> ImageRunner:
        """Return what runs its images: the probe. Raises ToolchainMissing."""
        from edgetune.boards.image.probed_images import ProbedImages

        require_programs(probe_of(target))
        return ProbedImages(target, _probe(target))

    def board(self, request: BoardRequest) -> Board:
        """Return the board; one run at a time uses its probe."""
        from edgetune.boards.image.board import ImageBoard
        from edgetune.boards.image.probe_lock import probe_lock

        host, target = request.host, request.target
        lock = probe_lock(_probe(target), host.lock_timeout_s, host.on_event)
        return ImageBoard(target, partial(self.runner, target), host, lock=lock)

    def target_fault(self, target: Target) -> KeyFault | None:
        """Demand a probe, a memory map to link by, and the clock of the core."""
        if target.debug_probe is None:
            return KeyFault("", "needs 'debug_probe', whose command runs its images, with 'reach: probe'")
        if target.emulated:
            return KeyFault("emulated", "is true, but 'reach: probe' is for real boards: leave it out")
        if target.clock_mhz is None:
            return KeyFault("", "needs 'clock_mhz', by which cycles become times, with 'reach: probe'")
        return self.fault_of_images(target)

    def programs(self, target: Target) -> tuple[RequiredProgram, ...]:
        """Return the command of the probe."""
        return probe_of(target)


def _probe(target: Target) -> Probe:
    if target.debug_probe is None:
        raise BoardUnavailable(f"board '{target.name}' has no 'debug_probe': add it to its target file")
    return target.debug_probe


PROBE = ProbeTransport()
