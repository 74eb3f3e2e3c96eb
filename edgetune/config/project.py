"""Reads ``edgetune.yaml`` of a project, and the user's own ``config.yaml``."""

from __future__ import annotations

from typing import Annotated

from pydantic import AfterValidator, Field, StrictInt, StrictStr, WithJsonSchema

from edgetune.config.database_location import checked_location
from edgetune.config.input_stream import StreamEntry
from edgetune.config.naming import MAX_PREFIX, checked_package_name, package_version
from edgetune.target.preferences import Layout, Preferences

PROJECT_FILE = "edgetune.yaml"
USER_FILE = "config.yaml"


def _checked_version(text: str) -> str:
    package_version(text)
    return text


def _checked_dimension(value: object) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < 2**31:
        raise ValueError(f"must be a fixed size of at least 0, not {value!r}")
    return value


Name = Annotated[
    StrictStr,
    AfterValidator(checked_package_name),
    WithJsonSchema({"type": "string", "pattern": "^[A-Za-z][A-Za-z0-9_]*$", "maxLength": MAX_PREFIX}),
]
Version = Annotated[
    StrictStr,
    AfterValidator(_checked_version),
    WithJsonSchema({"type": "string", "pattern": r"^(0|[1-9][0-9]{0,5})(\.(0|[1-9][0-9]{0,5})){2}$"}),
]
Dimension = Annotated[
    StrictInt | StrictStr, AfterValidator(_checked_dimension), WithJsonSchema({"type": "integer", "minimum": 0})
]
Text = Annotated[StrictStr, Field(min_length=1)]
Database = Annotated[StrictStr, Field(min_length=1), AfterValidator(checked_location)]


class ProjectFile(Preferences):
    """``edgetune.yaml``: one model, the boards it is for, and how to tune it."""

    model: Text = Field(description="Model file, relative to this file.")
    name: Name | None = Field(
        default=None,
        description="Name of the package, and prefix of its C symbols (default: made from the model's file name).",
    )
    package_version: Version | None = Field(
        default=None, description="Version of the package, in its header and pkg-config file (default: 1.0.0)."
    )
    boards: Annotated[tuple[Text, ...], Field(min_length=1)] | None = Field(
        default=None,
        description="Boards that the model is for; if there is only one, --board may be left out.",
    )
    shapes: dict[Text, tuple[Dimension, ...]] = Field(
        default={},
        description="Shapes of inputs whose shape the model leaves open.",
    )
    dims: dict[Text, Dimension] = Field(
        default={},
        description="Sizes of axes that the model leaves open, by their names in the model.",
    )
    layouts: dict[Text, Layout] = Field(
        default={},
        description=(
            "Order of the axes of single inputs and outputs, by name: model or channels_last; takes precedence "
            "over 'layout'."
        ),
    )
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
    db: Database | None = Field(
        default=None, description="Records database: a file, relative to this one, or postgresql://USER@HOST/NAME."
    )


class UserFile(Preferences):
    """``~/.config/edgetune/config.yaml``: what one person wants in every project."""

    board: Text | None = Field(default=None, description="Board to use when neither flag nor project names one.")
    db: Database | None = Field(
        default=None, description="Records database: a file (~ is the home folder), or postgresql://USER@HOST/NAME."
    )
