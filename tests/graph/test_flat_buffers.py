"""Flat buffers: indices that divide name the same elements as before, in our C's lowering and in the reference."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
import tvm
from tvm import s_tir, te, tirx

from edgetune.affine.values import integers_at
from edgetune.graph.evaluate import ReferenceFunction
from edgetune.graph.flat_buffers import flatten_buffers
from edgetune.tvm_types import PrimFunc

Indices = Callable[..., Sequence[Any]]


def taken(shape: Sequence[int], result: Sequence[int], indices: Indices) -> tuple[PrimFunc, np.ndarray]:
    """A function that copies x[indices(i, j, ..)], and the numbers of the elements that it takes, by numpy."""
    x = te.placeholder(shape, "float32", name="x")
    y = te.compute(result, lambda *place: x(*indices(*place)), name="y")
    places = indices(*np.indices(result))
    return te.create_prim_func([x, y]), np.ravel_multi_index(tuple(np.broadcast_arrays(*places)), tuple(shape))


def computed(function: PrimFunc, shape: Sequence[int], result: tuple[int, ...]) -> np.ndarray:
    numbers = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    return ReferenceFunction(function).run([numbers], [(result, "float32")])[0]


CASES: list[tuple[tuple[int, ...], tuple[int, ...], Indices]] = [
    ((2, 3), (4, 6), lambda i, _: ((i + 1) % 2, i % 2 * 2)),
    ((5, 2), (7,), lambda i: ((i + 5) % 6 % 5, i % 2)),
    ((4, 2), (12, 5), lambda i, j: (((j * 2 + 2) % 4 + 2) % 4, 0 * i)),
    ((6,), (3, 8), lambda _, j: ((j + 1) % 2 * 3 + j % 2 * 2,)),
    ((3, 3, 4), (10, 5), lambda i, j: ((i * 3 + j) // 4 % 3, (i + 2) % 9 // 3, (i * 3 + j + 1) % 4)),
]


@pytest.mark.parametrize(("shape", "result", "indices"), CASES)
def test_the_reference_reads_the_elements_that_the_indices_name(
    shape: tuple[int, ...], result: tuple[int, ...], indices: Indices
) -> None:
    function, wanted = taken(shape, result, indices)
    assert np.array_equal(computed(function, shape, result), wanted)


def _nested(random: np.random.Generator, axes: Sequence[Any], depth: int) -> Any:
    """A random index of divisions, remainders, sums and products; `//` and `%` are those of Python and of TVM."""
    kind = random.random()
    if depth == 0 or kind < 0.15:
        return axes[int(random.integers(len(axes)))] * int(random.choice([1, 1, 2, 3, 5, 7])) + int(
            random.choice([0, 0, 1, 2, 5, -1])
        )
    inner = _nested(random, axes, depth - 1)
    if kind < 0.4:
        return inner % int(random.choice([2, 3, 4, 5, 6, 7, 8, 9, 12, 16, 24]))
    if kind < 0.65:
        return inner // int(random.choice([2, 3, 4, 5, 6, 7, 8, 9, 12]))
    return inner + _nested(random, axes, depth - 1) if kind < 0.9 else inner * int(random.choice([2, 3, 4]))


@pytest.mark.long
def test_random_indices_of_nested_divisions_name_the_same_elements_when_flat() -> None:
    passes = tvm.transform.Sequential(
        [
            s_tir.transform.LowerInitBlock(),
            s_tir.transform.ConvertBlocksToOpaque(),
            s_tir.transform.LowerOpaqueBlock(),
            flatten_buffers(),
        ]
    )
    for seed in range(1000):
        random = np.random.default_rng(seed)
        shape, result = ([int(random.choice([2, 3, 4, 5, 6, 8, 9, 12])) for _ in range(2)] for _ in range(2))

        def indices(*axes: Any, seed: int = seed, shape: Sequence[int] = shape) -> list[Any]:
            same = np.random.default_rng(seed)
            return [_nested(same, axes, 3) % extent for extent in shape]

        function, wanted = taken(shape, result, indices)
        places, body = [], passes(tvm.IRModule({"main": function}))["main"].body
        while not isinstance(body, tirx.BufferStore):
            places += [body.loop_var] if isinstance(body, tirx.For) else []
            body = body.body if isinstance(body, tirx.For) else body.seq[-1]
        found = integers_at(body.value.indices[0], dict(zip(places, np.indices(result), strict=True)))
        assert found is not None
        assert np.array_equal(np.broadcast_to(found, result), wanted), seed
