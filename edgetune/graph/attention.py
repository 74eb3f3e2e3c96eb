"""Fused attention as tensor expressions: the stages of one kernel, and the stage names by which schedules find them."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import tvm_ffi
from tvm import s_tir, te, tirx

from edgetune.graph.element_type import element_bytes
from edgetune.graph.layout.fold_transposes import matmul, transposed
from edgetune.target.core import WIDEST
from edgetune.tvm_types import Expr, PrimFunc, SBlock, Tensor, Var

PRODUCTS = "attention_products"
SCORES = "attention_scores"
LARGEST = "attention_largest"
POWERS = "attention_powers"
TOTALS = "attention_totals"
MIXED = "attention_mixed"
RESULT = "attention"
"""Names of the stages, in order: q @ k (elementwise stages with other names may follow), the scores, their maximum per
query, exp(score - maximum), the sum of these powers, the sum of values times powers, the quotient of both sums."""

_ENOUGH = 24
"""Queries of one block: as many as the largest register tile has."""


def attend(
    q: te.Tensor,
    k: te.Tensor,
    v: te.Tensor,
    orders: Sequence[Sequence[int]],
    change: Callable[[te.Tensor], te.Tensor],
    axes: Sequence[int],
    empty: Sequence[te.Tensor] = (),
    *,
    defined: bool = False,
) -> te.Tensor:
    """transpose(softmax(change(q @ k)) @ v, axes), where q, k and v are first transposed by their axes in `orders`.

    After that, q is (.., queries, depth), k (.., depth, keys) and v (.., keys, width). Batch axes of extent 1
    broadcast. The result is 0 for queries where one of the conditions `empty`, which broadcast to (.., queries, 1),
    holds, and where it is `defined` also for queries whose softmax is not, such as one whose scores are all -infinity.
    """
    rank = len(axes)
    changed = change(matmul(q, k, orders[0], orders[1], list(range(rank)), PRODUCTS))
    x = te.compute(changed.shape, changed, name=SCORES)
    *rows, keys = (int(extent) for extent in x.shape)
    n, m = (te.reduce_axis((0, keys), name="key") for _ in range(2))
    largest = te.compute(rows, lambda *i: te.max(x(*i, n), axis=n), name=LARGEST)
    powers = te.compute(x.shape, lambda *i: te.exp(x(*i) - largest(*i[:-1])), name=POWERS)
    totals = te.compute(rows, lambda *i: te.sum(powers(*i, m), axis=m), name=TOTALS)
    mixed = matmul(powers, v, list(range(rank)), orders[2], axes, MIXED)

    def share(*index: Var) -> Expr:
        place = transposed(index, axes)
        total, zero = totals(*place[:-1]), tirx.const(0.0, str(q.dtype))
        value = mixed(*index) / total
        value = tirx.Select(total > zero, value, zero) if defined else value
        for condition in empty:
            value = tirx.Select(_at(condition, place), zero, value)
        return value

    return te.compute(mixed.shape, share, name=RESULT)


def where(condition: te.Tensor, chosen: Tensor | Expr, other: Tensor | Expr) -> te.Tensor:
    """Elements of `chosen` where `condition` holds, else of `other`. Each operand may broadcast or be a literal."""
    tensors = [operand for operand in (condition, chosen, other) if isinstance(operand, te.Tensor)]
    rank = max(len(tensor.shape) for tensor in tensors)
    padded = [[1] * (rank - len(tensor.shape)) + [int(extent) for extent in tensor.shape] for tensor in tensors]

    def element(*index: Var) -> Expr:
        return tirx.Select(_at(condition, index), _at(chosen, index), _at(other, index))

    return te.compute([max(extents) for extents in zip(*padded, strict=True)], element, name="T_where")


def _at(operand: Tensor | Expr, index: Sequence[Var]) -> Expr:
    """The element of a tensor that broadcasts to more axes; anything else is a literal."""
    if not isinstance(operand, te.Tensor):
        return operand
    own = index[len(index) - len(operand.shape) :]
    return operand(*(0 if int(extent) == 1 else i for i, extent in zip(own, operand.shape, strict=True)))


def least_scratch(function: PrimFunc) -> int:
    """Bytes of scratch for scores and powers of enough queries for any tile; 0 if `function` is not attention.

    Keys are whole vectors. Lowering lets powers take the place of scores, but a schedule's limit counts both.
    """
    found = [0]

    def visit(block: SBlock) -> None:
        if str(block.name_hint) == SCORES:
            *_, queries, keys = (int(axis.dom.extent) for axis in block.iter_vars)
            row = -(-keys // WIDEST.lanes) * WIDEST.lanes + 1
            found.append(2 * element_bytes(block.writes[0].source) * min(queries, _ENOUGH) * row)

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return max(found)


def is_attention(function: PrimFunc) -> bool:
    """Whether `attend` made the stages of `function`: its schedules know them as they are."""
    return least_scratch(function) > 0
