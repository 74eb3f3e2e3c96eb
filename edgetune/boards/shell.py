"""A shell on a board: the system's ssh with the arguments that an address stands for."""

from __future__ import annotations

import re
import shlex
import subprocess
from collections.abc import Callable, Sequence

from edgetune.boards.ssh.client_config import SYSTEM_KNOWN_HOSTS
from edgetune.boards.ssh.known_hosts import own_file
from edgetune.config.boards_file import BoardAddress, ResolvedBoard, only_address
from edgetune.config.toolchain import require_program

_PARTS = re.compile(r"(?:(?P<user>[^@]+)@)?(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^:]+))(?::(?P<port>\d+))?")


def shell_command(address: BoardAddress, words: Sequence[str] = ()) -> list[str]:
    """Return the ssh command line for a shell on a board, or for the command ``words`` there.

    The user's OpenSSH configuration holds; the host keys that `boards trust` remembered are known as well.
    """
    parts = _PARTS.fullmatch(address.ssh)
    assert parts is not None  # noqa: S101 (boards.yaml was checked)
    known = " ".join(f'"{path}"' for path in (SYSTEM_KNOWN_HOSTS, own_file()))
    command = ["ssh", "-o", f"GlobalKnownHostsFile={known}"]
    if address.identity is not None:
        command += ["-i", address.identity]
    if parts["user"]:
        command += ["-l", parts["user"]]
    if parts["port"]:
        command += ["-p", parts["port"]]
    # One argument goes to the board's shell as it is, so that its quotes, pipes and stars mean what they say.
    remote = list(words) if len(words) <= 1 else [shlex.join(words)]
    return [*command, "--", parts["bracketed"] or parts["host"], *remote]


def enter(resolved: ResolvedBoard, name: str, words: Sequence[str], note: Callable[[str], None]) -> int:
    """Run a shell (or ``words``) on the board ``name`` and return its exit code, 255 where ssh itself failed.

    An emulated machine is started for the shell and ended with it. Raises UsageError (no board, or several) and
    ToolchainMissing (there is no ssh).
    """
    require_program("ssh", "openssh-client", "which opens shells on boards")
    address = only_address(resolved, name)
    del note
    return subprocess.run(shell_command(address, words), check=False).returncode
