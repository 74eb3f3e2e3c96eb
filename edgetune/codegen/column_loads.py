"""Column loads: vectors of one element of each of some rows are turned out of the rows, four columns at a time.

Of a batch of 3x3 matrices, `x[b * 9 + 4]` for eight neighbours b has a distance of nine elements, and so has
`x[b * 9 + 5]`. Loaded lane by lane, each takes a load and a shuffle for each lane. Four columns of eight rows take
eight loads of four elements, each a part of a row, and eight shuffles.
"""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING

from tvm import ir, tirx

from edgetune.affine.expressions import loads_in
from edgetune.affine.linear import linear
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.lines import array, call
from edgetune.codegen.text import Address, Lvalue, Text
from edgetune.tvm_types import Expr

if TYPE_CHECKING:
    from edgetune.codegen.vectors import VectorPrinter

COLUMNS = 4
"""Columns that are turned together."""

LONGEST_ROW = 64
"""Elements of a row from which on other loads serve as well: each row is in lines of its own."""

_LANES = (4, 8)
_FEWEST = 2  # columns of a group, on average: a single one takes as many shuffles lane by lane


@dataclass(frozen=True)
class ColumnGroup:
    """Four columns of rows of `row` elements, the first one as text; a load is the `column` of them, from `base` on."""

    first: str
    row: int
    column: int
    base: Expr


def groups_in(printer: VectorPrinter, value: Expr) -> frozenset[str]:
    """The groups whose columns a value loads, each as text; none if it loads too few of each."""
    found: dict[str, set[int]] = defaultdict(set)
    for load in loads_in([value]):
        group = group_of(printer, load)
        if group is not None:
            found[group.first].add(group.column)
    loaded = sum(map(len, found.values()))
    return frozenset(found if loaded >= _FEWEST * len(found) else ())


def group_in_use(printer: VectorPrinter, load: Expr) -> ColumnGroup | None:
    """The group that a load is a column of, if it is turned for the statement of the load."""
    group = group_of(printer, load)
    return group if group is not None and group.first in printer.column_groups else None


def group_of(printer: VectorPrinter, load: Expr) -> ColumnGroup | None:
    """The group that a load of a vector is a column of; None for any other.

    All four columns are inside of a row, so that no load passes the end of the row.
    """
    place, index = printer.place(load.source), printer.flat_index(load.source, load.indices)
    known = printer.context.variables.get(index) if isinstance(index, ir.Var) else None
    index = known if isinstance(known, tirx.Ramp) else index
    if place.of.short != "f32" or place.registers is not None or place.lanes != 1 or place.written:
        return None
    if not isinstance(index, tirx.Ramp) or not isinstance(index.stride, tirx.IntImm) or loads_in([index.base]):
        return None
    row, lanes = int(index.stride.value), element_and_lanes(index.ty)[1]
    base = printer.context.analyzer.simplify(index.base)
    form = linear(base, term=lambda part: part)
    if not COLUMNS <= row <= LONGEST_ROW or min(lanes, printer.context.lanes_limit) not in _LANES:
        return None
    if lanes % _LANES[0] or form is None or any(factor % row for factor in form.factors.values()):
        return None
    if prod(int(extent) for extent in load.source.ty.shape) % row:
        return None  # the last row may end before its fourth column
    column = form.constant % row
    first = min(column // COLUMNS * COLUMNS, row - COLUMNS)
    start = printer.context.analyzer.simplify(base - (column - first))
    return ColumnGroup(f"{place.name} {row} {start}", row, column - first, index.base)


def printed_column(printer: VectorPrinter, load: Expr, group: ColumnGroup, first: int, width: int) -> Text:
    """The lanes from `first` on of a load that is a column of `group`, which is emitted where it is not in scope."""
    pointer = printer.pointer(load.source, (group.base, 1), first * group.row - group.column)
    shared, key = printer.context.shared, f"columns {width} {group.row} {pointer}"
    name = shared.get(key)
    if name is None:
        name = printer.context.names.unique(f"{printer.place(load.source).name}_columns")
        c_type = printer.type(element_and_lanes(load.ty)[0], width)
        printer.context.emit(array(c_type, name, COLUMNS))
        function = printer.context.need(f"columns:{c_type}")
        printer.context.emit(call(function, pointer, group.row, Address.first(name)))
        shared[key] = name
    return Text(Lvalue.element(name, group.column))
