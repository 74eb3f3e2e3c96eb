"""NonMaxSuppression with a bound: of boxes that overlap it keeps the one with the highest score.

The candidates of a class, those above the score threshold, are a heap, and leave it in order of their scores. Each is
compared with the boxes kept so far, until as many are kept as may be: n log n comparisons of scores for n candidates,
and n k of boxes at most for k that are kept (A. Neubeck and L. Van Gool, Efficient non-maximum suppression, 2006).

The shapes of a package are fixed, so the result has as many rows as can be kept. The kept rows come first, in the order
of ONNX Runtime. All elements of the remaining rows are -1. A box that has NaN overlaps none.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from tvm import relax, tirx
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.frontend.onnx.converters.ordered_rows import CHILDREN, Entries, Heap, Packed
from edgetune.frontend.onnx.converters.scans import constant_value
from edgetune.graph.rewrite import constant_of
from edgetune.graph.written_loops import (
    Variable,
    call_written,
    constant,
    integer,
    load,
    loop,
    memory,
    nest,
    sequence,
    store,
    tensor,
    using,
    written_function,
)
from edgetune.tvm_types import Expr, PrimFunc, Stmt, TvmBuffer

_INPUTS = 5


class _Box:
    """The edges of a box: `low` and `high` along two axes."""

    def __init__(self, boxes: TvmBuffer, place: Sequence[Expr], suffix: str, *, by_center: bool) -> None:
        names = ("low_0", "low_1", "high_0", "high_1")
        given = [load(boxes, [*place, integer(number)]) for number in range(len(names))]
        read = [tirx.Var(f"given_{number}_{suffix}", "float32") for number in range(len(names))]
        edges = [tirx.Var(f"{name}_{suffix}", "float32") for name in names]
        self.low, self.high = edges[:2], edges[2:]
        self.steps: list[Stmt] = [tirx.Bind(name, value) for name, value in zip(read, given, strict=True)]
        for axis in range(2):
            a, b = read[axis], read[axis + 2]  # two corners in any order, or the center and the extent
            low, high = (a - _half(b), a + _half(b)) if by_center else (tirx.min(a, b), tirx.max(a, b))
            self.steps += [tirx.Bind(self.low[axis], low), tirx.Bind(self.high[axis], high)]

    @property
    def area(self) -> Expr:
        """Its area."""
        return (self.high[0] - self.low[0]) * (self.high[1] - self.low[1])


def _half(value: Expr) -> Expr:
    return value * constant(0.5, "float32")


def _overlap(a: _Box, b: _Box, threshold: Expr) -> tuple[list[Stmt], Expr]:
    """Whether what two boxes share is more than `threshold` of what they cover, and statements before it.

    All comparisons are false where a value is NaN.
    """
    sides, steps, zero = [], [*b.steps], constant(0.0, "float32")
    for axis in range(2):
        side = tirx.Var(f"side_{axis}", "float32")
        steps.append(tirx.Bind(side, tirx.min(a.high[axis], b.high[axis]) - tirx.max(a.low[axis], b.low[axis])))
        sides.append(side)
    shared, own, other, covered = (tirx.Var(name, "float32") for name in ("shared", "own", "other", "covered"))
    for name, value in ((shared, sides[0] * sides[1]), (own, a.area), (other, b.area), (covered, own + other - shared)):
        steps.append(tirx.Bind(name, value))
    positive = [value > zero for value in (*sides, shared, own, other, covered)]
    return steps, tirx.all(*positive, shared / covered > threshold)


def non_max_suppression(
    shape: tuple[int, int, int], most: int, *, by_center: bool = False, has_limit: bool = True
) -> PrimFunc:
    """The selected boxes of batches x classes x boxes, at most `most` of each class; `most` is at least 1.

    Parameters: boxes (batches, boxes, 4) as corners, or as centers and extents; scores of `shape`; the threshold of
    the overlap; that of the score where it `has_limit`; the result, (batches x classes x most, 3) of batch, class and
    box; the boxes kept of each class; and the first row of each class in the result, with the end of the last one.
    """
    batches, classes, count = shape
    rows, kept_at_most = batches * classes, min(most, count)
    boxes = tensor("boxes", (batches, count, 4), "float32")
    scores = tensor("scores", shape, "float32")
    threshold, limit = (tensor(name, (1,), "float32") for name in ("iou_threshold", "score_threshold"))
    result = tensor("result", (rows * kept_at_most, 3), "int64")
    chosen, starts = tensor("chosen", (rows, kept_at_most), "int32"), tensor("starts", (rows + 1,), "int32")
    first, total = [integer(0)], Variable("total")

    def of_class(at: list[Expr]) -> Stmt:
        batch, row = at[0], at[0] * integer(classes) + at[1]
        scored = Packed(lambda j: load(scores, [*at, j]), np.dtype(np.float32), largest=True)
        entries = memory("entries", count, "int64")
        heap = Heap(Entries(entries), scored, first_at_root=True)
        size, kept, number, overlaps = (Variable(name) for name in ("size", "kept", "number", "overlaps"))
        root, best = integer(0), tirx.Var("best", "int32")

        def collected(j: Expr) -> Stmt:
            taken = sequence(heap.put(size.value, scored.entry(j)), size.set(size.value + integer(1)))
            return tirx.IfThenElse(scored.value(j) > load(limit, first), taken, None) if has_limit else taken

        box = _Box(boxes, [batch, best], "best", by_center=by_center)
        earlier = tirx.Var("earlier", "int32")
        other = _Box(boxes, [batch, earlier], "kept", by_center=by_center)
        before, does = _overlap(box, other, load(threshold, first))
        compared = sequence(
            tirx.Bind(earlier, load(chosen, [row, number.value])),
            *before,
            overlaps.set(tirx.Cast("int32", does)),
            number.set(number.value + integer(1)),
        )
        keep = sequence(store(chosen, [row, kept.value], best), kept.set(kept.value + integer(1)))
        taken = sequence(
            tirx.Bind(best, tirx.Cast("int32", scored.index(heap.entry(root)))),
            *box.steps,
            number.set(integer(0)),
            overlaps.set(integer(0)),
            tirx.While(tirx.all(number.value < kept.value, overlaps.value < integer(1)), compared),
            tirx.IfThenElse(overlaps.value < integer(1), keep, None),
            size.set(size.value - integer(1)),
            heap.hold(heap.entry(size.value)),
            heap.sink(root, size.value),
        )
        arranged = sequence(
            number.set(number.value - integer(1)),
            heap.hold(heap.entry(number.value)),
            heap.sink(number.value, size.value),
        )
        steps = [
            *(size.set(integer(0)), kept.set(integer(0))),
            loop("collected", count, collected),
            number.set(tirx.truncdiv(size.value + integer(CHILDREN - 2), integer(CHILDREN))),  # those with one below
            tirx.While(number.value > integer(0), arranged),
            tirx.While(tirx.all(size.value > integer(0), kept.value < integer(kept_at_most)), taken),
            store(starts, [row], kept.value),
        ]
        return using([*heap.variables, size, kept, number, overlaps], *steps, also=[entries])

    def begun(row: Expr) -> Stmt:
        had = tirx.Var("had", "int32")
        begins = store(starts, [row], total.value)
        return sequence(tirx.Bind(had, load(starts, [row])), begins, total.set(total.value + had))

    def placed(at: list[Expr]) -> Stmt:
        row, place = at[0] * integer(classes) + at[1], at[2]
        start, count_of_row, end = (tirx.Var(name, "int32") for name in ("start", "own", "end"))

        def put(where: Expr, values: Sequence[Expr]) -> Stmt:
            return sequence(*(store(result, [where, integer(n)], value) for n, value in enumerate(values)))

        found = [tirx.Cast("int64", value) for value in (*at[:2], load(chosen, [row, place]))]
        behind = end + row * integer(kept_at_most) - start + place - count_of_row
        return sequence(
            tirx.Bind(start, load(starts, [row])),
            tirx.Bind(count_of_row, load(starts, [row + integer(1)]) - start),
            tirx.Bind(end, load(starts, [integer(rows)])),
            tirx.IfThenElse(place < count_of_row, put(start + place, found), put(behind, [constant(-1, "int64")] * 3)),
        )

    classes_of_batches = [("batch", batches), ("category", classes)]
    begin = using([total], total.set(integer(0)), loop("row", rows, begun), store(starts, [integer(rows)], total.value))
    return written_function(
        [boxes, scores, threshold, *([limit] if has_limit else []), result, chosen, starts],
        nest(classes_of_batches, of_class, (True, True)),
        begin,
        nest([*classes_of_batches, ("place", kept_at_most)], placed, (True, True, True)),
    )


class NonMaxSuppression(tvm_onnx.OnnxOpConverter):
    """The boxes that are kept of each class, for a constant number of them at most."""

    @classmethod
    def _impl_v10(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        boxes, scores = inputs[:2]
        most, threshold, limit = (inputs[number] if number < len(inputs) else None for number in range(2, _INPUTS))
        most_of_class = 0
        if most is not None:
            most_of_class = int(constant_value("NonMaxSuppression", "max_output_boxes_per_class", most).reshape(-1)[0])
        batches, classes, count = (int(extent) for extent in scores.ty.shape)
        if most_of_class <= 0 or 0 in (batches, classes, count):
            return constant_of(np.zeros((0, 3), "int64"))
        if threshold is None:
            threshold = constant_of(np.zeros(1, "float32"))
        by_center = bool(attr.get("center_point_box", 0))
        function = non_max_suppression(
            (batches, classes, count), most_of_class, by_center=by_center, has_limit=limit is not None
        )
        scalars = [bb.normalize(relax.op.reshape(one, [1])) for one in (threshold, limit) if one is not None]
        return call_written(bb, "non_max_suppression", function, [boxes, scores, *scalars])[0]
