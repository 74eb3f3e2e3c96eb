"""A whole emulated machine as a board: QEMU with a real kernel and an SSH server, on which the agent runs."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Callable, Iterator, Sequence

from edgetune.boards.host_resources import OnEvent
from edgetune.boards.reach import Reach
from edgetune.boards.transports.agent import AgentTransport
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import UsageError
from edgetune.findings import Finding
from edgetune.target.board_kind import BoardKind
from edgetune.target.programs import RequiredProgram
from edgetune.target.target import Target, with_cpu
from edgetune.yaml_reader.quantities import format_bytes

_EMULATOR = "qemu-system-aarch64"
_BOOT_S = 120.0


class MachineTransport(AgentTransport):
    """The agent in an emulated machine, which is started with the link and ends with it."""

    without_address = "its machine is started here"
    emulates = True
    shown = "emulated machine"

    def link(self, target: BoardKind, address: BoardAddress | None, on_event: OnEvent) -> Reach:  # noqa: ARG002
        """Return the machine, not yet started."""
        from edgetune.boards.machine.reach import MachineReach

        return MachineReach(with_cpu(target), on_event)

    def programs(self, target: Target) -> tuple[RequiredProgram, ...]:
        """Return the emulator, and the program that ends it with us."""
        role = f"the emulator of board '{target.name}'"
        ends = RequiredProgram("setpriv", "util-linux", f"which ends {role}")
        return RequiredProgram(_EMULATOR, "qemu-system-arm", role), ends

    def findings_here(self, target: Target) -> Iterator[Finding]:  # noqa: ARG002
        """Yield the path of the emulator."""
        yield Finding("machine emulator", True, shutil.which(_EMULATOR) or "")

    def prepare(self, target: Target, on_event: OnEvent) -> Iterator[Finding]:
        """Build the image into the user's cache; raises ToolchainMissing, BoardUnavailable, DiskFull, OutputRefused."""
        from edgetune.boards.machine.image import setup

        image = setup(target, on_event)
        size = format_bytes(image.kernel.stat().st_size + image.file_system.stat().st_size)
        yield Finding("image", True, f"{image.folder}, {size}", board=target.name)

    def shell_command(self, target: BoardKind, address: BoardAddress | None, words: Sequence[str]) -> list[str]:  # noqa: ARG002
        """Raise UsageError: no command line leads to a machine that is off."""
        raise UsageError(
            f"the emulated board '{target.name}' runs only while its shell is open, so there is no command to print: "
            "leave out --json"
        )

    def enter(
        self,
        target: BoardKind,
        address: BoardAddress | None,  # noqa: ARG002
        words: Sequence[str],
        note: Callable[[str], None],
    ) -> int:
        """Start the machine for the shell, and end it after that; raises BoardUnavailable where it has no image."""
        from edgetune.boards.machine.reach import MachineReach
        from edgetune.boards.ssh.command_line import remote_words, require_ssh

        require_ssh()
        machine = MachineReach(with_cpu(target), lambda _: None)
        try:
            note(f"starting {target.name}; it ends with the shell")
            machine.connect(_BOOT_S)
            command = ["ssh", "-F", str(machine.ssh_config), "--", machine.name, *remote_words(words)]
            return subprocess.run(command, check=False).returncode
        finally:
            machine.close()


MACHINE = MachineTransport()
