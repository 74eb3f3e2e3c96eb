"""Running rows: one walk along each short row, which means what the definition says, in C that compilers accept."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tvm import te, tirx

from edgetune.codegen import emit_kernel
from edgetune.frontend.tensor_expression import kernel
from edgetune.graph.evaluate import ReferenceFunction, evaluate_program
from edgetune.graph.program import Program
from edgetune.graph.running_reductions import FEWEST_TERMS
from edgetune.graph.written_loops import is_written
from edgetune.rewrites.parts import DIVISIONS, PARALLEL_DIVISIONS
from edgetune.rewrites.program import decided
from edgetune.schedule.sketches.spaces import untouched
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.executed_instructions import executed
from tests.graph.test_running_reductions import COMPARISONS, REDUCED
from tests.te_programs import program_from_te

WALKED = ("up to", "before", "from", "after")
SUMS = {"sum": np.add, "largest": np.maximum, "smallest": np.minimum}
_MOST = float(np.finfo(np.float32).max)
FIRST = {"sum": 0.0, "largest": -_MOST, "smallest": _MOST}


def running(kind: str, shape: tuple[int, ...], how: str, constant: float, *, tail: bool = False) -> Program:
    """The program of a running reduction of products along the last axis; a `tail` follows each result."""

    def compute(x: te.Tensor, y: te.Tensor) -> te.Tensor:
        k = te.reduce_axis((0, shape[-1]), "k")

        def value(*place: Any) -> Any:
            term, other = x(*place[:-1], k) * y[k], tirx.const(constant, "float32")
            return REDUCED[how](tirx.if_then_else(COMPARISONS[kind](place[-1], k), term, other), axis=k)

        made = te.compute(shape, value, "running")
        return te.compute(shape, lambda *place: tirx.abs(made(*place)) + 1.0, "tail") if tail else made

    inputs = {"x": (shape, "float32"), "y": (shape[-1:], "float32")}
    return program_from_te(compute, inputs, {}, "made")


def defined(kind: str, how: str, constant: float, x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The reduction of all terms of each result, as the expression says it."""
    places = np.arange(x.shape[-1])
    taken = np.vectorize(COMPARISONS[kind])(places[:, None], places[None, :])
    terms = np.where(taken, (x * y)[..., None, :], np.float32(constant))
    return np.asarray(SUMS[how].reduce(terms, axis=-1, initial=np.float32(FIRST[how])))


def arrays_of(shape: tuple[int, ...]) -> list[np.ndarray]:
    numbers = np.random.default_rng(shape[-1])
    return [numbers.standard_normal(one).astype(np.float32) for one in (shape, shape[-1:])]


@pytest.mark.long
@costly(12)
@given(
    st.sampled_from(WALKED),
    st.sampled_from([(), (5,), (3, 4)]),
    st.integers(2, FEWEST_TERMS - 1),
    st.sampled_from(sorted(REDUCED)),
    st.sampled_from([-30.0, -0.25, 30.0, -float("inf")]),
)
def test_a_walk_means_what_the_definition_says(
    kind: str, outer: tuple[int, ...], length: int, how: str, constant: float
) -> None:
    """Compilers warn of nothing, sanitizers of no other memory; the reference that a search compares with is right."""
    shape, constant = (*outer, length), 0.0 if how == "sum" else constant
    (walk,) = running(kind, shape, how, constant).kernels
    assert is_written(walk.function)
    arrays, target = arrays_of(shape), wide_target(256)
    source = emit_kernel(untouched(walk.function).mod, target, "walk")
    with tempfile.TemporaryDirectory() as folder:
        compile_strictly(source, target, Path(folder), "clang-19")
        result = np.full(shape, np.nan, np.float32)
        found = run_kernel(source, target, [*arrays, result], Path(folder), extra=SANITIZERS)[-1]
    wanted = defined(kind, how, constant, *arrays)
    (reference,) = ReferenceFunction(walk.function).run(arrays, [(shape, "float32")])
    for one in (found, reference):
        np.testing.assert_allclose(one, wanted, rtol=0, atol=2e-6 * length if how == "sum" else 0)


@pytest.mark.parametrize("kind", sorted(set(COMPARISONS) - set(WALKED)))
def test_terms_beyond_the_place_of_a_result_are_no_walk(kind: str) -> None:
    program = running(kind, (9, 20), "sum", 0.0)
    assert not any(is_written(one.function) for one in program.kernels)


def test_long_rows_are_no_walk() -> None:
    """Steps that wait for each other leave a core idle, and errors of sums grow with their terms."""
    for length, walk in ((FEWEST_TERMS - 1, True), (FEWEST_TERMS, False)):
        assert [is_written(one.function) for one in running("up to", (9, length), "sum", 0.0).kernels] == [walk]


def test_a_gpu_has_no_walks() -> None:
    """One thread would take all steps of a row."""
    k = te.reduce_axis((0, 26), "k")

    def compute(x: te.Tensor) -> te.Tensor:
        return te.compute((8, 26), lambda i, j: te.sum(tirx.if_then_else(k <= j, x[i, k], 0.0), axis=k), "running")

    whole = kernel.program_from_te(compute, {"x": ((8, 26), "float32")}, {}, "made")
    for ways, walk in ((DIVISIONS, True), (PARALLEL_DIVISIONS, False)):
        assert [is_written(one.function) for one in decided(whole, ways).kernels] == [walk]


@pytest.mark.long
@pytest.mark.parametrize("dtype", ["float64", "int8", "uint16", "int32"])
@pytest.mark.parametrize("how", sorted(REDUCED))
def test_numbers_of_all_types_walk(how: str, dtype: str, tmp_path: Path) -> None:
    """Sums of integers wrap."""
    k = te.reduce_axis((0, 13), "k")

    def compute(x: te.Tensor) -> te.Tensor:
        idle = tirx.const(0, dtype)
        return te.compute(
            (5, 13), lambda i, j: REDUCED[how](tirx.if_then_else(k <= j, x[i, k], idle), axis=k), "running"
        )

    (walk,) = program_from_te(compute, {"x": ((5, 13), dtype)}, {}, "made").kernels
    assert is_written(walk.function)
    ends = (-99, 99) if dtype == "float64" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    x = np.random.default_rng(3).integers(*ends, (5, 13), endpoint=True).astype(dtype)
    terms = np.where(np.tri(13, dtype=bool), x[:, None, :], np.zeros((), dtype))
    wanted = terms.sum(-1, dtype=dtype) if how == "sum" else SUMS[how].reduce(terms, axis=-1)
    target = wide_target(256)
    source = emit_kernel(untouched(walk.function).mod, target, "walk")
    compile_strictly(source, target, tmp_path, "clang-19")
    found = run_kernel(source, target, [x, np.zeros_like(x)], tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_array_equal(found, wanted)


def test_what_follows_a_walk_is_a_kernel_of_its_own() -> None:
    program = running("up to", (9, 20), "largest", -1.0, tail=True)
    assert [is_written(one.function) for one in program.kernels] == [True, False]
    arrays = arrays_of((9, 20))
    (found,) = evaluate_program(program, [dict(zip("xy", arrays, strict=True))])[0].values()
    np.testing.assert_array_equal(found, np.abs(defined("up to", "largest", -1.0, *arrays)) + 1)


@pytest.mark.long
def test_a_walk_takes_a_few_instructions_for_each_element(tmp_path: Path) -> None:
    """Lanes across the results of a row took 14."""
    assert executed(running("up to", (100, 26), "sum", 0.0), tmp_path) < 6 * 100 * 26
