"""Reductions in parts and lanes that join by halves: the C gives what numpy gives, and stays whole where it must."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te, topi
from tvm.s_tir import Schedule

from edgetune.codegen.emit import emit_kernel
from edgetune.codegen.packing import split_packing
from edgetune.codegen.reduction_blocks import ANNOTATION
from edgetune.schedule.algorithms.apply import replay
from edgetune.schedule.default_schedule import default_trace
from edgetune.schedule.sketches import module_of
from edgetune.schedule.sketches.spaces import tile_of
from edgetune.schedule.sketches.variants import parts_for
from tests.codegen_run import compile_strictly, run_kernel, wide_target
from tests.sketch_samples import prim_func


def product(rows: int, depth: int, columns: int) -> Any:
    """matmul(a, w) + b + a residual; w is a constant."""
    a, w, b, r = (
        te.placeholder(shape, name=name)
        for name, shape in (("a", (rows, depth)), ("w", (depth, columns)), ("b", (columns,)), ("r", (rows, columns)))
    )
    return prim_func([a, w, b, r], topi.add(topi.add(topi.nn.matmul(a, w), b), r), [1])


def test_a_long_reduction_is_computed_in_parts_without_scratch(tmp_path: Path) -> None:
    # Wider vectors prefetch inputs instead, and sum as a whole.
    target = wide_target(128).model_copy(update={"l2_bytes": 1 << 16})
    function = product(24, 1536, 32)
    trace, _ = default_trace(function, target)
    assert ANNOTATION in trace
    module, packing = split_packing(replay(function, trace))
    source = emit_kernel(module, target, "parts")
    assert "part == 0" in source.definition
    assert source.scratch_bytes == 0
    generator = np.random.default_rng(3)
    a, w, b, r = (generator.standard_normal(s).astype("f4") for s in ((24, 1536), (1536, 32), (32,), (24, 32)))
    packed = packing[1].apply(w) if 1 in packing else w
    for compiler in ("gcc", "clang-19"):
        compile_strictly(source, target, tmp_path, compiler)
    result = run_kernel(source, target, [a, packed, b, r, np.zeros_like(r)], tmp_path)[-1]
    np.testing.assert_allclose(result, a.astype("f8") @ w + b + r, rtol=1e-5, atol=1e-4)


def test_parts_are_for_products_whose_operands_outgrow_the_cache() -> None:
    found = tile_of(product(128, 3072, 768), wide_target())
    assert found is not None
    assert [parts_for(found[1], size) for size in (0, 1 << 18, 1 << 20, 1 << 24)] == [1, 12, 3, 1]


@pytest.mark.parametrize(("depth", "parts"), [(4099, 1), (6152, 1), (4096, 16), (3075, 15)])
def test_parts_are_of_one_size_and_not_many(depth: int, parts: int) -> None:
    found = tile_of(product(64, depth, 64), wide_target())
    assert found is not None
    assert parts_for(found[1], 1 << 18) == parts


@pytest.mark.parametrize("depth", [4099, 6152])
def test_a_reduction_that_has_no_such_parts_is_computed_as_a_whole(depth: int) -> None:
    target = wide_target().model_copy(update={"l2_bytes": 1 << 18})
    function = product(16, depth, 32)
    source = emit_kernel(split_packing(replay(function, default_trace(function, target)[0]))[0], target, "whole")
    assert "part" not in source.definition


@pytest.mark.parametrize("to", ["float16", "int32"])
def test_sums_of_another_type_than_the_result_are_not_divided(to: str) -> None:
    target = wide_target().model_copy(update={"l2_bytes": 1 << 16})
    a, w = te.placeholder((24, 1536), name="a"), te.placeholder((1536, 32), name="w")
    function = prim_func([a, w], topi.cast(topi.nn.matmul(a, w), to), [1])
    source = emit_kernel(split_packing(replay(function, default_trace(function, target)[0]))[0], target, "whole")
    assert "part" not in source.definition


def test_what_cannot_be_divided_stays_whole() -> None:
    a = te.placeholder((64,), name="a")
    sch = Schedule(module_of(prim_func([a], topi.sum(a, axis=0, keepdims=True))))
    plain = emit_kernel(sch.mod, wide_target(), "parts")
    sch.annotate(sch.get_loops(sch.get_sblock("a_red"))[-1], ANNOTATION, 4)
    assert emit_kernel(sch.mod, wide_target(), "parts").definition == plain.definition


def test_elements_that_each_lane_adds_to_are_not_joined(tmp_path: Path) -> None:
    x = te.placeholder((64, 8), name="x")
    squares = te.compute((64, 8), lambda i, j: x[i, j] * x[i, j], name="t")
    k = te.reduce_axis((0, 64), name="k")
    total = te.compute((8,), lambda j: te.sum(squares[k, j], axis=k), name="o")
    sch = Schedule(module_of(prim_func([x], total)))
    j, rows = sch.get_loops(sch.get_sblock("o"))
    sch.reorder(rows, j)
    sch.decompose_reduction(sch.get_sblock("o"), rows)
    sch.compute_at(sch.get_sblock("t"), sch.get_loops(sch.get_sblock("o_update"))[0])
    sch.set_scope(sch.get_sblock("t"), 0, "local")
    data = np.random.default_rng(0).standard_normal((64, 8)).astype("f4")
    source = emit_kernel(sch.mod, wide_target(), "columns")
    result = run_kernel(source, wide_target(), [data, np.zeros(8, "f4")], tmp_path)[-1]
    np.testing.assert_allclose(result, (data * data).sum(0), rtol=1e-5)


@pytest.mark.parametrize("bits", [128, 256, 512])
@pytest.mark.parametrize("operator", ["sum", "max", "min"])
def test_lanes_join_by_halves(operator: str, bits: int, tmp_path: Path) -> None:
    target = wide_target(bits)
    x = te.placeholder((5, 128), name="x")
    function = prim_func([x], getattr(topi, operator)(x, axis=1))
    trace, _ = default_trace(function, target)
    source = emit_kernel(replay(function, trace), target, "joined")
    assert "@lanes_" in source.definition
    for compiler in ("gcc", "clang-19"):
        compile_strictly(source, target, tmp_path, compiler)
    data = np.random.default_rng(4).standard_normal((5, 128)).astype("f4")
    result = run_kernel(source, target, [data, np.zeros(5, "f4")], tmp_path)[-1]
    np.testing.assert_allclose(result, getattr(data, operator)(axis=1), rtol=1e-5, atol=1e-5)
