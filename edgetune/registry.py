"""Registries: kinds of members (backends, transports, ...) that installed distributions add by entry points.

A distribution names its members in the entry points of a group, such as `edgetune.transports`; edgetune's own are in
its `pyproject.toml`. A member's module is imported when it is asked for, never earlier. What lies in the working folder
is no installed distribution, and is left out. https://packaging.python.org/specifications/entry-points specifies entry
points.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions
from pathlib import Path
from typing import Generic, TypeVar

from edgetune.errors import ConfigError, EdgetuneError, UsageError
from edgetune.yaml_reader.nearest import nearest

Member = TypeVar("Member")


@dataclass(frozen=True)
class Registry(Generic[Member]):
    """The members of one `kind`, such as "transport", by the names of the entry points of `group`."""

    kind: str
    group: str

    def names(self) -> tuple[str, ...]:
        """Names of all members, sorted; imports none."""
        return tuple(sorted(_entry_points(self.group)))

    def get(self, name: str, error: Callable[[str], EdgetuneError] = UsageError) -> Member:
        """Return the member called `name`; its module is imported.

        Raises `error` (with the nearest name) when no distribution has such a member, and ConfigError when several
        distributions have it, or when it cannot be imported.
        """
        found = _entry_points(self.group).get(name, [])
        if not found:
            known = nearest(name, self.names()) if self.names() else "none is installed: install edgetune again"
            raise error(f"unknown {self.kind} '{name}': {known}")
        if len(found) > 1:
            owners = " and ".join(sorted(_owner(entry) for entry in found))
            raise ConfigError(f"the {self.kind} '{name}' is in {owners}: uninstall one of them")
        try:
            member: Member = found[0].load()
        except (ImportError, AttributeError) as reason:
            raise ConfigError(
                f"the {self.kind} '{name}' of {_owner(found[0])} cannot be loaded ({reason}): install it again, or "
                "uninstall it"
            ) from reason
        return member


def _owner(entry: EntryPoint) -> str:
    return str(entry.dist.name) if entry.dist is not None else entry.value


def _entry_points(group: str) -> dict[str, list[EntryPoint]]:
    """The entry points of `group` by name, of what is installed outside the working folder."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        here = None
    return _installed(group, tuple(folder for folder in sys.path if folder and Path(folder).resolve() != here))


@lru_cache(maxsize=8)
def _installed(group: str, path: tuple[str, ...]) -> dict[str, list[EntryPoint]]:
    """The same, for the folders of `path`. Of several copies of a distribution, Python imports the first."""
    seen: set[str] = set()
    found: dict[str, list[EntryPoint]] = {}
    for distribution in distributions(path=list(path)):
        name = str(distribution.name)
        if name in seen:
            continue
        seen.add(name)
        for entry in distribution.entry_points.select(group=group):
            found.setdefault(entry.name, []).append(entry)
    return found
