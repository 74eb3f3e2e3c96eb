"""Images under a system emulator: boards without operating system, whose instructions are counted."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, ClassVar

from edgetune.boards.host_resources import OnEvent
from edgetune.boards.protocol import Board
from edgetune.boards.reach import Reach
from edgetune.boards.transport import BoardRequest, Transport
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import BoardUnavailable, BoardUnfit, EdgetuneError
from edgetune.findings import Finding
from edgetune.target.board_kind import BoardKind
from edgetune.target.programs import RequiredProgram, emulator_of, require_programs
from edgetune.target.target import KeyFault, Target

if TYPE_CHECKING:
    from edgetune.boards.image.runner import ImageRunner

_PLUGIN_COMPILER = RequiredProgram("gcc", "gcc libc6-dev", "which compiles the emulator's plugin")


class ImageTransport(Transport):
    """Each candidate is an image of its own under the target's system emulator, a process of this machine."""

    without_address = "it is emulated here"
    alone = "counts instructions of images, which no other transport does"
    elsewhere = False
    linked = False
    emulates = True
    counts = True
    sweeps = False
    shown = "instruction counts"
    server = "images"
    finding: ClassVar[str] = "counts instructions"

    def runner(self, target: Target) -> ImageRunner:
        """Return what runs its images: the emulator, with the plugin compiled. Raises ToolchainMissing."""
        from edgetune.boards.image.emulated_images import EmulatedImages
        from edgetune.boards.image.parts import build_regions_plugin

        require_programs(emulator_of(target))
        return EmulatedImages(target, build_regions_plugin())

    def link(self, target: BoardKind, address: BoardAddress | None, on_event: OnEvent) -> Reach:  # noqa: ARG002
        """Raise BoardUnavailable: nothing but an image runs there."""
        raise BoardUnavailable(f"board '{target.name}' runs one image at a time, without a shell: no link leads to it")

    def board(self, request: BoardRequest) -> Board:
        """Return the board, whose emulator is started for each candidate."""
        from edgetune.boards.image.board import ImageBoard

        return ImageBoard(request.target, partial(self.runner, request.target), request.host)

    def target_fault(self, target: Target) -> KeyFault | None:
        """Demand a system emulator, and a memory map to link by."""
        if not target.emulator:
            return KeyFault("", "needs 'emulator', the command that runs its images, with 'reach: image'")
        return self.fault_of_images(target)

    def fault_of_images(self, target: Target) -> KeyFault | None:
        """Demand what any way to run images needs."""
        if target.memory_map is None:
            why = f"needs 'memory_map', by which images are linked, with 'reach: {target.reach}'"
            return KeyFault("", why)
        return super().target_fault(target)

    def programs(self, target: Target) -> tuple[RequiredProgram, ...]:
        """Return the emulator, and the compiler of its plugin."""
        return (_PLUGIN_COMPILER, *emulator_of(target))

    def findings_here(self, target: Target) -> Iterator[Finding]:
        """Yield whether an image that does nothing runs, and is counted."""
        from edgetune.boards.image.idle_image import idle_fault, unfit_words
        from edgetune.boards.image.parts import build_harness
        from edgetune.boards.image.trial import ImageTrial

        try:
            runner = self.runner(target)
            trial = ImageTrial(target, build_harness(target, runner.counting), runner)
            fault = idle_fault(trial)
        except EdgetuneError as error:
            yield Finding(self.finding, False, error.message, "", True, error.exit_code)
            return
        words = unfit_words(trial, fault) if fault else runner.command
        yield Finding(self.finding, not fault, words, runner.remedy if fault else "", True, BoardUnfit.exit_code)


IMAGE = ImageTransport()
