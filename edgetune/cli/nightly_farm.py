"""The farm of a ``nightly`` command: its options, and its file and database as they are opened."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from edgetune.farm.farm_file import Farm
    from edgetune.farm.night_store import NightStore

DEFAULT_FARM = "farm.yaml"
FARM = click.option(
    "--farm",
    "path",
    type=click.Path(path_type=Path),
    default=DEFAULT_FARM,
    help=f"Farm file (default: {DEFAULT_FARM}).",
)
NIGHT = click.option("--night", metavar="DATE", help="Night, by its date (default: the last one).")
CELL = click.argument("cell", metavar="CELL")
FILE = click.argument("path", metavar="[FARM]", type=click.Path(path_type=Path), default=DEFAULT_FARM)


@contextmanager
def opened(path: Path, *, create: bool = False) -> Iterator[tuple[Farm, NightStore]]:
    """Read a farm file and open its database. Raises NightFault where it had no night and `create` is false."""
    from edgetune.errors import NightFault
    from edgetune.farm.farm_file import load_farm
    from edgetune.farm.night_store import NightStore
    from edgetune.records.database import database_exists

    farm = load_farm(path)
    if not create and not database_exists(farm.db):
        raise NightFault(f"farm '{farm.name}' has had no night yet: `edgetune nightly run --now {path}` runs one")
    with NightStore.open(farm.db, create=create) as store:
        yield farm, store
