"""Test vectors of kernels: TVM's LLVM build of the unscheduled function, on inputs that make sense."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import tvm
from tvm import te

from edgetune.graph.accuracy import Tolerance, compare
from edgetune.graph.program import Param, Rows
from edgetune.graph.views.strided_view import with_gaps
from edgetune.measure.jobs import ReferenceJob
from edgetune.measure.reference import make_case, random_input, tolerance_of
from edgetune.schedule.kernel_spec import KernelSpec


def describe(function: tvm.tirx.PrimFunc, *params: Param) -> KernelSpec:
    return KernelSpec("k", "kernel", str(tvm.ir.save_json(function)), params, 0)


def dense() -> KernelSpec:
    data, weight = te.placeholder((4, 64), "float32", "data"), te.placeholder((8, 64), "float32", "weight")
    axis = te.reduce_axis((0, 64), "k")
    out = te.compute((4, 8), lambda i, j: te.sum(data[i, axis] * weight[j, axis], axis=axis), "out")
    return describe(
        te.create_prim_func([data, weight, out]),
        Param("data", (4, 64), "float32", "input"),
        Param("weight", (8, 64), "float32", "constant"),
        Param("out", (4, 8), "float32", "output"),
    )


def elementwise(name: str, dtype: str, operation: Callable[..., object]) -> KernelSpec:
    left, right = te.placeholder((4096,), dtype, "left"), te.placeholder((4096,), dtype, "right")
    out = te.compute((4096,), lambda i: operation(left[i], right[i]), name)
    return describe(
        te.create_prim_func([left, right, out]),
        Param("left", (4096,), dtype, "input"),
        Param("right", (4096,), dtype, "input"),
        Param("out", (4096,), dtype, "output"),
    )


def test_the_reference_is_what_numpy_says(tmp_path: Path) -> None:
    case = make_case(dense(), tmp_path, ReferenceJob("k", 1, {}))
    data, weight, out = (np.load(path) for path in case.arrays)
    np.testing.assert_allclose(out, data @ weight.T, rtol=1e-4, atol=1e-5)
    assert 0.3 < float(np.std(out)) < 3.0  # scaled by fan-in
    assert case.roles == ("input", "constant", "output")
    assert case.tolerances == (None, None, Tolerance(relative=1e-4))


def test_gaps_of_an_output_hold_what_candidates_find_there(tmp_path: Path) -> None:
    spec = dense()
    plain = np.load(make_case(spec, tmp_path / "plain", ReferenceJob("k", 1, {})).arrays[2])
    function = with_gaps(tvm.ir.load_json(spec.function_json), {2: (4, 12)})
    wide = Param("out", (4, 12), "float32", "output", Rows(8, 12))
    case = make_case(describe(function, *spec.params[:2], wide), tmp_path / "wide", ReferenceJob("k", 1, {}))
    out = np.load(case.arrays[2])
    np.testing.assert_allclose(out[:, :8], plain, rtol=1e-5)
    assert np.all(out[:, 8:].copy().view(np.uint32) == 0xFFFFFFFF)
    assert case.roles == ("input", "constant", "part")


@pytest.mark.parametrize("dtype", ["uint8", "int8"])
def test_steps_are_counted_among_own_elements_and_none_hides_in_a_gap(dtype: str, tmp_path: Path) -> None:
    data = te.placeholder((20, 10), "float32", "data")
    out = te.compute((20, 10), lambda i, j: tvm.tirx.abs(tvm.tirx.round(data[i, j] * 9.0)).astype(dtype), "out")
    function = with_gaps(te.create_prim_func([data, out]), {1: (20, 40)})
    wide = Param("out", (20, 40), dtype, "output", Rows(10, 40))
    case = make_case(
        describe(function, Param("data", (20, 10), "float32", "input"), wide), tmp_path, ReferenceJob("k", 0, {})
    )
    reference, tolerance = np.load(case.arrays[1]), case.tolerances[1]
    assert tolerance is not None
    for off, allowed in ((4, True), (5, False)):
        changed = reference.copy()
        changed.reshape(-1)[wide.elements[:off]] += 1
        assert compare(changed, reference, tolerance).allowed == allowed
    limits = np.iinfo(reference.dtype)
    for written in (limits.min, limits.min + 1, 0, 1, limits.max - 1, limits.max, *([-1] if limits.min else [])):
        changed = reference.copy()
        changed[3, 17] = written
        assert not compare(changed, reference, tolerance).allowed


def test_gaps_do_not_hide_special_values(tmp_path: Path) -> None:
    data = te.placeholder((20, 10), "float32", "data")
    out = te.compute((20, 10), lambda i, j: tvm.tirx.sqrt(data[i, j]), "out")
    function = with_gaps(te.create_prim_func([data, out]), {1: (20, 100)})
    wide = Param("out", (20, 100), "float32", "output", Rows(10, 100))
    case = make_case(
        describe(function, Param("data", (20, 10), "float32", "input"), wide), tmp_path, ReferenceJob("k", 0, {})
    )
    assert np.all(np.isfinite(np.load(case.arrays[1])[:, :10]))


def test_the_seed_decides_and_given_weights_are_used(tmp_path: Path) -> None:
    np.save(tmp_path / "given.npy", np.ones((8, 64), np.float32))
    first = make_case(dense(), tmp_path / "a", ReferenceJob("k", 1, {}))
    second = make_case(dense(), tmp_path / "b", ReferenceJob("k", 1, {1: tmp_path / "given.npy"}))
    third = make_case(dense(), tmp_path / "c", ReferenceJob("k", 2, {}))
    data = [np.load(case.arrays[0]) for case in (first, second, third)]
    assert np.array_equal(data[0], data[1])
    assert not np.array_equal(data[0], data[2])
    assert np.all(np.load(second.arrays[1]) == 1)


def test_a_division_by_zero_gives_zero_and_traps_nowhere(tmp_path: Path) -> None:
    spec = elementwise("quotient", "int8", tvm.tirx.truncdiv)
    case = make_case(spec, tmp_path, ReferenceJob("k", 0, {}))
    left, right, out = (np.load(path).astype(int) for path in case.arrays)
    assert right.min() < 0
    assert np.count_nonzero(right == 0) > 0
    exact = np.where(right == 0, 0, np.trunc(left / np.where(right == 0, 1, right)))
    assert np.array_equal(out, exact.astype(np.int8))
    assert case.tolerances[2] == Tolerance()


def test_logarithms_get_positive_inputs(tmp_path: Path) -> None:
    spec = elementwise("logs", "float32", lambda a, b: tvm.tirx.log(a) + tvm.tirx.log(b))
    case = make_case(spec, tmp_path, ReferenceJob("k", 0, {}))
    assert np.all(np.isfinite(np.load(case.arrays[2])))


def test_quantised_outputs_may_be_one_step_off(tmp_path: Path) -> None:
    data = te.placeholder((100,), "float32", "data")
    out = te.compute((100,), lambda i: tvm.tirx.round(data[i] * tvm.tirx.const(9.0, "float32")).astype("int8"), "out")
    spec = describe(
        te.create_prim_func([data, out]),
        Param("data", (100,), "float32", "input"),
        Param("out", (100,), "int8", "output"),
    )
    case = make_case(spec, tmp_path, ReferenceJob("k", 0, {}))
    assert case.tolerances[1] == Tolerance(absolute=1.0, share=0.02)
    assert np.array_equal(np.load(case.arrays[1]), np.round(np.load(case.arrays[0]) * np.float32(9)).astype(np.int8))


@pytest.mark.parametrize(
    "dtype", ["bool", "float16", "float64", "int16", "uint8", "int32", "uint32", "int64", "uint64"]
)
def test_inputs_of_every_type_keep_to_a_range(dtype: str) -> None:
    param = Param("p", (1000,), dtype, "input")
    others = (Param("data", (5, 70), "float32", "input"), param)
    values = random_input(param, others, np.random.default_rng(0), positive=False)
    assert (values.dtype, values.shape) == (np.dtype(dtype), (1000,))
    assert len(np.unique(values)) > 1
    if dtype in {"int64", "uint64"}:
        assert set(np.unique(values)) == {0, 1, 2, 3, 4}
    positive = random_input(param, others, np.random.default_rng(0), positive=True)
    assert dtype == "bool" or float(positive.min()) > 0
    scalar = random_input(Param("s", (), dtype, "input"), others, np.random.default_rng(0), positive=False)
    assert (scalar.dtype, scalar.shape) == (np.dtype(dtype), ())


def test_floats_in_steps_may_be_a_step_off() -> None:
    script = 'T.Cast("int8", T.round(x))'
    steps = (np.arange(-40, 40) * 0.25).astype(np.float32)
    param = Param("out", steps.shape, "float32", "output")
    tolerance = tolerance_of(param, script, steps)
    assert tolerance.absolute == pytest.approx(0.25, rel=0.02)
    off = steps.copy()
    off[3] += 0.25
    assert compare(off, steps, tolerance).allowed
    off[3] += 0.25
    assert not compare(off, steps, tolerance).allowed
    assert tolerance_of(param, "no such cast", steps) == Tolerance(relative=1e-4)


def test_gaps_of_an_input_are_nan(tmp_path: Path) -> None:
    data = te.placeholder((4, 3), name="data")
    out = te.compute((4, 3), lambda i, j: data[i, j] + 1.0, name="out")
    function = with_gaps(te.create_prim_func([data, out]), {0: (4, 8)})
    wide = Param("data", (4, 8), "float32", "input", Rows(3, 8))
    spec = describe(function, wide, Param("out", (4, 3), "float32", "output"))
    case = make_case(spec, tmp_path, ReferenceJob("k", 1, {}))
    given, expected = (np.load(path) for path in case.arrays)
    assert np.isnan(given[:, 3:]).all()
    np.testing.assert_allclose(expected, given[:, :3] + 1.0)
