"""`edgetune boards trust`: collects the host keys on the route to a board, with the known_hosts status of each."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from edgetune.boards.ssh.client_config import ClientConfig
from edgetune.boards.ssh.connection import Connection
from edgetune.boards.ssh.known_hosts import KnownHosts, fingerprint, trust
from edgetune.boards.ssh.route import Hop, resolve_route
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import HostKeyRefused

_TIMEOUT_S = 20.0  # for the route to a board


@dataclass(frozen=True)
class OfferedKey:
    """A host key as the host offers it. `status`: "known", "unknown", "changed" or "revoked".

    `host` is its name in known_hosts, `fingerprint` is as `ssh-keygen -l` shows it.
    """

    host: str
    fingerprint: str
    status: str
    key: paramiko.PKey

    def trust(self) -> Path:
        """Add it to edgetune's own known_hosts, replacing older ones; return the file. Raises OutputRefused."""
        return trust(self.host, self.key)


def offered_keys(address: BoardAddress) -> list[OfferedKey]:
    """Return the host keys on the route to a board, up to the first that is not known.

    Nothing is sent to a host whose key is not known; trust the key, then call again for the hosts after it.
    Raises HostUnknown, AuthenticationRefused (at a jump host) and BoardLost.
    """
    route = resolve_route(address.ssh, ClientConfig(), address.identity)
    offered: list[OfferedKey] = []

    def note(hop: Hop, key: paramiko.PKey) -> None:
        status = KnownHosts(hop.settings.known_hosts).status(hop.known_as, key)
        offered.append(OfferedKey(hop.known_as, fingerprint(key), status, key))
        if status != "known":
            raise HostKeyRefused(f"board '{address.name}': the host key of {hop.known_as} is not known")

    connection = Connection(address.name, route)
    try:
        connection.open(_TIMEOUT_S, note, login=False)
    except HostKeyRefused:
        pass  # the list contains the refused key
    finally:
        connection.close()
    return offered


def shown_keys(address: BoardAddress) -> Iterator[OfferedKey]:
    """Yield the key of every host on the route to a board, the board last.

    The caller must trust an unknown key before asking for the next: we log in only at trusted hosts, and not at the
    board itself. Raises what connecting raises, and HostKeyRefused for a key of a jump host that was not trusted.
    """
    told: set[str] = set()
    while True:
        offered = offered_keys(address)
        for key in offered:
            if key.host not in told:
                told.add(key.host)
                yield key
            elif key.status != "known":
                raise HostKeyRefused(f"board '{address.name}': the host key of {key.host} was not trusted")
        if not offered or offered[-1].status == "known":
            return
