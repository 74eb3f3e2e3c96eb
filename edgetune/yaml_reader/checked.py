"""Validates a YAML document as a pydantic model; errors name the file, the line and the nearest valid key."""

from __future__ import annotations

import types
import typing
from typing import TYPE_CHECKING, TypeVar

from pydantic import BaseModel, ConfigDict, ValidationError

from edgetune.errors import UsageError
from edgetune.yaml_reader.messages import complaint
from edgetune.yaml_reader.nearest import nearest

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pydantic_core import ErrorDetails

    from edgetune.yaml_reader.source import Location, YamlDocument


class Checked(BaseModel):
    """Base of everything read from YAML: frozen, no unknown keys, no silent conversions between types."""

    model_config = ConfigDict(frozen=True, extra="forbid", validate_default=True)


ModelT = TypeVar("ModelT", bound=Checked)


def check_document(model: type[ModelT], document: YamlDocument) -> ModelT:
    """Validate ``document`` as ``model``; the first problem becomes the ConfigError."""
    try:
        return model.model_validate(document.data)
    except ValidationError as error:
        details = sorted(
            error.errors(include_url=False),
            # a typo may explain a missing key, so it is reported first
            key=lambda item: (item["type"] == "missing", document.line(_location(item))),
        )
        first = details[0]
        problem = _sentence(model, first)
        if len(details) > 1:
            problem += f" (and {len(details) - 1} more)"
        raise document.error(_location(first), problem) from None


def check_values(model: type[ModelT], values: Mapping[str, object]) -> ModelT:
    """Validate values from command-line flags as ``model``; the first problem becomes the UsageError."""
    try:
        return model.model_validate(values)
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        said = _sentence(model, first).replace("'", "", 2)
        raise UsageError(f"NAME{said.removeprefix('name')}" if first["loc"] == ("name",) else f"--{said}") from None


def _location(item: ErrorDetails) -> Location:
    return item["loc"]


def _sentence(model: type[BaseModel], item: ErrorDetails) -> str:
    location = _location(item)
    name = ".".join(str(part) for part in location if part != "[key]")
    kind = item["type"]
    if kind == "extra_forbidden":
        group = _model_at(model, location[:-1])
        keys = list(group.model_fields) if group is not None else []
        return f"unknown key '{name}': {nearest(str(location[-1]), keys)}"
    if kind == "missing":
        return f"key '{name}' {complaint(item)}"
    return f"'{name}' {complaint(item)}" if name else complaint(item)


def _model_at(model: type[BaseModel], location: Location) -> type[BaseModel] | None:
    current: object = model
    for part in location:
        if typing.get_origin(current) is dict:
            current = typing.get_args(current)[1]
            continue
        group = _model_in(current)
        if group is None or str(part) not in group.model_fields:
            return None
        current = group.model_fields[str(part)].annotation
    return _model_in(current)


def _model_in(annotation: object) -> type[BaseModel] | None:
    if isinstance(annotation, type) and issubclass(annotation, BaseModel):
        return annotation
    if typing.get_origin(annotation) is typing.Annotated:
        return _model_in(typing.get_args(annotation)[0])
    if isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union:
        for part in typing.get_args(annotation):
            found = _model_in(part)
            if found is not None:
                return found
    return None
