"""Sums that begin at what is added to them: a bias is the first value of a sum of integers, not a step of its own.

Sums of integers wrap, so that their order does not matter.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import is_among, loads_in, with_places
from edgetune.graph.element_type import type_of
from edgetune.graph.reduction_stage import ReductionStage, reduction_of
from edgetune.tvm_types import BufferLoad, Expr, PrimFunc, SBlock, Stmt


def begun_at_addend(function: PrimFunc, name: str) -> PrimFunc:
    """A function whose sum `name` of integers of 32 bits begins at what the stage behind it adds.

    That is an expression of parameters. Any other function stays as it is.
    """
    root = function.body.block
    statements = list(root.body.seq) if isinstance(root.body, tirx.SeqStmt) else [root.body]
    place, whole = next(
        ((n, one) for n, one in enumerate(map(reduction_of, statements)) if one is not None and one.name == name),
        (0, None),
    )
    if whole is None or whole.combine is not tirx.Add or type_of(whole.out) != "int32" or len(statements) < place + 2:
        return function
    if not isinstance(whole.first, tirx.IntImm) or int(whole.first.value) != 0:
        return function
    begun = _begun(whole, statements[place + 1], function)
    read: list[BufferLoad] = []
    for number, one in enumerate(statements):
        if number not in (place, place + 1):
            tvm_ffi.structural_walk(one, (ir.TensorLoad, read.append))
    if begun is None or is_among(whole.out, [load.source for load in read]):
        return function
    statements[place : place + 2] = [begun.statement()]
    buffers = [one for one in root.alloc_buffers if not one.same_as(whole.out)]
    body = tirx.SeqStmt(statements) if len(statements) > 1 else statements[0]
    block = s_tir.SBlock([], [], [], root.name_hint, body, None, buffers, annotations=root.annotations)
    realize = s_tir.SBlockRealize([], True, block)
    return s_tir.renew_defs(tirx.PrimFunc(function.params, realize, function.ret_type, function.attrs))


def _begun(whole: ReductionStage, statement: Stmt, function: PrimFunc) -> ReductionStage | None:
    """The sum that begins at what a statement adds to it, and writes what that writes; None for other statements."""
    block = _plain_block(statement)
    store = None if block is None else block.body
    if block is None or not isinstance(store, tirx.BufferStore) or not isinstance(store.value, tirx.Add):
        return None
    axes = [axis.var for axis in block.iter_vars]
    for one, other in ((store.value.a, store.value.b), (store.value.b, store.value.a)):
        if not isinstance(one, ir.TensorLoad) or not one.source.same_as(whole.out):
            continue
        plain = _are(one.indices, axes) and _are(store.indices, axes) and len(whole.at) == len(axes)
        loads = loads_in([other])
        if plain and type_of(store.buffer) == "int32" and all(is_among(load.source, function.params) for load in loads):
            first = with_places(other, dict(zip(axes, whole.at, strict=True)))
            return replace(whole, out=store.buffer, first=first)
    return None


def _are(indices: Sequence[Expr], axes: Sequence[Expr]) -> bool:
    return len(indices) == len(axes) and all(index.same_as(axis) for index, axis in zip(indices, axes, strict=True))


def _plain_block(statement: Stmt) -> SBlock | None:
    """The block of the loops of a statement; None where it has a first value, or leaves places out."""
    while isinstance(statement, tirx.For):
        statement = statement.body
    if not isinstance(statement, s_tir.SBlockRealize) or statement.block.init is not None:
        return None
    whole = isinstance(statement.predicate, tirx.IntImm) and bool(statement.predicate.value)
    return statement.block if whole else None
