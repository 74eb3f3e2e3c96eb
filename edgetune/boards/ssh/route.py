"""SSH route: the hosts on the way to a board, each with port, user and keys, from the address and OpenSSH's files."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from pathlib import Path

from edgetune.boards.ssh.client_config import ClientConfig, HostSettings
from edgetune.errors import ConfigError

SSH_PORT = 22
_MAX_HOPS = 8
_ADDRESS = re.compile(
    r"(?:ssh://)?(?:(?P<user>[^\s@/]+)@)?(?P<host>\[[^\]\s]+\]|[^\s@:/\[\]]+)(?::(?P<port>\d{1,5}))?/?"
)


@dataclass(frozen=True)
class Hop:
    """One host of a route. `known_as` is its name in known_hosts files."""

    host: str
    port: int
    known_as: str
    settings: HostSettings

    @property
    def user(self) -> str:
        """The user there."""
        return self.settings.user

    def __str__(self) -> str:
        return f"{self.host}:{self.port}" if ":" not in self.host else f"[{self.host}]:{self.port}"


@dataclass(frozen=True)
class Route:
    """All hosts in the order of connecting, the board last. `proxy_command` connects to the first one ("" = TCP)."""

    hops: tuple[Hop, ...]
    proxy_command: str = ""

    @property
    def board(self) -> Hop:
        """The last host."""
        return self.hops[-1]


def resolve_route(address: str, config: ClientConfig, identity: str | None = None) -> Route:
    """Return the route to `address` ("[user@]host[:port]" or a Host of the configuration).

    `identity` is the file of a private key that is tried first, before those of the configuration; keys that only the
    agent has are not tried then, as with IdentitiesOnly. Raises ConfigError.
    """
    own = () if identity is None else (Path(identity).expanduser(),)
    return _resolve(address, config, own, 0)


def _resolve(address: str, config: ClientConfig, own: tuple[Path, ...], depth: int) -> Route:
    if depth > _MAX_HOPS:
        raise ConfigError(f"the ProxyJump of {address} leads over more than {_MAX_HOPS} hosts, or back to itself")
    hop = _hop(address, config, own)
    words = [word.strip() for word in hop.settings.jumps.split(",") if word.strip()]
    if not words:
        return Route((hop,), hop.settings.proxy_command)
    first = _resolve(words[0], config, (), depth + 1)
    route = Route((*first.hops, *(_hop(word, config, ()) for word in words[1:]), hop), first.proxy_command)
    if len(route.hops) > _MAX_HOPS:
        raise ConfigError(f"the ProxyJump of {address} leads over more than {_MAX_HOPS} hosts")
    return route


def _hop(address: str, config: ClientConfig, own: tuple[Path, ...]) -> Hop:
    match = _ADDRESS.fullmatch(address)
    if match is None:
        raise ConfigError(f"'{address}' is not an address of a host: write [user@]host[:port]")
    port = None if match["port"] is None else int(match["port"])
    settings = config.lookup(match["host"].strip("[]"), match["user"], port)
    where = settings.port or SSH_PORT
    name = settings.host_key_alias or settings.host
    known_as = name if where == SSH_PORT or settings.host_key_alias else f"[{name}]:{where}"
    if own:
        # A server disconnects after a few wrong keys, so the agent's keys must not come before the named one.
        settings = replace(settings, identities=(*own, *settings.identities), identities_only=True)
    return Hop(settings.host, where, known_as, settings)
