"""Normal form of a tensor expression's function: what schedules and printer treat best, with the same results.

Five rewrites. A sum over no axis is its only term. A reduction axis that runs backwards through a constant, as in
`w[2 - k]`, runs forwards: then the constant can be packed. In a reduction, a condition (`if_then_else`) on the last
axis of the results, or on both a result and a term, becomes a selection where no element outside a tensor is read, and
no integer divides: vectors compute both sides and select by lane, and whole tiles are skipped
(`schedule/sketches/idle_steps.py`). Other conditions stay, for a branch saves work. A stage called "root" gets another
name: TVM's schedules have a block of that name.

A sum of few terms for rows of few results is written out, as that of an interleaved picture in another space of
colours, `x[p, 0] * w[c, 0] + x[p, 1] * w[c, 1] + x[p, 2] * w[c, 2]` with three c. It fills no vector along c or k.
Without a reduction it is computed inside its reader, in registers, with vectors across the rows.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from functools import reduce
from itertools import product
from math import prod

import tvm_ffi
from tvm import ir, s_tir, sym, tirx

from edgetune.frontend.tensor_expression.stored_values import statements_in, with_statements
from edgetune.graph.reduction_stage import with_places
from edgetune.graph.tvm_types import BufferLoad, Expr, IterVar, Node, PrimFunc, SBlock, Stmt, TvmBuffer
from edgetune.schedule.algorithms.overlapped_tail.function import loops_around
from edgetune.schedule.sketches.block_analysis import BlockStage, expressions, extent_of, mentions, stage_of

_REDUCTION = 2  # tirx.IterVar.CommReduce

_MOST_TERMS = 4
_FEW_RESULTS = (2, 3)
"""Results in a row: four fill a vector of four lanes."""

_FEWEST_ROWS = 16
"""Rows side by side: the rows of small matrices, which are products, are fewer."""


def normal_form(function: PrimFunc, constants: Collection[int]) -> PrimFunc:
    """`function`, unscheduled, in normal form; `constants` are the numbers of its parameters that are weights."""
    weights = [function.params[number] for number in constants]

    def rewrite(block: SBlock) -> SBlock:
        return _with_selections(_forwards(_without_sum(block), weights))

    return _with_short_sums(tvm_ffi.structural_map(function, (s_tir.SBlock, rewrite)))


def _without_sum(block: SBlock) -> SBlock:
    """`block` without its first value where it reduces over no axis, as the outer product of an `einsum`."""
    first = block.init
    if not isinstance(first, tirx.BufferStore) or any(int(axis.iter_type) == _REDUCTION for axis in block.iter_vars):
        return block

    def value(load: BufferLoad) -> Expr:
        return first.value if load.source.same_as(first.buffer) else load

    body = tvm_ffi.structural_map(block.body, (ir.TensorLoad, value))
    reads = [region for region in block.reads if not region.source.same_as(first.buffer)]
    return s_tir.SBlock(
        block.iter_vars,
        reads,
        block.writes,
        block.name_hint,
        body,
        None,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )


def _forwards(block: SBlock, weights: Sequence[TvmBuffer]) -> SBlock:
    """`block` with each reduction axis reversed that lowers an index of a weight and raises none."""
    reads = [region for region in block.reads if any(region.source.same_as(weight) for weight in weights)]
    indices = [item.min for region in reads for item in region.region]
    for axis in block.iter_vars:
        if int(axis.iter_type) == _REDUCTION:
            steps = {_step(index, axis) for index in indices} - {0}
            if steps and max(steps) < 0:
                block = _reversed(block, axis)
    return block


def _step(index: Expr, axis: IterVar) -> int:
    """The change of `index` from one place of `axis` to the next; 1 where it is not always the same."""
    after = _substituted(index, axis, axis.var + 1)
    found = sym.Analyzer().simplify(after - index)
    return int(found.value) if isinstance(found, tirx.IntImm) else 1


def _substituted(node: Node, axis: IterVar, value: Expr) -> Node:
    return tvm_ffi.structural_map(node, [(ir.Var, lambda one: value if one.same_as(axis.var) else one)])


def _reversed(block: SBlock, axis: IterVar) -> SBlock:
    place = axis.dom.extent - 1 - axis.var
    analyzer = sym.Analyzer()
    for one in block.iter_vars:
        analyzer.bind(one.var, one.dom)

    def simplified(index: Expr) -> Expr:
        return analyzer.simplify(index) if mentions(index, axis.var) else index

    def region(item: Node) -> Node:
        moved = _substituted(item, axis, place).region
        ranges = [ir.Range.from_min_extent(simplified(one.min), one.extent) for one in moved]
        return tirx.BufferRegion(item.source, ranges)

    def load(node: BufferLoad) -> BufferLoad:
        return tirx.BufferLoad(node.source, [simplified(index) for index in node.indices])

    body = tvm_ffi.structural_map(_substituted(block.body, axis, place), (ir.TensorLoad, load))
    return _remade(block, [region(item) for item in block.reads], body)


def _with_selections(block: SBlock) -> SBlock:
    """`block` whose conditions are selections, where both sides read elements inside their tensors."""
    analyzer = sym.Analyzer()
    for one in block.iter_vars:
        analyzer.bind(one.var, one.dom)

    def inside(load: BufferLoad) -> bool:
        pairs = zip(load.indices, load.source.ty.shape, strict=True)
        return all(analyzer.can_prove(index >= 0) and analyzer.can_prove(index < extent) for index, extent in pairs)

    spatial = [axis.var for axis in block.iter_vars if int(axis.iter_type) != _REDUCTION]
    lanes = spatial[-1] if spatial else None
    summed = [axis.var for axis in block.iter_vars if int(axis.iter_type) == _REDUCTION]

    def by_place(condition: Expr) -> bool:
        """Whether a condition changes along the lanes, or with the place of a result among the terms of its sum."""
        of_results, of_terms = (any(mentions(condition, one) for one in axes) for axes in (spatial, summed))
        return mentions(condition, lanes) or (of_results and of_terms)

    def select(call: Node) -> Node:
        if not getattr(call.op, "name", "").endswith("if_then_else") or not by_place(call.args[0]):
            return call
        condition, *sides = call.args
        loads: list[BufferLoad] = []
        for side in sides:
            tvm_ffi.structural_walk(side, (ir.TensorLoad, loads.append))
        safe = all(map(inside, loads)) and not any(map(_divides_by_integer, sides))
        return tirx.Select(condition, *sides) if safe else call

    if block.init is None or lanes is None:
        return _remade(block, block.reads, block.body)
    return _remade(block, block.reads, tvm_ffi.structural_map(block.body, (ir.Call, select)))


def _divides_by_integer(value: Expr) -> bool:
    """Whether a value divides by an integer that may be 0 where the value is not chosen."""
    divisions = (tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod)
    found = (node for node in expressions(value) if isinstance(node, divisions))
    return any("int" in str(node.ty) and not isinstance(node.b, tirx.IntImm) for node in found)


def _remade(block: SBlock, reads: Sequence[Node], body: Node) -> SBlock:
    same = body.same_as(block.body) and all(a.same_as(b) for a, b in zip(reads, block.reads, strict=True))
    taken = len(block.iter_vars) > 0 and str(block.name_hint) == "root"
    if same and not taken:
        return block
    return s_tir.SBlock(
        block.iter_vars,
        reads,
        block.writes,
        "root_stage" if taken else block.name_hint,
        body,
        block.init,
        block.alloc_buffers,
        block.match_buffers,
        block.annotations,
    )


def _with_short_sums(function: PrimFunc) -> PrimFunc:
    """`function`, unscheduled, whose short sums for short rows are expressions."""
    before = statements_in(function)
    after = [_written_out(statement) for statement in before]
    changed = any(one is not other for one, other in zip(before, after, strict=True))
    return with_statements(function, after, []) if changed else function


def _written_out(statement: Stmt) -> Stmt:
    """A statement without its reduction; itself where that is no short sum."""
    stage = stage_of(statement)
    term = None if stage is None else _term(stage)
    if stage is None or term is None:
        return statement
    block = stage.block
    axes = stage.reduction
    places = [
        {axis.var: tirx.IntImm(str(axis.var.ty.dtype), number) for axis, number in zip(axes, numbers, strict=True)}
        for numbers in product(*(range(extent_of(axis)) for axis in axes))
    ]
    value: Expr = reduce(lambda one, other: one + other, (with_places(term, place) for place in places))
    body = tirx.BufferStore(block.body.buffer, value, block.body.indices)
    made = s_tir.SBlock([], _whole(stage, places), block.writes, "", body)
    variables, extents = [axis.var for axis in stage.spatial], stage.spatial_extents
    return loops_around(stage.name, variables, extents, [int(axis.iter_type) for axis in stage.spatial], made)


def _term(stage: BlockStage) -> Expr | None:
    """What a stage sums, if it is a short sum for short rows; None for any other stage."""
    store, first, extents = stage.block.body, stage.block.init, stage.spatial_extents
    if not isinstance(store, tirx.BufferStore) or not isinstance(first, tirx.BufferStore) or len(extents) < 2:
        return None
    if extents[-1] not in _FEW_RESULTS or extents[-2] < _FEWEST_ROWS or prod(stage.reduction_extents) > _MOST_TERMS:
        return None
    zero = isinstance(first.value, tirx.FloatImm) and float(first.value.value) == 0.0
    if not zero or not isinstance(store.value, tirx.Add) or str(store.buffer.ty.dtype) != "float32":
        return None
    total = store.value.a
    own = isinstance(total, ir.TensorLoad) and total.source.same_as(store.buffer)
    return store.value.b if own and tvm_ffi.structural_equal(total.indices, store.indices) else None


def _whole(stage: BlockStage, places: Sequence[dict[Node, Node]]) -> list[Node]:
    """The regions that all terms read."""
    found: list[Node] = []
    for region in stage.reads():
        for place in places:
            one = with_places(region, place)
            if not any(tvm_ffi.structural_equal(one, other) for other in found):
                found.append(one)
    return found
