"""Moved integers: operators that give elements of dequantised integers other places, or choose some, move the integers.

Each dequantised element grows with its integer where the scale is above 0 and the same for all. So what is moved, cut
out, repeated or is the greatest of several is the same before and after: it is computed on bytes, for all readers, and
dequantised where it is read. What is quantised again with the same scale and zero point is the integers.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from functools import partial
from typing import TypeAlias

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.dequantised import LAYOUT_MOVES, SCALED, Dequantised, dequantised
from edgetune.graph.rewrite import DefUse, constant, rewrite

Source: TypeAlias = Callable[[relax.Expr, DefUse], "Dequantised | None"]
IsProduct: TypeAlias = Callable[[relax.Call, DefUse, Source], bool]
"""Whether integers can compute a call, if a `Source` says what its operands are made of."""

_CHOOSING = ("relax.nn.max_pool1d", "relax.nn.max_pool2d", "relax.nn.max_pool3d", "relax.strided_slice", "relax.take")
"""Operators whose results are elements of their first operand, and fewer of them."""


def moved_integers(module: tvm.IRModule, is_product: IsProduct, known: Collection[relax.Var]) -> tvm.IRModule:
    """Moves the integers of `main` where a product of integers reads what is moved, or where fewer are left.

    Constants, among them the parameters `known`, are chosen of where they are read: they lie packed in memory.
    """
    return rewrite(rewrite(module, partial(_moved, is_product=is_product, known=known)), _same_integers)


def _moved(
    call: relax.Call, chains: DefUse, builder: relax.BlockBuilder, is_product: IsProduct, known: Collection[relax.Var]
) -> relax.Expr | None:
    """move(dequantise(x)) becomes dequantise(move(x))."""
    found = dequantised(call.args[0], chains) if call.op.name in (*LAYOUT_MOVES, *_CHOOSING) else None
    if found is None or not found.is_uniform or float(found.scale.reshape(())) <= 0:
        return None
    if call.op.name in LAYOUT_MOVES:
        variable = chains.variable(call)
        if variable is None or not _feeds_product(variable, chains, is_product):
            return None
    elif not isinstance(found.integers, relax.Var) or found.integers in known:
        return None
    integers = builder.emit(relax.Call(call.op, [found.integers, *call.args[1:]], call.attrs))
    return found.of(integers, str(call.ty.dtype))


def _feeds_product(value: relax.Var, chains: DefUse, is_product: IsProduct) -> bool:
    """Whether a product of integers reads a value, directly or through moves."""
    for reader in chains.readers(value):
        call = chains.call(reader)
        if call is None:
            continue
        if (
            _feeds_product(reader, chains, is_product)
            if call.op.name in LAYOUT_MOVES
            else is_product(call, chains, _before_moves)
        ):
            return True
    return False


def _before_moves(expr: relax.Expr, chains: DefUse) -> Dequantised | None:
    """What an operator reads, directly or through moves, where it is dequantised."""
    moved = False
    while (found := dequantised(expr, chains)) is None:
        move = chains.call(expr, *LAYOUT_MOVES)
        if move is None:
            return None
        moved, expr = True, move.args[0]
    return None if moved and not found.is_uniform else found


def _same_integers(call: relax.Call, chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
    """saturate(round(dequantise(x) / scale) + zero_point) with the scale and zero point of x is x."""
    dtype = str(call.ty.dtype)
    if call.op.name != "relax.astype" or dtype not in {"int8", "uint8"}:
        return None
    value, found = call.args[0], np.zeros((), SCALED)
    ends = np.iinfo(dtype)
    for name, bound in (("relax.minimum", ends.max), ("relax.maximum", ends.min)):
        clamped = chains.call(value, name)
        limit = None if clamped is None else constant(clamped.args[1])
        if clamped is None or limit is None or limit.size != 1 or float(limit.reshape(())) != bound:
            return None
        value = clamped.args[0]
    shifted = chains.call(value, "relax.add")
    if shifted is not None:
        zero = constant(shifted.args[1])
        if zero is None:
            return None
        value, found = shifted.args[0], zero
    rounded = chains.call(value, "relax.round")
    divided = None if rounded is None else chains.call(rounded.args[0], "relax.divide")
    scale = None if divided is None else constant(divided.args[1])
    source = None if divided is None else dequantised(divided.args[0], chains)
    if scale is None or source is None or str(source.integers.ty.dtype) != dtype or source.computed_zero is not None:
        return None
    if [int(extent) for extent in call.ty.shape] != [int(extent) for extent in source.integers.ty.shape]:
        return None
    same = np.array_equal(scale.reshape(-1), source.scale.reshape(-1)) and source.is_uniform and scale.size == 1
    own = np.unique(found.reshape(-1))
    return source.integers if same and own.size == 1 and own[0] == float(source.zero_point.reshape(())) else None
