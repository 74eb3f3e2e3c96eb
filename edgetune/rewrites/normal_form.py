"""Normal form of a tensor expression's function: what schedules and printer treat best; sums may round otherwise.

Seven rewrites. Quotients, remainders and limits leave an index where they change it at no place, as `c // 64 * 8` of 64
channels in one group. A reduction over no axis, or over axes of one step, is its only term. Terms of a sum are
multiplied by the reciprocal of a constant that divides them, as in a mean: that is part of a multiply-add, and rounds a
term by 1 ULP, as another order of the sum does. A reduction axis that runs backwards through a constant, as in
`w[2 - k]`, runs forwards: then the constant can be packed. In a reduction, a condition (`if_then_else`) on the last
axis of the results, or on both a result and a term, becomes a selection where no element outside a tensor is read, and
no integer divides: vectors compute both sides and select by lane, and whole tiles are skipped
(`schedule/sketches/idle_steps.py`). Other conditions stay, for a branch saves work. A stage called "root" gets another
name: TVM's schedules have a block of that name.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.access import Access
from edgetune.affine.domain import Domain
from edgetune.affine.expressions import expressions, is_branch, loads_in, mentions, with_places
from edgetune.affine.steps import step_along
from edgetune.graph.element_type import is_floating
from edgetune.graph.reduction_stage import with_fields
from edgetune.schedule.sketches.block_analysis import extent_of
from edgetune.schedule.sketches.places import divides_by_integer
from edgetune.tvm_types import BufferLoad, Expr, For, IterVar, Node, PrimFunc, SBlock, Stmt, TvmBuffer, Var

_REDUCTION = 2  # tirx.IterVar.CommReduce
_STEPS = (tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max)
_FAR = 100
"""The exponent from which on the reciprocal of a constant may not be a normal number."""


def normal_form(function: PrimFunc, constants: Collection[int]) -> PrimFunc:
    """`function`, unscheduled, in normal form; `constants` are the numbers of its parameters that are weights."""
    weights = [function.params[number] for number in constants]

    def rewrite(block: SBlock) -> SBlock:
        return _with_selections(_forwards(_without_divisors(_without_sum(_with_plain_indices(block))), weights))

    plain = tvm_ffi.structural_map(function, [(s_tir.SBlockRealize, _without_single_terms), (tirx.For, _without_step)])
    return tvm_ffi.structural_map(plain, (s_tir.SBlock, rewrite))


def _without_single_terms(realize: Stmt) -> Stmt:
    """A block without its axes of reduction, if all of them have one term: `_without_sum` does the rest."""
    block = realize.block
    summed = [axis for axis in block.iter_vars if int(axis.iter_type) == _REDUCTION]
    if not summed or not isinstance(block.init, tirx.BufferStore) or any(extent_of(axis) != 1 for axis in summed):
        return realize
    kept = [int(axis.iter_type) != _REDUCTION for axis in block.iter_vars]
    first = {axis.var: axis.dom.min for axis in summed}
    alone = with_fields(
        block,
        iter_vars=[axis for axis, stays in zip(block.iter_vars, kept, strict=True) if stays],
        reads=[with_places(region, first) for region in block.reads],
        body=with_places(block.body, first),
    )
    values = [value for value, stays in zip(realize.iter_values, kept, strict=True) if stays]
    return s_tir.SBlockRealize(values, realize.predicate, alone)


def _without_step(loop: For) -> Stmt:
    """The body of a loop of one step whose variable nothing reads."""
    read: list[Var] = []
    tvm_ffi.structural_walk(loop.body, (ir.Var, read.append))
    once = isinstance(loop.extent, tirx.IntImm) and int(loop.extent.value) == 1
    return loop.body if once and not any(one.same_as(loop.loop_var) for one in read) else loop


def _with_plain_indices(block: SBlock) -> SBlock:
    """`block` whose indices are simplified where fewer quotients, remainders, minima and maxima are left."""
    analyzer = Domain.of_block(block.iter_vars).analyzer

    def steps(index: Expr) -> int:
        return sum(isinstance(node, _STEPS) for node in expressions(index))

    def plain(index: Expr) -> Expr:
        before = steps(index)
        simpler = analyzer.simplify(index) if before else index
        return simpler if steps(simpler) < before else index

    def load(node: BufferLoad) -> BufferLoad:
        indices = [plain(index) for index in node.indices]
        same = all(new.same_as(old) for new, old in zip(indices, node.indices, strict=True))
        return node if same else tirx.BufferLoad(node.source, indices)

    def region(item: Node) -> Node:
        starts = [plain(one.min) for one in item.region]
        if all(new.same_as(one.min) for new, one in zip(starts, item.region, strict=True)):
            return item
        pairs = zip(starts, item.region, strict=True)
        return tirx.BufferRegion(item.source, [ir.Range.from_min_extent(start, one.extent) for start, one in pairs])

    body = tvm_ffi.structural_map(block.body, (ir.TensorLoad, load))
    return _remade(block, [region(item) for item in block.reads], body)


def _without_sum(block: SBlock) -> SBlock:
    """`block` without its first value where it reduces over no axis, as the outer product of an `einsum`.

    The maximum with the least number is left out, too: TVM's LLVM back end computes some of them wrong.
    """
    first = block.init
    if not isinstance(first, tirx.BufferStore) or any(int(axis.iter_type) == _REDUCTION for axis in block.iter_vars):
        return block

    def value(load: BufferLoad) -> Expr:
        return first.value if load.source.same_as(first.buffer) else load

    body = block.body
    if isinstance(body, tirx.BufferStore) and isinstance(body.value, tirx.Max | tirx.Min):
        own = isinstance(body.value.a, ir.TensorLoad) and body.value.a.source.same_as(first.buffer)
        least = (tirx.min_value if isinstance(body.value, tirx.Max) else tirx.max_value)(str(first.value.ty.dtype))
        if own and tvm_ffi.structural_equal(least, first.value):
            body = tirx.BufferStore(body.buffer, body.value.b, body.indices)
    body = tvm_ffi.structural_map(body, (ir.TensorLoad, value))
    reads = [region for region in block.reads if not region.source.same_as(first.buffer)]
    return with_fields(block, reads=reads, body=body, init=None)


def _without_divisors(block: SBlock) -> SBlock:
    """`block` whose terms, if it is a sum of floats, are multiplied where they are divided by a constant."""
    store = block.body
    if block.init is None or not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        return block
    total, term = store.value.a, store.value.b
    if not is_floating(term) or not any(isinstance(node, tirx.Div) for node in expressions(term)):
        return block
    return _remade(block, block.reads, tirx.BufferStore(store.buffer, total + _multiplied(term), store.indices))


def _multiplied(term: Expr, *, factor: bool = False) -> Expr:
    """A summand, or a `factor` of one, that is multiplied by a reciprocal instead of divided by a constant.

    What is inside a function or a condition, or in a difference that is a factor, keeps each bit.
    """
    if isinstance(term, tirx.Add | tirx.Sub) and not factor:
        return type(term)(_multiplied(term.a), _multiplied(term.b))
    if isinstance(term, tirx.Mul):
        return type(term)(_multiplied(term.a, factor=True), _multiplied(term.b, factor=True))
    if isinstance(term, tirx.Select):
        sides = (_multiplied(side, factor=factor) for side in (term.true_value, term.false_value))
        return tirx.Select(term.condition, *sides)
    if isinstance(term, tirx.Div):
        above = _multiplied(term.a, factor=True)
        divisor = float(term.b.value) if isinstance(term.b, tirx.FloatImm) else 0.0
        normal = 2.0**-_FAR < abs(divisor) < 2.0**_FAR
        return above * tirx.const(1.0 / divisor, str(term.ty.dtype)) if normal else tirx.Div(above, term.b)
    return term


def _forwards(block: SBlock, weights: Sequence[TvmBuffer]) -> SBlock:
    """`block` with each reduction axis reversed that lowers an index of a weight and raises none."""
    reads = [region for region in block.reads if any(region.source.same_as(weight) for weight in weights)]
    indices = [item.min for region in reads for item in region.region]
    for axis in block.iter_vars:
        if int(axis.iter_type) == _REDUCTION:
            steps = {step_along(index, axis.var) for index in indices} - {0}
            if steps and all(one is not None and one < 0 for one in steps):
                block = _reversed(block, axis)
    return block


def _reversed(block: SBlock, axis: IterVar) -> SBlock:
    place = axis.dom.extent - 1 - axis.var
    analyzer = Domain.of_block(block.iter_vars).analyzer

    def simplified(index: Expr) -> Expr:
        return analyzer.simplify(index) if mentions(index, axis.var) else index

    def region(item: Node) -> Node:
        moved = with_places(item, {axis.var: place}).region
        ranges = [ir.Range.from_min_extent(simplified(one.min), one.extent) for one in moved]
        return tirx.BufferRegion(item.source, ranges)

    def load(node: BufferLoad) -> BufferLoad:
        return tirx.BufferLoad(node.source, [simplified(index) for index in node.indices])

    body = tvm_ffi.structural_map(with_places(block.body, {axis.var: place}), (ir.TensorLoad, load))
    return _remade(block, [region(item) for item in block.reads], body)


def _with_selections(block: SBlock) -> SBlock:
    """`block` whose conditions are selections, where both sides read elements inside their tensors."""
    domain = Domain.of_block(block.iter_vars)
    spatial = [axis.var for axis in block.iter_vars if int(axis.iter_type) != _REDUCTION]
    lanes = spatial[-1] if spatial else None
    summed = [axis.var for axis in block.iter_vars if int(axis.iter_type) == _REDUCTION]

    def by_place(condition: Expr) -> bool:
        """Whether a condition changes along the lanes, or with the place of a result among the terms of its sum."""
        of_results, of_terms = (any(mentions(condition, one) for one in axes) for axes in (spatial, summed))
        return mentions(condition, lanes) or (of_results and of_terms)

    def select(call: Node) -> Node:
        if not is_branch(call) or not by_place(call.args[0]):
            return call
        condition, *sides = call.args
        inside = all(Access.of(load, domain).is_inside() for load in loads_in(sides))
        safe = inside and not any(map(divides_by_integer, sides))
        return tirx.Select(condition, *sides) if safe else call

    if block.init is None or lanes is None:
        return _remade(block, block.reads, block.body)
    return _remade(block, block.reads, tvm_ffi.structural_map(block.body, (ir.Call, select)))


def _remade(block: SBlock, reads: Sequence[Node], body: Node) -> SBlock:
    same = body.same_as(block.body) and all(a.same_as(b) for a, b in zip(reads, block.reads, strict=True))
    taken = len(block.iter_vars) > 0 and str(block.name_hint) == "root"
    if same and not taken:
        return block
    return with_fields(block, reads=reads, name_hint="root_stage" if taken else block.name_hint, body=body)
