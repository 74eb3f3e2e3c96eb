"""Which axes of a sum of products are rows, columns and steps of a product of two matrices."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from math import prod

from tvm import ir, tirx

from edgetune.affine.expressions import mentions
from edgetune.schedule.sketches.block_analysis import BlockAnalysis, BlockStage, extent_of, stores
from edgetune.tvm_types import BufferRegion, Expr, IterVar

_OTHERS, *_OF_PRODUCT = range(4)
_ROWS, _COLUMNS, _SUMS = _OF_PRODUCT


@dataclass(frozen=True)
class MatrixRoles:
    """The roles of the axes of `stage`, in its order, and the numbers of the operands among its reads.

    `packed` tells that the right operand is a weight whose layout is free; `of` is the type of both operands.
    """

    stage: BlockStage
    roles: tuple[int, ...]
    left: int
    right: int
    packed: bool
    of: str

    @property
    def extents(self) -> tuple[int, int, int]:
        """Rows, columns and steps of the sum."""
        rows, columns, sums = (prod(extent_of(self._axes[n]) for n in self._with(role)) for role in _OF_PRODUCT)
        return rows, columns, sums

    @property
    def others(self) -> int:
        """Products that share nothing."""
        return prod(extent_of(self._axes[n]) for n in self._with(_OTHERS))

    @property
    def ones(self) -> list[int]:
        """1 for the axis of the products, if there is one."""
        return [1] if self._with(_OTHERS) else []

    def fused(self, numbers: Sequence[int], axes: Sequence[Expr]) -> list[Expr]:
        """Axes of the stage with those numbers, joined by role: products, rows, columns, steps; those there are."""
        found: dict[int, Expr] = {}
        for number, axis in zip(numbers, axes, strict=True):
            role = self.roles[number]
            found[role] = found[role] * extent_of(self._axes[number]) + axis if role in found else axis
        return [found[role] for role in sorted(found)]

    @cached_property
    def _axes(self) -> tuple[IterVar, ...]:
        return (*self.stage.spatial, *self.stage.reduction)

    def _with(self, role: int) -> list[int]:
        return [number for number, of in enumerate(self.roles) if of == role]


def _mentioned(stage: BlockStage, read: BufferRegion) -> list[int]:
    """Numbers of the axes of several elements that an operand's indices mention."""
    axes = (*stage.spatial, *stage.reduction)
    long = [number for number, axis in enumerate(axes) if extent_of(axis) > 1]
    return [number for number in long if any(mentions(item.min, axes[number].var) for item in read.region)]


def matrix_roles(analysis: BlockAnalysis, stage: BlockStage) -> MatrixRoles | None:
    """The roles, if the stage sums up products of two operands of one type, as float; else None."""
    reads = stage.reads()
    if len(reads) != 2 or not _is_product(stage):  # noqa: PLR2004  factors
        return None
    first, second = (set(_mentioned(stage, read)) for read in reads)
    channel = len(stage.spatial) - 1
    left, right = (0, 1) if channel in second else (1, 0)
    of_left, of_right = (first, second) if left == 0 else (second, first)
    roles = []
    for number, axis in enumerate((*stage.spatial, *stage.reduction)):
        in_left, in_right = number in of_left, number in of_right
        if number >= len(stage.spatial):
            if in_left != in_right and extent_of(axis) > 1:
                return None
            roles.append(_SUMS)
        else:
            roles.append(_OTHERS if in_left and in_right else _COLUMNS if in_right else _ROWS)
    lacking = ({_ROWS, _SUMS} - {roles[n] for n in of_left}) | ({_COLUMNS, _SUMS} - {roles[n] for n in of_right})
    if lacking:  # a role that no axis has
        return None
    types = {str(read.source.ty.dtype) for read in reads}
    packed = any(reads[right].source.same_as(weight) for weight in analysis.packed())
    return MatrixRoles(stage, tuple(roles), left, right, packed, types.pop()) if len(types) == 1 else None


def _is_product(stage: BlockStage) -> bool:
    """Whether each step adds the product of two elements, each of which is widened to float."""
    found = list(stores(stage.block.body))
    value = found[0].value if len(found) == 1 else None
    if not isinstance(value, tirx.Add) or not isinstance(value.b, tirx.Mul):
        return False
    factors = (value.b.a, value.b.b)
    return all(
        isinstance(factor, tirx.Cast) and str(factor.ty) == "float32" and isinstance(factor.value, ir.TensorLoad)
        for factor in factors
    )
