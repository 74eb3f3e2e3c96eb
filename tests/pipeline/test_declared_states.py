"""Declared states: sequences of golden cases, refusals, and what is said of states that are not declared."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper

from edgetune.config.settings import CommandLineFlags, Settings, resolve_settings
from edgetune.config.state_setting import output_and_file
from edgetune.errors import ModelError, UsageError
from edgetune.events import Event
from edgetune.frontend.tensor_expression.format import ExpressionModel
from edgetune.pipeline.compile_input import CompileInput, load
from edgetune.pipeline.declared_states import first_values, require_states, undeclared, with_equal_layouts
from edgetune.pipeline.model_formats import read_model
from edgetune.target.gpu import GpuTarget
from edgetune.target.target import load_board_kind
from tests import state_sample as sample


def settings_for(model: Path, states: Mapping[str, str], **more: object) -> Settings:
    flags = CommandLineFlags(model=model, board="host", states=states)
    return replace(resolve_settings(flags, {}, model.parent), **more)  # type: ignore[arg-type]


def loaded(model: Path, states: Mapping[str, str], **more: object) -> tuple[CompileInput, list[str]]:
    events: list[Event] = []
    subject = load(settings_for(model, states, **more), events.append)
    return subject, [str(event.data["message"]) for event in events if event.kind == "warning"]


def test_the_cases_are_two_sequences_that_the_model_runs_step_by_step(tmp_path: Path) -> None:
    subject, warnings = loaded(sample.average(tmp_path / "m.onnx"), {"h0": "hn"})
    assert not warnings
    assert [case.goes_on for case in subject.goldens] == [False, True, True, False, True]
    for before, case in zip(subject.goldens, subject.goldens[1:], strict=False):
        np.testing.assert_array_equal(
            case.inputs["h0"], before.outputs["hn"] if case.goes_on else 0 * case.inputs["h0"]
        )
    assert subject.tolerances.keys() == {"y", "hn"}
    assert [one.name for one in (*subject.program.inputs, *subject.program.outputs)] == ["x", "y"]


def test_what_looks_like_a_state_is_said_in_one_line_with_its_flags(tmp_path: Path) -> None:
    why = "which the program around the package has to copy between runs"
    model = sample.swap(tmp_path / "m.onnx")
    (two,) = loaded(model, {})[1]
    assert two == (
        f"input 'a' and output 'a_next', input 'b' and output 'b_next' look like states, {why}: "
        "--state a=a_next --state b=b_next keep them inside"
    )
    (one,) = loaded(model, {"b": "b_next"})[1]
    assert one == f"input 'a' and output 'a_next' look like a state, {why}: --state a=a_next keeps it inside"
    assert not loaded(model, sample.PAIRS["swap"])[1]


def opened(model: Path, output: str) -> Path:
    """The model, with an output whose axes have names alone, as exporters write what they cannot infer."""
    proto = onnx.load(model)
    for value in proto.graph.output:
        if value.name == output:
            for number, dim in enumerate(value.type.tensor_type.shape.dim):
                dim.dim_param = f"unknown_{number}"
    onnx.save(proto, model)
    return model


def test_a_state_may_become_an_output_of_open_shape(tmp_path: Path) -> None:
    model = opened(sample.average(tmp_path / "m.onnx"), "hn")
    assert "--state h0=hn keeps it inside" in loaded(model, {})[1][0]
    subject, warnings = loaded(model, {"h0": "hn"})
    assert not warnings
    (state,) = subject.program.states
    assert (state.name_out, state.shape) == ("hn", (1, 64))


def test_an_output_of_open_shape_that_turns_out_another_is_refused(tmp_path: Path) -> None:
    model = opened(sample.average(tmp_path / "m.onnx"), "y")
    with pytest.raises(ModelError, match=r"--state h0=y joins 'h0' \(1,64 float32\) and 'y' \(1,1 float32\)"):
        loaded(model, {"h0": "y"})


def test_a_gpu_keeps_none_and_is_told_nothing(tmp_path: Path) -> None:
    gpu = load_board_kind("cuda-generic")
    assert isinstance(gpu, GpuTarget)
    assert not loaded(sample.average(tmp_path / "m.onnx"), {}, target=gpu)[1]


def test_an_expression_keeps_none(tmp_path: Path) -> None:
    model, settings = sample.average(tmp_path / "m.onnx"), settings_for(tmp_path / "m.onnx", {"h0": "hn"})
    expression = ExpressionModel(read_model(model).program())
    with pytest.raises(ModelError, match=r"--state names 'h0', but packages of models of this format keep no states"):
        require_states(settings, expression)
    assert not undeclared(replace(settings, states={}), expression)


def test_both_ends_of_a_state_have_one_layout(tmp_path: Path) -> None:
    assert with_equal_layouts(frozenset("abx"), {"a": "b", "c": "x"}) == frozenset("ab")
    nodes = [
        helper.make_node("Conv", ["x", "w"], ["c"], pads=[1, 1, 1, 1]),
        helper.make_node("Add", ["c", "h0"], ["hn"]),
        helper.make_node("Relu", ["hn"], ["y"]),
    ]
    image = (1, 3, 3, 3)
    ends = {"x": image, "h0": image}, {"y": image, "hn": image}
    model = sample.written(tmp_path / "m.onnx", nodes, *ends, {"w": (3, 3, 3, 3)})
    subject, _ = loaded(model, {"h0": "hn"}, layout="channels_last")
    (state,) = subject.program.states
    assert (subject.program.inputs[0].layout, state.layout) == ("channels_last", "channels_last")
    layouts = {tensor.name: tensor.layout for tensor in subject.program.tensors}
    case = subject.goldens[1]
    assert case.given_back(layouts).goes_on
    np.testing.assert_array_equal(case.inputs["h0"], subject.goldens[0].outputs["hn"])


FIRST = np.linspace(-1, 1, 64, dtype=np.float32).reshape(1, 64)


def test_a_file_gives_the_value_before_the_first_run(tmp_path: Path) -> None:
    np.save(tmp_path / "first.npy", FIRST)
    subject, warnings = loaded(sample.average(tmp_path / "m.onnx"), {"h0": f"hn:{tmp_path / 'first.npy'}"})
    assert not warnings
    (state,) = subject.program.states
    np.testing.assert_array_equal(state.first, FIRST)
    for number in (0, 3):
        assert not subject.goldens[number].goes_on
        np.testing.assert_array_equal(subject.goldens[number].inputs["h0"], FIRST)
    np.testing.assert_array_equal(subject.goldens[1].inputs["h0"], subject.goldens[0].outputs["hn"])


def test_a_project_file_names_it_relative_to_itself(tmp_path: Path) -> None:
    (tmp_path / "edgetune.yaml").write_text("model: m.onnx\nboards: [host]\nstate: {h0: 'hn:values/first.npy'}\n")
    found = resolve_settings(CommandLineFlags(), {}, tmp_path)
    assert output_and_file(found.states["h0"]) == ("hn", tmp_path / "values" / "first.npy")


def test_names_with_colons_are_names() -> None:
    assert output_and_file("call:0") == ("call:0", None)
    assert output_and_file("call:0:first.npy") == ("call:0", Path("first.npy"))
    assert output_and_file("first.npy") == ("first.npy", None)


@pytest.mark.parametrize(
    ("content", "error", "said"),
    [
        (FIRST.T, ModelError, "gives 'h0' the first value 64,1 float32, and the state is 1,64 float32"),
        (FIRST.astype("f8"), ModelError, "gives 'h0' the first value 1,64 float64"),
        (b"1, 2, 3", UsageError, "names a file that is no array of NumPy"),
        (b"", UsageError, "names a file that is no array of NumPy"),
        (None, UsageError, "names a file that does not exist"),
    ],
)
def test_another_first_value_is_refused(
    tmp_path: Path, content: np.ndarray | bytes | None, error: type[Exception], said: str
) -> None:
    file = tmp_path / "first.npy"
    if isinstance(content, bytes):
        file.write_bytes(content)
    elif content is not None:
        np.save(file, content)
    with pytest.raises(error, match=said):
        loaded(sample.average(tmp_path / "m.onnx"), {"h0": f"hn:{file}"})


def headed(header: str, data: bytes = b"") -> bytes:
    """A .npy file with this header."""
    return b"\x93NUMPY\1\0" + struct.pack("<H", len(header)) + header.encode() + data


DAMAGED = {
    "a zip file": b"PK\3\4",
    "a pickle": b"\x80\4N.",
    "brackets that stay open": headed("[" * 5000),
    "a text that stays open": headed("'''(2L"),
    "a list as key": headed("{[]:1}"),
    "signs that exhaust the parser": headed("-" * 9000 + "1"),
    "another sign": headed("{'descr':'<f4','fortran_order':False,'shape':(-1,-64)}"),
    "arrays of arrays": headed("{'descr':('<f4',(1,64)),'fortran_order':False,'shape':()}", bytes(256)),
    "objects": headed("{'descr':'|O','fortran_order':False,'shape':(1,64)}", bytes(512)),
}


@pytest.mark.parametrize("name", DAMAGED)
def test_a_damaged_first_value_is_refused(tmp_path: Path, name: str) -> None:
    model, file = sample.average(tmp_path / "m.onnx"), tmp_path / "first.npy"
    file.write_bytes(DAMAGED[name])
    with pytest.raises(UsageError, match=r"names a file that is no array of NumPy: write it with numpy\.save"):
        require_states(settings_for(model, {"h0": f"hn:{file}"}), read_model(model))


def test_nothing_is_read_of_a_first_value_of_another_shape(tmp_path: Path) -> None:
    model, file = sample.average(tmp_path / "m.onnx"), tmp_path / "first.npy"
    settings = settings_for(model, {"h0": f"hn:{file}"})
    file.write_bytes(headed(f"{{'descr':'<f4','fortran_order':False,'shape':({10**40},)}}"))
    with pytest.raises(ModelError, match=r"gives 'h0' the first value 10+ float32, and the state is 1,64 float32"):
        require_states(settings, read_model(model))
    file.write_bytes(headed("{'descr':'<f4','fortran_order':False,'shape':(1,64)}", bytes(10)))
    with pytest.raises(UsageError, match="it holds 10 of 256 bytes of data"):
        require_states(settings, read_model(model))


def test_a_first_value_of_another_order_of_bytes_is_the_same(tmp_path: Path) -> None:
    model, file = sample.average(tmp_path / "m.onnx"), tmp_path / "first.npy"
    np.save(file, np.asfortranarray(FIRST.astype(">f4")))
    found = first_values(settings_for(model, {"h0": f"hn:{file}"}), read_model(model))["h0"]
    assert found.dtype == np.float32
    np.testing.assert_array_equal(found, FIRST)


def test_first_values_that_no_text_should_hold_are_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    np.save(tmp_path / "first.npy", FIRST)
    monkeypatch.setattr("edgetune.pipeline.declared_states._MOST_BYTES", 255)
    with pytest.raises(ModelError, match="the first values of 'h0' take 256 bytes, and a package has at most 255"):
        loaded(sample.average(tmp_path / "m.onnx"), {"h0": f"hn:{tmp_path / 'first.npy'}"})
