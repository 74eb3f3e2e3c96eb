"""Attention fusion: computes scores for a few queries at a time, their softmax and the weighted values in one kernel.

As separate kernels, each score is written and read again three times, and all scores are alive at once. The result is
the same except for one change: each sum is divided once at the end, instead of dividing every weight before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import tvm
from tvm import relax, te, tirx, topi

from edgetune.graph.attention import attend, where
from edgetune.graph.layout.fold_transposes import folded_operand, transposed_product
from edgetune.graph.nan_operands import maximum, minimum
from edgetune.graph.rewrite import DefUse, constant, rewrite
from edgetune.graph.te_call import call_fusable
from edgetune.graph.tvm_types import Expr, Tensor

_ELEMENTWISE: dict[str, Callable[..., te.Tensor]] = {
    "relax.add": topi.add,
    "relax.subtract": topi.subtract,
    "relax.multiply": topi.multiply,
    "relax.divide": topi.divide,
    "relax.maximum": maximum,
    "relax.minimum": minimum,
    "relax.tanh": topi.tanh,
    "relax.where": where,
}
_SAME_SHAPE = frozenset(
    f"relax.{name}"
    for name in (
        *("abs", "astype", "ceil", "clip", "cos", "erf", "exp", "floor", "log", "negative", "power", "round", "rsqrt"),
        *("sigmoid", "sin", "sqrt", "square", "nn.gelu", "nn.gelu_tanh", "nn.leakyrelu", "nn.relu", "nn.silu"),
    )
)  # also elementwise: fusion may find these between attention and an operator that broadcasts


@dataclass(frozen=True)
class _Step:
    """An elementwise operator on the scores, which are its operand number `place`; `operands` are in order."""

    operator: str
    operands: tuple[relax.Expr, ...]
    place: int


def fuse_attention(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrites matmul(softmax(f(matmul(q, k))), v), transposed or not, to one kernel.

    Applies if f is elementwise (scale, mask, bias) or absent, the softmax runs over the keys, no intermediate value has
    another reader, and all tensors are float32 of one rank. Elementwise operators after it become part of the kernel,
    unless they broadcast the result: it would be computed again for each copy, and no schedule fits that.
    """
    return rewrite(rewrite(module, _transposed_attention), _attention)


def _transposed_attention(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    found = transposed_product(call, chains)
    return None if found is None else _fused(*found, call, chains, builder)


def _attention(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    if call.op.name != "relax.matmul":
        return None
    return _fused(call, list(range(len(call.ty.shape))), call, chains, builder)


def _fused(
    product: relax.Call, axes: list[int], result: relax.Call, chains: DefUse, builder: relax.BlockBuilder
) -> relax.Expr | None:
    """The attention whose last product is `product`; `axes` transpose it to `result`. None if it is not attention."""
    weights = chains.call(product.args[0], "relax.nn.softmax")
    if weights is None or not chains.used_once(product.args[0]):
        return None
    rank = len(product.ty.shape)
    if int(weights.attrs.axis) not in {-1, rank - 1} or not _at_run_time(product, rank):
        return None
    found = _steps(weights.args[0], _shape(weights), chains)
    if found is None:
        return None
    scores, steps = found
    if not _at_run_time(scores, rank) or _shape(product)[:-2] != _shape(scores)[:-2]:
        return None
    operands = [folded_operand(operand, chains) for operand in (*scores.args, product.args[1])]
    orders = [order or list(range(rank)) for _, order in operands]
    others = [operand for step in steps for n, operand in enumerate(step.operands) if n != step.place]
    tensors = [operand for operand in others if _scalar(operand) is None]

    def attention(q: te.Tensor, k: te.Tensor, v: te.Tensor, *run_time: te.Tensor) -> te.Tensor:
        rest = iter(run_time)
        values = [_scalar(operand) for operand in others]
        filled = iter([next(rest) if value is None else value for value in values])
        return attend(q, k, v, orders, lambda x: _applied(x, steps, filled), axes)

    variable = chains.variable(result)
    alone = variable is not None and _broadcasts(variable, chains)
    return call_fusable(builder, attention, *(operand for operand, _ in operands), *tensors, alone=alone)


def _broadcasts(value: relax.Var, chains: DefUse) -> bool:
    """Whether any operator in the chain of elementwise operators after `value` enlarges its shape."""
    for reader in chains.readers(value):
        if chains.call(reader, *_ELEMENTWISE, *_SAME_SHAPE) is None:
            continue
        if _shape(reader) != _shape(value) or _broadcasts(reader, chains):
            return True
    return False


def _at_run_time(product: relax.Call, rank: int) -> bool:
    """Whether both operands of a product are float32 tensors of `rank` that are known only at run time."""
    return all(
        constant(operand) is None and len(operand.ty.shape) == rank and str(operand.ty.dtype) == "float32"
        for operand in product.args
    )


def _steps(value: relax.Expr, shape: list[int], chains: DefUse) -> tuple[relax.Call, list[_Step]] | None:
    """The product that `value` comes from, and the elementwise operators in between, each on tensors of `shape`."""
    if not chains.used_once(value):
        return None
    product = chains.call(value, "relax.matmul")
    if product is not None:
        return product, []
    call = chains.call(value, *_ELEMENTWISE)
    if call is None:
        return None
    for place, operand in enumerate(call.args):
        if constant(operand) is not None or _shape(operand) != shape or str(operand.ty.dtype) != "float32":
            continue
        found = _steps(operand, shape, chains)
        if found is not None:
            return found[0], [*found[1], _Step(call.op.name, tuple(call.args), place)]
    return None


def _applied(x: te.Tensor, steps: Sequence[_Step], others: Iterator[Tensor | Expr]) -> te.Tensor:
    for step in steps:
        operands = [x if n == step.place else next(others) for n in range(len(step.operands))]
        x = _ELEMENTWISE[step.operator](*operands)
    return x


def _scalar(operand: relax.Expr) -> Expr | None:
    """A constant with one element as a literal; None for anything else."""
    value = constant(operand)
    return None if value is None or value.size != 1 else tirx.const(value.item(), str(value.dtype))


def _shape(expr: relax.Expr) -> list[int]:
    return [int(extent) for extent in expr.ty.shape]
