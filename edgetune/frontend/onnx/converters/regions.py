"""RoiAlign: samples regions of interest to one size (ONNX operator specification, opsets 10, 16 and 22)."""

from __future__ import annotations

from typing import Any

from tvm import relax, te, tirx
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.converters.reductions import maximum

_HALF = ("float16", "bfloat16")
# How far a pixel's centre lies from its corner, in pixels.
_SHIFTS = {"half_pixel": 0.5, "output_half_pixel": 0.0}


class RoiAlign(tvm_onnx.OnnxOpConverter):
    """Each region of (n, c, h, w) images as (c, output_height, output_width): averages or maxima of samples.

    The maximum is over the weighted neighbours of all samples, not over interpolated values, as in ONNX's reference
    evaluator and in ONNX Runtime. TVM shifts by half a pixel before it scales; ONNX scales first.
    """

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return cls._aligned(bb, inputs, attr, "output_half_pixel")

    @classmethod
    def _impl_v16(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return cls._aligned(bb, inputs, attr, "half_pixel")

    @classmethod
    def _aligned(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], default: str) -> relax.Expr:
        mode = _choice(attr, "mode", "avg", ("avg", "max"))
        coordinates = _choice(attr, "coordinate_transformation_mode", default, tuple(_SHIFTS))
        ratio = int(attr.get("sampling_ratio", 0))
        if ratio <= 0:
            raise UnsupportedOperator(
                "operator RoiAlign takes as many samples as each region needs (sampling_ratio 0), "
                "which is not known before run time; export the model with a fixed sampling_ratio, such as 2"
            )
        kept = str(inputs[0].ty.dtype)
        dtype = "float32" if kept in _HALF else kept
        data, regions = (relax.op.astype(x, dtype) if kept in _HALF else x for x in inputs[:2])
        images = int(inputs[0].ty.shape[0])
        regions = relax.op.multiply(regions, relax.const(float(attr.get("spatial_scale", 1.0)), dtype))
        regions = relax.op.subtract(regions, relax.const(_SHIFTS[coordinates], dtype))
        # An image number is data: one beyond the batch must not become an index outside of it.
        batch = relax.op.minimum(relax.op.maximum(inputs[2], relax.const(0, "int64")), relax.const(images - 1, "int64"))
        size = (int(attr.get("output_height", 1)), int(attr.get("output_width", 1)))
        whole = coordinates == "output_half_pixel"
        if mode == "max":
            operands = [bb.normalize(x) for x in (data, regions, batch)]
            result = bb.emit_te(_maxima, *operands, size, ratio, whole)
        else:
            numbered = relax.op.concat([relax.op.expand_dims(relax.op.astype(batch, dtype), 1), regions], axis=1)
            result = relax.op.vision.roi_align(
                data, numbered, pooled_size=size, spatial_scale=1.0, sample_ratio=ratio,
                aligned=not whole, layout="NCHW", mode="avg",
            )  # fmt: skip
        return relax.op.astype(result, kept) if kept in _HALF else result


def _choice(attr: dict[str, Any], name: str, default: str, known: tuple[str, ...]) -> str:
    given = attr.get(name, default)
    chosen = given.decode() if isinstance(given, bytes) else str(given)
    if chosen not in known:
        raise UnsupportedOperator(f"operator RoiAlign has {name} {chosen!r}; only {' and '.join(known)} are supported")
    return chosen


def _maxima(
    data: te.Tensor, regions: te.Tensor, batch: te.Tensor, size: tuple[int, int], ratio: int, whole: bool
) -> te.Tensor:
    """Largest weighted neighbour of ratio * ratio samples per bin; `whole`: a region is at least one pixel."""
    dtype = str(data.dtype)
    _, channels, height, width = (int(e) for e in data.shape)
    down, right = te.reduce_axis((0, ratio), "down"), te.reduce_axis((0, ratio), "right")

    def samples(n: Any, first: int, number: Any, cell: Any, count: int) -> Any:
        """Coordinate of a sample along the axis whose start is column `first` of the regions."""
        start, extent = regions(n, first), regions(n, first + 2) - regions(n, first)
        if whole:
            extent = tirx.max(extent, tirx.const(1, dtype))
        step = extent / tirx.const(count, dtype)
        part = (number.astype(dtype) + tirx.const(0.5, dtype)) * step / tirx.const(ratio, dtype)
        return start + cell.astype(dtype) * step + part

    def weighted(n: Any, c: Any, row: Any, column: Any) -> Any:
        y, x = samples(n, 1, down, row, size[0]), samples(n, 0, right, column, size[1])
        outside = tirx.any(y < -1.0, y > float(height), x < -1.0, x > float(width))
        (top, bottom, low), (left, far, near) = _neighbours(y, height, dtype), _neighbours(x, width, dtype)
        one = tirx.const(1, dtype)
        image = batch(n).astype("int32")
        values = (
            (one - low) * (one - near) * data(image, c, top, left),
            (one - low) * near * data(image, c, top, far),
            low * (one - near) * data(image, c, bottom, left),
            low * near * data(image, c, bottom, far),
        )
        largest = tirx.max(tirx.max(values[0], values[1]), tirx.max(values[2], values[3]))
        return tirx.if_then_else(outside, tirx.const(0, dtype), largest)

    return te.compute(
        (regions.shape[0], channels, *size),
        lambda *i: maximum(weighted(*i), axis=[down, right]),
        name="largest_samples",
    )


def _neighbours(position: Any, extent: int, dtype: str) -> tuple[Any, Any, Any]:
    """The elements before and after a position along an axis, and its distance from the one before."""
    inside = tirx.min(tirx.max(position, tirx.const(0, dtype)), tirx.const(extent - 1, dtype))
    before = tirx.min(tirx.max(tirx.floor(inside).astype("int32"), 0), extent - 1)
    return before, tirx.min(before + 1, extent - 1), inside - before.astype(dtype)
