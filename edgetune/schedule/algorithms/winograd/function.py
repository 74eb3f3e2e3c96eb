"""Winograd convolution: a function whose convolution stage is replaced by the stages of Winograd's minimal filtering.

The stages are padding, input transform, products and output transform. All transforms are sums along one axis of a tile
with constant coefficients, and every element of the axis has its own sum. The element's index selects the sum; it is a
constant once the schedule has unrolled the axis.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import tvm_ffi
from tvm import ir, s_tir, te, tirx

from edgetune.errors import KernelFailed
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.winograd.convolution import Convolution, find_convolution
from edgetune.schedule.algorithms.winograd.minimal_filtering import ALGORITHMS, KERNEL, MinimalFiltering
from edgetune.schedule.sketches.block_analysis import block_of, statements_of
from edgetune.schedule.sketches.tile import lanes_for
from edgetune.schedule.sketches.winograd_tile import PADDED, PRODUCTS, RESULT, ROWS, SUMMED, TRANSFORMED
from edgetune.tvm_types import Expr, PrimFunc, TvmBuffer, Var

_LEAST_LANES = 4


def transformed_function(function: PrimFunc, convolution: Convolution, algorithm: MinimalFiltering) -> PrimFunc:
    """The PrimFunc that computes the same as `function`, but reads transformed weights.

    Its parameters are those of `function`, except that the weights have shape (m+2, m+2, channels, filters).
    """
    stages = te.create_prim_func(list(tensors_of(convolution, algorithm)))
    source, weights, result = stages.params
    made = stages.body.block
    body = tvm_ffi.structural_map(
        made.body, [(ir.Var, _renaming({source: convolution.source, result: convolution.result}))]
    )
    root = function.body.block
    own = {block_of(statement).name_hint: statement for statement in statements_of(root.body)}
    statements = [
        *(own[stage.name] for stage in convolution.before),
        *statements_of(body),
        *(own[stage.name] for stage in convolution.after),
    ]
    written = [region.source for statement in statements for region in block_of(statement).writes]
    buffers = [b for b in (*root.alloc_buffers, *made.alloc_buffers) if any(b.same_as(other) for other in written)]
    block = s_tir.SBlock([], [], [], "root", tirx.SeqStmt(statements), None, buffers)
    params = [weights if n == convolution.weights else param for n, param in enumerate(function.params)]
    realize = s_tir.SBlockRealize([], True, block)
    return s_tir.renew_defs(tirx.PrimFunc(params, realize, function.ret_type, function.attrs))


def _renaming(names: dict[TvmBuffer, TvmBuffer]) -> Callable[[Var], Var]:
    def rename(variable: Var) -> Var:
        return next((new for old, new in names.items() if variable.same_as(old)), variable)

    return rename


def winograd_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm called `name`, one of `ALGORITHMS`, of an unscheduled PrimFunc.

    None unless it is a 3x3 convolution of stride 1 whose input and output channels form vectors of four: the transforms
    are sums of such vectors.
    """
    convolution = find_convolution(function)
    if convolution is None:
        return None
    widths = (convolution.channels, convolution.output_shape[-1])
    if any(lanes_for(width, _LEAST_LANES) < _LEAST_LANES for width in widths):
        return None
    algorithm = ALGORITHMS[name]
    transform = WeightTransform(algorithm, convolution.weight_axes)
    return Algorithm(name, transformed_function(function, convolution, algorithm), {convolution.weights: transform})


@dataclass(frozen=True)
class WeightTransform:
    """G g G^T for each pair of channels; `axes` are those of window row and column, input and output channel."""

    algorithm: MinimalFiltering
    axes: tuple[int, int, int, int]

    def apply(self, source: np.ndarray) -> np.ndarray:
        """Shape (m+2, m+2, channels, filters), computed in double precision and rounded once to `source`'s dtype.

        Raises KernelFailed for weights whose window is not 3 x 3.
        """
        weights = source.transpose(self.axes)
        if weights.shape[:2] != (KERNEL, KERNEL):
            raise KernelFailed(f"weights of shape {source.shape} are not a 3x3 window, so this is the wrong constant")
        g = self.algorithm.weight_transform()
        # Explicit sums, so that their order is the same with every version of numpy.
        rows = _sum_of_three([g[:, k, None, None, None] * weights[None, k].astype(np.float64) for k in range(KERNEL)])
        both = _sum_of_three([g[None, :, k, None, None] * rows[:, None, k] for k in range(KERNEL)])
        return np.ascontiguousarray(both, dtype=source.dtype)


def _sum_of_three(terms: list[np.ndarray]) -> np.ndarray:
    total: np.ndarray = terms[0] + terms[1] + terms[2]
    return total


_Element = Callable[[int], Expr]
_Arrangement = Callable[[Sequence[float], _Element], Expr]


def tensors_of(convolution: Convolution, algorithm: MinimalFiltering) -> tuple[te.Tensor, te.Tensor, te.Tensor]:
    """Placeholders for the source (as the convolution reads it) and the transformed weights, and the result.

    Weights have the shape (m+2, m+2, channels, filters), the result (batch, height, width, filters).
    """
    batch, height, width, filters = convolution.output_shape
    m, a = algorithm.tile, algorithm.inputs
    rows, columns, channels = -(-height // m), -(-width // m), convolution.channels
    into, back = algorithm.input_transform(), algorithm.output_transform()
    index = str(convolution.anchor.spatial[0].dom.extent.ty.dtype)  # loops of different types cannot be fused

    def shape(*extents: int) -> list[Expr]:
        return [tirx.IntImm(index, extent) for extent in extents]

    source = te.placeholder(convolution.source.ty.shape, convolution.dtype, "source")
    weights = te.placeholder(shape(a, a, channels, filters), convolution.dtype, "weights")
    padded = te.compute(
        shape(batch, rows * m + a - m, columns * m + a - m, channels),
        lambda n, y, x, c: _inside(source, convolution, n, y, x, c),
        PADDED,
    )
    row_sums = te.compute(
        shape(batch, rows, columns, a, a, channels),
        lambda n, r, s, i, j, c: _sum(i, _by_parity, into, lambda k: padded(n, r * m + k, s * m + j, c)),
        ROWS,
    )
    transformed = te.compute(
        shape(a, a, batch, rows, columns, channels),
        lambda i, j, n, r, s, c: _sum(j, _by_parity, into, lambda k: row_sums(n, r, s, i, k, c)),
        TRANSFORMED,
    )
    channel = te.reduce_axis((tirx.IntImm(index, 0), tirx.IntImm(index, channels)), "channel")
    products = te.compute(
        shape(a, a, batch, rows, columns, filters),
        lambda i, j, n, r, s, f: te.sum(transformed[i, j, n, r, s, channel] * weights[i, j, channel, f], channel),
        PRODUCTS,
    )
    summed = te.compute(
        shape(batch, rows, columns, m, a, filters),
        lambda n, r, s, i, j, f: _sum(i, _by_pairs, back, lambda k: products(k, j, n, r, s, f)),
        SUMMED,
    )
    result = te.compute(
        shape(batch, height, width, filters),
        lambda n, y, x, f: _sum(x % m, _by_pairs, back, lambda k: summed(n, y // m, x // m, y % m, k, f)),
        RESULT,
    )
    return source, weights, result


def _inside(source: te.Tensor, convolution: Convolution, n: Expr, y: Expr, x: Expr, c: Expr) -> Expr:
    _, height, width, _ = source.shape
    top, left = convolution.top, convolution.left
    inside = tirx.all(y >= top, y < top + height, x >= left, x < left + width)
    return tirx.if_then_else(inside, source[n, y - top, x - left, c], tirx.const(0.0, convolution.dtype))


def _sum(row: Expr, arrange: _Arrangement, matrix: np.ndarray, element: _Element) -> Expr:
    """The sum of `element(k)` times the coefficients of the matrix row that the index `row` selects."""
    expressions = [arrange(coefficients, element) for coefficients in matrix.tolist()]
    value = expressions[-1]
    for number in reversed(range(len(expressions) - 1)):
        value = tirx.if_then_else(row == number, expressions[number], value)
    return value


def _by_parity(coefficients: Sequence[float], element: _Element) -> Expr:
    """Elements times `coefficients`: even and odd powers are summed separately.

    The rows of p and -p then consist of the same two sums, and differ in one sign.
    """
    even, odd = (_weighted(coefficients, element, range(start, len(coefficients), 2)) for start in (0, 1))
    return _joined([even, odd])


def _by_pairs(coefficients: Sequence[float], element: _Element) -> Expr:
    """Elements times `coefficients`: elements of p and -p, which are adjacent, are added or subtracted first."""
    last = len(coefficients) - 1
    terms = [_weighted(coefficients, element, [0])]
    for first in range(1, last, 2):
        one, other = coefficients[first], coefficients[first + 1]
        if one != 0.0:
            pair = element(first) + element(first + 1) if one == other else element(first) - element(first + 1)
            terms.append((_scaled(pair, abs(one)), one < 0))
    terms.append(_weighted(coefficients, element, [last]))
    return _joined(terms)


def _weighted(coefficients: Sequence[float], element: _Element, powers: Sequence[int]) -> tuple[Expr, bool] | None:
    """The sum over `powers`, and whether to negate it, so that its last term is positive; None if all are zero."""
    used = [power for power in powers if coefficients[power] != 0.0]
    if not used:
        return None
    negated = coefficients[used[-1]] < 0
    total = _scaled(element(used[-1]), abs(coefficients[used[-1]]))
    for power in reversed(used[:-1]):
        term = _scaled(element(power), abs(coefficients[power]))
        total = total + term if (coefficients[power] > 0) != negated else total - term
    return total, negated


def _joined(terms: Sequence[tuple[Expr, bool] | None]) -> Expr:
    """The sum of terms, some of which are negated; a term that is not negated comes first."""
    there = sorted((term for term in terms if term is not None), key=lambda term: term[1])
    total, negated = there[0]
    if negated:
        total = tirx.const(0.0, str(total.ty.dtype)) - total
    for term, subtracted in there[1:]:
        total = total - term if subtracted else total + term
    return total


def _scaled(value: Expr, factor: float) -> Expr:
    return value if factor == 1.0 else value * tirx.const(factor, str(value.ty.dtype))
