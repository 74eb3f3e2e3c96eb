"""Stored integers: a constant that only widens integers lies in memory as these, and each kernel widens what it reads.

The integers take a quarter of the memory of the numbers; those of at most 16 values lie two to a byte. Scales and zero
points have one element for each channel or block. Where a scale is the same for all terms of a sum, it is applied to
the sum.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd, prod

import numpy as np
from tvm import ir, tirx

from edgetune.affine.expressions import mentions
from edgetune.graph.kernels import PACKED, SCALES, STORED_PARTS, ZERO_POINTS
from edgetune.graph.reduction_stage import (
    ReductionStage,
    buffer_of,
    factors_of,
    reduction_of,
    variable,
    with_inlined,
    with_stages,
)
from edgetune.graph.widened_integers import STORED, Widened
from edgetune.tvm_types import Expr, PrimFunc, Stmt, TvmBuffer

_VALUES = 16
"""The values of four bits."""
_LEAST_PACKED = 64
"""Fewer elements are not packed: the code that unpacks them takes more memory than it saves."""
_MOST_SHARE = 0.9
"""Integers, scales and zero points take at most this share of the memory of the numbers."""


@dataclass(frozen=True)
class _Part:
    """An array of which the element at a place of the constant is at `(place // run) % extent`, for each of its axes.

    `axes` has axis, run and whether there is a remainder. `packed` is the axis whose first half is in the low bits of
    the bytes, and the second half in the high bits; `least` is then the number that four bits of 0 stand for. An
    element is then 16 times the integer, and the scale undoes that: the bits move up by a factor, which vectors have,
    and not down. The one element of an `immediate` part is in the code, not in memory.
    """

    array: np.ndarray
    axes: tuple[tuple[int, int, bool], ...]
    packed: int | None = None
    least: int = 0
    immediate: bool = False

    def element(self, buffer: TvmBuffer | None, place: Sequence[Expr]) -> Expr:
        """The element at a place: 16 times the integer, in 32 bits, where it is packed, otherwise what is stored."""
        if buffer is None:
            return tirx.const(self.array.reshape(-1)[0].item(), self.array.dtype.name)
        if not self.axes:
            return tirx.BufferLoad(buffer, [tirx.IntImm(str(extent.ty.dtype), 0) for extent in buffer.shape])
        indices = []
        for (axis, run, wraps), extent in zip(self.axes, self.array.shape, strict=True):
            index = place[axis] if run == 1 else tirx.floordiv(place[axis], run)
            indices.append(tirx.floormod(index, extent) if wraps else index)
        load = tirx.BufferLoad(buffer, indices)
        if self.packed is None:
            return load
        second = tirx.Cast("int32", tirx.floordiv(place[self.packed], self.array.shape[self.packed]))
        moved = tirx.Cast("int32", load) * (_VALUES - second * (_VALUES - 1))
        bits = tirx.bitwise_and(moved, tirx.const((_VALUES - 1) * _VALUES, "int32"))
        return bits + tirx.const(self.least * _VALUES, "int32") if self.least else bits


@dataclass(frozen=True)
class StoredIntegers:
    """How a constant of `shape` and element type `dtype` lies in memory."""

    shape: tuple[int, ...]
    dtype: str
    integers: _Part
    zeros: _Part | None
    scales: _Part | None

    @property
    def parts(self) -> list[_Part]:
        """The arrays in memory, as `with_stored` expects them."""
        return [part for part in (self.integers, self.zeros, self.scales) if part is not None and not part.immediate]

    @property
    def kinds(self) -> list[str]:
        """Which part each of them is; "" for integers whose layout is free."""
        integers = "" if self.integers.packed is None else PACKED
        others = [(ZERO_POINTS, self.zeros), (SCALES, self.scales)]
        return [integers, *(kind for kind, part in others if part is not None and not part.immediate)]

    @property
    def arrays(self) -> list[np.ndarray]:
        """What lies in memory."""
        return [part.array for part in self.parts]

    def number(self, buffers: Sequence[TvmBuffer], place: Sequence[Expr]) -> Expr:
        """The number at a place, from the buffers of the parts."""
        given = iter(buffers)
        integer = self.integers.element(next(given), place)
        others = [
            part.element(None if part.immediate else next(given), place)
            for part in (self.zeros, self.scales)
            if part is not None
        ]
        if self.zeros is not None:
            zero = tirx.Cast("int32", others.pop(0))
            times = zero if self.integers.packed is None else zero * tirx.const(_VALUES, "int32")
            integer = tirx.Cast("int32", integer) - times
        number = integer if str(integer.ty.dtype) == self.dtype else tirx.Cast(self.dtype, integer)
        return number * others[0] if others else number


def stored_integers(constant: Widened) -> StoredIntegers | None:
    """The smallest form of a constant; None where the numbers themselves take hardly more."""
    forms = []
    for integers, zeros in _integer_parts(constant):
        scales = constant.scales
        if integers.packed is not None:
            scales = (np.ones([1] * len(constant.shape)) if scales is None else scales) / _VALUES
        compact = None if scales is None else _compact(scales.astype(constant.dtype))
        forms.append(StoredIntegers(constant.shape, constant.dtype, integers, zeros, compact))
    best = min(forms, key=_bytes)
    numbers = prod(constant.shape) * np.dtype(constant.dtype).itemsize
    return best if _bytes(best) <= _MOST_SHARE * numbers else None


def widened_when_read(tensor: Widened) -> StoredIntegers:
    """The form of a tensor that is computed at run time: its integers lie as they are, and its parts are constant.

    The array of the integers says only their shape and type.
    """
    zeros = _in_code(_compact(tensor.zeros.astype("int32"))) if tensor.zeros.any() else None
    scales = None if tensor.scales is None else _in_code(_compact(tensor.scales))
    return StoredIntegers(
        tensor.shape, tensor.dtype, _whole(tensor.integers, tensor.integers.dtype.name), zeros, scales
    )


def _in_code(part: _Part) -> _Part:
    return replace(part, immediate=part.array.size == 1)


def _bytes(form: StoredIntegers) -> int:
    return sum(array.nbytes for array in form.arrays)


def _integer_parts(constant: Widened) -> list[tuple[_Part, _Part | None]]:
    """Integers and zero points; without these where the differences fit into as few bytes."""
    stored = constant.integers
    found: list[tuple[_Part, _Part | None]] = []
    whole = _packed if constant.dtype.startswith("float") else _whole
    centred = stored.astype("int32") - constant.zeros
    small = [name for name in STORED if np.dtype(name).itemsize <= stored.dtype.itemsize]
    fitting = next((name for name in small if _fits(centred, name)), None)
    if fitting is not None:
        found.append((whole(centred, fitting), None))
    if constant.zeros.any():
        zeros = next((name for name in (*STORED, "int32") if _fits(constant.zeros, name)), "int32")
        found.append((whole(stored, stored.dtype.name), _compact(constant.zeros.astype(zeros))))
    return found


def _fits(array: np.ndarray, dtype: str) -> bool:
    limits = np.iinfo(dtype)
    return bool(array.min(initial=0) >= limits.min and array.max(initial=0) <= limits.max)


def _whole(array: np.ndarray, dtype: str) -> _Part:
    """An element for each place."""
    return _Part(np.asarray(array.astype(dtype), order="C"), tuple((axis, 1, False) for axis in range(array.ndim)))


def _packed(array: np.ndarray, dtype: str) -> _Part:
    """An element for each place; two of them in a byte if they are of 16 values."""
    plain = _whole(array, dtype)
    least, most = int(array.min(initial=0)), int(array.max(initial=0))
    axis = next((axis for axis, extent in enumerate(array.shape) if extent % 2 == 0), None)
    if axis is None or most - least >= _VALUES or array.size < _LEAST_PACKED:
        return plain
    if least >= -_VALUES // 2 and most < _VALUES // 2:
        least = -_VALUES // 2  # the same for all that is signed, so that equal layers have equal kernels
    first, second = np.split((array.astype("int32") - least).astype("uint8"), 2, axis)
    halves = tuple((one, run, one == axis) for one, run, _ in plain.axes)
    return _Part(np.ascontiguousarray(first | second << 4), halves, axis, least)


def _compact(array: np.ndarray) -> _Part:
    """An array with an element for each run of equal ones along its axes, and for the first of equal periods."""
    axes: list[tuple[int, int, bool]] = []
    for axis, extent in enumerate(array.shape):
        if extent == 1:
            continue
        rows = np.moveaxis(array, axis, 0).reshape(extent, -1)
        run = gcd(*(int(place) + 1 for place in np.flatnonzero((rows[1:] != rows[:-1]).any(1)))) or extent
        rows = rows[::run]
        alike = (int(place) for place in np.flatnonzero((rows == rows[0]).all(1)) if place)
        period = next((n for n in alike if np.array_equal(rows[n:], rows[:-n])), len(rows))
        array = array.take(range(0, period * run, run), axis)
        if period > 1:
            axes.append((axis, run, period < len(rows)))
    shape = [extent for extent in array.shape if extent > 1] or [1]
    return _Part(np.ascontiguousarray(array.reshape(shape)), tuple(axes))


# The kernels that read them -------------------------------------------------------------------------------------------


def with_stored(function: PrimFunc, forms: Mapping[int, StoredIntegers]) -> PrimFunc:
    """An unscheduled `function` that reads the parts of `forms`, by parameter, instead of these parameters.

    The parts of a parameter are parameters in its place. Only the layout of integers that are not packed may be free.
    """
    params: list[TvmBuffer] = []
    stages: list[ReductionStage] = []
    kinds: list[str] = []
    for number, param in enumerate(function.params):
        if number not in forms:
            params.append(param)
            kinds.append("")
            continue
        form, index_type = forms[number], str(param.shape[0].ty.dtype) if len(param.shape) else "int64"
        axes = [(variable(f"i{axis}", index_type), extent) for axis, extent in enumerate(form.shape)]
        buffers = [_buffer(f"{param.name}_{n}", part.array, index_type) for n, part in enumerate(form.parts)]
        params += buffers
        kinds += form.kinds
        place = [axis for axis, _ in axes]
        stages.append(ReductionStage("widened", param, tuple(place), tuple(axes), (), form.number(buffers, place)))
    scales = [number for number, kind in enumerate(kinds) if kind == SCALES]
    return _scaled_sums(with_inlined(function, params, stages), scales).with_attr(STORED_PARTS, kinds)


def _buffer(name: str, array: np.ndarray, index_type: str) -> TvmBuffer:
    return tirx.decl_buffer([tirx.IntImm(index_type, extent) for extent in array.shape], array.dtype.name, name)


def _scaled_sums(function: PrimFunc, scales: Sequence[int]) -> PrimFunc:
    """`function` with each factor of a sum's terms that is one of the parameters `scales` after the sum, if it can."""
    buffers = [function.params[number] for number in scales]

    def stages(statement: Stmt) -> list[ReductionStage]:
        whole = reduction_of(statement)
        if whole is None or whole.combine is not tirx.Add or not _begins_at_zero(whole):
            return []
        factors = list(factors_of(whole.term))
        common = [factor for factor in factors if _is_common(factor, whole, buffers)]
        if not common or len(common) == len(factors):
            return []
        rest = [factor for factor in factors if not any(factor.same_as(one) for one in common)]
        sums = buffer_of(f"{whole.out.name}_sum", whole.spatial, str(whole.out.dtype))
        place = tuple(axis for axis, _ in whole.spatial)
        scaled = _product([tirx.BufferLoad(sums, list(place)), *common])
        return [
            replace(whole, out=sums, at=place, term=_product(rest)),
            ReductionStage(f"{whole.name}_scaled", whole.out, whole.at, whole.spatial, (), scaled),
        ]

    return with_stages(function, stages)


def _begins_at_zero(whole: ReductionStage) -> bool:
    return isinstance(whole.first, tirx.FloatImm) and float(whole.first.value) == 0.0


def _is_common(factor: Expr, whole: ReductionStage, buffers: Sequence[TvmBuffer]) -> bool:
    """Whether a factor is an element of one of `buffers`, the same for all terms of a sum."""
    if not isinstance(factor, ir.TensorLoad) or not any(factor.source.same_as(one) for one in buffers):
        return False
    return not any(mentions(index, axis) for index in factor.indices for axis, _ in whole.summed)


def _product(factors: Sequence[Expr]) -> Expr:
    product = factors[0]
    for factor in factors[1:]:
        product = product * factor
    return product
