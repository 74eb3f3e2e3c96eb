"""Which inputs a kernel's output may take the memory of: those that it reads nowhere but where it is about to write.

A residual sum written over one of its operands needs the memory of one tensor instead of two, and the lines that it
writes are those that it has just read: less traffic for a layer whose tensors no cache holds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from math import nan, prod
from typing import Any

from tvm import tirx

from edgetune.codegen.linear import linear
from edgetune.codegen.memory import aliased_buffer
from edgetune.codegen.reduction_blocks import ANNOTATION as PARTS
from edgetune.codegen.traverse import children, expressions, loads_in
from edgetune.codegen.unrolling import extent_of


def replaceable(function: tirx.PrimFunc) -> tuple[int, ...]:
    """Numbers of the parameters of `function` (one of `flat`) whose memory its output may take; of none for several.

    The output is never read, and no element of it is written twice: a call writes them all, and makes as many stores as
    there are. A parameter of its type and size is read by the stores to it alone, each at the place that it writes. So
    no element is read after it was written, in whatever order the stores happen.
    """
    found = _Accesses()
    found.see(function.body, 1)
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
        and all(_is_at(load, store) and found.whose(store.buffer) == output for load, store in found.loads(buffer))
    )


@dataclass
class _Accesses:
    """How often a call stores to each buffer, and each load with the store that it is a part of, if it is of one.

    Not a number where a condition decides. `parts`: sums in parts leave unfinished ones where results will stand.
    """

    stored: dict[Any, float] = field(default_factory=dict)
    loaded: dict[Any, list[tuple[Any, Any]]] = field(default_factory=dict)
    views: dict[Any, Any] = field(default_factory=dict)  # of other buffers' memory, each declared before it is used
    parts: bool = False

    def whose(self, buffer: Any) -> Any:
        """The buffer whose memory `buffer` is."""
        while buffer in self.views:
            buffer = self.views[buffer]
        return buffer

    def loads(self, buffer: Any) -> list[tuple[Any, Any]]:
        """Loads of the buffer, through whatever view, each with its store or None."""
        return self.loaded.get(buffer, [])

    def see(self, node: Any, times: float) -> None:
        """Take in a statement that is executed `times` times."""
        store = node if isinstance(node, tirx.BufferStore) else None
        for load in loads_in([*expressions(node), *([] if store is None else store.indices)]):
            self.loaded.setdefault(self.whose(load.source), []).append((load, store))
        if store is not None:
            place = self.whose(store.buffer)
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
            self.see(child, times)


def _is_at(load: Any, store: Any) -> bool:
    """Whether `load` is a part of `store` and reads, of its own buffer, the place that this writes."""
    if store is None or len(load.indices) != 1 or len(store.indices) != 1:
        return False
    # A view may be of other elements, or begin elsewhere.
    same = str(load.source.ty.dtype) == str(store.buffer.ty.dtype) and _begins(load.source) == _begins(store.buffer)
    read, written = linear(load.indices[0]), linear(store.indices[0])
    return same and read is not None and read == written


def _begins(buffer: Any) -> int | None:
    offset = buffer.ty.elem_offset
    return int(offset.value) if isinstance(offset, tirx.IntImm) else None


def _elements(buffer: Any) -> int:
    return prod(int(extent) for extent in buffer.ty.shape)
