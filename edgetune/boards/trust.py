"""Host keys on the way to a board: an address enters, the keys that the hosts show leave, to be trusted or not."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import paramiko

from edgetune.boards.ssh.client_config import ClientConfig
from edgetune.boards.ssh.connection import Connection
from edgetune.boards.ssh.known_hosts import KnownHosts, fingerprint, trust
from edgetune.boards.ssh.route import Hop, Route, resolve_route
from edgetune.config.boards_file import BoardAddress
from edgetune.errors import HostKeyRefused

_PATIENCE_S = 20.0


@dataclass(frozen=True)
class ShownKey:
    """The key that a host shows now; `status` is "known", "unknown", "changed" or "revoked"."""

    host: str
    status: str
    key: paramiko.PKey

    @property
    def fingerprint(self) -> str:
        """Kind and SHA256 fingerprint, as ssh-keygen shows them."""
        return fingerprint(self.key)

    def remember(self) -> Path:
        """Trust the key from now on; return the file that holds it. Raises OutputRefused."""
        return trust(self.host, self.key)


def shown_keys(address: BoardAddress) -> Iterator[ShownKey]:
    """Yield the key of every host on the way to a board, the board last.

    A key that is not known must be remembered before the next is asked for: nobody logs in at a host that is not
    trusted, and the board itself is not logged in at. Raises what connecting raises, and HostKeyRefused for a key that
    was not remembered.
    """
    route = resolve_route(address.ssh, ClientConfig(), address.identity)
    told: set[str] = set()
    while True:
        seen = _ask(address.name, route)
        for shown in seen:
            if shown.host not in told:
                told.add(shown.host)
                yield shown
            elif shown.status != "known":
                raise HostKeyRefused(f"board '{address.name}': the host key of {shown.host} was not trusted")
        if len(seen) == len(route.hops):
            return


def _ask(board: str, route: Route) -> list[ShownKey]:
    """Return the keys up to the first that is not known."""
    seen: list[ShownKey] = []

    def check(hop: Hop, key: paramiko.PKey) -> None:
        status = KnownHosts(hop.settings.known_hosts).status(hop.known_as, key)
        seen.append(ShownKey(hop.known_as, status, key))
        if status != "known":
            raise HostKeyRefused(f"board '{board}': the host key of {hop.known_as} is not known")

    connection = Connection(board, route)
    try:
        connection.open(_PATIENCE_S, check, login=False)
    except HostKeyRefused:
        if not seen or seen[-1].status == "known":
            raise
    finally:
        connection.close()
    return seen
