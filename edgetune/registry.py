"""Registries: kinds of members (backends, transports, ...) that installed distributions add by entry points.

A distribution names its members in the entry points of a group, such as `edgetune.transports`; edgetune's own are in
its `pyproject.toml`. A member's module is imported when it is looked up, never earlier. What lies in the working folder
is no installed distribution, and is left out, except edgetune itself where it was imported from there.
https://packaging.python.org/specifications/entry-points specifies entry points.
"""

from __future__ import annotations

import sys
import tomllib
from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from importlib.metadata import EntryPoint, distributions
from inspect import get_annotations, getattr_static
from pathlib import Path
from typing import Final, Generic, Protocol, TypeVar

from edgetune.errors import ConfigError, EdgetuneError, UsageError
from edgetune.yaml_reader.nearest import nearest

Member = TypeVar("Member")

_OWN = "edgetune"
_NOTHING: Final = object()
_HOME = Path(__file__).absolute().parents[1].resolve()  # the folder on Python's path that edgetune is imported from


@dataclass(frozen=True)
class Registry(Generic[Member]):
    """The members of one `kind`, such as "transport", by the names of the entry points of `group`.

    A `protocol` names what a member has.
    """

    kind: str
    group: str
    protocol: type | None = None

    def names(self) -> tuple[str, ...]:
        """Names of all members, sorted; imports none."""
        return tuple(sorted(_entry_points(self.group)))

    def has(self, name: str) -> bool:
        """Whether there is a member called `name`; imports none. Raises what `require_current` raises."""
        known = name in _entry_points(self.group)
        if not known:
            self.require_current()
        return known

    def require_current(self) -> None:
        """Raise ConfigError where members of edgetune are missing, because it was updated, but not installed again."""
        found = _entry_points(self.group)
        if not found:
            raise ConfigError(f"no {self.kind} is installed, not even edgetune's own: install edgetune again")
        if missing := sorted(_stated(self.group) - set(found)):
            raise ConfigError(
                f"edgetune was updated in {_HOME}, but not installed again, so its {self.kind} '{missing[0]}' is "
                f"unknown: run `pip install -e {_HOME}`"
            )

    def get(self, name: str, error: Callable[[str], EdgetuneError] = UsageError) -> Member:
        """Return the member called `name`; its module is imported.

        Raises `error` (with the nearest name) when no distribution has such a member, and ConfigError when several
        distributions have it, when it cannot be loaded or lacks something of the protocol, and what `require_current`
        raises.
        """
        if not self.has(name):
            raise error(f"unknown {self.kind} '{name}': {nearest(name, self.names())}")
        found = _entry_points(self.group)[name]
        if len(found) > 1:
            owners = " and ".join(sorted(_owner(entry) for entry in found))
            raise ConfigError(f"the {self.kind} '{name}' is in {owners}: uninstall one of them")
        # Another distribution may raise anything while it is imported; SystemExit would end edgetune without a word.
        # In edgetune itself, anything but a missing module or name is a bug, which a traceback explains best.
        faults: tuple[type[BaseException], ...] = (Exception, SystemExit)
        if _owner(found[0]) == _OWN:
            faults = (ImportError, AttributeError)
        try:
            member: Member = found[0].load()
        except faults as reason:
            why = " ".join(f"{type(reason).__name__}: {reason}".split())
            raise ConfigError(
                f"the {self.kind} '{name}' of {_owner(found[0])} cannot be loaded ({why}): install it again, or "
                "uninstall it"
            ) from reason
        if self.protocol is not None:
            require_members(f"{self.kind} '{name}' of {_owner(found[0])}", member, self.protocol)
        return member


def require_members(shown: str, member: object, protocol: type) -> None:
    """Raise ConfigError where `member`, `shown` to people so, lacks something that `protocol` names.

    A distribution that was written for another edgetune may. Nothing of the member is called.
    """
    missing = [name for name in _names_of(protocol) if getattr_static(member, name, _NOTHING) is _NOTHING]
    if missing:
        raise ConfigError(
            f"the {shown} has no '{missing[0]}', which this edgetune asks for: install another version of it, or "
            "uninstall it"
        )


@lru_cache(maxsize=8)
def _names_of(protocol: type) -> tuple[str, ...]:
    """The public names that a protocol and those that it extends declare, with a value or by their type alone."""
    declared = [one for one in protocol.__mro__ if one not in {object, Protocol, Generic}]
    names = (name for one in declared for name in (*vars(one), *get_annotations(one)))
    return tuple(sorted({name for name in names if not name.startswith("_")}))


def _owner(entry: EntryPoint) -> str:
    return str(entry.dist.name) if entry.dist is not None else entry.value


def _entry_points(group: str) -> dict[str, list[EntryPoint]]:
    """The entry points of `group` by name, of what is installed outside the working folder, and of edgetune."""
    try:
        here = Path.cwd()
    except FileNotFoundError:  # it was removed
        here = None
    path = tuple(folder for folder in sys.path if folder and (here == _HOME or Path(folder).resolve() != here))
    return _installed(group, path, here if here == _HOME else None)


@lru_cache(maxsize=8)
def _installed(group: str, path: tuple[str, ...], own: Path | None) -> dict[str, list[EntryPoint]]:
    """The same, for the folders of `path`; in the folder `own`, edgetune alone.

    Of several copies of a distribution, Python imports the first.
    """
    seen: set[str] = set()
    found: dict[str, list[EntryPoint]] = {}
    for folder in path:
        foreign = Path(folder).resolve() != own
        for distribution in distributions(path=[folder]):
            name = str(distribution.name)
            if name in seen or not (foreign or name == _OWN):
                continue
            seen.add(name)
            for entry in distribution.entry_points.select(group=group):
                found.setdefault(entry.name, []).append(entry)
    return found


@lru_cache(maxsize=8)
def _stated(group: str) -> frozenset[str]:
    """The members that edgetune's `pyproject.toml` names, where edgetune runs in its checkout."""
    try:
        project = tomllib.loads((_HOME / "pyproject.toml").read_text(encoding="utf-8")).get("project", {})
    except (OSError, ValueError):  # no checkout, and whatever lies there is another project's
        return frozenset()
    return frozenset(project.get("entry-points", {}).get(group, {}) if project.get("name") == _OWN else ())
