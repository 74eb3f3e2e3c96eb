"""Labels of axes: which axes of a tensor are which of an operator that reads it through transposes and reshapes.

A label is a number. An axis has the labels of the axes that it holds, outermost first; an axis of one element has none.
A reshape may hold two axes in one on one side, so an axis is divided where both sides have a bound.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from tvm import relax

from edgetune.graph.fold_constant import permutation
from edgetune.graph.rewrite import DefUse, constant, constant_of

Labels = tuple[int, ...]

MATRIX = 2
"""The axes of an operand that are no batch axes."""

_SCALES = ("relax.multiply", "relax.divide")


@dataclass
class BatchAxes:
    """The batch axes of a product of matrices, each with its parts: the extents that it is divided into.

    `divided` says that a walk has divided some axis; what was labelled before it has old labels.
    """

    parts: list[list[int]]
    divided: bool = field(default=False, init=False)

    @property
    def extents(self) -> list[int]:
        """The extents of all parts: label n is part n."""
        return [extent for parts in self.parts for extent in parts]

    def labels(self) -> list[Labels]:
        """The labels of each axis, of which one of one element has none."""
        first, found = 0, []
        for parts in self.parts:
            found.append(tuple(label for label in range(first, first + len(parts)) if self.extents[label] > 1))
            first += len(parts)
        return found

    def divide(self, label: int, outer: int) -> None:
        """Divide a part into `outer` and the rest."""
        for parts in self.parts:
            if label < len(parts):
                parts[label : label + 1] = [outer, parts[label] // outer]
                self.divided = True
                return
            label -= len(parts)


@dataclass(frozen=True)
class Labelled:
    """A tensor with the labels of its axes. `extents` has the extent of each label; matrix axes have the last two.

    `scales` are the operators, and their constants of one element, that follow the tensor, in order.
    """

    value: relax.Expr
    axes: tuple[Labels, ...]
    batch: BatchAxes
    extents: tuple[int, ...]
    scales: tuple[tuple[str, relax.Expr], ...] = ()

    def through_transpose(self, call: relax.Call) -> Labelled:
        """The operand of a transpose that computes the tensor."""
        axes: list[Labels] = [()] * len(self.axes)
        for axis, source in enumerate(permutation(call)):
            axes[source] = self.axes[axis]
        return self.at(call.args[0], axes)

    def transposed(self, call: relax.Call) -> Labelled:
        """The result of a transpose of the tensor."""
        return self.at(call, [self.axes[axis] for axis in permutation(call)])

    def through_broadcast(self, call: relax.Call) -> Labelled:
        """The operand of a broadcast that computes the tensor: axes that it repeats have no label any more."""
        shape = shape_of(call.args[0])
        own = self.axes[len(self.axes) - len(shape) :]
        kept: list[Labels] = [labels if extent > 1 else () for labels, extent in zip(own, shape, strict=True)]
        return self.at(call.args[0], kept)

    def regrouped(self, value: relax.Expr) -> Labelled | None:
        """The elements in the order of the tensor, as the axes of `value`; None if one of these holds others in part.

        Divides batch axes where that helps.
        """
        left = [label for axis in self.axes for label in axis]
        axes: list[Labels] = []
        for extent in shape_of(value):
            taken: list[int] = []
            rest = extent
            while rest > 1:
                if not left or rest % self.extents[left[0]]:
                    if left and self.extents[left[0]] % rest == 0 and left[0] < len(self.extents) - MATRIX:
                        self.batch.divide(left[0], rest)
                    return None
                rest //= self.extents[left[0]]
                taken.append(left.pop(0))
            axes.append(tuple(taken))
        return None if left else self.at(value, axes)

    def at(self, value: relax.Expr, axes: Sequence[Labels]) -> Labelled:
        """Another tensor with these labels."""
        return Labelled(value, tuple(axes), self.batch, self.extents, self.scales)

    def listed(self) -> list[int]:
        """One label for each axis of the tensor once it has one axis for each label.

        Labels that the tensor does not have are axes of one element: those that it has, if they are as many.
        """
        missing = [label for label in range(len(self.extents)) if all(label not in axis for axis in self.axes)]
        units = sum(not axis for axis in self.axes)
        found: list[int] = [] if units == len(missing) else list(missing)
        waiting = iter(missing if units == len(missing) else [])
        for axis in self.axes:
            found += axis or [label for label in [next(waiting, None)] if label is not None]
        return found

    def divided_shape(self) -> list[int]:
        """The extents of the axes in `listed`."""
        own = {label for axis in self.axes for label in axis}
        return [self.extents[label] if label in own else 1 for label in self.listed()]


def labelled(value: relax.Expr, axes: Sequence[Labels], batch: BatchAxes, *, turned: bool = False) -> Labelled:
    """A matrix operand whose batch axes have the labels of the last of `axes`, where they have more than one element.

    The last two axes have the last two labels; in the other order if it is `turned`.
    """
    shape = shape_of(value)
    matrix = shape[-MATRIX:][::-1] if turned else shape[-MATRIX:]
    first = len(batch.extents)
    own = [(first + 1,), (first,)] if turned else [(first,), (first + 1,)]
    all_axes = [*axes[len(axes) - (len(shape) - MATRIX) :], *own]
    kept = [labels if extent > 1 else () for labels, extent in zip(all_axes, shape, strict=True)]
    return Labelled(value, tuple(kept), batch, (*batch.extents, *matrix))


def source_of(operand: Labelled, chains: DefUse, *, scaled: bool) -> Labelled:
    """The tensor that an operand comes from through transposes, broadcasts and reshapes, and scales if it is `scaled`.

    The last step is never a reshape or a scale, which alone are no reason to look further.
    """
    found = here = operand
    while not operand.batch.divided:
        call = chains.call(here.value)
        if call is None:
            break
        through: Labelled | None = None
        if call.op.name == "relax.permute_dims":
            found = through = here.through_transpose(call)
        elif call.op.name == "relax.broadcast_to":
            found = through = here.through_broadcast(call)
        elif call.op.name == "relax.reshape":
            through = here.regrouped(call.args[0])
        elif scaled and call.op.name in _SCALES and shape_of(call.args[0]) == shape_of(here.value):
            through = _before_scale(here, call)
        if through is None:
            break
        here = through
    return found


def _before_scale(operand: Labelled, call: relax.Call) -> Labelled | None:
    value = constant(call.args[1])
    if value is None or value.size != 1:
        return None
    scales = ((str(call.op.name), call.args[1]), *operand.scales)
    return Labelled(call.args[0], operand.axes, operand.batch, operand.extents, scales)


def in_shape(
    value: relax.Expr, shape: Sequence[int], builder: relax.BlockBuilder, order: Sequence[int] = ()
) -> relax.Expr:
    """`value` in this shape, transposed by `order` if there is one that changes it."""
    array = constant(value)
    if shape_of(value) != list(shape):
        flat = relax.op.reshape(value, list(shape)) if array is None else constant_of(array.reshape(list(shape)))
        value = flat if array is not None else builder.emit(flat)
    unchanged = list(order) == sorted(order)
    return value if unchanged else builder.emit(relax.op.permute_dims(value, list(order)))


def shape_of(value: relax.Expr) -> list[int]:
    """The extents of a tensor."""
    return [int(extent) for extent in value.ty.shape]
