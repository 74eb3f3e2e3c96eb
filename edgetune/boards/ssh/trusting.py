"""What `edgetune boards trust` needs: the host keys on the way to a board, and what is known of each."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import paramiko

from edgetune.boards.ssh.client_config import ClientConfig
from edgetune.boards.ssh.connection import Connection
from edgetune.boards.ssh.known_hosts import KnownHosts, fingerprint, trust
from edgetune.boards.ssh.route import Hop, resolve_route
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import HostKeyRefused


@dataclass(frozen=True)
class OfferedKey:
    """A host key as the host showed it. `status`: "known", "unknown", "changed" or "revoked".

    `host` is its name in known_hosts, `fingerprint` what `ssh-keygen -l` shows.
    """

    host: str
    fingerprint: str
    status: str
    key: paramiko.PKey

    def trust(self) -> Path:
        """Add it to edgetune's own known_hosts, in place of older ones; return the file. Raises OutputRefused."""
        return trust(self.host, self.key)


def offered_keys(
    address: BoardAddress, *, timeout_s: float = 20.0, config: ClientConfig | None = None
) -> list[OfferedKey]:
    """Return the host keys on the way to a board, up to the first that is not known.

    Nothing is sent to a host whose key is not known: trust it, then ask again for those behind it.
    Raises HostUnknown, AuthenticationRefused (at a jump host) and BoardLost.
    """
    route = resolve_route(address.ssh, config or ClientConfig(), address.identity)
    offered: list[OfferedKey] = []

    def note(hop: Hop, key: paramiko.PKey) -> None:
        status = KnownHosts(hop.settings.known_hosts).status(hop.known_as, key)
        offered.append(OfferedKey(hop.known_as, fingerprint(key), status, key))
        if status != "known":
            raise HostKeyRefused(f"board '{address.name}': the host key of {hop.known_as} is not known")

    connection = Connection(address.name, route)
    try:
        connection.open(timeout_s, note, login=False)
    except HostKeyRefused:
        pass  # what it says is in the list
    finally:
        connection.close()
    return offered
