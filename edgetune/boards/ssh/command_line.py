"""Command line of the system's ssh, for a shell on a board."""

from __future__ import annotations

import re
import shlex
from collections.abc import Sequence

from edgetune.boards.ssh.client_config import SYSTEM_KNOWN_HOSTS
from edgetune.boards.ssh.known_hosts import own_file
from edgetune.config.boards_file import BoardAddress
from edgetune.target.programs import RequiredProgram, require_program

_PARTS = re.compile(r"(?:(?P<user>[^@]+)@)?(?:\[(?P<bracketed>[^\]]+)\]|(?P<host>[^:]+))(?::(?P<port>\d+))?")


def require_ssh() -> None:
    """Raise ToolchainMissing where this system has no ssh."""
    require_program(RequiredProgram("ssh", "openssh-client", "which opens shells on boards"))


def ssh_command(address: BoardAddress, words: Sequence[str] = ()) -> list[str]:
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
    return [*command, "--", parts["bracketed"] or parts["host"], *remote_words(words)]


def remote_words(words: Sequence[str]) -> list[str]:
    """Pass a single word to the board's shell unchanged, so that its quotes, pipes and wildcards work."""
    return list(words) if len(words) <= 1 else [shlex.join(words)]
