"""A reduction as a value: where its results go, the axes of results and of terms, and the term.

Passes that divide or reorder reductions read them from blocks, make others of them, and write these as blocks.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

import tvm_ffi
from tvm import ir, s_tir, tirx
from tvm.s_tir import Schedule

from edgetune.affine.expressions import conjuncts, is_branch, joined_by, with_places
from edgetune.graph.element_type import type_of
from edgetune.tvm_types import BufferLoad, Expr, Node, PrimFunc, SBlock, Stmt, TvmBuffer, Var

Axis = tuple[Var, int]
"""A variable, which starts at 0, and its extent."""

_SPATIAL, _REDUCED = 0, 2  # tirx.IterVar.DataPar, CommReduce


@dataclass(frozen=True)
class ReductionStage:
    """`out[at]` is the reduction of `term` over the axes `summed`, for all places of the axes `spatial`.

    Without axes to reduce it is the term itself. `combine` is the node of a reduction of two values, which begins at
    `first`.
    """

    name: str
    out: TvmBuffer
    at: tuple[Expr, ...]
    spatial: tuple[Axis, ...]
    summed: tuple[Axis, ...]
    term: Expr
    combine: type[Node] = tirx.Add
    first: Expr = None

    def __post_init__(self) -> None:
        """A reduction begins at zero where nothing else is said."""
        if self.first is None:
            object.__setattr__(self, "first", tirx.const(0, type_of(self.out)))

    @property
    def terms(self) -> int:
        """Number of terms of each result."""
        return prod(extent for _, extent in self.summed)

    @property
    def index_type(self) -> str:
        """The type of new variables: that of the first axis."""
        return next((str(one.ty.dtype) for one, _ in (*self.spatial, *self.summed)), "int32")

    @property
    def elements(self) -> int:
        """Number of results."""
        return prod(extent for _, extent in self.spatial)

    def loads(self) -> list[BufferLoad]:
        """The loads of the term, each once. Two loads are equal if buffer and indices are; names do not matter."""
        found: list[BufferLoad] = []

        def add(load: BufferLoad) -> None:
            if not any(_same_place(load, other) for other in found):
                found.append(load)

        tvm_ffi.structural_walk(self.term, (ir.TensorLoad, add))
        return found

    def statement(self) -> Stmt:
        """The loops of the reduction around a block, with variables of their own."""
        axes = [*self.spatial, *self.summed]
        own = [tirx.Var(f"v_{variable.name.removeprefix('v_')}", variable.ty) for variable, _ in axes]
        renamed = dict(zip((variable for variable, _ in axes), own, strict=True))
        term, at = with_places(self.term, renamed), [with_places(index, renamed) for index in self.at]
        reads = [_point(load.source, [with_places(i, renamed) for i in load.indices]) for load in self.loads()]
        init = None
        if self.summed:
            init = tirx.BufferStore(self.out, with_places(self.first, renamed), at)
            term = self.combine(tirx.BufferLoad(self.out, at), term)
        kinds = [_SPATIAL] * len(self.spatial) + [_REDUCED] * len(self.summed)
        ranges = [
            ir.Range.from_min_extent(tirx.const(0, str(one.ty.dtype)), tirx.const(extent, str(one.ty.dtype)))
            for one, extent in axes
        ]
        places = [tirx.IterVar(dom, one, kind) for dom, one, kind in zip(ranges, own, kinds, strict=True)]
        body = tirx.BufferStore(self.out, term, at)
        block = s_tir.SBlock(places, reads, [_point(self.out, at)], self.name, body, init)
        loops = [tirx.Var(one.name.removeprefix("v_"), one.ty) for one in own]
        statement: Stmt = s_tir.SBlockRealize(loops, True, block)
        for loop, dom in reversed([*zip(loops, ranges, strict=True)]):
            statement = tirx.For(loop, dom.min, dom.extent, tirx.ForKind.SERIAL, statement)
        return statement


def reductions_of(function: PrimFunc) -> list[ReductionStage]:
    """The stages of a function that are reductions, in order; empty for a function that is no sequence of stages."""
    root = function.body
    found = map(reduction_of, _statements(root.block)) if isinstance(root, s_tir.SBlockRealize) else ()
    return [one for one in found if one is not None]


def reductions_of_results(function: PrimFunc) -> Iterator[tuple[ReductionStage, BufferLoad]]:
    """The reductions whose terms are results of another one of the same kind, each with the load that is its term."""
    made: list[ReductionStage] = []
    for one in reductions_of(function):
        alike = (other.out for other in made if other.combine is one.combine)
        if isinstance(one.term, ir.TensorLoad) and any(one.term.source.same_as(out) for out in alike):
            yield one, one.term
        made.append(one)


def reduction_of(statement: Stmt) -> ReductionStage | None:
    """The reduction that the loops of a statement compute: a sum, the largest or the least of its terms; else None."""
    while isinstance(statement, tirx.For):
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize) or statement.block.init is None:
        return None
    if not isinstance(statement.predicate, tirx.IntImm) or not statement.predicate.value:
        return None  # some places are left out
    block = statement.block
    store, first = block.body, block.init
    if not isinstance(store, tirx.BufferStore) or not isinstance(first, tirx.BufferStore) or not _adds_to_itself(store):
        return None
    from_0 = {axis.var: tirx.Var(str(axis.var.name), axis.var.ty) for axis in block.iter_vars}
    places = {axis.var: from_0[axis.var] + axis.dom.min for axis in block.iter_vars}
    spatial, summed = (
        tuple(
            (from_0[axis.var], int(axis.dom.extent))
            for axis in block.iter_vars
            if (int(axis.iter_type) == _REDUCED) == reduced
        )
        for reduced in (False, True)
    )
    at = tuple(with_places(index, places) for index in store.indices)
    term = with_places(store.value.b, places)
    name, combine = str(block.name_hint), type(store.value)
    return ReductionStage(name, store.buffer, at, spatial, summed, term, combine, first.value)


def _adds_to_itself(store: Stmt) -> bool:
    """Whether a store combines its own element, on the left, with a term."""
    value = store.value
    if not isinstance(value, tirx.Add | tirx.Max | tirx.Min) or not isinstance(value.a, ir.TensorLoad):
        return False
    return bool(value.a.source.same_as(store.buffer)) and all(
        a.same_as(b) or a == b for a, b in zip(value.a.indices, store.indices, strict=True)
    )


def with_inlined(function: PrimFunc, params: Sequence[TvmBuffer], stages: Sequence[ReductionStage]) -> PrimFunc:
    """`function` with other parameters, of which `stages` compute those that it had, in the place of each read."""
    return _inlined(function, params, [stage.statement() for stage in stages], [stage.out for stage in stages])


def with_statements_inlined(
    function: PrimFunc, params: Sequence[TvmBuffer], before: SBlock, made: Sequence[TvmBuffer]
) -> PrimFunc:
    """`function` with other parameters, of which the statements of a root block make those that are `made`."""
    return _inlined(function, params, _statements(before), [*before.alloc_buffers, *made])


def _statements(root: SBlock) -> list[Stmt]:
    return list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]


def _inlined(
    function: PrimFunc, params: Sequence[TvmBuffer], first: Sequence[Stmt], buffers: Sequence[TvmBuffer]
) -> PrimFunc:
    """`function` that begins with the loops `first`, which write `buffers`, each of them in the place of its reads."""
    root = function.body.block
    body = tirx.SeqStmt([*first, *_statements(root)])
    allocated = [*root.alloc_buffers, *buffers]
    block = s_tir.SBlock([], [], [], root.name_hint, body, None, allocated, annotations=root.annotations)
    realize = s_tir.SBlockRealize([], True, block)
    whole = s_tir.renew_defs(tirx.PrimFunc(list(params), realize, function.ret_type, function.attrs))
    sch = Schedule(whole)
    for one in sch.get_child_blocks(sch.get_sblock("root"))[: len(first)]:
        sch.compute_inline(one)
    return sch.mod["main"].with_attrs(function.attrs)


def with_stages(function: PrimFunc, stages_of: Callable[[Stmt], Sequence[ReductionStage]]) -> PrimFunc:
    """`function` with several stages instead of those statements for which `stages_of` gives at least two.

    The last one writes what the statement wrote; the others write tensors that are added.
    """
    root = function.body
    if not isinstance(root, s_tir.SBlockRealize):
        return function
    statements: list[Stmt] = []
    buffers: list[TvmBuffer] = []
    before = list(root.block.body.seq) if isinstance(root.block.body, tirx.SeqStmt) else [root.block.body]
    for statement in before:
        made = stages_of(statement)
        if len(made) < 2:
            statements.append(statement)
            continue
        statements += [one.statement() for one in made]
        buffers += [one.out for one in made[:-1]]
    if len(statements) == len(before):
        return function
    block = root.block
    body = tirx.SeqStmt(statements)
    kept = [*block.alloc_buffers, *buffers]
    changed = s_tir.SBlock([], [], [], block.name_hint, body, None, kept, annotations=block.annotations)
    realize = s_tir.SBlockRealize([], True, changed)
    return s_tir.renew_defs(tirx.PrimFunc(function.params, realize, function.ret_type, function.attrs))


def variable(name: str, dtype: str) -> Var:
    """A new variable of an axis; all indices of a reduction have one type, as casts between them hide lanes."""
    return tirx.Var(name, dtype)


def buffer_of(name: str, axes: Sequence[Axis], dtype: str) -> TvmBuffer:
    """A buffer with an element for each place of some axes."""
    return tirx.decl_buffer([tirx.IntImm(str(one.ty.dtype), extent) for one, extent in axes], dtype, name)


_BLOCK_FIELDS = (
    "iter_vars",
    "reads",
    "writes",
    "name_hint",
    "body",
    "init",
    "alloc_buffers",
    "match_buffers",
    "annotations",
)


def factors_of(term: Expr) -> Iterator[Expr]:
    """The factors of a product, or the term itself."""
    return joined_by(tirx.Mul, term)


def with_fields(block: SBlock, **fields: Any) -> SBlock:
    """A copy of a block in which some fields, by their names, are others."""
    return s_tir.SBlock(*(fields.get(name, getattr(block, name)) for name in _BLOCK_FIELDS))


def unconditional(term: Expr, *, selections: bool = True) -> tuple[list[Expr], Expr]:
    """The conditions that must all hold so that a term of a sum is not 0, and its value then.

    `selections`: also those that select between two sides that are both computed.
    """
    if is_branch(term) or (selections and isinstance(term, tirx.Select)):
        sides = term.args if is_branch(term) else (term.condition, term.true_value, term.false_value)
        if not is_zero_constant(sides[2]):
            return [], term
        rest, value = unconditional(sides[1], selections=selections)
        return [*conjuncts(sides[0]), *rest], value
    if isinstance(term, tirx.Mul):
        ours, one = unconditional(term.a, selections=selections)
        theirs, other = unconditional(term.b, selections=selections)
        return [*ours, *theirs], one * other if ours or theirs else term
    return [], term


def is_zero_constant(value: Expr) -> bool:
    """Whether a value is the number 0."""
    return isinstance(value, tirx.FloatImm | tirx.IntImm) and float(value.value) == 0.0


def _same_place(load: BufferLoad, other: BufferLoad) -> bool:
    return bool(load.source.same_as(other.source)) and all(
        tvm_ffi.structural_equal(one, two) for one, two in zip(load.indices, other.indices, strict=True)
    )


def _point(buffer: TvmBuffer, indices: Sequence[Expr]) -> Node:
    ranges = [ir.Range.from_min_extent(index, tirx.IntImm(str(index.ty.dtype), 1)) for index in indices]
    return tirx.BufferRegion(buffer, ranges)
