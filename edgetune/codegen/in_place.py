"""In-place outputs: finds the inputs whose memory a kernel's output may overwrite.

Such an input is read only at the element that is about to be written. A residual sum that overwrites an operand needs
the memory of one tensor instead of two, and writes cache lines that it has just read: less traffic for layers whose
tensors do not fit into any cache.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan, prod

from tvm import tirx

from edgetune.codegen.linear import linear
from edgetune.codegen.memory import aliased_buffer
from edgetune.codegen.reduction_blocks import ANNOTATION as PARTS
from edgetune.codegen.traverse import children, expressions, loads_in
from edgetune.codegen.unrolling import extent_of
from edgetune.graph.tvm_types import BufferLoad, BufferStore, Stmt, TvmBuffer


def replaceable(function: tirx.PrimFunc) -> tuple[int, ...]:
    """Numbers of the parameters of `function` (a result of `flat`) whose memory its output may take.

    Empty if there are several outputs. The output is never read, and no element of it is written twice: a call makes as
    many stores as the output has elements and writes them all. A parameter with its type and size is read only by these
    stores, each at the index that it writes. So no element is read after it was written, in any order of the stores.
    """
    found = _Accesses()
    found.record(function.body, 1)
    written = [number for number, buffer in enumerate(function.params) if buffer in found.stored]
    if len(written) != 1:
        return ()
    output = function.params[written[0]]
    if found.stored[output] != _elements(output) or found.loads(output) or found.parts:
        return ()
    return tuple(
        number
        for number, buffer in enumerate(function.params)
        if number not in written
        and str(buffer.ty.dtype) == str(output.ty.dtype)
        and _elements(buffer) == _elements(output)
        and all(_is_at(load, store) and found.viewed(store.buffer) == output for load, store in found.loads(buffer))
    )


@dataclass
class _Accesses:
    """Number of stores of a call to each buffer, and each load together with the store that contains it, if any.

    The number is NaN if a condition decides. `parts`: a blocked reduction keeps unfinished sums where results will be.
    """

    stored: dict[TvmBuffer, float] = field(default_factory=dict)
    loaded: dict[TvmBuffer, list[tuple[BufferLoad, BufferStore]]] = field(default_factory=dict)
    views: dict[TvmBuffer, TvmBuffer] = field(
        default_factory=dict
    )  # view to viewed buffer, each declared before it is used
    parts: bool = False

    def viewed(self, buffer: TvmBuffer) -> TvmBuffer:
        """The buffer whose memory `buffer` views."""
        while buffer in self.views:
            buffer = self.views[buffer]
        return buffer

    def loads(self, buffer: TvmBuffer) -> list[tuple[BufferLoad, BufferStore]]:
        """Loads of the buffer, directly or through views, each with its store or None."""
        return self.loaded.get(buffer, [])

    def record(self, node: Stmt, times: float) -> None:
        """Record a statement that is executed `times` times."""
        store = node if isinstance(node, tirx.BufferStore) else None
        for load in loads_in([*expressions(node), *([] if store is None else store.indices)]):
            self.loaded.setdefault(self.viewed(load.source), []).append((load, store))
        if store is not None:
            place = self.viewed(store.buffer)
            self.stored[place] = self.stored.get(place, 0) + times
        elif isinstance(node, tirx.DeclBuffer):
            self.views[node.buffer] = aliased_buffer(node)
        elif isinstance(node, tirx.For):
            self.parts |= PARTS in node.annotations
            extent = extent_of(node)
            times = nan if extent is None else times * extent
        elif isinstance(node, (tirx.IfThenElse, tirx.While)):
            times = nan
        for child in children(node):
            self.record(child, times)


def _is_at(load: BufferLoad, store: BufferStore) -> bool:
    """Whether `load` is a part of `store` and reads the same index of its buffer that `store` writes."""
    if store is None or len(load.indices) != 1 or len(store.indices) != 1:
        return False
    # A view may have another element type or another start.
    same = str(load.source.ty.dtype) == str(store.buffer.ty.dtype) and _start_of(load.source) == _start_of(store.buffer)
    read, written = linear(load.indices[0]), linear(store.indices[0])
    return same and read is not None and read == written


def _start_of(buffer: TvmBuffer) -> int | None:
    offset = buffer.ty.elem_offset
    return int(offset.value) if isinstance(offset, tirx.IntImm) else None


def _elements(buffer: TvmBuffer) -> int:
    return prod(int(extent) for extent in buffer.ty.shape)
