"""What all parts of a manifest are made of: unknown keys are kept, and nothing is converted."""

from __future__ import annotations

from typing import Annotated, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

from edgetune.graph.layout.axis_order import reordered, to_model
from edgetune.target.preferences import Layout

_MOST_AXES = 64  # of an array of NumPy
_LEAST_AXES = 3  # of an image: N, C and one in space


class ManifestPart(BaseModel):
    """A part whose unknown keys are kept and ignored."""

    model_config = ConfigDict(extra="allow", strict=True, frozen=True)


class ClosedPart(BaseModel):
    """A part that has no other keys."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


Count = Annotated[int, Field(ge=0)]
_Shape = Annotated[list[Annotated[int, Field(ge=0, lt=1 << 31)]], Field(max_length=_MOST_AXES)]


class ShapedPart(ManifestPart):
    """A tensor, whose shape has the axes in the order of its layout."""

    shape: _Shape
    layout: Layout = "model"

    @model_validator(mode="after")
    def _has_channels(self) -> Self:
        if self.layout != "model" and len(self.shape) < _LEAST_AXES:
            raise ValueError(f"has the layout {self.layout}, and its shape {self.shape} is that of no image")
        return self

    @property
    def of_model(self) -> tuple[int, ...]:
        """The shape with the axes in the order of the model."""
        return reordered(self.shape, to_model(len(self.shape), self.layout))
