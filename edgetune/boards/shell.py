"""`edgetune boards shell`: runs the system's ssh with the arguments for a board's address."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Sequence

from edgetune.boards.ssh.client_config import SYSTEM_KNOWN_HOSTS
from edgetune.boards.ssh.known_hosts import own_file
from edgetune.config.boards_file import BoardAddress, ResolvedBoard, only_address
from edgetune.target.programs import RequiredProgram, require_program

_BOOT_S = 120.0
_PARTS = re.compile(r"(?:(?P<user>[^@]+)@)?(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^:]+))(?::(?P<port>\d+))?")


def shell_command(address: BoardAddress, words: Sequence[str] = ()) -> list[str]:
    """Return the ssh command line for a shell on a board, or for the command ``words`` there.

    It uses the user's OpenSSH configuration, and also the host keys that `boards trust` stored.
    """
    parts = _PARTS.fullmatch(address.ssh)
    assert parts is not None  # noqa: S101 (boards.yaml was checked)
    known = " ".join(f'"{path}"' for path in (SYSTEM_KNOWN_HOSTS, own_file()))
    command = ["ssh", "-o", f"GlobalKnownHostsFile={known}"]
    if address.identity is not None:
        command += ["-i", address.identity, "-o", "IdentitiesOnly=yes"]
    if parts["user"]:
        command += ["-l", parts["user"]]
    if parts["port"]:
        command += ["-p", parts["port"]]
    return [*command, "--", parts["bracketed"] or parts["host"], *_remote(words)]


def enter(resolved: ResolvedBoard, name: str, words: Sequence[str], note: Callable[[str], None]) -> int:
    """Run a shell (or ``words``) on the board ``name`` and return its exit code, 255 where ssh itself failed.

    An emulated machine is started for the shell, which ``note`` reports, and ended after it. Raises UsageError (no
    board, or several), ToolchainMissing (there is no ssh) and BoardUnavailable (the machine has no image).
    """
    require_program(RequiredProgram("ssh", "openssh-client", "which opens shells on boards"))
    if resolved.target.reach != "machine":
        return subprocess.run(shell_command(only_address(resolved, name), words), check=False).returncode
    from edgetune.boards.machine.reach import MachineReach

    machine = MachineReach(resolved.target, lambda _: None)
    try:
        note(f"starting {name}; it ends with the shell")
        machine.connect(_BOOT_S)
        command = ["ssh", "-F", str(machine.ssh_config), "--", machine.name, *_remote(words)]
        return subprocess.run(command, check=False).returncode
    finally:
        machine.close()


def _remote(words: Sequence[str]) -> list[str]:
    """Pass a single word to the board's shell unchanged, so that its quotes, pipes and wildcards work."""
    return list(words) if len(words) <= 1 else [shlex.join(words)]
