"""The registry of model formats: finds the format of a file or an object, and reads it.

It imports no member's reader, and nothing of TVM: the command line calls it before anything else is loaded.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from edgetune.errors import ConfigError
from edgetune.frontend.model_format import (
    AxisSizes,
    Model,
    ModelFormat,
    ModelInPython,
    ModelSource,
    OpenShape,
    Recognition,
    Shapes,
    StoredModel,
)
from edgetune.registry import Registry

MODEL_FORMATS: Registry[ModelFormat] = Registry("model format", "edgetune.model_formats", ModelFormat)


def format_of(source: ModelSource) -> ModelFormat:
    """The format that is surest that `source` is one of its models.

    Raises ConfigError where no format may have such a model, or where two are equally sure.
    """
    return _recognised(source)[0]


def _recognised(given: ModelSource) -> tuple[ModelFormat, ModelSource]:
    """The format of what is given, and the source it reads: any kind of path is a `Path` from here on."""
    source = Path(given) if isinstance(given, str | os.PathLike) else given
    formats = _formats()
    answers = {name: member.recognises(source) for name, member in formats.items()}
    best = max(answers.values(), default=Recognition.NONE)
    shown = source if isinstance(source, Path) else f"an object of class {_class_name(source)}"
    if best is Recognition.NONE:
        MODEL_FORMATS.require_current()
        raise ConfigError(f"no model format knows {shown} (installed: {', '.join(formats)}): install one that does")
    names = [name for name, answer in answers.items() if answer == best]
    if len(names) > 1:
        raise ConfigError(
            f"{shown} may be a model of the formats {' and '.join(names)}: uninstall the distribution of one of them"
        )
    return formats[names[0]], source


def name_of_format(source: ModelSource) -> str:
    """The registry's name of the format of `source`; raises as `format_of` does."""
    form = format_of(source)
    return next(name for name, member in _formats().items() if member is form)


def _class_name(source: ModelSource) -> str:
    return type(source.model if isinstance(source, ModelInPython) else source).__name__


def require_model(source: ModelSource, origin: str) -> None:
    """Raises ModelError at once where `source` cannot be a model; `origin` says where it was given."""
    form, source = _recognised(source)
    form.require(source, origin)


def read_signature(source: ModelSource) -> Mapping[str, OpenShape]:
    """Shapes of the inputs by name, as `ModelFormat.signature` has them. Raises ModelError."""
    form, source = _recognised(source)
    form.require(source)  # before the modules that read a file are loaded
    return form.signature(source)


def read_stored(source: ModelSource) -> StoredModel:
    """Reads `source` with its open shapes. Raises ModelError."""
    form, source = _recognised(source)
    return form.read(source)


def read_model(
    source: ModelSource, shapes: Shapes | None = None, origin: str = "", sizes: AxisSizes | None = None
) -> Model:
    """Reads `source` and fixes its input shapes, also by `sizes` of axes that it names.

    `origin` says where it was given. Raises ModelError, DynamicShape.
    """
    form, source = _recognised(source)
    form.require(source, origin)
    return form.read(source).with_axes(shapes or {}, sizes or {})


def register_operator(name: str, expression: Callable[..., Any]) -> None:
    """Defines the operator type `name`, which models may then use, as `expression(*inputs, **attributes)`.

    `expression` takes `te.Tensor`s and returns one, or a list of them; attributes arrive as Python values. Raises
    UsageError when a format has the operator already.
    """
    for member in _formats().values():
        member.register_operator(name, expression)


def _formats() -> dict[str, ModelFormat]:
    return {name: MODEL_FORMATS.get(name, ConfigError) for name in MODEL_FORMATS.names()}
