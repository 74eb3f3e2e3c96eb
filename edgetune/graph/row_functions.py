"""Rows of a memory as tensor expressions: a write of some of them, and a read of all rows of a ring in their order.

Both make a whole tensor, and are right as they stand. `row_writes.py` has the rows alone written, in place, and
`ring_reads.py` has kernels read the ring themselves. A number of rows that is out of range is taken for the nearest
one: whatever an input or a loaded state says, nothing outside is touched.
"""

from __future__ import annotations

from tvm import te, tirx

from edgetune.tvm_types import Expr

ROW_WRITE, RING_READ = "row_write", "ring_read"
"""Names of the functions, and of operators in `Kernel.sources`."""


def row_write(memory: te.Tensor, rows: te.Tensor, number: te.Tensor, axis: int, unit: int) -> te.Tensor:
    """`memory` with `rows` along an axis in the place of those from number * `unit` on; the number is an int32."""
    count, extent = int(rows.shape[axis]), int(memory.shape[axis])
    first = _within(number, (extent - count) // unit, memory) * unit

    def element(*place: tirx.Var) -> Expr:
        row = place[axis]
        fresh = tirx.min(tirx.max(row - first, 0), count - 1)
        written = rows(*(fresh if number == axis else one for number, one in enumerate(place)))
        return tirx.if_then_else(tirx.all(row >= first, row < first + count), written, memory(*place))

    return te.compute(memory.shape, element, name=ROW_WRITE)


def ring_read(memory: te.Tensor, position: te.Tensor, written: int, count: int) -> te.Tensor:
    """The last `count` rows of a ring in their order, after the run at `position` has written so many."""
    rows = int(memory.shape[0])
    behind = _within(position, rows // written - 1, memory) * written + (written + rows - count)

    def element(row: tirx.Var, *rest: tirx.Var) -> Expr:
        place = behind + row
        return memory(place - tirx.Select(place >= rows, tirx.const(rows, place.ty), tirx.const(0, place.ty)), *rest)

    return te.compute((count, *memory.shape[1:]), element, name=RING_READ)


def _within(number: te.Tensor, last: int, memory: te.Tensor) -> Expr:
    """The nearest number from 0 to `last`, in the type of indices."""
    index = str(memory.shape[0].ty.dtype)
    inside = tirx.max(tirx.min(number(), tirx.const(last, "int32")), tirx.const(0, "int32"))
    return tirx.Cast(index, inside) if index != "int32" else inside
