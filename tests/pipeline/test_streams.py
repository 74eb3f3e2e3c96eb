"""Streams: a package of one step is held to the model of the window, in golden cases and in what it keeps."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np
import onnx
import pytest

from edgetune import api
from edgetune.config.input_stream import InputStream, stream_of
from edgetune.config.settings import CommandLineFlags, Settings, resolve_settings
from edgetune.errors import ModelError, PackageInvalid, UsageError, WrongResult
from edgetune.frontend.onnx.streaming import step_model
from edgetune.frontend.onnx.streaming.stepped_model import SteppedModel
from edgetune.package.golden import Golden, GoldenCases
from edgetune.package.manifest import interface_of, read_manifest, run_function, states_of
from edgetune.package.manifest import stream_of as stream_of_manifest
from edgetune.pipeline.compile_input import CompileInput, load
from edgetune.pipeline.fresh_inputs import fresh_goldens, model_of
from edgetune.pipeline.inspection import inspect_model
from edgetune.pipeline.model_formats import read_model, read_stored
from edgetune.target.target import load_board_kind
from edgetune.verify.verify import verify
from tests.frontend.onnx.streamed import Network
from tests.frontend.onnx.test_streaming import dilated, encoder, flattened, keyword
from tests.frontend.onnx.test_streaming_integers import late_quantised, padded_quantised
from tests.frontend.onnx.test_streaming_recurrent import denoiser

WAKE_WORD = Path(__file__).parents[3] / "shared" / "models" / "mlperf_tiny" / "sww_int8.tflite"
Build = Callable[[int], onnx.ModelProto]

NETWORKS: Mapping[str, tuple[Build, int, int]] = {
    "tcn": (partial(dilated, left=2, right=0), 128, 1),
    "tcn_late": (partial(dilated, left=1, right=1), 64, 4),
    "ds_cnn": (keyword, 49, 1),
    "encoder": (encoder, 32, 4),
    "flattened": (partial(flattened, stride=1), 20, 1),
    "gru": (partial(denoiser, pads=(2, 0), operator="GRU"), 16, 1),
    "lstm": (partial(denoiser, pads=(2, 0), operator="LSTM"), 16, 4),
    "last_state": (partial(denoiser, pads=(2, 0), last="state"), 16, 1),
    "integers": (padded_quantised, 24, 1),
    "late_integers": (late_quantised, 12, 3),
}


def written(folder: Path, name: str) -> tuple[Path, dict[str, InputStream]]:
    build, window, hop = NETWORKS[name]
    onnx.save(build(window), folder / f"{name}.onnx")
    return folder / f"{name}.onnx", {"x": InputStream(2, hop)}


def settings_for(model: Path, streams: Mapping[str, InputStream], board: str = "host", **more: object) -> Settings:
    flags = CommandLineFlags(model=model, board=board, streams=streams, out=model.parent / "package")
    return replace(resolve_settings(flags, {}, model.parent), **more)  # type: ignore[arg-type]


def sequences(subject: CompileInput) -> list[list[Golden]]:
    """The golden cases from one reset to the next."""
    found: list[list[Golden]] = []
    for case in subject.goldens:
        if not case.goes_on:
            found.append([])
        found[-1].append(case)
    return found


def in_windows(model: Path, frames: np.ndarray) -> dict[str, np.ndarray]:
    loaded = read_model(model)
    return loaded.reference_outputs([{"x": frames}], loaded.program, lambda _: None)[0][0]


@pytest.mark.long
def test_outputs_without_a_time_axis_are_those_of_the_window_that_ends_with_the_step(tmp_path: Path) -> None:
    model, streams = written(tmp_path, "flattened")
    subject = load(settings_for(model, streams))
    first, second = sequences(subject)
    assert (len(first), len(second)) == (25, 25), "a reset in the middle"
    frames = np.concatenate([case.inputs["x"] for case in first], 2)
    (output,) = subject.program.outputs
    for step in range(19, 25):
        wanted = in_windows(model, frames[:, :, step - 19 : step + 1])[output.name]
        np.testing.assert_array_equal(first[step].outputs[output.name], wanted)
    assert subject.stream is not None
    assert subject.stream.latency_steps == 19
    assert subject.reference == "onnxruntime, window by window"


@pytest.mark.long
def test_outputs_with_a_time_axis_are_those_of_the_window_from_the_reset_on(tmp_path: Path) -> None:
    model, streams = written(tmp_path, "tcn_late")
    subject = load(settings_for(model, streams))
    (output,) = subject.program.outputs
    assert subject.stream is not None
    latency = subject.stream.outputs[0].latency
    assert latency > 0
    first, _ = sequences(subject)
    frames = np.concatenate([case.inputs["x"] for case in first], 2)[:, :, :64]
    found = np.concatenate([case.outputs[output.name] for case in first], 2)
    wanted = in_windows(model, frames)[output.name]
    whole = -(-latency // 4) * 4  # steps of which all frames count
    np.testing.assert_array_equal(found[:, :, whole:64], wanted[:, :, whole - latency : 64 - latency])


def test_a_step_that_differs_from_its_window_is_refused(tmp_path: Path) -> None:
    model, streams = written(tmp_path, "flattened")
    whole = read_model(model)
    right = whole.stepped(streams)
    assert isinstance(right, SteppedModel)
    found = step_model(right.onnx, streams)
    for tensor in found.model.proto.graph.initializer:
        if tensor.data_type == onnx.TensorProto.FLOAT:
            changed = onnx.numpy_helper.to_array(tensor) * np.float32(1.001)
            tensor.CopyFrom(onnx.numpy_helper.from_array(changed, tensor.name))
    wrong = SteppedModel(whole, right.onnx, streams, "0" * 64)
    vars(wrong)["found"] = found  # the cached property
    feeds = wrong.sample_inputs([spec for spec in wrong.inputs if spec.name == "x"], 25, seed=3)
    states = {one.name_in: one.name_out for one in wrong.states()}
    kept = {one.name_in: one.first for one in wrong.states()}
    with pytest.raises(ModelError, match=r"of step 19 otherwise than its window, by .*: build it without --stream"):
        wrong.sequence_outputs(feeds, kept, states, wrong.program, lambda _: None)
    right.sequence_outputs(feeds, kept, states, right.program, lambda _: None)


def test_a_step_whose_elements_come_near_zero_may_be_off_as_others_may(tmp_path: Path) -> None:
    """They are what is left of large terms: an error that is nothing beside these is large beside them."""
    net = Network()
    output = net.add("Conv", net.input("x", (1, 2, 8)), net.constant([[[1], [-1]]]))
    onnx.save(net.proto(output), tmp_path / "m.onnx")
    whole, streams = read_model(tmp_path / "m.onnx"), {"x": InputStream(2)}
    model = whole.stepped(streams)
    assert isinstance(model, SteppedModel)
    found = step_model(model.onnx, streams)
    (tensor,) = found.model.proto.graph.initializer
    tensor.CopyFrom(onnx.numpy_helper.from_array(np.array([[[1 + 1e-6], [-1]]], np.float32), tensor.name))
    other = SteppedModel(whole, model.onnx, streams, "0" * 64)
    vars(other)["found"] = found  # the cached property
    frames = [np.array([[[1], [second]]], np.float32) for second in (-1, 0.999, 0.5)]
    outputs, _ = other.sequence_outputs([{"x": one} for one in frames], {}, {}, other.program, lambda _: None)
    of_window = in_windows(tmp_path / "m.onnx", np.repeat(frames[1], 8, 2))[output]
    np.testing.assert_array_equal(outputs[1][output], of_window[:, :, :1])


@pytest.mark.long
@pytest.mark.parametrize("name", list(NETWORKS))
def test_packages(name: str, tmp_path: Path) -> None:
    """Built, tested by themselves, and verified on fresh frames: within 1e-6 of the window, integers bit for bit."""
    model, streams = written(tmp_path, name)
    settings = settings_for(model, streams)
    api.build(settings, events=lambda _: None)
    report = api.verify(settings.out, None, model)
    assert all(one.max_rel <= 1e-6 for one in report.outputs)
    if name == "integers":
        assert all(one.max_abs == 0 for one in report.outputs)
    header = (settings.out / "include" / f"{name}.h").read_text(encoding="utf-8")
    prefix = name.upper()
    assert f"{prefix}_API {name}_status {name}_step({name}_ctx *ctx" in header
    assert f"{name}_run" not in header
    assert f"#define {prefix}_INPUT_X_HOP {streams['x'].hop}u" in header
    manifest = read_manifest(settings.out)
    stream = stream_of_manifest(manifest)
    assert stream is not None
    assert run_function(manifest) == f"{name}_step"
    assert f"#define {prefix}_LATENCY_FRAMES {stream.latency_frames}u" in header
    assert all(state.nbytes for state in states_of(manifest))


@pytest.mark.long
@pytest.mark.parametrize("board", ["host", "mps2-an500"])
def test_the_wake_word_of_mlperf_tiny(board: str, tmp_path: Path) -> None:
    settings = settings_for(WAKE_WORD, {"serving_default_input_1:0": InputStream(1)}, board, out=tmp_path / "package")
    api.build(settings, events=lambda _: None)
    report = api.verify(settings.out, None, WAKE_WORD)
    assert report.golden_cases == report.fresh_cases == 60
    assert all(one.max_abs == 0 for one in report.outputs)
    manifest = read_manifest(settings.out)
    stream = stream_of_manifest(manifest)
    assert stream is not None
    assert stream.step_macs <= 50_000 < stream.window_macs == 826_368
    assert sum(state.nbytes for state in states_of(manifest)) <= 4_096


def test_facts_of_a_step() -> None:
    found = inspect_model(WAKE_WORD, {}, {}, None, {"serving_default_input_1:0": InputStream(1)}).step
    assert found is not None
    assert (found.multiply_adds, found.window_multiply_adds, found.latency_frames) == (46_040, 826_368, 29)
    assert found.state_bytes == 3_536
    assert found.live_bytes < found.window_live_bytes


def test_facts_of_a_step_whose_window_has_a_name(tmp_path: Path) -> None:
    proto = encoder(32)
    proto.graph.input[0].type.tensor_type.shape.dim[2].dim_param = "time"
    onnx.save(proto, tmp_path / "m.onnx")
    found = inspect_model(tmp_path / "m.onnx", {}, {"time": 64}, None, {"x": InputStream(2, 4)})
    assert found.step is not None
    assert (found.step.multiply_adds, found.step.window_multiply_adds) == (120, 16 * 120)


def test_a_damaged_stream_in_a_manifest_is_named(tmp_path: Path) -> None:
    model, streams = written(tmp_path, "encoder")
    settings = settings_for(model, streams)
    api.build(settings, events=lambda _: None)
    path = settings.out / "MANIFEST.json"
    text = path.read_text(encoding="utf-8")
    for right, wrong, key in (('"hop": 4', '"hop": 0', "hop"), ('"settled":', '"settles":', "settled")):
        assert right in text
        path.write_text(text.replace(right, wrong), encoding="utf-8")
        with pytest.raises(PackageInvalid, match=rf"stream\..*{key}"):
            read_manifest(settings.out)
    path.write_text(text.replace('"window": 32', '"window": 33'), encoding="utf-8")
    with pytest.raises(PackageInvalid, match="makes the inputs of the model 'x' of 1x2x33, which they are not"):
        api.verify(settings.out, None, model)


@pytest.mark.long
def test_a_wrong_state_is_seen_though_all_outputs_are_right(tmp_path: Path) -> None:
    model, streams = written(tmp_path, "gru")
    settings = settings_for(model, streams)
    api.build(settings, events=lambda _: None)
    manifest = read_manifest(settings.out)
    states = [state for state in states_of(manifest) if state.of_model]
    read = model_of(read_stored(model), interface_of(manifest)[:1], states, stream_of_manifest(manifest))
    cases, _ = fresh_goldens(read, interface_of(manifest), lambda _: None, states)
    verify(settings.out, fresh=GoldenCases(cases))
    name = states[0].name_out
    off = {**cases[-1].outputs, name: cases[-1].outputs[name] * 1.01}
    with pytest.raises(WrongResult, match=rf"fresh case {len(cases) - 1} leaves a state '{name}' that is off by"):
        verify(settings.out, fresh=GoldenCases([*cases[:-1], cases[-1]._replace(outputs=off)]))


def constant_input(frames: int) -> onnx.ModelProto:
    """A gain that is no stream."""
    net = Network()
    x, gain = net.input("x", [1, 4, frames]), net.input("gain", [1, 4, 1])
    return net.proto(net.conv(net.add("Mul", x, gain), (4, 4), 3, pads=[2, 0]))


def test_an_input_that_is_no_stream_stays_the_same_in_golden_cases(tmp_path: Path) -> None:
    onnx.save(constant_input(8), tmp_path / "m.onnx")
    subject = load(settings_for(tmp_path / "m.onnx", {"x": InputStream(2)}))
    assert [one.name for one in subject.program.inputs] == ["x", "gain"]
    for case in subject.goldens:
        np.testing.assert_array_equal(case.inputs["gain"], subject.goldens[0].inputs["gain"])
    assert len({case.inputs["x"].tobytes() for case in subject.goldens}) == len(subject.goldens) == 50


def test_boards_in_cuda_keep_no_rows(tmp_path: Path) -> None:
    model, streams = written(tmp_path, "encoder")
    with pytest.raises(UsageError, match=r"--stream x:2=4 asks for a state, which packages in C keep"):
        load(replace(settings_for(model, streams), target=load_board_kind("cuda-generic")))


@pytest.mark.parametrize(
    ("text", "stream"),
    [
        ("x:1", ("x", InputStream(1))),
        ("x:-1=4", ("x", InputStream(-1, 4))),
        ("serving_default_x:0:1=2", ("serving_default_x:0", InputStream(1, 2))),
        ("a=b:2", ("a=b", InputStream(2))),
    ],
)
def test_flags(text: str, stream: tuple[str, InputStream]) -> None:
    assert stream_of(text) == stream


@pytest.mark.parametrize("text", ["", "x", "x:", ":1", "x:a", "x:1=", "x:1=0", "x:1=-1", "x:1.5", "x:1=2=3:", "x:٣"])
def test_flags_that_are_no_streams(text: str) -> None:
    with pytest.raises(ValueError, match="must look like features:1"):
        stream_of(text)


def test_the_project_file_has_them(tmp_path: Path) -> None:
    model, _ = written(tmp_path, "encoder")
    text = f"model: {model.name}\nboards: [host]\nstream: {{x: {{axis: 2, hop: 4}}, y: {{axis: -1}}}}\n"
    (tmp_path / "edgetune.yaml").write_text(text, encoding="utf-8")
    settings = resolve_settings(CommandLineFlags(streams={"y": InputStream(0, 3)}), {}, tmp_path)
    assert settings.streams == {"x": InputStream(2, 4), "y": InputStream(0, 3)}
