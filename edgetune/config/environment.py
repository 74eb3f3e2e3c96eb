"""Settings from the ``EDGETUNE_*`` environment variables: for one shell, or for one job on a build server."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import get_args

from edgetune.config.database_location import database_location
from edgetune.errors import ConfigError
from edgetune.target.preferences import Grade, Io, Layout, Objective
from edgetune.yaml_reader.quantities import MOST_THREADS, parse_bytes, parse_seconds

VARIABLE_NAMES = {
    "board": "EDGETUNE_BOARD",
    "budget": "EDGETUNE_TRIALS/EDGETUNE_TIME",
    "objective": "EDGETUNE_OBJECTIVE",
    "seed": "EDGETUNE_SEED",
    "threads": "EDGETUNE_THREADS",
    "db": "EDGETUNE_DB",
    "out": "EDGETUNE_OUT",
    "ram": "EDGETUNE_RAM",
    "flash": "EDGETUNE_FLASH",
    "layout": "EDGETUNE_LAYOUT",
    "io": "EDGETUNE_IO",
    "rpc": "EDGETUNE_RPC",
    "min_trust": "EDGETUNE_MIN_TRUST",
    "flavours": "EDGETUNE_FLAVOURS",
}
_VARIABLES = [name for names in VARIABLE_NAMES.values() for name in names.split("/")]


def read_environment(environment: Mapping[str, str]) -> dict[str, object]:
    """Return the settings in ``environment``, by key; raise ConfigError for a wrong value or a misspelled name."""
    for name in environment:
        if name.startswith("EDGETUNE_") and name not in _VARIABLES:
            close = difflib.get_close_matches(name, _VARIABLES, n=1, cutoff=0.85)
            if close:  # an unknown name may belong to another program; a similar name is a typo
                raise ConfigError(f"environment variable {name} is unknown: did you mean {close[0]}?")
    given = {name: value.strip() for name in _VARIABLES if (value := environment.get(name, "").strip())}
    if {"EDGETUNE_TRIALS", "EDGETUNE_TIME"} <= given.keys():
        raise ConfigError("environment variables EDGETUNE_TRIALS and EDGETUNE_TIME exclude each other: unset one")
    values: dict[str, object] = {}
    readers = _readers()
    for name, value in given.items():
        key, read = readers[name]
        try:
            values[key] = read(value)
        except ValueError as error:
            raise ConfigError(f"environment variable {name} {error}") from None
    return values


def _readers() -> dict[str, tuple[str, Callable[[str], object]]]:
    here = Path.cwd()
    return {
        "EDGETUNE_BOARD": ("board", str),
        "EDGETUNE_TRIALS": ("budget", lambda text: (_count(text, 0), None)),
        "EDGETUNE_TIME": ("budget", lambda text: (None, parse_seconds(text))),
        "EDGETUNE_OBJECTIVE": ("objective", lambda text: _one_of(text, get_args(Objective))),
        "EDGETUNE_SEED": ("seed", lambda text: _count(text, 0)),
        "EDGETUNE_THREADS": ("threads", lambda text: _count(text, 1, MOST_THREADS)),
        "EDGETUNE_DB": ("db", lambda text: database_location(text, here)),
        "EDGETUNE_OUT": ("out", lambda text: here / Path(text).expanduser()),
        "EDGETUNE_RAM": ("ram", parse_bytes),
        "EDGETUNE_FLASH": ("flash", parse_bytes),
        "EDGETUNE_LAYOUT": ("layout", lambda text: _one_of(text, get_args(Layout))),
        "EDGETUNE_IO": ("io", lambda text: _one_of(text, get_args(Io))),
        "EDGETUNE_RPC": ("rpc", str),
        "EDGETUNE_MIN_TRUST": ("min_trust", lambda text: _one_of(text, get_args(Grade))),
        "EDGETUNE_FLAVOURS": ("flavours", _names),
    }


def _count(text: str, least: int, most: int = 2**31 - 1) -> int:
    if not text.isascii() or not text.isdigit() or not least <= int(text[:12]) <= most:
        upto = "" if most == 2**31 - 1 else f" and at most {most}"
        raise ValueError(f"must be a whole number of at least {least}{upto}, not {text!r}")
    return int(text)


def _names(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(","))
    if not all(names):
        raise ValueError(f"must be names with commas between them, not {text!r}")
    return names


def _one_of(text: str, choices: tuple[str, ...]) -> str:
    if text not in choices:
        raise ValueError(f"must be {' or '.join(map(repr, choices))}, not {text!r}")
    return text
