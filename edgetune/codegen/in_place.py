"""In-place outputs: finds the inputs whose memory a kernel's output may overwrite.

Such an input is read only at the element that is about to be written, or before anything is written of the rows that
an iteration of the loops around computes, as a softmax reads a row. A residual sum that overwrites an operand needs the
memory of one tensor instead of two, and writes cache lines that it has just read: less traffic for layers whose tensors
do not fit into any cache.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from math import nan, prod

from tvm import tirx

from edgetune.affine.expressions import loads_in
from edgetune.affine.linear import Linear, linear
from edgetune.codegen.memory import aliased_buffer
from edgetune.codegen.reduction_blocks import ANNOTATION as PARTS
from edgetune.codegen.traverse import children, expressions, flattened
from edgetune.codegen.unrolling import extent_of
from edgetune.tvm_types import BufferLoad, BufferStore, For, Stmt, TvmBuffer, Var

_FAR = 1 << 31  # above every index


def replaceable(function: tirx.PrimFunc, *, by_rows: bool = True) -> tuple[int, ...]:
    """Numbers of the parameters of `function` (a result of `flat`) whose memory its output may take.

    Empty if there are several outputs. The output is never read, and no element of it is written twice: a call makes as
    many stores as the output has elements and writes them all. A parameter with its type and size is read only by these
    stores, each at the index that it writes: no element is read after it was written, in any order of the stores. Or,
    with `by_rows`, it is also read earlier in the same iteration of the loops around all of these accesses, and
    iterations touch elements of their own: whole rows, say.
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
        and (
            all(_is_at(load, store) and found.viewed(store.buffer) == output for load, store in found.loads(buffer))
            or (by_rows and _is_read_first(function.body, buffer, output, found))
        )
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


def _is_read_first(body: Stmt, operand: TvmBuffer, output: TvmBuffer, found: _Accesses) -> bool:
    """Whether each iteration of the loops around all accesses reads the operand before it writes over it.

    Iterations share no element, so threads may share them. A load in a store may be at the element that it writes.
    """
    around: list[For] = []
    parts = [body]
    while len(parts) == 1:
        if isinstance(parts[0], tirx.For):
            around.append(parts[0])
        elif not isinstance(parts[0], (tirx.SeqStmt, tirx.AttrStmt)):
            break
        inside = [child for one in children(parts[0]) for child in flattened(one)]
        parts = [one for one in inside if _touches(one, {operand, output}, found)]
    written = False
    accesses: list[_Access] = []
    for part in parts:
        own = _accesses_in(part, {operand, output}, found, {})
        written |= any(access.stored for access in own)
        if written and not all(access.stored or access.at_store for access in own):
            return False
        accesses += own
    return _is_apart(accesses, around)


@dataclass(frozen=True)
class _Access:
    """An index of the operand or of the output, and the extents of the loops inside those around all accesses."""

    index: Linear | None
    start: int | None
    inner: Mapping[Var, int]
    stored: bool
    at_store: bool = False


def _touches(node: Stmt, buffers: Collection[TvmBuffer], found: _Accesses) -> bool:
    own = list(node.indices) if isinstance(node, tirx.BufferStore) else []
    stored = isinstance(node, tirx.BufferStore) and found.viewed(node.buffer) in buffers
    loaded = any(found.viewed(load.source) in buffers for load in loads_in([*expressions(node), *own]))
    return stored or loaded or any(_touches(child, buffers, found) for child in children(node))


def _accesses_in(
    node: Stmt, buffers: Collection[TvmBuffer], found: _Accesses, inner: Mapping[Var, int]
) -> list[_Access]:
    if isinstance(node, tirx.For):
        inner = {**inner, node.loop_var: extent_of(node) or _FAR}
    store = node if isinstance(node, tirx.BufferStore) else None
    accesses = []
    for load in loads_in([*expressions(node), *([] if store is None else store.indices)]):
        if found.viewed(load.source) in buffers:
            at = store is not None and found.viewed(store.buffer) in buffers and _is_at(load, store)
            accesses.append(_Access(linear(load.indices[0]), _start_of(load.source), inner, stored=False, at_store=at))
    if store is not None and found.viewed(store.buffer) in buffers:
        accesses.append(_Access(linear(store.indices[0]), _start_of(store.buffer), inner, stored=True))
    return accesses + [one for child in children(node) for one in _accesses_in(child, buffers, found, inner)]


def _is_apart(accesses: Sequence[_Access], around: Sequence[For]) -> bool:
    """Whether iterations of the loops around have elements of their own, all in one block of the memory."""
    extents = {loop.loop_var: extent_of(loop) or _FAR for loop in around}
    if all(extent == 1 for extent in extents.values()):
        return True
    bases: list[dict[Var, int]] = []
    least, greatest = _FAR, -_FAR
    for access in accesses:
        if access.index is None or not all(one in extents or one in access.inner for one in access.index.factors):
            return False
        bases.append({one: factor for one, factor in access.index.factors.items() if one in extents})
        rest = [(factor, access.inner[one]) for one, factor in access.index.factors.items() if one not in extents]
        least = min(least, access.index.constant + sum(min(0, factor * (extent - 1)) for factor, extent in rest))
        greatest = max(greatest, access.index.constant + sum(max(0, factor * (extent - 1)) for factor, extent in rest))
    if not bases or any(base != bases[0] for base in bases) or len({access.start for access in accesses}) != 1:
        return False
    block = greatest - least + 1
    moving = sorted((bases[0].get(one, 0), extent) for one, extent in extents.items() if extent > 1)
    for factor, extent in moving:
        if factor < block:
            return False
        block += factor * (extent - 1)
    return True


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
