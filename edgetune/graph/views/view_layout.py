"""Layout of zero-copy views: which tensors lie within others, as operands of a concatenation, or as slices.

This module only decides; `edgetune.graph.views.eliminate_copies` builds the program.

In-place concatenation: when an operand is a slice of a tensor whose remainder is dead, the other operands overwrite
that remainder. If channels are split, one half goes through layers and both halves are concatenated again, the result
takes the place of the split tensor, and nothing is copied. Conditions: before the first new operand is written, the
tensor is written and all readers of its remainder have run, and the concatenation itself reads only the unchanged part
of that tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from math import prod

from edgetune.graph.memory.in_place import in_place_candidates, in_place_outputs
from edgetune.graph.memory.live_ranges import live_bytes
from edgetune.graph.parts import Part
from edgetune.graph.program import Call, Program
from edgetune.graph.views.copy_kernels import Concatenation, Operand, concatenation_of, slice_of
from edgetune.graph.views.strided_view import StridedView, rows_of, shape_with_gaps


class _NoPlaceError(Exception):
    """A tensor cannot lie where a layout places it."""


class ViewLayout:
    """Which tensors are `views` of which, and which calls (by number) are therefore `dropped`."""

    def __init__(self, program: Program) -> None:
        self.program = program
        concatenations = [concatenation_of(kernel) for kernel in program.kernels]
        slices = [slice_of(kernel) for kernel in program.kernels]
        calls = list(enumerate(program.calls))
        self.concatenations = {
            number: concatenation
            for number, call in calls
            if (concatenation := concatenations[call.kernel]) is not None
        }
        self.slices = {number: rows for number, call in calls if (rows := slices[call.kernel]) is not None}
        self.slice_views = {program.calls[n].arguments[-1]: self._slice_view(n) for n in self.slices}
        self.views: dict[int, StridedView] = {}
        self.dropped: set[int] = set()
        self._overwritten: set[int] = set()  # a later tensor overwrites their first content
        candidates = {
            number: in_place_candidates(kernel)
            for number, kernel in enumerate(program.kernels)
            if not concatenations[number]
        }
        # Which operands are overwritten is known only with the loops. With copies, no package needs less than this.
        self._most_bytes = max(live_bytes(program, in_place_outputs(program, candidates)), default=0)

    def _slice_view(self, number: int) -> StridedView:
        """The place of the result of a slice, a call by its number, in the tensor that it slices."""
        source = self.program.calls[number].arguments[0]
        return StridedView.of_axes(source, self.slices[number].offset, self.slices[number].axes)

    def place_slice(self, number: int) -> None:
        """Make the result of a slice, a call by its number, a view of its source, if possible.

        A tensor that only concatenations read can be written in place instead, with no more copies.
        """
        tensor = self.program.calls[number].arguments[-1]
        readers = {n for n, call in enumerate(self.program.calls) if tensor in call.arguments and n != number}
        if self.program.buffers[tensor].kind != "intermediate" or readers <= self.concatenations.keys():
            return
        before = self._state()
        self.dropped.add(number)
        self.views[tensor] = self.slice_views[tensor]
        if not self._is_allowed():
            self.views, self.dropped = before

    def place_operands(self, number: int) -> None:
        """Make the operands of a concatenation, a call by its number, views of its result, if possible.

        The result is the tensor of which some operands are slices, if the new operands may overwrite its remainder.
        """
        before = self._state()
        kept = in_place_concatenation(self, number)
        if kept is not None:
            result, source = self.program.calls[number].arguments[-1], next(iter(kept.values())).whole
            size = prod(self.program.buffers[source].shape)
            self.dropped |= {n for n in self.slices if self.program.calls[n].arguments[-1] in kept}
            self.views |= {**kept, result: StridedView.of_rows(source, 0, 1, size, size)}
            if self._write_in_place(number):
                self._overwritten.add(source)
                return
            self.views, self.dropped = before
            before = self._state()
        if not self._write_in_place(number):
            self.views, self.dropped = before

    def _write_in_place(self, number: int) -> bool:
        """Whether at least one operand that is not yet a view of anything became a view of the result."""
        call, concatenation = self.program.calls[number], self.concatenations[number]
        self.dropped.add(number)
        placed = 0
        for operand in concatenation.operands:
            tensor = call.arguments[operand.parameter]
            if (
                self.program.buffers[tensor].kind != "intermediate"
                or tensor in self.views
                or tensor in self._overwritten
                or call.arguments.count(tensor) > 1
            ):
                continue
            self.views[tensor] = _operand_view(call.arguments[-1], concatenation, operand)
            if self._is_possible():
                placed += 1
            else:
                del self.views[tensor]
        return placed > 0 and self._is_allowed()

    def _state(self) -> tuple[dict[int, StridedView], set[int]]:
        return dict(self.views), set(self.dropped)

    def _is_allowed(self) -> bool:
        return self._is_possible() and self._peak_bytes() <= self._most_bytes

    def view_of(self, tensor: int) -> StridedView | None:
        """The place of a tensor in the largest buffer that contains it; None if it has its own buffer."""
        view = self.views.get(tensor)
        return None if view is None else self._in_buffer(view)

    def _in_buffer(self, view: StridedView) -> StridedView:
        """A view, converted to the largest buffer around it."""
        container = self.view_of(view.whole)
        found = view if container is None else view.inside(container)
        if found is None:
            raise _NoPlaceError
        return found

    def remaining_copies(self, number: int) -> Iterator[tuple[int, StridedView]]:
        """Operands of a dropped concatenation that no kernel writes in place, and the places where they belong."""
        if number in self.slices:
            return
        call, concatenation = self.program.calls[number], self.concatenations[number]
        for operand in concatenation.operands:
            destination = self._in_buffer(_operand_view(call.arguments[-1], concatenation, operand))
            view = self.view_of(call.arguments[operand.parameter])
            if view is None or view != destination:
                yield operand.parameter, destination

    def _is_possible(self) -> bool:
        """Whether every view has a place in the largest buffer, and every parameter with gaps has axes for them."""
        try:
            return all(
                view is None or not view.has_gaps or _can_have_gaps(shape, view, piece)
                for number, call in enumerate(self.program.calls)
                for shape, view, piece in self._accesses(number, call)
            )
        except _NoPlaceError:
            return False

    def _accesses(self, number: int, call: Call) -> Iterator[tuple[tuple[int, ...], StridedView | None, int | None]]:
        """Shapes and places of what a call, or the remaining copies of a dropped call, reads and writes.

        Last, how many elements of it must lie together, if any must.
        """
        kernel = self.program.kernels[call.kernel]
        if number not in self.dropped:
            for n, (tensor, param) in enumerate(zip(call.arguments, kernel.params, strict=True)):
                yield param.shape, self.view_of(tensor), kernel.slices.get(n)
            return
        for parameter, destination in self.remaining_copies(number):
            yield kernel.params[parameter].shape, self.view_of(call.arguments[parameter]), None
            yield kernel.params[parameter].shape, destination, None

    def _peak_bytes(self) -> int:
        """Most bytes of tensors alive together with a tensor that has views, if no output overwrites an operand.

        At all other times the same tensors are alive as with the copies.
        """
        calls = []
        for number, call in enumerate(self.program.calls):
            if number in self.dropped:
                for parameter, destination in self.remaining_copies(number):
                    source = call.arguments[parameter]
                    view = self.view_of(source)
                    read = source if view is None else view.whole
                    calls.append(replace(call, arguments=(read, destination.whole)))
                continue
            views = {n: view for n, tensor in enumerate(call.arguments) if (view := self.view_of(tensor))}
            arguments = tuple(views[n].whole if n in views else tensor for n, tensor in enumerate(call.arguments))
            calls.append(replace(call, arguments=arguments, parts={n: Part(v.offset, ()) for n, v in views.items()}))
        live = live_bytes(replace(self.program, calls=tuple(calls)))
        wholes = {view.whole for tensor in self.views if (view := self.view_of(tensor))}
        users = [[number for number, call in enumerate(calls) if whole in call.arguments] for whole in wholes]
        return max((nbytes for numbers in users for nbytes in live[numbers[0] : numbers[-1] + 1]), default=0)


def _can_have_gaps(shape: tuple[int, ...], view: StridedView, piece: int | None) -> bool:
    """Whether some axes of a parameter can grow so that its elements are where `view` has them.

    Of `piece` elements each, gaps lie only between the pieces.
    """
    enlarged = shape_with_gaps(shape, view)
    if enlarged is None or piece is None:
        return enlarged is not None
    rows = rows_of(shape, enlarged)
    return rows.length == piece and rows.inner is None


def _operand_view(whole: int, concatenation: Concatenation, operand: Operand) -> StridedView:
    """The place of an operand in the result `whole` of a concatenation."""
    return StridedView.of_rows(whole, operand.start, concatenation.outer, concatenation.pitch, operand.length)


def in_place_concatenation(layout: ViewLayout, number: int) -> dict[int, StridedView] | None:
    """Where the unchanged operands lie in the tensor that a concatenation, a call by its number, extends in place.

    The result is by tensor, and all places are in the same tensor. None if there is no such tensor, or if a call would
    read it after it is overwritten.
    """
    call, concatenation = layout.program.calls[number], layout.concatenations[number]
    tensors = [call.arguments[operand.parameter] for operand in concatenation.operands]
    kept = {}
    for tensor, operand in zip(tensors, concatenation.operands, strict=True):
        view = layout.views.get(tensor, layout.slice_views.get(tensor))
        if view is None or layout.program.buffers[tensor].kind != "intermediate":
            continue
        if view == _operand_view(view.whole, concatenation, operand):
            kept[tensor] = view
    sources = {view.whole for view in kept.values()}
    if len(sources) != 1 or len(set(tensors)) < len(tensors) or len(kept) == len(tensors):
        return None
    source, result = (layout.program.buffers[n] for n in (*sources, call.arguments[-1]))
    alike = (source.kind, source.dtype) == (result.kind, result.dtype) == ("intermediate", result.dtype)
    if (
        not alike
        or prod(source.shape) != concatenation.outer * concatenation.pitch
        or {source.id, result.id} & layout.views.keys()
    ):
        return None
    new = [tensor for tensor in tensors if tensor not in kept]
    if any(source.id in _containers(layout, tensor) for tensor in new):
        return None
    last_use = max([*_writers(layout, source.id), *(n for n in _readers(layout, source.id, kept) if n != number)])
    first_writes = [next(_writers(layout, t), number) if t not in layout.views else number for t in new]
    return kept if last_use < min(*first_writes, number) else None


def _containers(layout: ViewLayout, tensor: int) -> Iterator[int]:
    """`tensor`, then each tensor that contains it, from inner to outer."""
    yield tensor
    while (view := layout.views.get(tensor)) is not None:
        tensor = view.whole
        yield tensor


def _readers(layout: ViewLayout, source: int, kept: Mapping[int, StridedView]) -> Iterator[int]:
    """Calls that read `source`, or a part of it that is not kept."""
    for number, call in enumerate(layout.program.calls):
        if number in layout.slices and call.arguments[-1] in kept:
            continue
        if number in layout.dropped:
            read = [call.arguments[parameter] for parameter, _ in layout.remaining_copies(number)]
        else:
            params = layout.program.kernels[call.kernel].params
            read = [t for t, param in zip(call.arguments, params, strict=True) if param.role == "input"]
        if any(tensor not in kept and source in _containers(layout, tensor) for tensor in read):
            yield number


def _writers(layout: ViewLayout, tensor: int) -> Iterator[int]:
    """Calls that write `tensor` or a part of it; for a dropped concatenation, the calls that write its operands."""
    for number, call in enumerate(layout.program.calls):
        if number in layout.dropped:
            written = [call.arguments[-1]] if any(True for _ in layout.remaining_copies(number)) else []
        else:
            params = layout.program.kernels[call.kernel].params
            written = [t for t, param in zip(call.arguments, params, strict=True) if param.role == "output"]
        if any(tensor in _containers(layout, one) for one in written):
            yield number
