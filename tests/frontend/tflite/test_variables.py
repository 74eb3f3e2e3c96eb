"""Resource variables are states: sequences against LiteRT, first values, the order of operators, odd files."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import edgetune
from edgetune import api
from edgetune.config.input_stream import InputStream
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.errors import ModelError, UnsupportedOperator, UsageError
from edgetune.frontend.tflite import litert
from edgetune.frontend.tflite.format import FORMAT, LoadedTflite
from edgetune.graph.evaluate import evaluate_program, evaluate_sequence
from edgetune.graph.states import with_states
from edgetune.pipeline.compile_input import load
from edgetune.pipeline.declared_states import require_states
from edgetune.pipeline.inspection import inspect_model
from tests.frontend.tflite.variable_operators import assign, begin, call_once, handle, read
from tests.frontend.tflite.writer import Quantised, Writer

SHAPE = (1, 4)
ONE, OTHER = Quantised([0.5], [-3]), Quantised([0.25], [7])


def of_floats() -> tuple[Writer, int]:
    writer = Writer()
    return writer, writer.input(SHAPE, "FLOAT32", name="x")


def added(writer: Writer, one: int, other: int, type_: str = "FLOAT32", quantised: Quantised | None = None) -> int:
    made = writer.tensor(SHAPE, type_, quantised)
    writer.operator("ADD", [one, other], [made], "AddOptions")
    return made


def sums() -> Writer:
    """A running sum that begins at 5, 6, 7, 8."""
    writer, x = of_floats()
    begin(writer, "sum", [[5, 6, 7, 8]], "FLOAT32")
    of = handle(writer, "sum")
    writer.outputs = [added(writer, read(writer, of, SHAPE, "FLOAT32"), x)]
    assign(writer, of, writer.outputs[0])
    return writer


def integers() -> Writer:
    """Two int8 variables, one of which begins at its zero point: what a call adds, the next one sees late."""
    writer = Writer()
    x = writer.input(SHAPE, "INT8", ONE, name="x")
    begin(writer, "late", np.full(SHAPE, -3), "INT8", ONE)
    begin(writer, "later", [[1, -128, 127, 0]], "INT8", ONE)
    late, later = handle(writer, "late"), handle(writer, "later")
    before = read(writer, late, SHAPE, "INT8", ONE)
    earlier = read(writer, later, SHAPE, "INT8", ONE)
    assign(writer, late, x)
    assign(writer, later, before)
    writer.outputs = [added(writer, earlier, x, "INT8", OTHER)]
    return writer


def read_between() -> Writer:
    """Reads before, between and after two assignments of a call."""
    writer, x = of_floats()
    begin(writer, "v", [[1, 2, 3, 4]], "FLOAT32")
    of = handle(writer, "v")
    first = read(writer, of, SHAPE, "FLOAT32")
    assign(writer, of, added(writer, first, x))
    second = read(writer, of, SHAPE, "FLOAT32")
    assign(writer, of, added(writer, second, x))
    writer.outputs = [first, second, read(writer, of, SHAPE, "FLOAT32")]
    return writer


def two_handles() -> Writer:
    """One variable by two handles, and another one of the same name in a container of its own."""
    writer, x = of_floats()
    begin(writer, "v", [[1, 2, 3, 4]], "FLOAT32")
    assign(writer, handle(writer, "v"), added(writer, read(writer, handle(writer, "v"), SHAPE, "FLOAT32"), x))
    elsewhere = handle(writer, "v")
    writer.operators[-1] = replace(writer.operators[-1], options={"SharedName": "v", "Container": "elsewhere"})
    assign(writer, elsewhere, x)
    writer.outputs = [read(writer, handle(writer, "v"), SHAPE, "FLOAT32")]
    return writer


def of_a_call() -> Writer:
    """Without CALL_ONCE: a variable that each call assigns before it reads it."""
    writer, x = of_floats()
    of = handle(writer, "v")
    assign(writer, of, x)
    writer.outputs = [added(writer, read(writer, of, SHAPE, "FLOAT32"), x)]
    return writer


def never_assigned() -> Writer:
    writer, x = of_floats()
    begin(writer, "v", [[1, 2, 3, 4]], "FLOAT32")
    writer.outputs = [added(writer, read(writer, handle(writer, "v"), SHAPE, "FLOAT32"), x)]
    return writer


def never_read() -> Writer:
    writer, x = of_floats()
    begin(writer, "v", [[1, 2, 3, 4]], "FLOAT32")
    writer.outputs = [added(writer, x, x)]
    assign(writer, handle(writer, "v"), writer.outputs[0])
    return writer


def computed_first_value() -> Writer:
    """A subgraph that computes the first value, also from a variable that it has assigned."""
    writer, x = of_floats()
    initial = call_once(writer)
    one, two = (initial.constant([row], "FLOAT32") for row in ([1, 2, 3, 4], [0.5, 0.25, 8, 1]))
    of = handle(initial, "v")
    assign(initial, of, added(initial, one, two))
    assign(initial, of, added(initial, read(initial, of, SHAPE, "FLOAT32"), one))
    of = handle(writer, "v")
    writer.outputs = [added(writer, read(writer, of, SHAPE, "FLOAT32"), x)]
    assign(writer, of, x)
    return writer


RIGHT: dict[Callable[[], Writer], list[str]] = {
    sums: ["sum"],
    integers: ["late", "later"],
    read_between: ["v"],
    two_handles: ["v"],
    of_a_call: [],
    never_assigned: [],
    never_read: [],
    computed_first_value: ["v"],
}
"""Files, and the states that they have."""


def loaded(folder: Path, writer: Writer) -> LoadedTflite:
    path = folder / "variables.tflite"
    path.write_bytes(writer.content())
    model = FORMAT.read(path).with_shapes({})
    assert isinstance(model, LoadedTflite)
    return model


@pytest.mark.parametrize("made", RIGHT)
def test_sequences_are_those_of_litert(tmp_path: Path, made: Callable[[], Writer]) -> None:
    model = loaded(tmp_path, made())
    states = model.states()
    assert [one.name_in for one in states] == RIGHT[made]
    pairs, first = {one.name_in: one.name_out for one in states}, {one.name_in: one.first for one in states}
    whole = model.program()
    program = with_states(whole, pairs, first)
    feeds = model.sample_inputs(program.inputs, 4, 0)
    right, evaluator = model.sequence_outputs(feeds, first, pairs, model.program, lambda _: None)
    assert evaluator == litert.evaluator(model.content)
    for found, wanted in zip(evaluate_sequence(program, feeds), right, strict=True):
        assert found.keys() == wanted.keys() - set(pairs.values())
        assert all(np.array_equal(found[name], wanted[name]) for name in found)
    kept = first
    for feed, wanted in zip(feeds, right, strict=True):
        (found,) = evaluate_program(whole, [{**feed, **kept}])
        assert all(np.array_equal(found[name], wanted[name]) for name in wanted)
        kept = {name_in: wanted[name_out] for name_in, name_out in pairs.items()}


def test_without_litert_the_translated_model_runs_step_by_step(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    model = loaded(tmp_path, sums())
    (state,) = model.states()
    feeds = model.sample_inputs([one for one in model.inputs if one.name == "x"], 3, 0)
    given = feeds, {"sum": state.first}, {"sum": state.name_out}, model.program
    right, _ = model.sequence_outputs(*given, lambda _: None)
    monkeypatch.setattr(litert, "is_installed", lambda: False)
    said: list[str] = []
    found, evaluator = model.sequence_outputs(*given, lambda event: said.append(str(event.data["message"])))
    assert evaluator != litert.evaluator(model.content)
    assert said == [
        "LiteRT is not installed (`pip install ai-edge-litert` installs it): the reference is an evaluator of ONNX"
    ]
    for one, other in zip(found, right, strict=True):
        np.testing.assert_allclose(one[state.name_out], other[state.name_out], rtol=1e-6)


def test_frames_are_not_asked_of_a_file_that_keeps_its_past(tmp_path: Path) -> None:
    with pytest.raises(ModelError, match=r"--stream names 'x', but .* in the variable 'sum': leave it out"):
        loaded(tmp_path, sums()).stepped({"x": InputStream(0, 1)})


def without_first_value() -> Writer:
    writer = sums()
    writer.operators, writer.others = writer.operators[1:], []
    return writer


def assigned_before_first_value() -> Writer:
    writer, x = of_floats()
    of = handle(writer, "v")
    assign(writer, of, x)
    begin(writer, "v", [[1, 2, 3, 4]], "FLOAT32")
    writer.outputs = [read(writer, of, SHAPE, "FLOAT32")]
    return writer


def calling(subgraph: int) -> Writer:
    writer = sums()
    writer.operators[0] = replace(writer.operators[0], options={"InitSubgraphIndex": subgraph})
    return writer


def refused_inside() -> Writer:
    writer = sums()
    initial = writer.others[0]
    made = initial.tensor(SHAPE, "FLOAT32", name="noise")
    initial.operator("RANDOM_UNIFORM", [initial.constant([1, 4], "INT32")], [made], "RandomOptions")
    return writer


def with_inputs_inside() -> Writer:
    writer = sums()
    writer.others[0].input(SHAPE, "FLOAT32")
    return writer


def handle_of_numbers() -> Writer:
    writer, x = of_floats()
    writer.outputs = [read(writer, x, SHAPE, "FLOAT32")]
    return writer


def of_another(shape: Sequence[int], type_: str) -> Writer:
    writer, _ = of_floats()
    begin(writer, "v", [[1, 2, 3, 4]], "FLOAT32")
    writer.outputs = [read(writer, handle(writer, "v"), shape, type_)]
    return writer


def another_assigned() -> Writer:
    writer = sums()
    assign(writer, handle(writer, "sum"), writer.constant([1.0, 2.0], "FLOAT32"))
    return writer


def branched() -> Writer:
    writer, x = of_floats()
    begin(writer, "v", [[1, 2, 3, 4]], "FLOAT32")
    branch = Writer()
    branch.outputs = [branch.input(SHAPE, "FLOAT32")]
    assign(branch, handle(branch, "v"), branch.outputs[0])
    writer.others.append(branch)
    writer.outputs = [writer.tensor(SHAPE, "FLOAT32", name="y")]
    condition = writer.constant([True], "BOOL")
    writer.operator("IF", [condition, x], writer.outputs, "IfOptions", ThenSubgraphIndex=2, ElseSubgraphIndex=2)
    return writer


REFUSED: dict[str, tuple[Callable[[], Writer], str]] = {
    "no first value": (without_first_value, r"READ_VARIABLE \(operator 1, which makes 't2'\) reads the variable 'sum'"),
    "assigned before the first value": (
        assigned_before_first_value,
        r"CALL_ONCE \(operator 2\) gives the variable 'v' its first value after an operator has used it",
    ),
    "a subgraph that is not there": (
        lambda: calling(9),
        r"CALL_ONCE \(operator 0\) runs subgraph 9, and the file has 2",
    ),
    "itself": (lambda: calling(0), r"CALL_ONCE \(operator 0\) runs subgraph 0"),
    "an operator inside": (
        refused_inside,
        r"CALL_ONCE \(operator 0\) runs subgraph 1, in which RANDOM_UNIFORM \(operator 2, .*'noise'\) is not supported",
    ),
    "inputs inside": (with_inputs_inside, r"CALL_ONCE \(operator 0\) runs subgraph 1, which has inputs"),
    "no handle": (handle_of_numbers, "READ_VARIABLE .* takes 'x' of type FLOAT32 as a variable, and no VAR_HANDLE"),
    "another type": (lambda: of_another(SHAPE, "INT32"), "as 1,4 INT32, and it holds 1,4 FLOAT32"),
    "another shape": (lambda: of_another((1, 5), "FLOAT32"), "as 1,5 FLOAT32, and it holds 1,4 FLOAT32"),
    "another shape assigned": (
        another_assigned,
        r"ASSIGN_VARIABLE \(operator 6\) assigns .* to the variable 'sum' as 2 FLOAT32, and it holds 1,4 FLOAT32",
    ),
    "a branch": (branched, r"IF \(operator 1, which makes 'y'\) is not supported"),
}
"""Files that are refused, and how."""


@pytest.mark.parametrize("name", REFUSED)
def test_other_variables_are_refused_in_one_sentence(tmp_path: Path, name: str) -> None:
    made, said = REFUSED[name]
    with pytest.raises(UnsupportedOperator, match=said) as caught:
        loaded(tmp_path, made())
    assert "has an operator that" in caught.value.message
    assert "variables.tflite" in caught.value.message


def test_an_unknown_shape_that_is_another_one_is_refused(tmp_path: Path) -> None:
    writer, x = of_floats()
    begin(writer, "v", [[1, 2, 3, 4]], "FLOAT32")
    of = handle(writer, "v")
    writer.outputs = [read(writer, of, (), "FLOAT32")]
    joined = writer.tensor((), "FLOAT32")
    writer.operator("CONCATENATION", [x, x], [joined], "ConcatenationOptions", Axis=1)
    assign(writer, of, joined)
    model = loaded(tmp_path, writer)
    flags = CommandLineFlags(model=model.content.path, board="host")
    with pytest.raises(ModelError, match=r"makes 'v/next' \(1,8 float32\) of its state 'v' \(1,4 float32\)"):
        load(resolve_settings(flags, {}, tmp_path), model=model)


def test_shapes_of_states_may_be_stated_and_no_others(tmp_path: Path) -> None:
    path = tmp_path / "variables.tflite"
    path.write_bytes(sums().content())
    stored = FORMAT.read(path)
    assert [one.name for one in stored.with_shapes({"x": SHAPE, "sum": SHAPE}).inputs] == ["x", "sum"]
    with pytest.raises(ModelError, match="--shape names 'sum'"):
        stored.with_shapes({"sum": (1, 5)})


@pytest.mark.long
def test_a_package_begins_and_goes_on_as_litert_does(tmp_path: Path) -> None:
    model = loaded(tmp_path, integers())
    states, out = model.states(), tmp_path / "package"
    edgetune.load(model.content.path).build(board="host", out=out)
    assert api.verify(out, None, model.content.path, lambda _: None).fresh_cases == 4
    report = (out / "REPORT.md").read_text()
    assert "| late | 1x4 | `int8_t` | 4 | all -3 |" in report
    assert "| later | 1x4 | `int8_t` | 4 | a constant of the library |" in report
    feeds = model.sample_inputs([one for one in model.inputs if one.name == "x"], 4, 1)
    first = {one.name_in: one.first for one in states}
    pairs = {one.name_in: one.name_out for one in states}
    right, _ = model.sequence_outputs(feeds, first, pairs, model.program, lambda _: None)
    with edgetune.Package.open(out) as package:
        for _ in range(2):
            package.reset()
            assert all(np.array_equal(package.kept[name], array) for name, array in first.items())
            for feed, wanted in zip(feeds, right, strict=True):
                found = package.run(**feed) | {pairs[name]: array for name, array in package.kept.items()}
                assert all(np.array_equal(found[name], wanted[name]) for name in wanted)


def test_inspect_shows_states_and_their_bytes(tmp_path: Path) -> None:
    path = tmp_path / "variables.tflite"
    path.write_bytes(integers().content())
    found = inspect_model(path, {}, {})
    assert [(one.name, one.shape, one.type) for one in found.kept] == [(n, SHAPE, "int8") for n in ("late", "later")]
    assert [one.name for one in (*found.inputs, *found.outputs)] == ["x", "t5"]
    assert found.least_ram is not None
    assert found.least_ram.state_bytes == 8
    path.write_bytes(without_first_value().content())
    (refused,) = inspect_model(path, {}, {}).unsupported
    assert "before anything gives it a value" in refused.reason


def test_a_gpu_keeps_no_variables(tmp_path: Path) -> None:
    model = loaded(tmp_path, sums())
    settings = resolve_settings(CommandLineFlags(model=model.content.path, board="cuda-generic"), {}, tmp_path)
    with pytest.raises(UsageError, match=r"keeps 'sum' from run to run, .* in CUDA: build it for a board with a CPU"):
        require_states(settings, model)
