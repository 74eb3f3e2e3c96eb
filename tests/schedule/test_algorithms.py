"""Forms of a kernel: what has them, that they compute the same, and that schedules, records and choices name them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from edgetune.codegen import emit_kernel
from edgetune.errors import KernelFailed
from edgetune.graph.program import Kernel, Param, Role
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named, rounding_of
from edgetune.schedule.algorithms.schedule_text import (
    DIRECT,
    FORMS,
    WINOGRAD,
    algorithm_and_trace,
    algorithm_of,
    allowed_algorithms,
    schedule_text,
    trace_text,
)
from edgetune.schedule.algorithms.winograd.minimal_filtering import ALGORITHMS
from edgetune.schedule.default_algorithms import algorithms_of
from edgetune.schedule.default_schedule import best_guess, default_trace
from edgetune.schedule.sketches import design_spaces, postprocs
from edgetune.schedule.summary import summary
from edgetune.search.cost_model import CostModel
from edgetune.search.search import AlgorithmsSearch, SearchOptions, share
from edgetune.search.task import TuneTask
from edgetune.search.wiring import other_spaces, space_of
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.sketch_samples import board, conv2d, dense, random_arguments, run_plain

ROOM = 1 << 20
ROUNDING = {DIRECT: 1e-6, "winograd_f2": 3e-6, "winograd_f4": 1e-5}


def guess(function: Any, name: str, target: Any, scratch: int = ROOM) -> str:
    found = best_guess(algorithm_named(function, name).function, target, scratch)
    assert found is not None
    return schedule_text(name, found[0])


def prepared(arrays: list[Any], constants: Any) -> list[Any]:
    return [constants[n].apply(a) if n in constants else a for n, a in enumerate(arrays)]


def error(result: Any, expected: Any) -> float:
    return float(np.abs(result - expected).max() / np.abs(expected).max())


def test_processors_with_sixteen_registers_have_all_forms() -> None:
    function, target = conv2d((9, 9, 16), 16), board(128, 16)
    for name in WINOGRAD:
        assert best_guess(algorithm_named(function, name).function, target, ROOM) is not None, name


@pytest.mark.parametrize("name", WINOGRAD)
def test_the_algorithm_is_the_sum_of_nine_products(name: str) -> None:
    algorithm, random = ALGORITHMS[name], np.random.default_rng(0)
    d, g = random.random((algorithm.inputs, algorithm.inputs)), random.random((3, 3))
    b, w, a = algorithm.input_transform(), algorithm.weight_transform(), algorithm.output_transform()
    tile = range(algorithm.tile)
    expected = [[(d[i : i + 3, j : j + 3] * g).sum() for j in tile] for i in tile]
    np.testing.assert_allclose(a @ ((w @ g @ w.T) * (b @ d @ b.T)) @ a.T, expected, rtol=1e-12)


def test_the_documented_bounds_are_those_of_the_algorithms() -> None:
    text = (Path(__file__).parents[2] / "docs" / "forms.md").read_text(encoding="utf-8")
    for name, algorithm in ALGORITHMS.items():
        bound = f"u (C + {algorithm.roundings}) {np.ceil(algorithm.amplification):.0f} S"
        assert f"| `{name}` | {bound} |" in text
        assert f"(C + {algorithm.roundings})" in rounding_of(name)


@pytest.mark.parametrize(
    "function",
    [
        conv2d((8, 8, 8), 8, stride=2),
        conv2d((8, 8, 8), 8, dilation=2),
        conv2d((8, 8, 8), 8, groups=2),
        conv2d((8, 8, 8), 8, groups=8),
        conv2d((8, 8, 8), 8, kernel=(1, 1), pad=(0, 0, 0, 0)),
        conv2d((8, 8, 8), 8, kernel=(5, 5)),
        conv2d((8, 8, 3), 8),
        conv2d((8, 8, 8), 6),
        dense(4, 8, 8),
    ],
)
def test_other_kernels_have_the_direct_form_alone(function: Any) -> None:
    assert [form.name for form in algorithms_of(function, [DIRECT, *WINOGRAD], board())] == [DIRECT]
    with pytest.raises(KernelFailed, match="'winograd_f2', which this kernel does not have"):
        algorithm_named(function, "winograd_f2")


@pytest.mark.long
@pytest.mark.parametrize(
    ("function", "bits"),
    [
        (conv2d((7, 9, 8), 12, tail="residual"), 128),
        (conv2d((6, 5, 4), 8, pad=(0, 2, 1, 0), tail=""), 0),
        (conv2d((9, 10, 16), 16, pad=(0, 0, 0, 0)), 512),
    ],
)
def test_every_form_computes_the_same_in_c(function: Any, bits: int, tmp_path: Path) -> None:
    target = wide_target(bits) if bits else wide_target(512).model_copy(update={"vector_bits": 0})
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    assert [form.name for form in algorithms_of(function, [DIRECT, *WINOGRAD], board())] == [DIRECT, *WINOGRAD]
    for name in WINOGRAD:
        scheduled = apply_schedule(function, guess(function, name, target))
        source = emit_kernel(scheduled.module, target, "tiles")
        results = run_kernel(source, target, prepared(arrays, scheduled.constants), tmp_path)
        assert error(results[-1].reshape(expected.shape), expected) < ROUNDING[name], name


def test_c_is_clean_under_sanitizers(tmp_path: Path) -> None:
    function, target = conv2d((3, 5, 16), 16), wide_target(512)
    scheduled = apply_schedule(function, guess(function, "winograd_f2", target))
    source = emit_kernel(scheduled.module, target, "tiles")
    arrays = random_arguments(function)
    run_kernel(source, target, prepared(arrays, scheduled.constants), tmp_path, extra=SANITIZERS)


@pytest.mark.long
def test_sampled_schedules_compute_the_same(tmp_path: Path) -> None:
    name, function, target = "winograd_f2", conv2d((10, 12, 16), 32, tail="residual"), wide_target(256)
    arrays = random_arguments(function)
    expected = run_plain(function, arrays)
    texts = set()
    for seed in (1, 2, 3):
        for design in design_spaces(algorithm_named(function, name).function, target, seed=seed):
            design.enter_postproc()
            if all(post.apply(design) for post in postprocs(target, ROOM)):
                texts.add(schedule_text(name, trace_text(design.trace)))
    assert len(texts) > 1
    for text in sorted(texts)[:2]:
        scheduled = apply_schedule(function, text)
        source = emit_kernel(scheduled.module, target, "tiles")
        results = run_kernel(source, target, prepared(arrays, scheduled.constants), tmp_path)
        assert error(results[-1].reshape(expected.shape), expected) < ROUNDING[name]


@pytest.mark.long
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_text_compiles_without_warnings_and_is_the_same_each_time(cc: str, tmp_path: Path) -> None:
    function, target = conv2d((7, 8, 16), 16), wide_target(512)
    text = guess(function, "winograd_f4", target)
    source, again = (emit_kernel(apply_schedule(function, text).module, target, "tiles") for _ in range(2))
    assert source == again
    wide = ("-march=x86-64-v4", "-mprefer-vector-width=512")  # also where this machine has shorter vectors
    assembly = compile_strictly(source, target, tmp_path, cc, wide)
    assert "zmm" in assembly


@pytest.mark.long
def test_scratch_stays_within_the_limit_or_there_is_no_guess() -> None:
    function, target = conv2d((16, 16, 16), 16), board(512, 32)
    for limit in (ROOM, 40_000, 10_000):
        scheduled = apply_schedule(function, guess(function, "winograd_f2", target, limit))
        assert emit_kernel(scheduled.module, target, "tiles").scratch_bytes <= limit
    assert best_guess(algorithm_named(function, "winograd_f4").function, target, 1024) is None


def test_text_of_the_direct_form_is_the_trace_as_ever() -> None:
    trace = '[["x"],[]]'
    assert schedule_text(DIRECT, trace) == trace
    for name in FORMS:
        text = schedule_text(name, trace)
        assert (algorithm_of(text), algorithm_and_trace(text)) == (name, (name, trace))
        assert json.loads(text) is not None
    for strange in ("", "{}", '{"form":"a', '{"form":"a","trace":[]', '{"form":1,"trace":[]}'):
        assert algorithm_and_trace(strange) == (DIRECT, strange)


def test_a_summary_names_the_form() -> None:
    function, target = conv2d((8, 8, 16), 16), board(512, 32)
    assert summary(guess(function, "winograd_f2", target)).startswith("winograd_f2; ")
    assert not summary(default_trace(function, target)[0]).startswith(DIRECT)


def test_a_schedule_of_a_form_that_the_kernel_has_not_is_refused() -> None:
    with pytest.raises(KernelFailed, match="'padded'"):
        apply_schedule(conv2d((8, 8, 8), 8), schedule_text("padded", "[[],[]]"))


def test_trials_go_to_every_form_and_most_to_the_fast_ones() -> None:
    forms = ["a", "b", "c"]
    assert share(9, forms, {}) == {"a": 3, "b": 3, "c": 3}
    assert share(9, forms, {"a": 1.0, "b": 2.0, "c": 100.0}) == {"a": 6, "b": 2, "c": 1}
    assert share(2, forms, {}) == {"a": 1, "b": 1, "c": 0}
    assert sum(share(32, forms, {"c": 3.0, "a": 5.0}).values()) == 32


@pytest.mark.long
def test_a_search_proposes_the_guess_of_each_allowed_form_first_and_learns_from_all() -> None:
    function, target = conv2d((8, 8, 16), 16), board(512, 32)
    roles: tuple[Role, ...] = ("input", "constant", "constant", "output")
    shapes = [tuple(int(extent) for extent in param.shape) for param in function.params]
    params = tuple(Param(role, shape, "float32", role) for role, shape in zip(roles, shapes, strict=True))
    kernel = Kernel("conv", "0" * 64, function, params, ("conv",), 1, 1)
    task = TuneTask(kernel, ROOM, allowed_algorithms("f2"))
    spaces = (space_of(task, target), *other_spaces(task, target))
    assert [space.form for space in spaces] == [DIRECT, "winograd_f2"]
    search = AlgorithmsSearch("conv", spaces, CostModel(0), 0, SearchOptions(generations=1))
    first = search.propose(6, 1, ())
    assert guess(function, "winograd_f2", target) in first
    assert {algorithm_of(text) for text in first} == {DIRECT, "winograd_f2"}
    search.learn([(text, 1.0 if algorithm_of(text) == "winograd_f2" else 10.0) for text in first])
    second = search.propose(6, 2, set(first))
    assert not set(second) & set(first)
    assert sum(algorithm_of(text) == "winograd_f2" for text in second) > len(second) // 2
