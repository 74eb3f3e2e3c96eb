"""Scans as tensor expressions: running sums and products, for which TVM uses its run-time library."""

from __future__ import annotations

import operator
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from tvm import relax, te, tirx
from tvm.ir import GenericConst
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.errors import UnsupportedOperator

_LONG = 256
"""Elements from which on a scan has blocks."""

_LANES = 8


def constant_value(operator: str, what: str, value: Any) -> np.ndarray:
    """The value of a constant operand; otherwise raises UnsupportedOperator, which names operator and operand."""
    if not isinstance(value, GenericConst):
        raise UnsupportedOperator(f"operator {operator} computes its {what} at run time; make it constant in the model")
    array: np.ndarray = value.value.numpy()
    return array


@dataclass(frozen=True)
class Scan:
    """A running sum or product: `combine` reduces terms, `join` two values, and `neutral` changes neither.

    The sum of a block alone may overflow where the running sum does not. So blocks are summed from `scale` times their
    elements, a power of two, and the result is divided by it. Only elements near the smallest normal number lose bits.
    """

    combine: Callable[..., Any]
    join: Callable[[Any, Any], Any]
    neutral: int
    exclusive: bool
    reverse: bool
    scale: float = 1.0

    def along(self, x: te.Tensor, axis: int, name: str = "scan") -> te.Tensor:
        """Each element from all that precede it: quadratic work, but parallel and without state."""
        k = te.reduce_axis((0, x.shape[axis]), "k")

        def element(*i: Any) -> Any:
            here = i[axis]
            if self.reverse:
                inside = k > here if self.exclusive else k >= here
            else:
                inside = k < here if self.exclusive else k <= here
            value = x(*(k if a == axis else v for a, v in enumerate(i)))
            return self.combine(tirx.Select(inside, value, tirx.const(self.neutral, str(x.dtype))), axis=k)

        return te.compute(x.shape, element, name=name)

    def totals(self, x: te.Tensor, axis: int) -> te.Tensor:
        """The combination of all elements along `axis`."""
        k = te.reduce_axis((0, x.shape[axis]), "k")
        others = [*x.shape[:axis], *x.shape[axis + 1 :]]
        return te.compute(
            others, lambda *i: self.combine(_times(x(*i[:axis], k, *i[axis:]), self.scale, x), axis=k), name="totals"
        )

    def joined(self, x: te.Tensor, before: te.Tensor, axis: int) -> te.Tensor:
        """The scan along `axis` of each block, and what precedes the block: `before` lacks the axis."""
        scaled = x if self.scale == 1 else te.compute(x.shape, lambda *i: _times(x(*i), self.scale, x), "scaled")
        own = self.along(scaled, axis, "own")

        def whole(*i: Any) -> Any:
            return _times(self.join(before(*i[:axis], *i[axis + 1 :]), own(*i)), 1 / self.scale, x)

        return te.compute(x.shape, whole, name="scan")


def _times(value: Any, factor: float, like: te.Tensor) -> Any:
    """`value` of the type of `like`, times `factor`."""
    return value if factor == 1 else value * tirx.const(factor, str(like.dtype))


def block_of(extent: int, lanes: int) -> int:
    """The elements of a block of a scan of `extent` elements; all of them where blocks are not worth their kernels.

    n elements in blocks of b take n b + (n / b)^2 steps, about n^(4/3) at best, instead of n^2 (G. E. Blelloch, Prefix
    Sums and Their Applications, 1990, section 1.2). `lanes` run along a block that they divide.
    """
    if extent < _LONG:
        return extent

    def steps(block: int) -> float:
        return extent * block * (1 if block % lanes == 0 else lanes) + (extent / block) ** 2

    return min((block for block in range(2, extent + 1) if extent % block == 0), key=steps)


class CumSum(tvm_onnx.OnnxOpConverter):
    """Running sums along a constant axis."""

    combine: Any = staticmethod(te.sum)
    join: Any = staticmethod(operator.add)
    neutral = 0
    in_blocks: Any = frozenset({"float32", "float64", "int32", "int64", "uint32", "uint64"})
    """Types whose scans have blocks: the sum of a block alone may be out of the range of a smaller float."""

    @classmethod
    def _impl_v11(cls, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], params: Any) -> relax.Expr:
        x = inputs[0]
        shape = [int(extent) for extent in x.ty.shape]
        axis = int(constant_value(cls.__name__, "axis", inputs[1]).reshape(-1)[0]) % len(shape)
        scan = Scan(cls.combine, cls.join, cls.neutral, bool(attr.get("exclusive", 0)), bool(attr.get("reverse", 0)))
        whole = str(x.ty.dtype) not in cls.in_blocks
        block = shape[axis] if whole else block_of(shape[axis], _LANES if axis == len(shape) - 1 else 1)
        if block == shape[axis]:
            return bb.emit_te(scan.along, x, axis)
        split = [*shape[:axis], shape[axis] // block, block, *shape[axis + 1 :]]
        blocks = bb.emit(relax.op.reshape(x, split))
        scan = replace(scan, scale=cls.scale(shape[axis], str(x.ty.dtype)))
        totals = bb.emit_te(scan.totals, blocks, axis + 1)
        before = bb.emit_te(replace(scan, exclusive=True).along, totals, axis)
        return relax.op.reshape(bb.emit_te(scan.joined, blocks, before, axis + 1), shape)

    @classmethod
    def scale(cls, extent: int, dtype: str) -> float:
        """A power of two by which the sum of any `extent` floats is one; 1 for integers, which wrap."""
        return 0.5 ** extent.bit_length() if dtype.startswith("float") else 1.0


class CumProd(CumSum):
    """Running products along a constant axis."""

    combine: Any = staticmethod(te.comm_reducer(lambda a, b: a * b, lambda dtype: tirx.const(1, dtype), name="prod"))
    join: Any = staticmethod(operator.mul)
    neutral = 1
    in_blocks = frozenset({"int32", "int64", "uint32", "uint64"})  # a block alone may overflow, and 0 * inf is NaN
