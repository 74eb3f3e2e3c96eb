"""Widened integers: constants that are integers, moved and widened, found in the kernels that make them of others.

A quantised weight is (q - zero point) * scale, with one scale for all, one per channel or one per block. What moves it
(a transpose, a reshape, a slice, zeros around it, a concatenation) moves its integers when the package is built.

`widened` reads a kernel on whole arrays. An index is an array over the axes of its stage, so a scale keeps an extent of
1 along the axes along which it does not change.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

import numpy as np
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import is_branch
from edgetune.graph.written_loops import is_written
from edgetune.tvm_types import Expr, PrimFunc, SBlock, Stmt, TvmBuffer, Var

STORED = ("int8", "uint8", "int16", "uint16")
"""The integer types that are stored and widened."""


@dataclass(frozen=True)
class Widened:
    """The numbers (integers - zeros) * scales, of one shape, in `dtype`, which the scales have as well.

    `zeros` (int32) and `scales` have the axes of `integers`, or extent 1 where they are the same along an axis. Where
    the array of integers numbers places instead, `stored` is the type of the integers there.
    """

    integers: np.ndarray
    dtype: str
    zeros: np.ndarray
    scales: np.ndarray | None = None
    stored: str = ""

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of its axes."""
        return self.integers.shape

    @property
    def parameters(self) -> int:
        """How many zero points or scales it has, whichever are more."""
        return max(self.zeros.size, 1 if self.scales is None else self.scales.size)

    def numbers(self) -> np.ndarray:
        """What it stands for."""
        whole = self.integers
        if self.zeros.any():
            whole = whole.astype("int32") - self.zeros
        wide = whole.astype(self.dtype)
        return np.asarray(wide if self.scales is None else (wide * self.scales).astype(self.dtype), order="C")

    def reshape(self, shape: Sequence[int]) -> Widened:
        """The same numbers, in order, in another shape."""

        def moved(array: np.ndarray) -> np.ndarray:
            if array.size == 1:
                return array.reshape([1] * len(shape))
            return _narrowed(np.broadcast_to(array, self.shape).reshape(shape))

        scales = None if self.scales is None else moved(self.scales)
        return replace(self, integers=self.integers.reshape(shape), zeros=moved(self.zeros), scales=scales)


def _narrowed(array: np.ndarray) -> np.ndarray:
    """`array` with extent 1 along each axis along which all elements are the same."""
    for axis in range(array.ndim):
        first = array.take([0], axis)
        if array.shape[axis] > 1 and np.array_equal(np.broadcast_to(first, array.shape), array):
            array = first
    return array


# What a kernel makes of constants ------------------------------------------------------------------------------------

Value: TypeAlias = "np.ndarray | Widened"
"""A constant: plain, or integers that are widened."""


class UnknownError(Exception):
    """A kernel does more than move and widen constants."""


def stored(array: np.ndarray) -> Widened | None:
    """Integers of at most 16 bits, which only wider numbers are made of so far; None for other arrays."""
    if array.dtype.name not in STORED or not array.ndim:
        return None
    return Widened(array, array.dtype.name, np.zeros([1] * array.ndim, "int32"))


def widened(function: PrimFunc, arguments: Sequence[Value]) -> Widened | None:
    """What an unscheduled `function` of one output makes of constants, if it widens integers; None if it does not."""
    found = moved(function, arguments)
    return None if found is None or found.dtype in STORED else found


def moved(function: PrimFunc, arguments: Sequence[Value]) -> Widened | None:
    """Integers that an unscheduled `function` of one output moves or widens; None if it does more, or has none."""
    root = function.body
    if is_written(function) or not isinstance(root, s_tir.SBlockRealize) or root.block.match_buffers:
        return None
    body = root.block.body
    blocks = stage_blocks(body.seq if isinstance(body, tirx.SeqStmt) else [body])
    if blocks is None or len(function.params) != len(arguments) + 1:
        return None
    values: dict[TvmBuffer, Value] = {}
    for param, argument in zip(function.params, arguments, strict=False):
        values[param] = argument if isinstance(argument, Widened) else stored(argument) or argument
    if not any(isinstance(value, Widened) for value in values.values()):
        return None
    try:
        found = read_stages(blocks, values).get(function.params[-1])
    except UnknownError:
        return None
    return found if isinstance(found, Widened) else None


def stage_blocks(statements: Sequence[Stmt]) -> list[SBlock] | None:
    """The blocks of statements each of which stores one value per place; None if one does more."""
    found = []
    for statement in statements:
        while isinstance(statement, tirx.For):
            statement = statement.body  # noqa: PLW2901
        if not isinstance(statement, s_tir.SBlockRealize) or statement.block.init is not None:
            return None
        if not isinstance(statement.block.body, tirx.BufferStore):
            return None
        found.append(statement.block)
    return found


def read_stages(blocks: Sequence[SBlock], values: Mapping[TvmBuffer, Value]) -> dict[TvmBuffer, Value]:
    """The tensors that blocks store, computed on whole arrays, and those `values` that are known before.

    Raises UnknownError if they do more than move and widen constants.
    """
    known = dict(values)
    for block in blocks:
        _Reading(known).run(block)
    return known


class _Reading:
    """Computes what blocks store, on whole arrays; `values` holds the tensors known so far."""

    def __init__(self, values: dict[TvmBuffer, Value]) -> None:
        self._values = values
        self._places: dict[Var, np.ndarray] = {}

    def run(self, block: SBlock) -> None:
        """Adds what a block stores."""
        axes, store = block.iter_vars, block.body
        shape = [int(axis.dom.extent) for axis in axes]
        if any(int(axis.dom.min) for axis in axes) or shape != [int(extent) for extent in store.buffer.shape]:
            raise UnknownError
        for number, (axis, index) in enumerate(zip(axes, store.indices, strict=True)):
            if not (index.same_as(axis.var) or (shape[number] == 1 and isinstance(index, tirx.IntImm))):
                raise UnknownError
            extents = [shape[number] if other == number else 1 for other in range(len(shape))]
            self._places[axis.var] = np.arange(shape[number]).reshape(extents)
        value = self._value(store.value)
        if isinstance(value, Widened):
            rank = [1] * len(shape)
            scales = None if value.scales is None else _narrowed(value.scales.reshape(value.scales.shape or rank))
            whole = np.asarray(np.broadcast_to(value.integers, shape), order="C")
            value = replace(
                value, integers=whole, zeros=_narrowed(value.zeros.reshape(value.zeros.shape or rank)), scales=scales
            )
        else:
            value = np.broadcast_to(value, shape)
        self._values[store.buffer] = value

    def _value(self, e: Expr) -> Value:
        if isinstance(e, ir.TensorLoad):
            return self._load(e)
        if isinstance(e, tirx.IntImm | tirx.FloatImm):
            return np.asarray(e.value, str(e.ty.dtype))
        if isinstance(e, tirx.Cast):
            return self._cast(self._value(e.value), str(e.ty.dtype))
        if is_branch(e) or isinstance(e, tirx.Select):
            sides = e.args if is_branch(e) else (e.condition, e.true_value, e.false_value)
            return _chosen(self._array(sides[0]), self._value(sides[1]), self._value(sides[2]))
        if isinstance(e, tirx.Mul):
            return _product(self._value(e.a), self._value(e.b))
        if isinstance(e, tirx.Sub):
            return _difference(self._value(e.a), self._value(e.b))
        if isinstance(e, tirx.Add):
            return _sum(self._value(e.a), self._value(e.b))
        return self._array(e)

    def _array(self, e: Expr) -> np.ndarray:
        """An index, a condition, or another value of arrays alone."""
        if isinstance(e, tirx.Var):
            if e not in self._places:
                raise UnknownError
            return self._places[e]
        if isinstance(e, tirx.Not):
            return ~self._array(e.a)
        function = next((function for kind, function in _OF_TWO.items() if isinstance(e, kind)), None)
        if function is not None:
            return np.asarray(function(self._array(e.a), self._array(e.b)))
        if not isinstance(e, ir.TensorLoad | tirx.IntImm | tirx.FloatImm | tirx.Cast):
            raise UnknownError
        value = self._value(e)
        if isinstance(value, Widened):
            raise UnknownError
        return value

    def _load(self, load: Expr) -> Value:
        value = self._values.get(load.source)
        if value is None:
            raise UnknownError
        places = [self._array(index) for index in load.indices]

        def at(array: np.ndarray) -> np.ndarray:
            """A place outside is read where another side is chosen."""
            inside = (np.clip(p, 0, extent - 1) for p, extent in zip(places, array.shape, strict=True))
            return np.asarray(array[tuple(inside)])

        if not isinstance(value, Widened):
            return at(value)
        scales = None if value.scales is None else at(value.scales)
        return replace(value, integers=at(value.integers), zeros=at(value.zeros), scales=scales)

    def _cast(self, value: Value, dtype: str) -> Value:
        if not isinstance(value, Widened):
            return value.astype(dtype)
        if dtype == value.dtype:
            return value
        if value.scales is not None or dtype not in _AFTER.get(value.dtype, ()):
            raise UnknownError
        return replace(value, dtype=dtype)


_OF_TWO: Mapping[type, Callable[[np.ndarray, np.ndarray], np.ndarray]] = {
    tirx.Add: operator.add,
    tirx.Sub: operator.sub,
    tirx.Mul: operator.mul,
    tirx.FloorDiv: operator.floordiv,
    tirx.FloorMod: operator.mod,
    tirx.Min: np.minimum,
    tirx.Max: np.maximum,
    tirx.LT: operator.lt,
    tirx.LE: operator.le,
    tirx.GT: operator.gt,
    tirx.GE: operator.ge,
    tirx.EQ: operator.eq,
    tirx.NE: operator.ne,
    tirx.And: operator.and_,
    tirx.Or: operator.or_,
}

_AFTER = {
    **dict.fromkeys(STORED, ("int32", "float32", "float64")),
    "int32": ("float32", "float64"),
}
"""The types into which integers widen without a change of their values: they have at most 17 bits with a zero point."""


def _chosen(condition: np.ndarray, one: Value, other: Value) -> Value:
    """A choice between two parts of constants, or between a part and zero, which is its zero point."""
    if not isinstance(one, Widened) and not isinstance(other, Widened):
        return np.where(condition, one, other)
    if not isinstance(one, Widened) or not isinstance(other, Widened):
        part, rest, own = (one, other, condition) if isinstance(one, Widened) else (other, one, ~condition)
        if not isinstance(part, Widened) or not isinstance(rest, np.ndarray) or rest.any():
            raise UnknownError
        zeros = part.zeros.astype(part.integers.dtype)
        if not np.array_equal(zeros, part.zeros):
            raise UnknownError
        return replace(part, integers=np.where(own, part.integers, zeros))
    if one.dtype != other.dtype or one.integers.dtype != other.integers.dtype:
        raise UnknownError
    scales = None
    if one.scales is not None and other.scales is not None:
        scales = np.where(condition, one.scales, other.scales)
    elif one.scales is not None or other.scales is not None:
        raise UnknownError
    return Widened(
        np.where(condition, one.integers, other.integers),
        one.dtype,
        np.where(condition, one.zeros, other.zeros),
        scales,
    )


def _product(one: Value, other: Value) -> Value:
    """A product of arrays, or of a constant with scales."""
    if not isinstance(one, Widened) and not isinstance(other, Widened):
        return one * other
    if isinstance(one, Widened) and isinstance(other, Widened):
        raise UnknownError
    part, factor = (one, other) if isinstance(one, Widened) else (other, one)
    if not isinstance(part, Widened) or not isinstance(factor, np.ndarray) or part.dtype in STORED:
        raise UnknownError
    if not part.dtype.startswith("float"):
        return _whole_product(part, factor)
    scales = factor.astype(part.dtype) if part.scales is None else _joined(part.scales, factor, part.dtype)
    if not np.isfinite(scales).all():  # an integer of 0 would make NaN of it
        raise UnknownError
    return replace(part, scales=scales)


def _whole_product(part: Widened, factor: np.ndarray) -> Widened:
    """Integers times whole numbers, of which none may overflow, whatever the integers are."""
    limits = np.iinfo(part.stored or part.integers.dtype)
    most = max(int(np.abs(limit - part.zeros.astype("int64")).max()) for limit in (limits.min, limits.max))
    scales = factor.astype("int64") * (1 if part.scales is None else part.scales)
    if int(np.abs(scales).max(initial=0)) * most > np.iinfo(part.dtype).max:
        raise UnknownError
    return replace(part, scales=scales.astype(part.dtype))


def _joined(scales: np.ndarray, factor: np.ndarray, dtype: str) -> np.ndarray:
    """Scales times a factor; an overflow or underflow, which each number would not have, is not a scale."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        product = np.asarray(scales * factor, dtype)
    smallest = np.finfo(dtype).smallest_normal
    if ((np.abs(product) < smallest) & (scales != 0) & (factor != 0)).any():
        raise UnknownError
    return product


def _difference(one: Value, other: Value) -> Value:
    """A difference of arrays, or of integers and their zero point."""
    if not isinstance(one, Widened):
        if isinstance(other, Widened):
            raise UnknownError
        return one - other
    zero = _whole_numbers(other)
    if one.scales is not None or one.dtype in STORED or one.zeros.any():
        raise UnknownError
    return replace(one, zeros=zero)


def _sum(one: Value, other: Value) -> Value:
    """A sum of arrays, or of integers and a number: less a zero point below 0, as TVM writes it."""
    if isinstance(one, Widened) and not isinstance(other, Widened):
        return _difference(one, -other)
    if isinstance(one, Widened) or isinstance(other, Widened):
        raise UnknownError
    return one + other


def _whole_numbers(value: Value) -> np.ndarray:
    """Zero points as int32; they may be stored, or floats, but are among 16 bits."""
    if isinstance(value, Widened):
        if value.scales is not None:
            raise UnknownError
        value = value.numbers()
    whole = value.astype("int32")
    if not np.array_equal(whole, value) or np.abs(whole).max(initial=0) > np.iinfo("uint16").max:
        raise UnknownError
    return whole
