"""Flavours of a package by name: those that the settings ask for, of all installed ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from edgetune.config.settings import Settings
from edgetune.errors import EdgetuneError, UsageError
from edgetune.registry import Registry

if TYPE_CHECKING:
    from edgetune.package.flavour import Flavour  # importing it takes a second, which an unknown name need not wait for

FLAVOURS: Registry[Flavour] = Registry("flavour", "edgetune.flavours")
ALWAYS = "make"  # `verify` and `bench` build packages with the Makefile


def flavours_of(settings: Settings) -> tuple[Flavour, ...]:
    """Return the flavours of the package of `settings`, each once; make is always one of them.

    Raises UsageError for an unknown name, and ConfigError for a flavour that cannot be loaded.
    """

    def unknown(message: str) -> EdgetuneError:
        origin = settings.origins.get("flavours")
        return UsageError(f"{message} ({origin})" if origin else message)

    return tuple(FLAVOURS.get(name, unknown) for name in dict.fromkeys((*settings.flavours, ALWAYS)))
