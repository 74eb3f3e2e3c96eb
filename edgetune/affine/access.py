"""Accesses: how a load or a store of an element moves through its tensor."""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field

from tvm import tirx

from edgetune.affine.domain import Domain
from edgetune.affine.expressions import mentions
from edgetune.affine.linear import linear
from edgetune.affine.steps import step_along, steps_in_blocks
from edgetune.tvm_types import BufferLoad, BufferStore, Expr, IterVar, TvmBuffer, Var


@dataclass(frozen=True)
class Access:
    """An element of a tensor at places of a domain: an index for each axis of the tensor."""

    tensor: TvmBuffer
    indices: Sequence[Expr]
    domain: Domain = field(default_factory=lambda: Domain({}))

    @classmethod
    def of(cls, node: BufferLoad | BufferStore, domain: Domain | None = None) -> Access:
        """The access of a load or of a store."""
        tensor = node.buffer if isinstance(node, tirx.BufferStore) else node.source
        return cls(tensor, list(node.indices), domain or Domain({}))

    @property
    def shape(self) -> tuple[int, ...]:
        """Extents of the axes of the tensor."""
        return tuple(int(extent) for extent in self.tensor.ty.shape)

    def places(self, axis: Var) -> list[int]:
        """The axes of the tensor along which the access moves with `axis`."""
        return [number for number, index in enumerate(self.indices) if mentions(index, axis)]

    def step(self, axis: Var) -> int | None:
        """By how many elements of a tensor without gaps it moves with `axis`, place by place; None where that changes.

        The axis may count through several axes of the tensor, which shows where the domain has it.
        """
        return step_along(self._place(axis), axis, self.domain)

    def joint_step(self, axes: Sequence[IterVar]) -> int | None:
        """By how many elements it moves with `axes` that count as one, of which the last is the innermost.

        Then a step of each is as long as all of the axis inside of it. None where they do not count as one, as where
        the place is no linear form of them, and 0 where it moves with none of them.
        """
        if not any(self.places(axis.var) for axis in axes):
            return 0

        def apart(part: Expr) -> Hashable | None:
            return None if any(mentions(part, axis.var) for axis in axes) else hash(part)

        form = linear(self._place(axes[-1].var), term=apart)
        if form is None:
            return None
        steps = [form.factors.get(axis.var, 0) for axis in axes]
        joint = all(
            outer == inner * int(axis.dom.extent)
            for outer, inner, axis in zip(steps, steps[1:], axes[1:], strict=False)
        )
        return steps[-1] if joint else None

    def _place(self, axis: Var) -> Expr:
        """The number of the element in a tensor without gaps, of the type of an axis."""
        place: Expr = tirx.IntImm(str(axis.ty.dtype), 0)
        for index, extent in zip(self.indices, self.shape, strict=True):
            place = place * extent + index
        return place

    def stays_or_follows(self, axis: Var, block: int = 1) -> bool:
        """Whether neighbours along `axis` read neighbours along the tensor's last axis, or all the same element.

        With `block`, they need to be neighbours only inside each block of so many places.
        """
        return not self.places(axis) or self.follows(axis, block)

    def follows(self, axis: Var, block: int = 1) -> bool:
        """Whether neighbours along `axis` read neighbours along the tensor's last axis; `block` as above."""
        if self.places(axis) != [len(self.indices) - 1]:
            return False
        last = self.indices[-1]
        return step_along(last, axis) == 1 or (block > 1 and steps_in_blocks(last, axis, block))

    def is_inside(self, conditions: Sequence[Expr] = ()) -> bool:
        """Whether it is inside its tensor at all places of the domain at which the conditions hold."""
        return all(
            self.domain.is_inside(index, extent, conditions)
            for index, extent in zip(self.indices, self.shape, strict=True)
        )
