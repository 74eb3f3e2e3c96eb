"""Memoised functions of kernels: what is kept is the result of the very same function, and of equal arguments."""

from __future__ import annotations

from tvm import te

from edgetune.graph.memoise import memoised
from edgetune.tvm_types import PrimFunc


def _function(extent: int) -> PrimFunc:
    x = te.placeholder((extent,), name="x")
    return te.create_prim_func([x, te.compute((extent,), lambda i: x[i] + 1.0, name="y")])


def test_a_function_is_looked_at_once() -> None:
    asked: list[tuple[int, int, int]] = []

    @memoised(8)
    def extent_and(function: PrimFunc, more: int, *, again: int = 0) -> int:
        found = int(function.params[0].ty.shape[0])
        asked.append((found, more, again))
        return found + more + again

    short, long = _function(4), _function(7)
    for _ in range(3):
        assert [extent_and(short, 1), extent_and(long, 1), extent_and(short, 2), extent_and(short, 1, again=5)] == [
            5,
            8,
            6,
            10,
        ]
    assert asked == [(4, 1, 0), (7, 1, 0), (4, 2, 0), (4, 1, 5)]


def test_functions_are_told_apart_by_identity() -> None:
    """Comparing two expressions with == may make a third one in TVM."""
    seen: list[PrimFunc] = []

    @memoised(8)
    def noted(function: PrimFunc) -> int:
        seen.append(function)
        return len(seen)

    first, same = _function(4), _function(4)
    assert [noted(first), noted(same), noted(first.with_attr("a", 1)), noted(first)] == [1, 2, 3, 1]


def test_few_results_are_kept() -> None:
    count = 0

    @memoised(2)
    def counted(_: PrimFunc) -> int:
        nonlocal count
        count += 1
        return count

    functions = [_function(extent) for extent in (2, 3, 4)]
    assert [counted(one) for one in (*functions, functions[0])] == [1, 2, 3, 4]
