"""Attention fusion: computes scores for a few queries at a time, their softmax and the weighted values in one kernel.

As separate kernels, each score is written and read again three times, and all scores are alive at once. The result is
the same except for one change: each sum is divided once at the end, instead of dividing every weight before.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial

import tvm
from tvm import relax, te, tirx, topi

from edgetune.graph.attention import attend, where
from edgetune.graph.element_type import is_floating
from edgetune.graph.fold_constant import permutation
from edgetune.graph.labelled_axes import MATRIX, BatchAxes, Labelled, Labels, in_shape, labelled, shape_of, source_of
from edgetune.graph.nan_operands import maximum, minimum
from edgetune.graph.rewrite import DefUse, constant, rewrite
from edgetune.graph.te_call import call_fusable
from edgetune.tvm_types import Expr, Tensor

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
    """An elementwise operator on the scores, which are its operand number `place`; `operands` are in order.

    The scores are like `scores`: their axes tell how those of the operands broadcast.
    """

    operator: str
    operands: tuple[relax.Expr, ...]
    place: int
    scores: Labelled


@dataclass(frozen=True)
class _Weights:
    """The weights of a product: softmax of `scores`, or 0 for queries where one of the conditions `empty` holds.

    Each condition broadcasts to weights like those beside it. `defined`: weights that softmax leaves undefined are 0.
    `turned`: the weights are the right operand of the product, transposed. `matrix` has the labels of their last axes.
    """

    scores: Labelled
    matrix: tuple[Labels, ...]
    empty: tuple[tuple[relax.Expr, Labelled], ...]
    defined: bool
    turned: bool


def fuse_attention(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrites matmul(softmax(f(matmul(q, k))), v), transposed or not, to one kernel.

    Applies if f is elementwise (scale, mask, bias) or absent, the softmax runs over the keys, no intermediate value has
    another reader, and all tensors are floats. Reshapes between these operators may join and divide batch axes, and
    heads may share keys and values. Weights may be 0 for queries without keys. Elementwise operators after it become
    part of the kernel, unless they broadcast the result: it would be computed again for each copy, and no schedule fits
    that.
    """
    return rewrite(rewrite(module, _transposed_attention), _attention)


def _transposed_attention(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    if call.op.name != "relax.permute_dims":
        return None
    reshapes: list[relax.Call] = []
    value = call.args[0]
    while chains.used_once(value) and (found := chains.call(value, "relax.reshape")) is not None:
        reshapes.insert(0, found)
        value = found.args[0]
    product = chains.call(value, "relax.matmul") if chains.used_once(value) else None
    return None if product is None else _fused(product, (*reshapes, call), chains, builder)


def _attention(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    return _fused(call, (), chains, builder) if call.op.name == "relax.matmul" else None


def _fused(
    product: relax.Call, after: Sequence[relax.Call], chains: DefUse, builder: relax.BlockBuilder
) -> relax.Expr | None:
    """The attention whose last product is `product`, then what `after` makes of it; None if it is not attention."""
    if not all(map(_is_matrix, product.args)):
        return None
    batch = BatchAxes([[extent] for extent in shape_of(product)[:-MATRIX]])
    while True:
        found = _found(product, after, batch, chains)
        if not batch.divided:
            return None if found is None else found.emitted(chains, builder)
        batch.divided = False


def _found(product: relax.Call, after: Sequence[relax.Call], batch: BatchAxes, chains: DefUse) -> _Attention | None:
    """The parts of attention by the labels that the axes of `batch` have now."""
    weights = _weights(product, batch, chains)
    found = None if weights is None else _steps(weights.scores, chains)
    if weights is None or found is None or found[0].axes[-MATRIX:] != weights.matrix:
        return None
    scores, steps = found
    right = product.args[0 if weights.turned else 1]
    queries, keys = scores.value.args
    if not all(map(_is_matrix, (queries, keys))) or constant(keys) is not None or constant(right) is not None:
        return None
    q, k = (labelled(operand, scores.axes[:-MATRIX], batch) for operand in scores.value.args)
    v = labelled(right, batch.labels(), batch, turned=weights.turned)
    q, k = (source_of(operand, chains, scaled=True) for operand in (q, k))
    v = source_of(v, chains, scaled=False)
    result: Labelled | None = labelled(product, batch.labels(), batch, turned=weights.turned)
    for call in after:
        reshaped = call.op.name == "relax.reshape"
        result = None if result is None else result.regrouped(call) if reshaped else result.transposed(call)
    scales = [_Step(operator, (q.value, by), 0, scores) for operator, by in (*q.scales, *k.scales)]
    return None if result is None else _Attention(q, k, v, (*scales, *steps), weights, result)


@dataclass(frozen=True)
class _Attention:
    """Operands as their sources have them, the steps from the first product to the softmax, and the result."""

    q: Labelled
    k: Labelled
    v: Labelled
    steps: tuple[_Step, ...]
    weights: _Weights
    result: Labelled

    def emitted(self, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr:
        """The call of the kernel, in the shape of the result."""
        rank, last = len(self.result.extents), len(self.result.extents) - 1
        operands, orders = [], []
        for source in (self.q, self.k, self.v):
            listed = source.listed()
            order = [listed.index(label) for label in range(rank)]
            kept = source is self.q or listed[-1] == last
            operands.append(in_shape(source.value, source.divided_shape(), builder, () if kept else order))
            orders.append(order if kept else list(range(rank)))
        listed = self.result.listed()
        axes = listed if listed[-1] == last else list(range(rank))
        others = [
            _aligned(operand, step.scores, builder)
            for step in self.steps
            for n, operand in enumerate(step.operands)
            if n != step.place
        ]
        empty = [_aligned(condition, like, builder) for condition, like in self.weights.empty]
        tensors = [operand for operand in others if _scalar(operand) is None]

        def attention(q: te.Tensor, k: te.Tensor, v: te.Tensor, *run_time: te.Tensor) -> te.Tensor:
            rest = iter(run_time)
            values = [_scalar(operand) for operand in others]
            filled = iter([next(rest) if value is None else value for value in values])
            change = partial(_applied, steps=self.steps, others=filled)
            return attend(q, k, v, orders, change, axes, tuple(rest), defined=self.weights.defined)

        variable = chains.variable(self.result.value)
        alone = variable is not None and _broadcasts(variable, chains)
        made = call_fusable(builder, attention, *operands, *tensors, *empty, alone=alone)
        order = [] if axes == listed else listed
        turned = made if not order else builder.emit(relax.op.permute_dims(made, order))
        return in_shape(turned, shape_of(self.result.value), builder)


def _weights(product: relax.Call, batch: BatchAxes, chains: DefUse) -> _Weights | None:
    """The weights of a product of weights and values; None if no softmax over its last axis computes them."""
    for turned in (False, True):
        value = product.args[1 if turned else 0]
        swap = chains.call(value, "relax.permute_dims") if turned else None
        if turned and (swap is None or not chains.used_once(value) or not _swaps_matrix(swap)):
            continue
        operand = value if swap is None else swap.args[0]
        if shape_of(operand)[:-MATRIX] != shape_of(product)[:-MATRIX]:
            continue
        found = _softmax(labelled(operand, batch.labels(), batch), chains)
        if found is not None:
            return replace(found, turned=turned)
    return None


def _swaps_matrix(call: relax.Call) -> bool:
    """Whether a transpose exchanges the last two axes alone."""
    *batch, rows, columns = range(len(shape_of(call)))
    return permutation(call) == [*batch, columns, rows]


def _softmax(weights: Labelled, chains: DefUse) -> _Weights | None:
    """The softmax that weights come from through reshapes, and through choices of 0 for some queries."""
    here: Labelled | None = weights
    empty: list[tuple[relax.Expr, Labelled]] = []
    defined, readers = False, 1
    while here is not None:
        call = chains.call(here.value)
        if call is None or not chains.read_by(here.value, readers):
            return None
        readers = 1
        if call.op.name == "relax.nn.softmax":
            last = len(here.axes) - 1
            whole = int(call.attrs.axis) in {-1, last} and here.axes[-1] == weights.axes[-1]
            scores = here.at(call.args[0], here.axes)
            return _Weights(scores, weights.axes[-MATRIX:], tuple(empty), defined, turned=False) if whole else None
        if call.op.name == "relax.reshape":
            here = here.regrouped(call.args[0])
            continue
        if call.op.name != "relax.where" or not _is_zero(call.args[1]) or shape_of(call.args[2]) != shape_of(call):
            return None
        condition = chains.call(call.args[0], "relax.isnan")
        unshared = condition is not None and chains.used_once(call.args[0])
        if condition is not None and unshared and condition.args[0].same_as(call.args[2]):
            defined, readers = True, 2
        elif not shape_of(call.args[0]) or shape_of(call.args[0])[-1] == 1:
            empty += [] if _is_zero(call.args[0]) else [(call.args[0], here)]
        else:
            return None
        here = here.at(call.args[2], here.axes)
    return None


def _broadcasts(value: relax.Var, chains: DefUse) -> bool:
    """Whether any operator in the chain of elementwise operators after `value` enlarges its shape."""
    for reader in chains.readers(value):
        if chains.call(reader, *_ELEMENTWISE, *_SAME_SHAPE) is None:
            continue
        if shape_of(reader) != shape_of(value) or _broadcasts(reader, chains):
            return True
    return False


def _is_matrix(operand: relax.Expr) -> bool:
    """Whether an operand is a matrix, or several, of floating-point numbers."""
    return len(operand.ty.shape) >= MATRIX and is_floating(operand)


def _steps(scores: Labelled, chains: DefUse) -> tuple[Labelled, tuple[_Step, ...]] | None:
    """The product that scores come from, and the elementwise operators in between, each on tensors of one shape."""
    call = chains.call(scores.value, "relax.matmul", "relax.reshape", *_ELEMENTWISE)
    if call is None or not chains.used_once(scores.value):
        return None
    if call.op.name == "relax.matmul":
        return scores.at(call, scores.axes), ()
    if call.op.name == "relax.reshape":
        through = scores.regrouped(call.args[0])
        return None if through is None else _steps(through, chains)
    for place, operand in enumerate(call.args):
        if constant(operand) is not None or shape_of(operand) != shape_of(call):
            continue
        found = _steps(scores.at(operand, scores.axes), chains) if is_floating(operand) else None
        if found is not None and call.op.name == "relax.add" and _is_zero(call.args[1 - place]):
            return found  # no mask
        if found is not None:
            return found[0], (*found[1], _Step(call.op.name, tuple(call.args), place, scores))
    return None


def _aligned(operand: relax.Expr, like: Labelled, builder: relax.BlockBuilder) -> relax.Expr:
    """An operand that broadcasts to the shape of a tensor, with the axes of the divided tensor."""
    if _scalar(operand) is not None or all(set(labels) <= {n} for n, labels in enumerate(like.axes)):
        return operand
    shape = shape_of(operand)
    own = like.axes[len(like.axes) - len(shape) :]
    held = {label for labels, extent in zip(own, shape, strict=True) if extent > 1 for label in labels}
    divided = [extent if label in held else 1 for label, extent in enumerate(like.extents)]
    return in_shape(operand, divided, builder)


def _applied(x: te.Tensor, steps: Sequence[_Step], others: Iterator[Tensor | Expr]) -> te.Tensor:
    for step in steps:
        operands = [x if n == step.place else next(others) for n in range(len(step.operands))]
        x = _ELEMENTWISE[step.operator](*operands)
    return x


def _is_zero(operand: relax.Expr) -> bool:
    value = constant(operand)
    return value is not None and not value.any()


def _scalar(operand: relax.Expr) -> Expr | None:
    """A constant with one element as a literal; None for anything else."""
    value = constant(operand)
    return None if value is None or value.size != 1 else tirx.const(value.item(), str(value.dtype))
