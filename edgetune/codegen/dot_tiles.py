"""Dot tiles: the dot products of several rows of data by several rows of factors, as one call.

In a register tile, each row of data meets each row of factors. On a core that has registers for few of these, compilers
load rows ahead and keep them on the stack. One function for a tile says in which order they are loaded, so that each
one is loaded once and none is kept longer than its products take. Rows of data lie at equal distances, which are
constants, and factors in the order of their use, so that two registers have the addresses of all.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from itertools import product

from edgetune.codegen.lines import JoinableCall, Line, LineKind, joinable
from edgetune.codegen.text import Code
from edgetune.target.isa.vector_instructions import TileReach, TileSize, VectorInstructions

_ONE = TileSize(1, 1, 1)


def in_tiles(lines: Sequence[Line], need: Callable[[str], str], vectors: VectorInstructions) -> list[Line]:
    """Lines in which dot products that follow one another and are a tile are one call.

    `need` requests the snippet of a call and returns its name.
    """
    if not vectors.dot_tiles:
        return list(lines)
    found: list[Line] = []
    left = list(lines)
    while left:
        calls = _run(left)
        size, apart = _largest(calls, vectors)
        if size != _ONE:
            made = _joint(calls[: size.calls], size, apart)
            found.append(replace(joinable(need(made.snippet), made), depth=left[0].depth))
        else:
            found.append(left[0])
        left = left[size.calls :]
    return found


def tile_name(function: str, size: TileSize) -> str:
    """The function of a tile of dot products that `function` computes one of: steps, rows, columns and taps."""
    taps = f"_{size.taps}_taps" if size.taps > 1 else ""
    return f"{function}_{size.steps}x{size.rows}x{size.columns}{taps}{'_near' if size.near else ''}"


def _run(lines: Sequence[Line]) -> list[JoinableCall]:
    """The calls of one function that adds one dot product to a number, at the beginning of `lines`."""
    calls: list[JoinableCall] = []
    for line in lines:
        made = line.call
        if made is None or not made.places or made.kind != "i32":
            break
        if line.kind is not LineKind.STATEMENT or line.depth != lines[0].depth:
            break
        if calls and calls[0].snippet != made.snippet:
            break
        calls.append(made)
    return calls


def _largest(calls: Sequence[JoinableCall], vectors: VectorInstructions) -> tuple[TileSize, int]:
    """The largest tile that the first calls are, and how far its rows lie apart; one call where there is none."""
    best = _ONE, 0
    function = calls[0].function if calls else ""
    reach = vectors.tile_reach.get(function, TileReach(0, 0))
    for size in vectors.dot_tiles.get(function, {}):
        apart = _apart(calls[: size.calls], size, reach) if size.calls > best[0].calls else None
        if apart is not None:
            best = size, apart
    return best


def _apart(calls: Sequence[JoinableCall], size: TileSize, reach: TileReach) -> int | None:
    """How far rows of data lie apart, in elements, where calls are a tile within `reach`; None where they are not."""
    numbers = int(calls[0].function.rpartition("_")[2])
    if len(calls) < size.calls:
        return None
    bases = [(place.variable, place.at[0]) for call in calls for place in call.places]
    if bases != bases[:2] * len(calls):
        return None
    data, factors = ([call.places[number].at[1] - calls[0].places[number].at[1] for call in calls] for number in (0, 1))
    apart = data[size.columns] if size.rows > 1 else 0
    grid = product(range(size.taps), range(size.steps), range(size.rows), range(size.columns))
    wanted = [
        (numbers * step + apart * (tap + row), numbers * ((tap * size.steps + step) * size.columns + column))
        for tap, step, row, column in grid
    ]
    sums = [call.variables[0] for call in calls[: size.rows * size.columns]]
    same = [call.variables[0] for call in calls] == sums * size.taps * size.steps and len(set(sums)) == len(sums)
    last = apart * (size.places - 1) + numbers * size.steps
    reached = 0 <= apart <= reach.row and last <= reach.whole and (not size.near or last - numbers <= reach.near)
    return apart if same and reached and [*zip(data, factors, strict=True)] == wanted else None


def _joint(calls: Sequence[JoinableCall], size: TileSize, apart: int) -> JoinableCall:
    sums = tuple(call.variables[0] for call in calls[: size.rows * size.columns])
    data, factors = calls[0].sources
    operands = (data, Code(str(apart)), factors) if size.rows > 1 else (data, factors)
    return JoinableCall(tile_name(calls[0].function, size), calls[0].kind, sums, (), operands)
