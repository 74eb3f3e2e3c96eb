"""Zero-copy concatenation and slicing: kernels read and write tensors in place, as parts of larger tensors.

An operand becomes a part of the result of the concatenation that reads it; a result becomes a part of the next one if
another concatenation reads it. A slice becomes a part of the tensor that it slices. All other readers read it there. If
other operands lie beside it in each row, it has gaps, and the kernels that write or read it are separate kernels. The
whole tensor is alive from the first write of a part to the last read of a part. If that took more memory than the
copies, the copies stay.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from math import prod

from edgetune.graph.kernels import copy_function, kernel_of, named, plain_function
from edgetune.graph.memory.plan import plan
from edgetune.graph.parts import Part
from edgetune.graph.program import Buffer, Call, Kernel, Program, Rows
from edgetune.graph.views.strided_view import StridedView, rows_of, shape_with_gaps, with_gaps
from edgetune.graph.views.view_layout import ViewLayout
from edgetune.graph.workload import workload_hash


def without_copies(program: Program) -> Program:
    """`program` without as many concatenations and slices as possible; `program` itself if there are none."""
    before = plan(program, {}).arena_bytes
    for slices in (True, False):
        layout = ViewLayout(program)
        for number in layout.slices if slices else ():
            layout.place_slice(number)
        for number in layout.concatenations:
            layout.place_operands(number)
        if layout.dropped:
            rebuilt = _Rebuilding(program, layout).program()
            # The bound does not grow; the plan rarely does.
            if plan(rebuilt, {}).arena_bytes <= before:
                return rebuilt
        if not layout.slices:
            break
    return program


@dataclass
class _Rebuilding:
    """Builds the program in which tensors lie where a layout places them."""

    old: Program
    layout: ViewLayout
    kernels: dict[str, Kernel] = field(default_factory=dict)  # by workload
    calls: list[tuple[str, Call]] = field(default_factory=list)

    def program(self) -> Program:
        """The program; it lacks the buffers that became parts of others."""
        for number, call in enumerate(self.old.calls):
            if number not in self.layout.dropped:
                self._call(call)
                continue
            for parameter, destination in self.layout.remaining_copies(number):
                self._copy(call, parameter, destination)
        used = {argument for _, call in self.calls for argument in call.arguments}
        kept = [b for b in self.old.buffers if b.id in used or b.kind in {"input", "output"}]
        renumbered = {buffer.id: number for number, buffer in enumerate(kept)}
        kernels, index = self._named_kernels()
        labels = {self.old.calls[number].arguments[-1]: self.old.calls[number].label for number in self.layout.dropped}
        return replace(
            self.old,
            buffers=tuple(_renamed(b, renumbered[b.id], labels) for b in kept),
            kernels=kernels,
            calls=tuple(
                replace(call, kernel=index[key], arguments=tuple(renumbered[a] for a in call.arguments))
                for key, call in self.calls
            ),
            constants={renumbered[i]: array for i, array in self.old.constants.items() if i in renumbered},
        )

    def _call(self, call: Call) -> None:
        kernel = self.old.kernels[call.kernel]
        views = {n: view for n, tensor in enumerate(call.arguments) if (view := self.layout.view_of(tensor))}
        self._add(kernel, call, views)

    def _copy(self, call: Call, parameter: int, destination: StridedView) -> None:
        source = call.arguments[parameter]
        param = self.old.kernels[call.kernel].params[parameter]
        mask = (source in self.old.constants,)
        function = plain_function(copy_function(param.shape, param.dtype), mask)
        kernel = kernel_of(("copy",), "", function, mask, 0)
        views = {1: destination}
        if view := self.layout.view_of(source):
            views[0] = view
        copied = Call(0, (source, destination.whole), f"{call.label} (copy of operand {parameter})")
        self._add(kernel, copied, views)

    def _add(self, kernel: Kernel, call: Call, views: Mapping[int, StridedView]) -> None:
        shapes: dict[int, tuple[int, ...]] = {}
        rows: dict[int, Rows] = {}
        for number, view in views.items():
            shape = kernel.params[number].shape
            if view.has_gaps:
                enlarged = shape_with_gaps(shape, view)
                assert enlarged is not None, "the layout has only views that are possible"  # noqa: S101
                shapes[number], rows[number] = enlarged, rows_of(shape, enlarged)
        function = with_gaps(kernel.function, shapes) if shapes else kernel.function
        key = workload_hash(function) if shapes or not kernel.workload else kernel.workload
        if key in self.kernels and [param.rows for param in self.kernels[key].params] != [
            rows.get(number) for number in range(len(kernel.params))
        ]:
            # A slice of a dense tensor and a whole tensor with the same gaps have equal loops, but different `rows`.
            function = function.with_attr("edgetune.rows", [f"{n}: {_numbers(r)}" for n, r in rows.items()])
            key = workload_hash(function)
        if key not in self.kernels:
            mask = [param.role == "constant" for param in kernel.params if param.role != "output"]
            self.kernels[key] = replace(kernel_of(kernel.sources, key, function, mask, 0, rows), slices=kernel.slices)
        sizes = {n: prod(self.old.buffers[view.whole].shape) for n, view in views.items()}
        parts = {
            n: Part(view.offset, kernel.params[n].shape)
            for n, view in views.items()
            if view.has_gaps or prod(kernel.params[n].shape) < sizes[n]
        }
        arguments = tuple(views[n].whole if n in views else a for n, a in enumerate(call.arguments))
        self.calls.append((key, replace(call, arguments=arguments, parts=parts)))

    def _named_kernels(self) -> tuple[tuple[Kernel, ...], dict[str, int]]:
        calls = Counter(key for key, _ in self.calls)
        kernels = named(
            [
                replace(kernel, weight=calls[key], unaligned=self._unaligned(key, kernel))
                for key, kernel in self.kernels.items()
            ]
        )
        return kernels, {key: number for number, key in enumerate(self.kernels)}

    def _unaligned(self, key: str, kernel: Kernel) -> tuple[int, ...]:
        found = {
            number
            for other, call in self.calls
            for number, part in call.parts.items()
            if other == key and part.is_unaligned(kernel.params[number].dtype)
        }
        return tuple(sorted(found))


def _numbers(rows: Rows | None) -> str:
    return "" if rows is None else f"{rows.length}/{rows.pitch} {_numbers(rows.inner)}".rstrip()


def _renamed(buffer: Buffer, number: int, labels: dict[int, str]) -> Buffer:
    """A buffer with its new number; one that no call writes completely is named after its concatenation."""
    name = buffer.name if buffer.kind != "intermediate" else labels.get(buffer.id, buffer.name)
    return replace(buffer, id=number, name=name)
