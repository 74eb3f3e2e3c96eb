"""Settings of a cell: what its night tunes it with. A night keeps those that it began with, whatever is edited then."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Self

from pydantic import BaseModel, ConfigDict
from sqlalchemy import Connection, insert, inspect, select

from edgetune.config.host import host_name
from edgetune.config.input_stream import InputStream
from edgetune.config.naming import package_name
from edgetune.config.settings import CommandLineFlags, Settings
from edgetune.config.state_setting import with_files_in
from edgetune.errors import EdgetuneError, ModelError
from edgetune.farm.farm_file import Farm
from edgetune.farm.night_tables import cell_settings
from edgetune.pipeline.boards import resolve_settings
from edgetune.pipeline.model_formats import read_stored
from edgetune.target.preferences import Io, Layout


class CellSettings(BaseModel):
    """Model, budget and options of a cell as its farm file said them.

    `file` is the absolute path of the model on the host that began the night, and `sha256` the hash by which packages
    know the model, in hex, "" where there was no file that could be read.
    """

    model_config = ConfigDict(frozen=True, extra="ignore")

    file: str
    sha256: str
    trials: int
    threads: int = 1
    layout: Layout | None = None
    io: Io | None = None
    shapes: dict[str, tuple[int, ...]] = {}
    dims: dict[str, int] = {}
    state: dict[str, str] = {}
    stream: dict[str, InputStream] = {}

    @classmethod
    def stated(cls, farm: Farm, model: str) -> Self:
        """What the farm file says now of one of its models."""
        entry, file = farm.content.models[model], farm.models[model]
        return cls(
            file=str(file),
            sha256=_digest(file),
            trials=farm.content.budget.trials,
            threads=entry.threads,
            layout=entry.layout,
            io=entry.io,
            shapes={name: tuple(map(int, sizes)) for name, sizes in entry.shapes.items()},
            dims={name: int(size) for name, size in entry.dims.items()},
            state=with_files_in(farm.path.parent, entry.state),
            stream={name: stated.stream for name, stated in entry.stream.items()},
        )

    def changes(self, now: CellSettings) -> list[str]:
        """What differs in `now`, in words; another path of an equal file is none, nor one that was missing."""
        said = []
        if self.sha256 and not now.sha256:
            said.append(f"{now.file} is not a file that can be read")
        elif self.sha256 and self.sha256 != now.sha256:
            renamed = f": {self.file} became {now.file}" if self.file != now.file else f" in {now.file}"
            said.append(f"the model has other content{renamed}")
        for key in ("trials", "threads", "layout", "io", "shapes", "dims", "state", "stream"):
            was, is_now = getattr(self, key), getattr(now, key)
            if was != is_now:
                said.append(f"{key} {was} became {is_now}")
        return said

    def to_settings(self, farm: Farm, model: str, board: str, name: str, folder: Path) -> Settings:
        """The settings of one run of a cell, whose package is called `name` (default: as the model in the farm file).

        It is written to `package` in `folder`. The model is read where it lay when the night began, or where the farm
        file has it now, as on another host. Raises ModelError where neither place has it, and what `resolve_settings`
        raises.
        """
        flags = CommandLineFlags(
            model=self.model_file(farm, model),
            board=board,
            trials=self.trials,
            db=farm.db,
            out=folder / "package",
            shapes=self.shapes,
            dims=self.dims,
            states=self.state,
            streams=self.stream,
            layout=self.layout,
            io=self.io,
            threads=self.threads,
        )
        return replace(resolve_settings(flags, {}, folder), name=name or package_name(model))

    def model_file(self, farm: Farm, model: str) -> Path:
        """The model's file with the content that it had when the night began; any content if it was missing then.

        Raises ModelError where this host has none.
        """
        places = list(dict.fromkeys([Path(self.file), farm.models.get(model, Path(self.file))]))
        others = []
        for place in places:
            digest = _digest(place)
            if digest and self.sha256 in ("", digest):
                return place
            others += [place] if digest else []
        if others:
            raise ModelError(
                f"{others[-1]} on host {host_name()} is another model than when the night began: the next "
                "night measures it"
            )
        if model not in farm.models:
            raise ModelError(
                f"{self.file} is not a file any more, and {farm.path} has no model '{model}': add it again"
            )
        raise ModelError(
            f"{farm.place_of_model(model)}: 'models.{model}' names {farm.models[model]}, which is not a file that host "
            f"{host_name()} can read: put the model there, or correct the path"
        )


def note_settings(connection: Connection, settings: Mapping[int, CellSettings]) -> None:
    """Write what a night begins with, by the ids of its cells."""
    rows = [{"night_cell_id": number, "settings": one.model_dump_json()} for number, one in settings.items()]
    if rows:
        connection.execute(insert(cell_settings), rows)


def noted_settings(connection: Connection, numbers: Sequence[int]) -> dict[int, CellSettings]:
    """What the nights of these cells began with, by their ids; nights of earlier versions did not note it."""
    if not inspect(connection).has_table(cell_settings.name):
        return {}
    columns = cell_settings.c
    rows = select(columns.night_cell_id, columns.settings).where(columns.night_cell_id.in_(numbers))
    return {number: CellSettings.model_validate_json(text) for number, text in connection.execute(rows)}


def _digest(file: Path) -> str:
    """The hash by which packages know a model, that of the file where it is damaged; "" where it cannot be read."""
    try:
        return read_stored(file).sha256
    except (EdgetuneError, MemoryError, RecursionError):
        pass  # what is wrong is said when its cell is measured
    try:
        with file.open("rb") as content:
            return hashlib.file_digest(content, "sha256").hexdigest()
    except OSError:
        return ""
