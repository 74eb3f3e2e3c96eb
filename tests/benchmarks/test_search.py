"""The search benchmark: which cases it has, what they compute, and what its table says."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any
from xml.etree import ElementTree as ET

import numpy as np
import pytest
import tvm
from tvm import te

from benchmarks.search import accuracy, compile_times
from benchmarks.search.cases import expression_named, names_of
from benchmarks.search.expression import Expression
from benchmarks.search.paper_operators import (
    MOST_OPERATIONS,
    Window,
    capsule,
    convolution,
    depthwise,
    norm,
    scores,
    transposed,
)
from benchmarks.search.picture import picture
from benchmarks.search.published import by_channel, capsules, grouped, spread
from benchmarks.search.short_rows import has_short_rows
from benchmarks.search.table import CaseResult, markdown
from edgetune.errors import UsageError
from edgetune.graph.evaluate import evaluate_program
from edgetune.target.target import load_target
from tests.te_programs import program_from_te


def computed(case: Expression, values: Mapping[str, np.ndarray] | None = None) -> np.ndarray:
    """The output of an expression, by TVM's LLVM back end; its own values where none are given."""
    shapes = {**case.inputs, **case.constants}
    places = [te.placeholder(shape, "float32", name=name) for name, shape in shapes.items()]
    function = tvm.compile(te.create_prim_func([*places, case.compute(*places)]), target="llvm")
    arrays = [tvm.runtime.tensor(value) for value in (values or case.values(shapes)).values()]
    output = tvm.runtime.tensor(np.zeros(case.output, np.float32))
    function(*arrays, output)
    return np.asarray(output.numpy())


def test_the_selections_have_the_cases_that_they_promise() -> None:
    assert len(list(names_of("quick"))) == 23
    assert len(list(names_of("full"))) == 79
    assert set(names_of("quick")) < set(names_of("full"))
    assert len(list(names_of("second"))) == 12
    assert len(set(names_of("unforeseen"))) == 20
    assert set(names_of("unforeseen")).isdisjoint(names_of("full"))
    assert list(names_of("gmm_1_b1,tbs_2")) == ["gmm_1_b1", "tbs_2_b1"]
    assert all(expression_named(name).operations <= MOST_OPERATIONS for name in names_of("full"))


def test_a_transposed_convolution_scatters_each_pixel() -> None:
    case = transposed("t", 1, 3, (2, 3), 4, 2, 1)
    values = case.values({**case.inputs, **case.constants})
    wanted = np.zeros((1, 8, 8, 3))
    for row, column in np.ndindex(3, 3):
        patch = np.einsum("c,hwcd->hwd", values["x"][0, row, column], values["w"])
        wanted[0, 2 * row : 2 * row + 4, 2 * column : 2 * column + 4] += patch
    np.testing.assert_allclose(computed(case), wanted[:, 1:-1, 1:-1], rtol=1e-4, atol=1e-5)


def test_a_capsule_convolution_multiplies_matrices() -> None:
    case = capsule("c", 1, 3, (2, 3), 3, 1, 0)
    values = case.values({**case.inputs, **case.constants})
    wanted = np.einsum("hwikc,hwkjcd->ijd", values["x"][0], values["w"])
    np.testing.assert_allclose(computed(case)[0, 0, 0], wanted, rtol=1e-4, atol=1e-4)


def test_norm_scores_and_groups_follow_their_definitions() -> None:
    case = norm("n", 2, 3, 5)
    value = case.values(case.inputs)["a"]
    np.testing.assert_allclose(computed(case), np.linalg.norm(value.reshape(2, -1), axis=1), rtol=1e-5)
    case = scores("s", 1, 4, 2, 3)
    values = case.values(case.inputs)
    products = np.exp(np.einsum("bihd,bjhd->bhij", values["q"], values["v"]))
    np.testing.assert_allclose(computed(case), products / products.sum(-1, keepdims=True), rtol=1e-4)
    case = convolution("g", 1, (4,), (4, 6), Window(1), groups=2)
    values = case.values({**case.inputs, **case.constants})
    x, w = values["x"].reshape(4, 2, 2), values["w"].reshape(2, 2, 3)
    np.testing.assert_allclose(computed(case).reshape(4, 2, 3), np.einsum("lgc,cgd->lgd", x, w), rtol=1e-4, atol=1e-5)


SMALL: dict[str, tuple[Callable[..., Expression], Callable[..., Expression], tuple[Any, ...]]] = {
    "c1d": (grouped, convolution, ((64,), (16, 32), Window(3, 2, 1))),
    "c2d": (grouped, convolution, ((14, 14), (16, 32), Window(3, 1, 1))),
    "c2d_of_one": (grouped, convolution, ((14, 14), (16, 32), Window(1, 1, 0))),
    "c3d": (grouped, convolution, ((4, 8, 8), (8, 32), Window(3, 1, 1))),
    "dil": (grouped, convolution, ((14, 14), (16, 32), Window(3, 1, 1, 2))),
    "grp": (grouped, convolution, ((14, 14), (16, 32), Window(3, 1, 1), 4)),
    "dep": (by_channel, depthwise, (14, 32, 3, 1, 1)),
    "t2d": (spread, transposed, (8, (16, 8), 4, 2, 1)),
    "cap": (capsules, capsule, (8, (8, 16), 3, 1, 1)),
}


@pytest.mark.parametrize("kind", SMALL)
def test_what_a_paper_publishes_is_computed_as_the_plain_form_is(kind: str) -> None:
    """Several ended with an error of numpy: of one group, each channel divided by all of them is 0."""
    published, plain, shape = SMALL[kind]
    case, other = published("p", *shape), plain("p", 1, *shape)
    given = {name: (extents, "float32") for name, extents in case.inputs.items()}
    program = program_from_te(case.compute, given, case.values(case.constants), "p")
    (found,) = evaluate_program(program, [case.values(case.inputs)])[0].values()
    values = {**other.values(other.inputs), "w": case.values(case.constants)["w"].reshape(other.constants["w"])}
    np.testing.assert_allclose(found, computed(other, values), rtol=1e-4, atol=1e-4)


def test_the_channels_of_one_group_do_not_depend_on_the_lanes() -> None:
    """Where they seem to, vectors of results would gather their elements."""
    case = grouped("p", (14, 14), (16, 32), Window(3, 1, 1))
    program = program_from_te(case.compute, {"x": (case.inputs["x"], "float32")}, case.values(case.constants), "p")
    assert "PadInput[v_n, v_i0 + v_r0, v_i1 + v_r1, v_rc]" in program.kernels[0].function.script()


@pytest.mark.parametrize("name", [*names_of("unforeseen"), *names_of("later"), *names_of("short-rows")])
def test_unforeseen_expressions_compute_what_their_definitions_say(name: str) -> None:
    case = expression_named(name)
    assert case.error(computed(case)) < 1e-5


def test_short_rows_are_short() -> None:
    """Many lengths, of which vectors of four lanes divide some."""
    cases = [expression_named(name) for name in names_of("short-rows")]
    assert len({case.name for case in cases}) >= 60
    assert all(map(has_short_rows, cases))
    drawn = {int(case.name.rpartition("_")[2]) for case in cases if case.name[-1].isdigit()}
    assert len(drawn) >= 20
    assert any(length % 4 == 0 for length in drawn)
    assert any(length % 4 for length in drawn)


def test_a_wrong_result_has_an_error_as_a_share_of_its_terms() -> None:
    case = expression_named("new_matrix_vector")
    assert case.reference is not None
    value, terms = case.reference(*case.values(case.inputs).values())
    wrong = value.copy()
    wrong[7] += 1e-3 * terms[7]
    assert case.error(value) == 0
    assert 0.9e-3 < case.error(wrong) < 1.1e-3
    assert case.error(value[1:]) == float("inf")
    wrong[7] = np.nan
    assert case.error(wrong) == float("inf")


def result(name: str, ours: list[float], peer: list[float]) -> CaseResult:
    """A measured case."""
    return CaseResult(name, ours, peer, 10.0, 100.0, 10**6, 1e-6, 1.0, 64)


def test_the_interval_of_a_ratio_holds_the_ratio_and_shrinks_to_it_without_noise() -> None:
    steady = result("a", [50.0] * 5, [100.0] * 5)
    assert steady.ratio == 2.0
    assert steady.interval == (2.0, 2.0)
    low, high = result("b", [50.0, 55.0, 45.0, 52.0, 70.0], [100.0, 90.0, 120.0, 101.0, 99.0]).interval
    assert low < 100 / 52 < high


def test_the_table_shows_losses_wide_intervals_and_short_cases() -> None:
    text = markdown(
        [
            result("slow", [100.0] * 5, [50.0] * 5),
            result("fast", [50.0] * 5, [100.0] * 5),
            result("wide", [50.0, 90.0, 30.0, 60.0, 20.0], [100.0] * 5),
            result("short", [5.0] * 5, [9.0] * 5),
        ],
        "PyTorch",
    )
    assert "1 of 3 slower than PyTorch; undecided: wide." in text
    assert text.index("| wide |") < text.index("less than 20 us") < text.index("| short |")


def test_the_picture_has_a_bar_for_each_side_and_ends_them_at_the_roofline() -> None:
    measured = [result("a<b", [20.0] * 5, [40.0] * 5), result("beyond", [5.0] * 5, [20.0] * 5)]
    text = picture([*measured, result("alone", [20.0] * 5, [])], "PyTorch")
    root = ET.fromstring(text)  # noqa: S314  it was made here
    bars = [node for node in root.iter("{http://www.w3.org/2000/svg}rect") if len(node)]
    widths = [float(bar.attrib["width"]) for bar in bars]
    assert [round(width / max(widths), 3) for width in widths] == [0.5, 0.25, 1.0, 0.5]
    assert "a&lt;b" in text


def test_cases_without_pytorch_have_a_table_that_names_those_far_from_the_roofline() -> None:
    text = markdown([result("near", [20.0] * 3, []), result("far", [40.0] * 3, [])], "PyTorch")
    assert "PyTorch" not in text
    assert text.index("| far |") < text.index("| near |")
    assert "1 of 2 under a third of a roofline of more than 5 us: far." in text
    assert "Above the peak" not in text
    assert "Above the peak of multiply-adds: fast." in markdown(
        [result("near", [20.0] * 3, []), result("fast", [4.0] * 3, [])], "PyTorch"
    )
    assert "| near |" in markdown([result("both", [50.0] * 5, [100.0] * 5), result("near", [20.0] * 3, [])], "PyTorch")


@pytest.mark.parametrize("name", ["grp_2_b1", "dil_3_b1", "cbr_3_b1", "dep_3_b1"])
def test_expressions_state_the_shape_of_their_result(name: str) -> None:
    case = expression_named(name)
    places = [te.placeholder(shape, "float32", name=key) for key, shape in {**case.inputs, **case.constants}.items()]
    assert tuple(int(extent) for extent in case.compute(*places).shape) == case.output


def test_a_name_without_a_case_is_refused() -> None:
    with pytest.raises(UsageError, match="there is no case 'C2D': did you mean"):
        list(names_of("gmm_1_b1,C2D"))


@pytest.mark.long
def test_a_candidates_compile_time_and_stack_are_reported(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert compile_times.main(["--cases", "nrm_1_b1,gmm_1_b1", "--samples", "2", "-o", str(tmp_path)]) == 0
    found = json.loads((tmp_path / "compile_times.json").read_text(encoding="utf-8"))
    assert {one["case"]: one["tile"] for one in found} == {"nrm_1_b1": False, "gmm_1_b1": True}
    assert all(one["seconds"] > 0 and one["stack_bytes"] > 0 and not one["late"] for one in found)
    assert "| register tiles | 2 |" in capsys.readouterr().out


def test_a_stack_over_the_bound_and_a_stopped_compiler_are_told() -> None:
    deep = compile_times.Compiled("deep", "direct", False, 1.0, 5000, 10)
    late = compile_times.Compiled("late", "direct", False, 4.0, 0, 10, late=True)
    text = compile_times.report([deep, late], load_target("generic-x86_64"))
    assert "| all others | 2 | 50.0% | 4.00 | 4.0 (late) | 5000 (deep) | 1 |" in text
    assert "Stopped after 60 s: late." in text


@pytest.mark.long
def test_results_of_many_terms_are_exact_enough_in_the_default_schedule_and_a_candidate() -> None:
    """65536 terms: more need the blocked sums, whose accuracy `benchmarks.search.accuracy` shows."""
    target = load_target("host")
    for case in accuracy.long_sums(1 << 16):
        found = accuracy.errors(case, 1, target)
        assert len(found) == 2, case.name
        assert max(found) <= accuracy.PROMISED, case.name


def test_a_wrong_result_is_an_error_as_a_share_of_its_terms() -> None:
    case = next(iter(accuracy.long_sums(16)))
    assert case.error(case.exact.astype(np.float32)) < 1e-7
    assert case.error(1.5 * case.exact) == pytest.approx(0.5)
