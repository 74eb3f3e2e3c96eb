"""Channel ranges: the least and the greatest number that each channel of a tensor can have, whatever the inputs are.

Intervals of each channel, the last axis, go through the operators of a Relax function (R. E. Moore, Interval Analysis,
1966). Those of integers are exact bounds. Those of float32 and float64 are wider than the bounds by `_ROUNDING` of each
operand, and by what is rounded to 0, so that they hold whether a compiler joins a product and a sum or not.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import prod
from typing import TypeAlias

import numpy as np
import tvm
from tvm import relax
from tvm.ir import GenericConst, Op

from edgetune.graph.dequantised import known_value
from edgetune.graph.fixed_point_calls import FixedPoint, fixed_point_of, scaled
from edgetune.graph.rewrite import DefUse, attributes

_ROUNDING = 2.0**-20
"""More than the rounding of a few operations in 24 bits."""
_LEAST = 2.0**-125
"""More than any number that is rounded to 0."""
_LARGEST = 2.0**127
_WHOLE = 2.0**24
_FLOATS = ("float32", "float64")
_EXACT = 2.0**52
"""Whole numbers up to this one are exact in the arithmetic of ranges."""
Numbers: TypeAlias = np.ndarray


@dataclass(frozen=True)
class Ranges:
    """The ends of each channel: (C,), float64."""

    low: Numbers
    high: Numbers

    @property
    def is_constant(self) -> Numbers:
        """Of each channel, whether it is one number."""
        same: Numbers = self.low == self.high
        return same

    def spread(self, channels: int) -> Ranges:
        """The same for so many channels; where these are others, what holds for all of them."""
        if len(self.low) == channels:
            return self
        return Ranges(np.full(channels, self.low.min()), np.full(channels, self.high.max()))

    def with_zero(self) -> Ranges:
        """Wide enough for 0, which padding writes."""
        return Ranges(np.minimum(self.low, 0), np.maximum(self.high, 0))


def channel_ranges(
    module: tvm.IRModule, chains: DefUse, known: Mapping[relax.Var, np.ndarray]
) -> dict[relax.Var, Ranges]:
    """The ranges of the tensors of `main`, as far as its operators are known here; `known` are constants."""
    function, found = module["main"], dict[relax.Var, Ranges]()
    reading = _Reading(module, found, chains, known)
    for variable in function.params:
        reading.add(variable, None)
    for block in function.body.blocks:
        for binding in block.bindings:
            reading.add(binding.var, reading.of(binding.value))
    return found


class _Reading:
    """Finds the range of an expression from those of the variables that it reads."""

    def __init__(
        self,
        module: tvm.IRModule,
        found: dict[relax.Var, Ranges],
        chains: DefUse,
        known: Mapping[relax.Var, np.ndarray],
    ) -> None:
        self._module, self._found, self._chains, self._known = module, found, chains, known

    def add(self, variable: relax.Var, ranges: Ranges | None) -> None:
        """Keeps what is known of a variable, at least the ends of a narrow type."""
        of = variable.ty
        if not isinstance(of, relax.TensorType) or of.shape is None or not len(of.shape):
            return
        ends = _ends(str(of.dtype))
        if ranges is None and ends is not None and str(of.dtype) != "int32":
            ranges = Ranges(np.array([float(ends[0])]), np.array([float(ends[1])]))
        if ranges is None or not _fits(ranges, str(of.dtype)):
            return
        self._found[variable] = ranges.spread(int(of.shape[-1]))

    def of(self, value: relax.Expr) -> Ranges | None:
        """The range of a variable, a constant or a call."""
        if isinstance(value, relax.Var):
            return self._of_constant(value) or self._found.get(value)
        if isinstance(value, GenericConst):
            return self._of_constant(value)
        if not isinstance(value, relax.Call):
            return None
        if not isinstance(value.op, Op) or not isinstance(value.ty, relax.TensorType) or not value.ty.shape:
            return None
        if value.op.name == "relax.call_tir":
            return self._scaled(value)
        rule = _RULES.get(value.op.name)
        return None if rule is None else rule(self, value)

    def _of_constant(self, value: relax.Expr) -> Ranges | None:
        array = known_value(value, self._chains, self._known)
        if array is None or not array.size or array.dtype.kind not in "iuf":
            return None
        rows = array.astype("float64").reshape(-1, array.shape[-1] if array.ndim else 1)
        return Ranges(rows.min(0), rows.max(0)) if np.isfinite(rows).all() else None

    def _scaled(self, call: relax.Call) -> Ranges | None:
        """Numbers of 32 bits scaled in fixed point, which grows with them."""
        scaling = fixed_point_of(call, self._module)
        ranges = None if scaling is None else self.of(scaling.value)
        if scaling is None or ranges is None:
            return None
        return _of_ends(scaling, ranges.spread(int(call.ty.shape[-1])), self._known, self._chains)

    def pair(self, call: relax.Call) -> tuple[Ranges, Ranges] | None:
        """The ranges of both operands, of as many channels as the result."""
        one, other = (self.of(argument) for argument in call.args)
        if one is None or other is None:
            return None
        channels = int(call.ty.shape[-1])
        return one.spread(channels), other.spread(channels)

    def weights(self, call: relax.Call) -> np.ndarray | None:
        """The weights of a product of int32."""
        return None if str(call.ty.dtype) != "int32" else known_value(call.args[1], self._chains, self._known)


def _of_ends(
    scaling: FixedPoint, ranges: Ranges, known: Mapping[relax.Var, np.ndarray], chains: DefUse
) -> Ranges | None:
    table = scaling.of_channels(lambda expr: known_value(expr, chains, known))
    if table is None or table.size not in (1, len(ranges.low)):
        return None
    low, high = (scaled(end.astype("int64"), table, once=scaling.once) for end in (ranges.low, ranges.high))
    return Ranges(low.astype("float64"), high.astype("float64"))


def _ends(dtype: str) -> tuple[int, int] | None:
    if not dtype.startswith(("int", "uint")) or dtype.endswith("64"):
        return None
    ends = np.iinfo(dtype)
    return int(ends.min), int(ends.max)


def _fits(ranges: Ranges, dtype: str) -> bool:
    """Whether a type holds a range: integers beyond it would wrap."""
    ends = _ends(dtype)
    if ends is None:
        return dtype in _FLOATS and bool(max(np.abs(ranges.low).max(), np.abs(ranges.high).max()) < _LARGEST)
    return bool(ranges.low.min() >= ends[0] and ranges.high.max() <= ends[1])


def _rounded(call: relax.Call, low: Numbers, high: Numbers, *sizes: Numbers) -> Ranges | None:
    """The ends of a result, wider by the rounding of floats of these `sizes`; None of floats of fewer than 24 bits.

    Rounding keeps order, and whole numbers that fit 24 bits: such ends hold as they are.
    """
    dtype = str(call.ty.dtype)
    if dtype.startswith(("int", "uint")):
        return Ranges(low, high)
    if dtype not in _FLOATS:
        return None
    whole = [(one == np.round(one)) & (np.abs(one) < _WHOLE) for one in (low, high, *sizes)]
    slack = _ROUNDING * sum(np.abs(size) for size in (low, high, *sizes)) + _LEAST
    slack = np.where(np.logical_and.reduce(whole), 0, slack)
    return Ranges(low - slack, high + slack)


Rule: TypeAlias = Callable[[_Reading, relax.Call], "Ranges | None"]


def _same(reading: _Reading, call: relax.Call) -> Ranges | None:
    """Elements of the operand, in other places, with the channels last in both."""
    ranges = reading.of(call.args[0])
    if ranges is None:
        return None
    given, made = ([int(extent) for extent in one.ty.shape][-1:] for one in (call.args[0], call))
    kept = given == made
    if call.op.name == "relax.nn.max_pool2d":
        kept = str(call.attrs.layout).endswith("C")
    if call.op.name == "relax.permute_dims":
        axes = attributes(call)["axes"]
        kept = axes is not None and int(axes[-1]) == len(call.ty.shape) - 1
    return ranges if kept else Ranges(ranges.low.min(keepdims=True), ranges.high.max(keepdims=True))


def _cast(reading: _Reading, call: relax.Call) -> Ranges | None:
    ranges = reading.of(call.args[0])
    if ranges is None:
        return None
    if str(call.ty.dtype).startswith("float"):
        return _rounded(call, ranges.low, ranges.high)
    return Ranges(np.trunc(ranges.low), np.trunc(ranges.high))


def _added(reading: _Reading, call: relax.Call) -> Ranges | None:
    found = reading.pair(call)
    if found is None:
        return None
    one, other = found
    if call.op.name == "relax.subtract":
        other = Ranges(-other.high, -other.low)
    return _rounded(call, one.low + other.low, one.high + other.high, one.low, one.high, other.low, other.high)


def _multiplied(reading: _Reading, call: relax.Call) -> Ranges | None:
    found = reading.pair(call)
    return None if found is None else _of_corners(call, *found, np.multiply)


def _divided(reading: _Reading, call: relax.Call) -> Ranges | None:
    """Quotients, of integers without their fraction; None where the divisor may be 0."""
    found = reading.pair(call)
    if found is None or (found[1].low * found[1].high <= 0).any():
        return None
    floats = str(call.ty.dtype).startswith("float")
    return _of_corners(call, *found, np.divide if floats else lambda x, y: np.trunc(x / y))


def _of_corners(
    call: relax.Call, one: Ranges, other: Ranges, function: Callable[[Numbers, Numbers], Numbers]
) -> Ranges | None:
    """The ends of a function that grows or falls along each operand: they are among those of the operands' ends."""
    values = [function(x, y) for x in (one.low, one.high) for y in (other.low, other.high)]
    return _rounded(call, np.minimum.reduce(values), np.maximum.reduce(values))


def _greater(reading: _Reading, call: relax.Call) -> Ranges | None:
    found = reading.pair(call)
    if found is None:
        return None
    choose = np.maximum if call.op.name == "relax.maximum" else np.minimum
    return Ranges(choose(found[0].low, found[1].low), choose(found[0].high, found[1].high))


def _growing(function: Callable[[Numbers], Numbers]) -> Rule:
    """A function that grows with its operand."""

    def ranges_of(reading: _Reading, call: relax.Call) -> Ranges | None:
        ranges = reading.of(call.args[0])
        return None if ranges is None else Ranges(function(ranges.low), function(ranges.high))

    return ranges_of


def _summed(reading: _Reading, call: relax.Call) -> Ranges | None:
    """A sum of integers along other axes than that of the channels."""
    ranges, axes, rank = reading.of(call.args[0]), attributes(call)["axis"], len(call.args[0].ty.shape)
    if ranges is None or axes is None or str(call.ty.dtype).startswith("float"):
        return None
    if rank - 1 in [int(axis) % rank for axis in axes]:
        return None
    count = prod(int(call.args[0].ty.shape[int(axis)]) for axis in axes)
    return Ranges(count * ranges.low, count * ranges.high)


def _convolved(reading: _Reading, call: relax.Call) -> Ranges | None:
    weights, data = reading.weights(call), reading.of(call.args[0])
    attrs = call.attrs
    if weights is None or data is None or str(attrs.data_layout)[-1] != "C" or str(attrs.kernel_layout)[-1] != "I":
        return None
    if any(int(pad) for pad in attrs.padding):
        data = data.with_zero()
    made, inner = weights.shape[0], weights.shape[-1]
    group = np.arange(made) // (made // int(attrs.groups))
    read = group[:, None] * inner + np.arange(inner)
    taps = weights.reshape(made, -1, inner).astype("float64")
    return _of_products(taps, data.low[read][:, None], data.high[read][:, None], (1, 2))


def _matrix_product(reading: _Reading, call: relax.Call) -> Ranges | None:
    weights, data = reading.weights(call), reading.of(call.args[0])
    if weights is None or data is None or weights.ndim != _MATRIX:
        return None
    return _of_products(weights.astype("float64"), data.low[:, None], data.high[:, None], 0)


_MATRIX = 2


def _of_products(weights: Numbers, low: Numbers, high: Numbers, axes: int | tuple[int, ...]) -> Ranges | None:
    """The ends of sums of products along `axes`; None where they are not exact."""
    ends = weights * low, weights * high
    found = Ranges(np.minimum(*ends).sum(axes), np.maximum(*ends).sum(axes))
    return found if max(np.abs(found.low).max(), np.abs(found.high).max()) < _EXACT else None


_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(("relax.reshape", "relax.permute_dims", "relax.nn.max_pool2d"), _same),
    **dict.fromkeys(("relax.add", "relax.subtract"), _added),
    "relax.multiply": _multiplied,
    "relax.divide": _divided,
    **dict.fromkeys(("relax.maximum", "relax.minimum"), _greater),
    "relax.astype": _cast,
    "relax.round": _growing(np.round),
    "relax.sign": _growing(np.sign),
    "relax.nn.relu": _growing(lambda end: np.maximum(end, 0)),
    "relax.sum": _summed,
    **{f"relax.nn.conv{axes}d": _convolved for axes in (1, 2, 3)},
    "relax.matmul": _matrix_product,
}
