"""Integer operators for quantised models: products of widened 8-bit integers become int8 products, summed in int32.

The integers are widened to int32, less their zero point, or dequantised to floats. Then one scale is applied after the
sum. This definition of a product of floats differs from the float definition only in how products are rounded:
sum((q - zq) sq * (w - zw) sw) is sq sw * sum((q - zq)(w - zw)) if sq is one number and sw is one number per output
channel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from math import prod

import numpy as np
import tvm
from tvm import relax, te

from edgetune.graph.dequantised import SCALED, Dequantised, Known, dequantised, known_parameters, known_value
from edgetune.graph.integer_products import (
    ZeroPoints,
    centred_weights,
    fits_32_bits,
    integer_convolution,
    integer_matmul,
    less_products,
)
from edgetune.graph.moved_integers import moved_integers
from edgetune.graph.rewrite import DefUse, constant, constant_of, rewrite, with_attributes
from edgetune.graph.te_call import call_fusable


def integer_sums(module: tvm.IRModule, known: Known = None) -> tvm.IRModule:
    """Rewrites convolutions (channels last) and matrix products of dequantised integers as int32 products and a scale.

    Their operands are int32 then, integers of 8 or 16 bits less their zero point. A product of floats stays one where a
    sum of integers might have more than 32 bits. What lies between these and takes elements as they are moves the
    integers (see `edgetune.graph.moved_integers`). `known` are the parameters of `main` that are constants, by number.
    """
    values = known_parameters(module, known)
    module = moved_integers(module, lambda *of: _operands(*of) is not None, values.keys())
    values = known_parameters(module, known)
    return rewrite(rewrite(module, partial(_integer_sum, known=values)), _joined_scales)


def integer_operators(module: tvm.IRModule, known: Known = None) -> tvm.IRModule:
    """Rewrites int32 products of integers of 8 or 16 bits less their zero points as products of these integers.

    The zero point of the data leaves the sum where the weights are known (see `edgetune.graph.integer_products`).
    """
    return rewrite(module, partial(_integer_operator, known=known_parameters(module, known)))


@dataclass(frozen=True)
class _Form:
    """An operator of integers: its name, its sums as a tensor expression, and which axes of the weights it sums.

    `takes` says whether the call is of this form, with weights that have these scales. `along` gives numbers of each
    channel, which have the axes of the weights, those of the result. `has_border`: sums have a border around the data.
    """

    name: str
    sums: Callable[..., te.Tensor]
    terms: Callable[[int], tuple[int, ...]]
    takes: Callable[[relax.Call, np.ndarray], bool]
    has_border: bool
    along: Callable[[np.ndarray], np.ndarray]


def _is_channels_last(call: relax.Call, scale: np.ndarray) -> bool:
    data, kernel = str(call.attrs.data_layout), str(call.attrs.kernel_layout)
    per_row = scale.size == 1 or (scale.ndim > 1 and scale.shape[0] == scale.size)
    return data.endswith("C") and kernel.startswith("O") and kernel.endswith("I") and per_row


def _is_of_matrices(call: relax.Call, scale: np.ndarray) -> bool:
    per_column = scale.size == 1 or (scale.shape[-1] == scale.size == int(call.ty.shape[-1]))
    return min(len(argument.ty.shape) for argument in call.args) > 1 and per_column


def _along_last(numbers: np.ndarray) -> np.ndarray:
    return numbers.reshape([1] * (numbers.ndim - 1) + [-1]) if numbers.size > 1 else numbers.reshape(())


def _windows(axes: int) -> _Form:
    """The convolution of windows with so many axes."""
    terms = tuple(range(1, axes + 2))
    return _Form(f"integer_conv{axes}d", integer_convolution, lambda _: terms, _is_channels_last, True, _along_last)


_FORMS = {
    **{f"relax.nn.conv{axes}d": _windows(axes) for axes in (1, 2, 3)},
    "relax.matmul": _Form(
        "integer_matmul", integer_matmul, lambda rank: (rank - 2,), _is_of_matrices, False, lambda numbers: numbers
    ),
}


def _operands(
    call: relax.Call, chains: DefUse, source: Callable[[relax.Expr, DefUse], Dequantised | None]
) -> tuple[Dequantised, Dequantised] | None:
    """Data and weights, by `source`, of a product that integers can compute; None of any other call."""
    if call.op.name not in _FORMS:
        return None
    data, weights = (source(argument, chains) for argument in call.args[:2])
    if data is None or weights is None or not data.is_uniform:
        return None
    if weights.zero_point.size != 1 or weights.computed_zero is not None:
        return None
    return (data, weights) if _FORMS[call.op.name].takes(call, weights.scale) else None


def _integer_sum(
    call: relax.Call, chains: DefUse, _: relax.BlockBuilder, known: Mapping[relax.Var, np.ndarray]
) -> relax.Expr | None:
    if str(call.ty.dtype) != SCALED:
        return None
    operands = _operands(call, chains, dequantised)
    if operands is None:
        return None
    form, (data, weights) = _FORMS[call.op.name], operands
    shape = [int(extent) for extent in weights.integers.ty.shape]
    terms = form.terms(len(shape))
    zeros, kind = _zero_points(data, weights), str(data.integers.ty.dtype)
    value = known_value(weights.integers, chains, known)
    if value is None or centred_weights(value, zeros, kind, terms) is None:
        of = str(weights.integers.ty.dtype) if value is None else value
        if not fits_32_bits(of, zeros, kind, terms, prod(shape[term] for term in terms)):
            return None
    whole = [data.of(data.integers, "int32"), weights.of(weights.integers, "int32")]
    sums = with_attributes(call, {"out_dtype": "int32"}, whole)
    scale = form.along(weights.scale)
    product = (scale.astype("float64") * float(data.scale.reshape(()))).astype(scale.dtype)
    return relax.op.multiply(relax.op.astype(sums, str(scale.dtype)), constant_of(product))


def _integer_operator(
    call: relax.Call, chains: DefUse, builder: relax.BlockBuilder, known: Mapping[relax.Var, np.ndarray]
) -> relax.Expr | None:
    operands = _operands(call, chains, dequantised) if str(call.ty.dtype) == "int32" else None
    if operands is None:
        return None
    form, (data, weights) = _FORMS[call.op.name], operands
    integers, kind = weights.integers, str(data.integers.ty.dtype)
    zeros = _zero_points(data, weights)
    value = known_value(integers, chains, known)
    found = None if value is None else centred_weights(value, zeros, kind, form.terms(len(integers.ty.shape)))
    if found is not None:
        integers, zeros = constant_of(found.integers), ZeroPoints(0, 0, zeros.data)
    elif data.computed_zero is not None:
        return None
    zero = None if data.computed_zero is None else builder.emit(relax.op.reshape(data.computed_zero, []))
    border = [] if zero is None or not form.has_border else [zero]
    sums = partial(form.sums, zeros=zeros, attrs=call.attrs)
    accumulated = call_fusable(builder, sums, data.integers, integers, *border, name=form.name)
    if found is None or not found.sums.any():
        return accumulated
    factors = form.along(found.sums)
    if zero is not None:
        return builder.emit_te(less_products, accumulated, zero, constant_of(factors))
    return relax.op.subtract(accumulated, constant_of(factors * zeros.border)) if zeros.border else accumulated


def _zero_points(data: Dequantised, weights: Dequantised) -> ZeroPoints:
    """Those of a product; of data with one that is computed, the number of the largest magnitude that it may be."""
    ends = np.iinfo(str(data.integers.ty.dtype))
    most = max(int(ends.min), int(ends.max), key=abs)
    own = int(data.zero_point.reshape(())) if data.computed_zero is None else most
    return ZeroPoints(own, int(weights.zero_point.reshape(())), 0)


def _joined_scales(call: relax.Call, chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
    """(sum * a) * b with constant scales of a sum of integers as sum * (a * b), which rounds once less."""
    inner = chains.call(call.args[0], "relax.multiply") if call.op.name == "relax.multiply" else None
    whole = None if inner is None else chains.call(inner.args[0], "relax.astype")
    if inner is None or whole is None or str(whole.args[0].ty.dtype) != "int32" or not chains.used_once(call.args[0]):
        return None
    first, second = (constant(one.args[1]) for one in (inner, call))
    if first is None or second is None or second.size > 1 or second.ndim > len(call.args[0].ty.shape):
        return None
    product = (first.astype("float64") * float(second.reshape(()))).astype(first.dtype)
    return relax.op.multiply(inner.args[0], constant_of(product))


def joined_terms(module: tvm.IRModule, known: Known = None) -> tvm.IRModule:
    """(x - a) + b of integers with constants a and b becomes x + (b - a): 32 bits wrap, so that the order is free.

    For `known` see `integer_sums`.
    """
    return rewrite(module, partial(_joined_terms, known=known_parameters(module, known)))


def _joined_terms(
    call: relax.Call, chains: DefUse, _: relax.BlockBuilder, known: Mapping[relax.Var, np.ndarray]
) -> relax.Expr | None:
    inner = chains.call(call.args[0], *_SIGNS) if call.op.name in _SIGNS else None
    if inner is None or str(call.ty.dtype) != "int32" or not chains.used_once(call.args[0]):
        return None
    terms = [(known_value(one.args[1], chains, known), _SIGNS[one.op.name]) for one in (inner, call)]
    if any(value is None for value, _ in terms):
        return None
    joined = np.asarray(sum(value.astype("int64") * sign for value, sign in terms if value is not None))
    if any(joined.size <= value.size for value, _ in terms if value is not None):
        return relax.op.add(inner.args[0], constant_of(joined.astype("int32")))
    return None  # one is the same along an axis along which the other is not


_SIGNS = {"relax.add": 1, "relax.subtract": -1}
