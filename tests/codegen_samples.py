"""Functions and schedules that the tests of the C printer share."""

from __future__ import annotations

from typing import Any

import tvm
from tvm import s_tir, te, tirx
from tvm.s_tir import meta_schedule as ms


def convolution(rows: int = 4, columns: int = 8, channels: int = 8, filters: int = 32) -> Any:
    """3x3 convolution with bias and ReLU on NHWC; weights OHWI; the weights are free to be packed."""
    x = te.placeholder((1, rows + 2, columns + 2, channels), name="x")
    w = te.placeholder((filters, 3, 3, channels), name="w")
    b = te.placeholder((filters,), name="b")
    kh, kw = te.reduce_axis((0, 3), "kh"), te.reduce_axis((0, 3), "kw")
    c = te.reduce_axis((0, channels), "c")
    y = te.compute(
        (1, rows, columns, filters),
        lambda n, h, v, o: te.sum(x[n, h + kh, v + kw, c] * w[o, kh, kw, c], axis=[kh, kw, c]),
        name="conv",
    )
    out = te.compute(
        (1, rows, columns, filters),
        lambda n, h, v, o: te.max(y[n, h, v, o] + b[o], tirx.const(0, "float32")),
        name="relu",
    )
    return te.create_prim_func([x, w, b, out]).with_attr("layout_free_buffers", [1, 2])


def register_tile(function: Any, pixels: int = 4, blocks: int = 2, lanes: int = 16) -> Any:
    """`convolution` as a register tile of pixels x (blocks x lanes) channels; its weights packed by RewriteLayout."""
    schedule = s_tir.Schedule(function)
    block = schedule.get_sblock("conv")
    schedule.set_scope(block, 0, "local")
    n, h, v, o, kh, kw, c = schedule.get_loops(block)
    v_outer, v_inner = schedule.split(v, [None, pixels])
    o_outer, o_block, o_lane = schedule.split(o, [None, blocks, lanes])
    schedule.reorder(n, o_outer, h, v_outer, kh, kw, c, v_inner, o_block, o_lane)
    schedule.unroll(v_inner)
    schedule.unroll(o_block)
    schedule.vectorize(o_lane)
    epilogue = schedule.get_sblock("relu")
    schedule.reverse_compute_at(epilogue, v_outer)
    pixel, channel = schedule.get_loops(epilogue)[-2:]
    channel, lane = schedule.split(channel, [None, lanes])
    schedule.unroll(pixel)
    schedule.unroll(channel)
    schedule.vectorize(lane)
    schedule.decompose_reduction(block, kh)
    assert ms.postproc.RewriteLayout().apply(schedule)
    return schedule.mod


def softmax(rows: int = 3, columns: int = 10) -> Any:
    """Softmax over the last axis, as ONNX imports bring it."""
    x = te.placeholder((rows, columns), name="x")
    k, j = te.reduce_axis((0, columns), "k"), te.reduce_axis((0, columns), "j")
    top = te.compute((rows,), lambda i: te.max(x[i, k], axis=k), name="top")
    e = te.compute((rows, columns), lambda i, c: tirx.exp(x[i, c] - top[i]), name="e")
    total = te.compute((rows,), lambda i: te.sum(e[i, j], axis=j), name="total")
    return te.create_prim_func([x, te.compute((rows, columns), lambda i, c: e[i, c] / total[i], name="softmax")])


def padded_copy(rows: int = 3, columns: int = 5, channels: int = 16) -> Any:
    """Zero padding of NHWC by one on all sides, vectorised over channels: a scalar condition over vectors."""
    x = te.placeholder((rows, columns, channels), name="x")
    out = te.compute(
        (rows + 2, columns + 2, channels),
        lambda i, j, c: tirx.if_then_else(
            tirx.all(i >= 1, i <= rows, j >= 1, j <= columns), x[i - 1, j - 1, c], tirx.const(0, "float32")
        ),
        name="pad",
    )
    schedule = s_tir.Schedule(te.create_prim_func([x, out]))
    schedule.vectorize(schedule.get_loops(schedule.get_sblock("pad"))[-1])
    return schedule.mod


def requantised(rows: int = 4, columns: int = 32, depth: int = 8) -> Any:
    """int8 matrix product with int32 sums, scaled, rounded and clamped to int8; vectors over the columns."""
    a = te.placeholder((rows, depth), "int8", name="a")
    b = te.placeholder((depth, columns), "int8", name="b")
    k = te.reduce_axis((0, depth), "k")
    product = te.compute(
        (rows, columns),
        lambda i, j: te.sum((a[i, k].astype("int32") - tirx.const(3, "int32")) * b[k, j].astype("int32"), axis=k),
        name="product",
    )

    def narrowed(value: Any) -> Any:
        scaled = tirx.round(value.astype("float32") * tirx.const(0.0371, "float32"))
        clamped = tirx.max(tirx.min(scaled, tirx.const(127, "float32")), tirx.const(-128, "float32"))
        return clamped.astype("int8")

    out = te.compute((rows, columns), lambda i, j: narrowed(product[i, j] + tirx.const(0, "int32")), name="out")
    schedule = s_tir.Schedule(te.create_prim_func([a, b, out]))
    block = schedule.get_sblock("product")
    schedule.set_scope(block, 0, "local")
    i, j, reduction = schedule.get_loops(block)
    j_outer, j_inner = schedule.split(j, [None, 16])
    schedule.reorder(i, j_outer, reduction, j_inner)
    schedule.vectorize(j_inner)
    last = schedule.get_sblock("out")
    schedule.reverse_compute_at(last, j_outer)
    schedule.vectorize(schedule.get_loops(last)[-1])
    schedule.decompose_reduction(block, reduction)
    return schedule.mod


def gather(rows: int = 6, columns: int = 16) -> Any:
    """Rows of a table taken by int64 indices, vectorised against the grain (a stride in the source)."""
    table = te.placeholder((columns, 11), name="table")
    index = te.placeholder((rows,), "int64", name="index")
    out = te.compute((rows, columns), lambda i, j: table[j, index[i]], name="taken")
    schedule = s_tir.Schedule(te.create_prim_func([table, index, out]))
    schedule.vectorize(schedule.get_loops(schedule.get_sblock("taken"))[-1])
    return schedule.mod


def module(function: Any) -> Any:
    """A module of one unscheduled function."""
    return tvm.IRModule({"main": function})
