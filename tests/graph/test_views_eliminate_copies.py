"""Whatever slices and concatenations a program has: in parts, every call reads what it read without them."""

from __future__ import annotations

from math import prod

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.graph.memory.live_ranges import live_bytes
from edgetune.graph.program import Program
from edgetune.graph.views import eliminate_copies
from edgetune.graph.views.view_layout import ViewLayout
from tests.placement_simulation import Shape, Sketch, difference

_SHAPES = [(1, 4, 8), (4, 8), (2, 2, 8), (32,), (1, 3, 4, 6)]


@st.composite
def programs(draw: st.DrawFn) -> Program:
    """Programs of a few kernels, with reshapes wherever sizes allow them."""
    first = draw(st.sampled_from(_SHAPES))
    sketch = Sketch(first)
    shapes: list[Shape] = [first]

    def add(number: int, shape: Shape) -> None:
        assert number == len(shapes)
        shapes.append(shape)

    def compute(*operands: int) -> None:
        add(sketch.compute(operands, shapes[operands[0]]), shapes[operands[0]])

    def cut(source: int, axis: int, begin: int, end: int) -> None:
        shape = shapes[source]
        begins = tuple(begin if n == axis else 0 for n in range(len(shape)))
        ends = tuple(end if n == axis else extent for n, extent in enumerate(shape))
        add(sketch.cut(source, shape, begins, ends), tuple(e - b for b, e in zip(begins, ends, strict=True)))

    def join(operands: list[int], axis: int) -> None:
        found = [shapes[operand] for operand in operands]
        add(
            sketch.join(operands, found, axis),
            (*found[0][:axis], sum(shape[axis] for shape in found), *found[0][axis + 1 :]),
        )

    compute(0)
    for _ in range(draw(st.integers(2, 9))):
        recent = range(max(1, len(shapes) - 5), len(shapes))
        source = draw(st.sampled_from(recent))
        shape = shapes[source]
        axis = draw(st.integers(0, len(shape) - 1))
        match draw(st.sampled_from(["compute", "sum", "cut", "split", "split", "join", "join", "seen"])):
            case "compute":
                compute(source)
            case "sum":
                compute(source, draw(st.sampled_from([t for t in range(1, len(shapes)) if shapes[t] == shape])))
            case "seen":
                shapes[source] = draw(st.sampled_from([s for s in [*_SHAPES, shape] if prod(s) == prod(shape)]))
            case "cut" if shape[axis] > 1:
                begin = draw(st.integers(0, shape[axis] - 1))
                cut(source, axis, begin, draw(st.integers(begin + 1, shape[axis])))
            case "split" if shape[axis] % 2 == 0:
                count = 4 if shape[axis] % 4 == 0 and draw(st.booleans()) else 2
                length = shape[axis] // count
                pieces = list(range(len(shapes), len(shapes) + count))
                for piece in range(count):
                    cut(source, axis, piece * length, (piece + 1) * length)
                for number in draw(st.lists(st.sampled_from(range(count)), min_size=1, max_size=3, unique=True)):
                    compute(pieces[number])
                    if draw(st.integers(0, 2)):
                        pieces[draw(st.sampled_from([number, count - 1]))] = len(shapes) - 1
                if draw(st.integers(0, 3)):
                    join(draw(st.permutations(pieces)) if not draw(st.integers(0, 2)) else pieces, axis)
                    compute(len(shapes) - 1)
            case _:
                alike = [
                    t
                    for t, s in enumerate(shapes)
                    if len(s) == len(shape)
                    and all(n == axis or a == b for n, (a, b) in enumerate(zip(s, shape, strict=True)))
                ]
                operands = draw(st.lists(st.sampled_from(alike), min_size=2, max_size=3))
                if sum(prod(shapes[operand]) for operand in operands) <= 256:
                    join(operands, axis)
    return sketch.program(draw(st.lists(st.integers(1, len(shapes) - 1), max_size=2)))


@given(programs())
def test_every_call_reads_the_same_and_no_more_memory_is_needed(program: Program) -> None:
    made = eliminate_copies.without_copies(program)
    assert difference(program, made) is None
    assert max(live_bytes(made), default=0) <= max(live_bytes(program), default=0)


@given(programs())
def test_every_call_reads_the_same_however_much_memory_there_is(program: Program) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ViewLayout, "_peak_bytes", lambda _: 0)
        patch.setattr(eliminate_copies, "plan", lambda *_: type("Plan", (), {"arena_bytes": 0}))
        made = eliminate_copies.without_copies(program)
    assert difference(program, made) is None
