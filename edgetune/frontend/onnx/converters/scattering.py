"""Scatter as gather: each element of the result searches for the updates that address it.

TVM writes scatter operators as opaque loops that can neither be scheduled nor printed. These tensor expressions need no
order of execution: where several updates address one element, the last wins, or they are reduced.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from tvm import relax, te, tirx, topi
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.frontend.onnx.converters.reductions import maximum, minimum
from edgetune.frontend.onnx.converters.scans import constant_value

_product = te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), name="product")


def _merged(
    data: te.Tensor,
    count: Any,
    meets: Callable[[tuple[Any, ...], Any], Any],
    update: Callable[[tuple[Any, ...], Any], Any],
    reduction: str,
) -> te.Tensor:
    """`data` with every update k in [0, count) for which `meets(i, k)` applied at i, as `reduction` says."""
    k = te.reduce_axis((0, count), "k")
    dtype = str(data.dtype)
    if reduction == "none":
        last = te.compute(
            data.shape,
            lambda *i: te.max(tirx.if_then_else(meets(i, k), k.astype("int32"), tirx.const(-1, "int32")), axis=k),
            name="last",
        )
        return te.compute(
            data.shape,
            lambda *i: tirx.if_then_else(last(*i) >= 0, update(i, tirx.max(last(*i), 0)), data(*i)),
            name="scattered",
        )
    reduce, neutral, combine = _reducer(reduction, dtype)
    gathered = te.compute(
        data.shape, lambda *i: reduce(tirx.if_then_else(meets(i, k), update(i, k), neutral), axis=k), name="gathered"
    )
    return te.compute(data.shape, lambda *i: combine(data(*i), gathered(*i)), name="scattered")


def _reducer(reduction: str, dtype: str) -> tuple[Any, Any, Callable[[Any, Any], Any]]:
    """The reduction along an axis, its neutral element, and the same operation on two elements."""
    if reduction == "add":
        return te.sum, tirx.const(0, dtype), lambda a, b: a + b
    if reduction == "mul":
        return _product, tirx.const(1, dtype), lambda a, b: a * b
    # The lowest finite number is not neutral for floats: data of -inf without an update would become that number.
    floating = np.issubdtype(np.dtype(dtype), np.floating)
    if reduction == "max":
        return (
            (maximum, tirx.const(-np.inf, dtype), tirx.max) if floating else (te.max, tirx.min_value(dtype), tirx.max)
        )
    return (minimum, tirx.const(np.inf, dtype), tirx.min) if floating else (te.min, tirx.max_value(dtype), tirx.min)


def _reduction(attr: dict[str, Any]) -> str:
    value = attr.get("reduction", b"none")
    return value.decode() if isinstance(value, bytes) else str(value)


class ScatterElements(tvm_onnx.OnnxOpConverter):
    """Puts `updates` at the `indices` along one axis."""

    @classmethod
    def _impl_v11(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        axis = attr.get("axis", 0) % len(inputs[0].ty.shape)
        reduction = _reduction(attr)

        def scatter_elements(data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
            extent = data.shape[axis]

            def at(i: tuple[Any, ...], k: Any) -> tuple[Any, ...]:
                return tuple(k if a == axis else v for a, v in enumerate(i))

            def meets(i: tuple[Any, ...], k: Any) -> Any:
                inside = [v < indices.shape[a] for a, v in enumerate(i) if a != axis]
                index = indices(*at(i, k))
                index = tirx.if_then_else(index < 0, index + extent, index)
                hit = index.equal(i[axis].astype(str(indices.dtype)))
                return tirx.if_then_else(tirx.all(*inside), hit, tirx.const(0, "bool")) if inside else hit

            return _merged(data, indices.shape[axis], meets, lambda i, k: updates(*at(i, k)), reduction)

        return bb.emit_te(scatter_elements, inputs[0], inputs[1], inputs[2])


class Scatter(ScatterElements):
    """The older name of ScatterElements."""

    @classmethod
    def _impl_v9(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return ScatterElements._impl_v11(bb, inputs, attr, params)


class ScatterND(tvm_onnx.OnnxOpConverter):
    """Puts slices of `updates` at the positions in the last axis of `indices`."""

    @classmethod
    def _impl_v11(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        reduction = _reduction(attr)

        def scatter_nd(data: te.Tensor, indices: te.Tensor, updates: te.Tensor) -> te.Tensor:
            depth = int(indices.shape[-1])
            count = 1
            for extent in indices.shape[:-1]:
                count *= int(extent)
            where = topi.reshape(indices, (count, depth))
            slices = topi.reshape(updates, (count, *data.shape[depth:]))

            def meets(i: tuple[Any, ...], k: Any) -> Any:
                hits = []
                for axis in range(depth):
                    index = where(k, axis)
                    index = tirx.if_then_else(index < 0, index + data.shape[axis], index)
                    hits.append(index.equal(i[axis].astype(str(indices.dtype))))
                return tirx.all(*hits)

            return _merged(data, count, meets, lambda i, k: slices(k, *i[depth:]), reduction)

        return bb.emit_te(scatter_nd, inputs[0], inputs[1], inputs[2])


class MaxUnpool(tvm_onnx.OnnxOpConverter):
    """Puts each maximum back to where MaxPool found it; zeros elsewhere.

    An index lies in the window of its maximum, so an element of the result looks only at the windows that cover it
    for the last one that names it.
    """

    @classmethod
    def _impl_v11(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        images, channels, *pooled = (int(extent) for extent in inputs[0].ty.shape)
        rank, kernel = len(pooled), attr["kernel_shape"]
        strides, pads = attr.get("strides", [1] * rank), attr.get("pads", [0] * 2 * rank)
        # MaxPool's input; indices count its elements over all images and channels.
        whole = [(extent - 1) * strides[a] - pads[a] - pads[rank + a] + kernel[a] for a, extent in enumerate(pooled)]
        result = [images, channels, *whole]
        if len(inputs) > 2 and inputs[2] is not None:
            result = [int(extent) for extent in constant_value("MaxUnpool", "output_shape", inputs[2]).reshape(-1)]

        def unpooled(values: te.Tensor, indices: te.Tensor) -> te.Tensor:
            covering = [te.reduce_axis((0, -(-kernel[a] // strides[a])), f"k{a}") for a in range(rank)]

            def window(i: tuple[Any, ...], counts: list[Any]) -> list[Any]:
                """The place of the window that `counts` windows precede the last one over i."""
                return [(i[2 + a] + pads[a]) // strides[a] - k for a, k in enumerate(counts)]

            def inside(i: tuple[Any, ...], places: list[Any]) -> tuple[Any, ...]:
                return (*i[:2], *(tirx.max(0, tirx.min(w, pooled[a] - 1)) for a, w in enumerate(places)))

            def found(*i: Any) -> Any:
                place = tirx.const(0, str(indices.dtype))
                for index, extent in zip(i, (images, channels, *whole), strict=True):
                    place = place * extent + index.astype(str(indices.dtype))
                places = window(i, [axis.var for axis in covering])
                there = [tirx.all(w >= 0, w < pooled[a], i[2 + a] < whole[a]) for a, w in enumerate(places)]
                number = tirx.const(0, "int32")
                for axis in covering:
                    number = number * axis.dom.extent + (axis.dom.extent - 1 - axis.var)
                here = tirx.all(*there, indices(*inside(i, places)).equal(place))
                return te.max(tirx.if_then_else(here, number, tirx.const(-1, "int32")), axis=covering)

            last = te.compute(result, found, "last")

            def value(*i: Any) -> Any:
                counts: list[Any] = []
                rest = tirx.max(last(*i), 0)
                for axis in reversed(covering):
                    counts.insert(0, axis.dom.extent - 1 - rest % axis.dom.extent)
                    rest = rest // axis.dom.extent
                maximum = values(*inside(i, window(i, counts)))
                return tirx.if_then_else(last(*i) >= 0, maximum, tirx.const(0, str(values.dtype)))

            return te.compute(result, value, "unpooled")

        return bb.emit_te(unpooled, inputs[0], inputs[1])
