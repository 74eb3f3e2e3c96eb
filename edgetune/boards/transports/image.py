"""Images under a system emulator: boards without operating system, whose instructions are counted."""

from __future__ import annotations

from collections.abc import Iterator

from edgetune.boards.host_resources import OnEvent
from edgetune.boards.protocol import Board
from edgetune.boards.reach import Reach
from edgetune.boards.transport import BoardRequest, Transport
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import BoardUnavailable, BoardUnfit, EdgetuneError
from edgetune.findings import Finding
from edgetune.target.board_kind import BoardKind
from edgetune.target.programs import RequiredProgram, emulator_of
from edgetune.target.target import KeyFault, Target

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

    def link(self, target: BoardKind, address: BoardAddress | None, on_event: OnEvent) -> Reach:  # noqa: ARG002
        """Raise BoardUnavailable: nothing but an image runs there."""
        raise BoardUnavailable(f"board '{target.name}' runs one image at a time, without a shell: no link leads to it")

    def board(self, request: BoardRequest) -> Board:
        """Return the board, whose emulator is started for each candidate."""
        from edgetune.boards.image.board import ImageBoard

        return ImageBoard(request.target, request.host)

    def target_fault(self, target: Target) -> KeyFault | None:
        """Demand a system emulator, and a memory map to link by."""
        if not target.emulator:
            return KeyFault("", "needs 'emulator', the command that runs its images, with 'reach: image'")
        if target.memory_map is None:
            return KeyFault("", "needs 'memory_map', by which images are linked, with 'reach: image'")
        return super().target_fault(target)

    def programs(self, target: Target) -> tuple[RequiredProgram, ...]:
        """Return the emulator, and the compiler of its plugin."""
        return (_PLUGIN_COMPILER, *emulator_of(target))

    def findings_here(self, target: Target) -> Iterator[Finding]:
        """Yield whether an image that does nothing runs, and is counted."""
        from edgetune.boards.image.idle_image import idle_fault
        from edgetune.boards.image.parts import build_harness, build_regions_plugin
        from edgetune.boards.image.trial import ImageTrial

        name = "counts instructions"
        try:
            fault = idle_fault(ImageTrial(target, build_harness(target), build_regions_plugin()))
        except EdgetuneError as error:
            yield Finding(name, False, error.message, "", True, error.exit_code)
            return
        fix = "correct `emulator`, `memory_map` or the compiler's flags in its target file" if fault else ""
        yield Finding(name, not fault, fault or target.emulator[0], fix, True, BoardUnfit.exit_code)


IMAGE = ImageTransport()
