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

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.integer_products import ZeroPoints, centred_weights, integer_conv2d, integer_matmul
from edgetune.graph.rewrite import DefUse, attributes, constant, constant_of, rewrite
from edgetune.graph.te_call import call_fusable


@dataclass(frozen=True)
class _Dequantised:
    """(integers - zero_point) * scale, in the form that `edgetune.frontend.onnx.converters.quantisation` writes."""

    integers: relax.Expr
    zero_point: np.ndarray
    scale: np.ndarray

    @property
    def is_uniform(self) -> bool:
        """Whether all integers have one scale and one zero point, so that they may be moved."""
        return self.scale.size == 1 and self.zero_point.size == 1


_MOVES = ("relax.reshape", "relax.permute_dims")
_PRODUCTS = ("relax.nn.conv2d", "relax.matmul")


def integer_operators(module: tvm.IRModule, known: Mapping[int, np.ndarray] | None = None) -> tvm.IRModule:
    """Rewrites 2-D convolutions (channels last) and matrix products if both operands are dequantised integers.

    Reshapes and transpositions between these move the integers, once for all readers. `known` are the parameters of
    `main` that are constants, by number. The zero point of the data leaves the sum where the weights are known (see
    `edgetune.graph.integer_products`).
    """
    module = rewrite(module, _move_integers)
    values = _known_parameters(module, known)
    return rewrite(rewrite(module, partial(_integer_operator, known=values)), _joined_scales)


def _dequantised(expr: relax.Expr, chains: DefUse) -> _Dequantised | None:
    product = chains.call(expr, "relax.multiply")
    scale = constant(product.args[1]) if product is not None else None
    widened = chains.call(product.args[0], "relax.astype") if product is not None else None
    if scale is None or widened is None or str(widened.ty.dtype) != "float32":
        return None
    return _centred_integers(widened.args[0], chains, scale)


def _widened(expr: relax.Expr, chains: DefUse) -> _Dequantised | None:
    """int32 of integers minus their zero point: their scale is 1."""
    return _centred_integers(expr, chains, np.ones((), "float32")) if str(expr.ty.dtype) == "int32" else None


def _centred_integers(inner: relax.Expr, chains: DefUse, scale: np.ndarray) -> _Dequantised | None:
    zero_point = np.zeros((), "int32")
    difference = chains.call(inner, "relax.subtract")
    if difference is not None:
        value = constant(difference.args[1])
        if value is None:
            return None
        zero_point, inner = value, difference.args[0]
    integers = chains.call(inner, "relax.astype")
    if integers is None or str(integers.args[0].ty.dtype) not in {"int8", "uint8"}:
        return None
    return _Dequantised(integers.args[0], zero_point, scale)


def _move_integers(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    """move(dequantise(x)) becomes dequantise(move(x)) where a product of integers reads it, maybe through moves."""
    found = _dequantised(call.args[0], chains) if call.op.name in _MOVES else None
    variable = None if found is None else chains.variable(call)
    if found is None or variable is None or not found.is_uniform or not _feeds_product(variable, chains):
        return None
    integers = builder.emit(relax.Call(call.op, [found.integers, *call.args[1:]], call.attrs))
    difference = relax.op.astype(integers, "int32")
    if found.zero_point.any():
        difference = relax.op.subtract(difference, constant_of(found.zero_point.reshape(())))
    return relax.op.multiply(relax.op.astype(difference, str(found.scale.dtype)), constant_of(found.scale.reshape(())))


def _feeds_product(value: relax.Var, chains: DefUse) -> bool:
    """Whether a product of integers reads a value, directly or through moves."""
    for reader in chains.readers(value):
        call = chains.call(reader, *_MOVES, *_PRODUCTS)
        if call is not None and (
            _feeds_product(reader, chains) if call.op.name in _MOVES else _operands(call, chains, _before_moves)
        ):
            return True
    return False


def _before_moves(expr: relax.Expr, chains: DefUse) -> _Dequantised | None:
    """What an operator reads, directly or through moves, where it is dequantised."""
    moved = False
    while (found := _dequantised(expr, chains)) is None:
        move = chains.call(expr, *_MOVES)
        if move is None:
            return None
        moved, expr = True, move.args[0]
    return None if moved and not found.is_uniform else found


def _operands(
    call: relax.Call, chains: DefUse, source: Callable[[relax.Expr, DefUse], _Dequantised | None]
) -> tuple[_Dequantised, _Dequantised] | None:
    """Data and weights, by `source`, of a product that integers can compute; None of any other product."""
    data, weights = (source(argument, chains) for argument in call.args[:2])
    if data is None or weights is None or not data.is_uniform or weights.zero_point.size != 1:
        return None
    if call.op.name == "relax.matmul":
        fits = len(call.ty.shape) == 2 and _per_column(weights.scale, int(call.ty.shape[-1]))
    else:
        layouts = call.attrs.data_layout, call.attrs.kernel_layout
        fits = layouts == ("NHWC", "OHWI") and _per_row(weights.scale)
    return (data, weights) if fits else None


def _integer_operator(
    call: relax.Call, chains: DefUse, builder: relax.BlockBuilder, known: Mapping[relax.Var, np.ndarray]
) -> relax.Expr | None:
    if call.op.name not in _PRODUCTS:
        return None
    exact = str(call.ty.dtype) == "int32"
    operands = _operands(call, chains, _widened if exact else _dequantised)
    if operands is None:
        return None
    data, weights = operands
    zeros = ZeroPoints(int(data.zero_point.reshape(())), int(weights.zero_point.reshape(())), 0)
    integers = weights.integers
    value = _known_value(integers, chains, known)
    terms = (0,) if call.op.name == "relax.matmul" else (1, 2, 3)
    found = None if value is None else centred_weights(value, zeros, str(data.integers.ty.dtype), terms)
    if found is not None:
        integers, zeros = constant_of(found.integers), ZeroPoints(0, 0, zeros.data)
    if call.op.name == "relax.matmul":
        accumulated = call_fusable(builder, integer_matmul, data.integers, integers, zeros.data, zeros.weights)
        axes: tuple[int, ...] = (-1,)
    else:
        accumulated = call_fusable(builder, integer_conv2d, data.integers, integers, *zeros, call.attrs)
        axes = (1, 1, 1, -1)
    if found is not None and found.offsets.any():
        accumulated = relax.op.subtract(accumulated, constant_of(found.offsets.reshape(axes)))
    if exact:
        return accumulated
    scale: np.ndarray = weights.scale.reshape(axes if weights.scale.size > 1 else ())
    product = (scale.astype("float64") * float(data.scale.reshape(()))).astype(scale.dtype)
    return relax.op.multiply(relax.op.astype(accumulated, str(scale.dtype)), constant_of(product))


def _joined_scales(call: relax.Call, chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
    """(sum * a) * b with constant scales of a sum of integers as sum * (a * b), which rounds once less."""
    inner = chains.call(call.args[0], "relax.multiply") if call.op.name == "relax.multiply" else None
    whole = None if inner is None else chains.call(inner.args[0], "relax.astype")
    if inner is None or whole is None or str(whole.args[0].ty.dtype) != "int32" or not chains.used_once(call.args[0]):
        return None
    first, second = (constant(one.args[1]) for one in (inner, call))
    if first is None or second is None or second.size > 1:
        return None
    product = (first.astype("float64") * float(second.reshape(()))).astype(first.dtype)
    return relax.op.multiply(inner.args[0], constant_of(product))


def joined_terms(module: tvm.IRModule, known: Mapping[int, np.ndarray] | None = None) -> tvm.IRModule:
    """(x - a) + b of integers with constants a and b becomes x + (b - a): 32 bits wrap, so that the order is free.

    For `known` see `integer_operators`.
    """
    return rewrite(module, partial(_joined_terms, known=_known_parameters(module, known)))


def _known_parameters(module: tvm.IRModule, known: Mapping[int, np.ndarray] | None) -> dict[relax.Var, np.ndarray]:
    return {module["main"].params[number]: array for number, array in (known or {}).items()}


def _joined_terms(
    call: relax.Call, chains: DefUse, _: relax.BlockBuilder, known: Mapping[relax.Var, np.ndarray]
) -> relax.Expr | None:
    inner = chains.call(call.args[0], *_SIGNS) if call.op.name in _SIGNS else None
    if inner is None or str(call.ty.dtype) != "int32" or not chains.used_once(call.args[0]):
        return None
    terms = [(_known_value(one.args[1], chains, known), _SIGNS[one.op.name]) for one in (inner, call)]
    if any(value is None for value, _ in terms):
        return None
    joined = np.asarray(sum(value.astype("int64") * sign for value, sign in terms if value is not None))
    if any(joined.size <= value.size for value, _ in terms if value is not None):
        return relax.op.add(inner.args[0], constant_of(joined.astype("int32")))
    return None  # one is the same along an axis along which the other is not


_SIGNS = {"relax.add": 1, "relax.subtract": -1}


def _known_value(expr: relax.Expr, chains: DefUse, known: Mapping[relax.Var, np.ndarray]) -> np.ndarray | None:
    """The value of a constant, maybe moved or of another type; None where it is computed at run time."""
    call = chains.call(expr, *_MOVES, "relax.astype")
    if call is None:
        return known.get(expr) if isinstance(expr, relax.Var) else constant(expr)
    source = _known_value(call.args[0], chains, known)
    if source is None:
        return None
    if call.op.name == "relax.astype":
        return source.astype(str(call.ty.dtype))
    if call.op.name == "relax.reshape":
        return source.reshape([int(extent) for extent in call.ty.shape])
    axes = attributes(call)["axes"]
    return source.transpose(None if axes is None else [int(axis) for axis in axes])


def _per_row(scale: np.ndarray) -> bool:
    return scale.size == 1 or (scale.ndim > 1 and scale.shape[0] == scale.size)


def _per_column(scale: np.ndarray, columns: int) -> bool:
    return scale.size == 1 or (scale.shape[-1] == scale.size == columns)
