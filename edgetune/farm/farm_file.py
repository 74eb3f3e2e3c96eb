"""Reads ``farm.yaml``: which models are tuned on which boards every night, when, and what counts as a change."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from datetime import time
from pathlib import Path
from typing import Annotated, Literal
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from pydantic import BeforeValidator, Field, StrictInt, StrictStr, WithJsonSchema

from edgetune.config.boards_file import Tag
from edgetune.config.database_location import database_location
from edgetune.config.input_stream import StreamEntry
from edgetune.config.project import Database, Dimension, Text
from edgetune.errors import ConfigError
from edgetune.farm.folder import NAME, owner_of, writing_in
from edgetune.target.preferences import Io, Layout
from edgetune.yaml_reader.checked import Checked, check_document
from edgetune.yaml_reader.quantities import MOST_THREADS
from edgetune.yaml_reader.source import Location, YamlDocument, load_yaml, parse_yaml

DEFAULT_LIMIT = 0.02
_WINDOW = re.compile(r"([01]\d|2[0-3]):([0-5]\d)\s*-\s*([01]\d|2[0-3]):([0-5]\d)", re.ASCII)
_PERCENT = re.compile(r"(\d{1,3}(?:\.\d{1,6})?)\s*%", re.ASCII)
_LEAST_LIMIT, _MOST_LIMIT = 0.001, 0.5
_TIMES = {"window": "one time of day: a window is two of them, such as 22:00-06:00"}

Window = tuple[time, time]


def _share(value: object) -> float:
    match = _PERCENT.fullmatch(value.strip()) if isinstance(value, str) else None
    share = float(match[1]) / 100 if match else -1.0
    if not _LEAST_LIMIT <= share <= _MOST_LIMIT:
        raise ValueError(f"must be a share from 0.1 % to 50 %, such as 2 %, not {value!r}")
    return share


def _window(value: object) -> Window:
    match = _WINDOW.fullmatch(value.strip()) if isinstance(value, str) else None
    if match is None:
        raise ValueError(f"must be two times of day such as 22:00-06:00, not {value!r}")
    begin, end = time(int(match[1]), int(match[2])), time(int(match[3]), int(match[4]))
    if begin == end:
        raise ValueError(f"is empty, because it begins when it ends: write two times such as 22:00-06:00, not {value}")
    return begin, end


def _zone(value: object) -> str:
    try:
        return ZoneInfo(value).key if isinstance(value, str) and value else _no_zone(value)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return _no_zone(value)


def _no_zone(value: object) -> str:
    raise ValueError(f"must be a name of the IANA time zones such as Europe/Berlin, not {value!r}")


def _file(value: object) -> object:
    return {"file": value} if isinstance(value, str) else value


Share = Annotated[
    float, BeforeValidator(_share), WithJsonSchema({"type": "string", "pattern": r"^\d{1,3}(\.\d{1,6})?\s*%$"})
]
TimesOfDay = Annotated[
    Window, BeforeValidator(_window), WithJsonSchema({"type": "string", "pattern": r"^\d\d:\d\d\s*-\s*\d\d:\d\d$"})
]
Zone = Annotated[str, BeforeValidator(_zone), WithJsonSchema({"type": "string", "minLength": 1})]
CellPart = Annotated[StrictStr, Field(pattern=f"^{NAME}$")]


class FarmModel(Checked):
    """One model with its settings. A path alone stands for a model with default settings."""

    file: Text = Field(description="Model file, relative to this file.")
    boards: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None, description="Boards or kinds of boards for this model alone (default: all of 'boards')."
    )
    shapes: dict[Text, tuple[Dimension, ...]] = Field(
        default={}, description="Shapes of inputs whose shape the model leaves open."
    )
    dims: dict[Text, Dimension] = Field(
        default={}, description="Sizes of axes that the model leaves open, by their names in the model."
    )
    layout: Layout | None = Field(default=None, description="Order of the axes of image inputs and outputs.")
    io: Io | None = Field(default=None, description="Where inputs and outputs lie: caller or arena.")
    state: dict[Text, Text] = Field(
        default={},
        description=(
            "Inputs that the package keeps from run to run, by name, with the outputs that they become; OUT:FIRST.npy "
            "gives the value in the first run, a file relative to this one."
        ),
    )
    stream: dict[Text, StreamEntry] = Field(
        default={}, description="Inputs that come frame by frame, by name: the package computes one step."
    )
    threads: Annotated[StrictInt, Field(ge=1, le=MOST_THREADS)] = Field(
        default=1, description="Most threads that the package may use."
    )


class FarmBudget(Checked):
    """How long each model is searched for on each kind of board."""

    trials: Annotated[StrictInt, Field(ge=0)] = Field(
        description="Candidates to measure per model and kind of board, including those that the database holds."
    )


class Places(Checked):
    """Boards that are chosen by what `boards.yaml` says of them."""

    tags: Annotated[tuple[Tag, ...], Field(min_length=1)] = Field(description="Tags that a board has, all of them.")


class FarmFile(Checked):
    """``farm.yaml``: models and boards of a farm, and its nights."""

    models: Annotated[dict[CellPart, Annotated[FarmModel, BeforeValidator(_file)]], Field(min_length=1)] = Field(
        description="Models by name: a path, or a group of settings."
    )
    boards: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None, description="Boards by name, or kinds of boards; of a kind, all boards that have an address."
    )
    places: Places | None = Field(default=None, description="Boards by their tags, beside those of 'boards'.")
    budget: FarmBudget = Field(description="How long to search.")
    limit: Share = Field(
        default=f"{DEFAULT_LIMIT:%}", validate_default=True, description="Smallest change that is reported, as '2 %'."
    )
    owner: Text | None = Field(default=None, description="Who answers for this farm; stands on the page.")
    window: TimesOfDay | None = Field(
        default=None, description="When nights run, such as 22:00-06:00; without it, only `--now` starts one."
    )
    timezone: Zone | None = Field(default=None, description="Time zone of 'window' (default: this machine's).")
    name: CellPart | None = Field(
        default=None, description="Name of the farm (default: that of its folder's first farm file, or of this file)."
    )
    db: Database | None = Field(
        default=None,
        description="Records database: a file, relative to this one, or postgresql://USER@HOST/NAME "
        "(default: records.db in 'folder').",
    )
    engine: Literal["local", "procrastinate"] = Field(
        default="local",
        description="local: one host runs the nights; procrastinate: several do, with 'db' on a PostgreSQL server.",
    )
    notify: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Command that is run once after a night that changed something, as a list of words; it gets the "
        "changes on its standard input.",
    )
    folder: Text = Field(default="nightly", description="Folder of pages, logs and packages, relative to this file.")
    archive: Text | None = Field(
        default=None, description="Folder of archived packages, relative to this file (default: archive in 'folder')."
    )


class Farm:
    """A farm file that was read: its content, and the places that it names as absolute paths.

    `name` is that of its nights in the database: what the file says, else what its folder was called by first.
    """

    def __init__(self, content: FarmFile, document: YamlDocument, name: str = "") -> None:
        self.content = content
        self.document = document
        self.path = document.path.resolve()
        base = self.path.parent
        self.folder = self._place(content.folder, ("folder",))
        owner = owner_of(self.folder)
        going_on = owner if owner and not owner.is_other(self.path) else None
        self.name = name or content.name or (going_on.farm if going_on else self.path.stem)
        self.archive = self._place(content.archive, ("archive",)) if content.archive else self.folder / "archive"
        self.db = database_location(content.db, base) if content.db else self.folder / "records.db"
        self.models: Mapping[str, Path] = {
            name: self._place(model.file, _file_location(document, name)) for name, model in content.models.items()
        }

    def save(self, place: Path) -> Path:
        """Write the farm to `place` as it was read, for `saved_farm`: edits of its file change nothing there.

        Raises DiskFull and NightFault.
        """
        saved = {"path": str(self.path), "text": self.document.text, "name": self.name}
        with writing_in(place.parent):
            place.write_text(json.dumps(saved), encoding="utf-8")
        return place

    def place_of_model(self, model: str) -> str:
        """File and line that name the file of a model."""
        return f"{self.document.path}, line {self.document.line(_file_location(self.document, model))}"

    def _place(self, text: str, location: Location) -> Path:
        """The absolute path of `text`; raises ConfigError where it is below the home of a user who does not exist."""
        try:
            return self.path.parent / Path(text).expanduser()
        except RuntimeError as error:
            key = ".".join(map(str, location))
            raise self.document.error(
                location, f"'{key}' names the folder of a user who does not exist: write the path in full, not {text!r}"
            ) from error


def _file_location(document: YamlDocument, model: str) -> Location:
    entry = document.data["models"][model]  # type: ignore[index]
    return ("models", model) if isinstance(entry, str) else ("models", model, "file")


def saved_farm(place: Path) -> Farm:
    """The farm that `Farm.save` wrote to `place`."""
    saved = json.loads(place.read_text(encoding="utf-8"))
    document = parse_yaml(saved["text"], Path(saved["path"]), _TIMES)
    return Farm(check_document(FarmFile, document), document, saved["name"])


def load_farm(path: Path) -> Farm:
    """Read and check ``path``; raises ConfigError with file and line for every error.

    Models are not looked at: one that is missing is that of a cell, and the others can be measured.
    """
    if not path.is_file():
        raise ConfigError(f"there is no farm file {path}: write one as docs/nightly.md shows, or name another one")
    document = load_yaml(path, _TIMES)
    farm = Farm(check_document(FarmFile, document), document)
    if farm.content.boards is None and farm.content.places is None:
        raise document.error(
            (), "neither 'boards' nor 'places' names a board: write one of them, as docs/nightly.md shows"
        )
    return farm
