"""Scatter in place over a copy: each update is one step, in their order, so that of several to one place the last wins.

TVM writes scatter operators as loops for a run-time library of its own. An update whose index is out of range changes
nothing; ONNX leaves it open.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from math import prod
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.frontend.onnx.converters.scans import constant_value
from edgetune.graph.kernels import ROWS_AT
from edgetune.graph.written_loops import (
    call_written,
    constant,
    integer,
    load,
    nest,
    sequence,
    store,
    tensor,
    written_function,
)
from edgetune.tvm_types import Expr, PrimFunc, Stmt, Var

_REDUCTIONS: dict[str, Callable[[Expr, Expr], Expr]] = {
    "none": lambda _, update: update,
    "add": lambda old, update: old + update,
    "mul": lambda old, update: old * update,
    "max": lambda old, update: tirx.max(update, old),
    "min": lambda old, update: tirx.min(update, old),
}
"""What an element becomes, from what it is and an update.

TIR's maximum keeps its first operand where either is NaN. ONNX Runtime keeps the update, so the update comes first: a
number takes the place of NaN, and NaN that of a number.
"""


Shape = Sequence[int]
Types = tuple[str, str]
"""The type of data and updates, and that of indices."""

_Place = Callable[[list[Var], Callable[[Sequence[Expr]], Expr]], list[Expr]]


def scatter_elements(shape: Shape, extents: Shape, axis: int, types: Types, reduction: str) -> PrimFunc:
    """Updates and indices of shape `extents` into data of `shape`, along `axis`, as one of `_REDUCTIONS`."""

    def place(at: list[Var], index: Callable[[Sequence[Expr]], Expr]) -> list[Expr]:
        return [index(at) if number == axis else one for number, one in enumerate(at)]

    independent = [number != axis for number in range(len(shape))]
    return _scattered((shape, extents, extents), [axis], place, independent, types, reduction)


def scatter_nd(shape: Shape, indices: Shape, types: Types, reduction: str, *, distinct: bool) -> PrimFunc:
    """As many updates as rows of `indices`, each for the last axis of data of `shape`; rows index the axes before it.

    `distinct`: no two rows are the same place, so that the order of updates does not matter.
    """
    count, depth = indices

    def place(at: list[Var], index: Callable[[Sequence[Expr]], Expr]) -> list[Expr]:
        return [*(index([at[0], integer(axis)]) for axis in range(depth)), at[1]]

    return _scattered((shape, indices, (count, shape[-1])), range(depth), place, [distinct, True], types, reduction)


def _scattered(
    shapes: tuple[Shape, Shape, Shape],
    indexed: Collection[int],
    place: _Place,
    independent: Sequence[bool],
    types: Types,
    reduction: str,
) -> PrimFunc:
    """The function for data, indices and updates of these shapes; of the updates some axes are `independent`.

    `place` gives the indices into data of an update; those along the axes `indexed` are data themselves, and count from
    the end where they are negative.
    """
    dtype, index_type = types
    data, where, given = (
        tensor(name, shape, of)
        for name, shape, of in zip(("data", "indices", "updates"), shapes, (dtype, index_type, dtype), strict=True)
    )
    result = tensor("result", shapes[0], dtype)

    def copied(at: list[Var]) -> Stmt:
        return store(result, at, load(data, at))

    def updated(at: list[Var]) -> Stmt:
        to = place(at, lambda of: load(where, of))
        bound: list[Stmt] = []
        inside: list[Expr] = []
        for axis in indexed:
            index, counted = (tirx.Var(name, index_type) for name in ("index", "place"))
            extent, none = constant(shapes[0][axis], index_type), constant(0, index_type)
            bound += [tirx.Bind(index, to[axis]), tirx.Bind(counted, tirx.Select(index < none, index + extent, index))]
            inside += [counted >= none, counted < extent]
            to[axis] = tirx.Cast("int32", counted)
        value = _REDUCTIONS[reduction](load(result, to), load(given, at))
        update = store(result, to, value)
        return sequence(*bound, tirx.IfThenElse(tirx.all(*inside), update, None) if inside else update)

    copy = nest([(f"axis_{n}", extent) for n, extent in enumerate(shapes[0])], copied, [True] * len(shapes[0]))
    update = nest([(f"update_{n}", extent) for n, extent in enumerate(shapes[2])], updated, independent)
    return written_function([data, where, given, result], copy, update)


def _reduction(attr: dict[str, Any]) -> str:
    value = attr.get("reduction", b"none")
    return value.decode() if isinstance(value, bytes) else str(value)


def _extents(x: relax.Expr) -> list[int]:
    return [int(extent) for extent in x.ty.shape]


def _types(data: relax.Expr, indices: relax.Expr) -> Types:
    return str(data.ty.dtype), str(indices.ty.dtype)


def _called(bb: relax.BlockBuilder, name: str, function: PrimFunc, operands: Sequence[relax.Expr]) -> relax.Expr:
    """The result of `function`, in the shape of data; operands take the shapes of its parameters."""
    shapes = ([int(extent) for extent in param.shape] for param in function.params)
    shaped = [bb.normalize(relax.op.reshape(one, shape)) for one, shape in zip(operands, shapes, strict=False)]
    return relax.op.reshape(call_written(bb, name, function, shaped)[0], _extents(operands[0]))


class ScatterElements(tvm_onnx.OnnxOpConverter):
    """Puts `updates` at the `indices` along one axis."""

    @classmethod
    def _impl_v11(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        data, indices, updates = inputs[:3]
        shape = _extents(data)
        if 0 in _extents(indices):
            return data
        merged = merged_axes(shape, _extents(indices), attr.get("axis", 0) % len(shape))
        function = scatter_elements(*merged, _types(data, indices), _reduction(attr))
        return _called(bb, "scatter_elements", function, [data, indices, updates])


def merged_axes(shape: Shape, extents: Shape, axis: int) -> tuple[list[int], list[int], int]:
    """Shapes of data and of indices with as few axes as possible, and the number of `axis` in them.

    Two adjacent axes are one where the indices have the inner one whole. The scattered axis stays one of its own.
    """
    found: list[tuple[int, int]] = []
    place = 0
    for number, (extent, indexed) in enumerate(zip(shape, extents, strict=True)):
        if number == axis:
            place = len(found)
        follows = number > axis and len(found) == place + 1  # the last one found is the scattered axis
        if number != axis and not follows and found and extent == indexed:
            outer = found.pop()
            found.append((outer[0] * extent, outer[1] * extent))
        elif number == axis or (extent, indexed) != (1, 1):
            found.append((extent, indexed))
    return [extent for extent, _ in found], [indexed for _, indexed in found], place


class Scatter(ScatterElements):
    """The older name of ScatterElements."""

    @classmethod
    def _impl_v9(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        return ScatterElements._impl_v11(bb, inputs, attr, params)


class ScatterND(tvm_onnx.OnnxOpConverter):
    """Puts slices of `updates` at the positions in the last axis of `indices`."""

    @classmethod
    def _impl_v11(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        data, indices, updates = inputs[:3]
        shape, (*counts, depth) = _extents(data), _extents(indices)
        if 0 in (*counts, *shape):
            return data
        distinct = _are_distinct(indices)
        whole = [*shape[:depth], prod(shape[depth:])]
        function = scatter_nd(whole, (prod(counts), depth), _types(data, indices), _reduction(attr), distinct=distinct)
        function = function.with_attr(ROWS_AT, [-1, 0]) if _reduction(attr) == "none" else function
        return _called(bb, "scatter_nd", function, [data, indices, updates])


def _are_distinct(indices: relax.Expr) -> bool:
    """Whether no two rows of indices are the same place, as far as is known."""
    if not isinstance(indices, GenericConst):
        return False
    rows = indices.value.numpy().reshape(-1, int(indices.ty.shape[-1]))
    return bool((rows >= 0).all() and len(np.unique(rows, axis=0)) == len(rows))


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
