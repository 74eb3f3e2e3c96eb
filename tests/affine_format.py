"""A model format of its own distribution: a text file with the shape, scale and offset of y = scale * x + offset.

    input ? 6
    scale 3
    offset 0.5

Tests install this file as a distribution of one module; nothing imports it from here.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from edgetune.errors import DynamicShape, ModelError
from edgetune.frontend.model_format import Feed, Model, ModelFormat, OpenShape, Recognition, Shapes, StoredModel
from edgetune.graph.ways import USUAL, Ways

if TYPE_CHECKING:
    import numpy as np

    from edgetune.graph.program import Program, TensorSpec


class AffineFormat(ModelFormat):
    """Files whose name ends in .affine."""

    def recognises(self, source: Any) -> Recognition:
        """By the suffix."""
        return Recognition.CERTAIN if isinstance(source, Path) and source.suffix == ".affine" else Recognition.NONE

    def signature(self, source: Any) -> Mapping[str, OpenShape]:
        """The shape of the one input."""
        return {"x": read(source).shape}

    def read(self, source: Any) -> StoredModel:
        """Reads the three lines."""
        return read(source)


FORMAT = AffineFormat()


def read(path: Path) -> StoredAffine:
    """Read the three lines; raises ModelError for others."""
    data = path.read_bytes()
    try:
        lines = dict(line.split(maxsplit=1) for line in data.decode().splitlines())
        shape = tuple(int(extent) if extent.isdigit() else extent for extent in lines["input"].split())
        return StoredAffine(path.stem, data, shape, float(lines["scale"]), float(lines["offset"]))
    except (ValueError, KeyError) as error:
        raise ModelError(f"{path} is no affine model ({error}); write input, scale and offset") from error


@dataclass(frozen=True)
class StoredAffine(StoredModel):
    """The three lines; an extent that is no number is open."""

    name: str
    data: bytes
    shape: OpenShape
    scale: float
    offset: float

    @property
    def sha256(self) -> str:
        """That of the file."""
        return hashlib.sha256(self.data).hexdigest()

    def with_shapes(self, shapes: Shapes) -> Model:
        """Any fixed shape will do."""
        fixed = shapes.get("x", self.shape)
        if any(isinstance(extent, str) for extent in fixed):
            raise DynamicShape(f"input 'x' of {self.name}.affine has an open size: fix it with --shape x=...")
        return AffineModel(self, tuple(int(extent) for extent in fixed))


@dataclass(frozen=True)
class AffineModel(Model):
    """The model for one shape."""

    stored: StoredAffine
    shape: tuple[int, ...]

    @property
    def inputs(self) -> Sequence[TensorSpec]:
        """The one input."""
        from edgetune.graph.program import TensorSpec

        return (TensorSpec("x", self.shape, "float32"),)

    def program(
        self,
        channels_last: frozenset[str] = frozenset(),
        *,
        ways: Ways = USUAL,
        states: Mapping[str, str] | None = None,
    ) -> Program:
        """A Relax function of two operators, after the graph passes."""
        from tvm import relax

        from edgetune.graph.imported import Imported
        from edgetune.graph.partition import to_program

        del channels_last, ways, states
        builder = relax.BlockBuilder()
        x = relax.Var("x", relax.TensorType(self.shape, "float32"))
        with builder.function("main", [x]):
            with builder.dataflow():
                product = builder.emit(relax.op.multiply(x, relax.const(self.stored.scale, "float32")))
                y = builder.emit_output(relax.op.add(product, relax.const(self.stored.offset, "float32")))
            builder.emit_func_output(y)
        name, sha256 = self.stored.name, self.stored.sha256
        return to_program(Imported(name, sha256, builder.get(), tuple(self.inputs), ("y",), {}))

    def reference_outputs(
        self, feeds: Sequence[Feed], program: Callable[[], Program], events: Callable[..., None]
    ) -> tuple[list[dict[str, np.ndarray]], str]:
        """Computed by numpy."""
        import numpy as np

        del program, events
        scale, offset = np.float32(self.stored.scale), np.float32(self.stored.offset)
        return [{"y": feed["x"] * scale + offset} for feed in feeds], "numpy"
