"""Tolerances from the network: what rounding does to it is allowed, and a fault is still caught."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune import api
from edgetune.config.settings import CommandLineFlags, Settings, resolve_settings
from edgetune.errors import ModelError
from edgetune.events import Event
from edgetune.frontend.onnx.format import LoadedOnnx
from edgetune.frontend.onnx.reader import read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.accuracy import compare
from edgetune.package.golden import Golden, OutputTolerance
from edgetune.package.manifest import read_manifest
from edgetune.package.reference_error import note
from edgetune.pipeline.compile_input import load
from edgetune.pipeline.tolerances import tolerances_of, wider
from tests.pipeline.seeded_faults import DRAWS, LEAST_CAUGHT, caught

MODELS = Path(__file__).parents[2] / "examples/models"
SMALL = ((1, 8, 1, 1, 3), (4, 8, 2, 2, 3))
"""Blocks of the network below: expansion, channels, repetitions, stride and window."""


class _Builder:
    """A network of inverted bottlenecks with random weights: depthwise layers, gates of channels, swish."""

    def __init__(self, seed: int) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.weights: list[onnx.TensorProto] = []
        self.random = np.random.default_rng(seed)

    def add(self, operator: str, *operands: str, **attributes: int | Sequence[int]) -> str:
        name = f"t{len(self.nodes)}"
        self.nodes.append(helper.make_node(operator, list(operands), [name], **attributes))
        return name

    def weight(self, values: np.ndarray) -> str:
        name = f"w{len(self.weights)}"
        self.weights.append(numpy_helper.from_array(values.astype(np.float32), name))
        return name

    def convolution(self, x: str, sizes: tuple[int, int], window: int, stride: int = 1, groups: int = 1) -> str:
        before, after = sizes
        scale = np.sqrt(2 * groups / (after * window**2))
        values = self.random.normal(0, scale, (after, before // groups, window, window))
        pads = [window // 2] * 4
        return self.add("Conv", x, self.weight(values), pads=pads, strides=[stride] * 2, group=groups)

    def normalised(self, x: str, channels: int) -> str:
        draw = self.random
        moments = (draw.uniform(0.5, 1.5, channels), draw.normal(0, 0.2, channels))
        trained = (*moments, draw.normal(0, 0.2, channels), draw.uniform(0.01, 0.05, channels))
        return self.add("BatchNormalization", x, *(self.weight(values) for values in trained))

    def swish(self, x: str) -> str:
        return self.add("Mul", x, self.add("Sigmoid", x))

    def bottleneck(self, x: str, sizes: tuple[int, int], block: tuple[int, int, int]) -> str:
        (before, after), (expansion, stride, window) = sizes, block
        wide = before * expansion
        y = self.swish(self.normalised(self.convolution(x, (before, wide), 1), wide)) if expansion > 1 else x
        y = self.swish(self.normalised(self.convolution(y, (wide, wide), window, stride, wide), wide))
        gate = self.swish(self.convolution(self.add("GlobalAveragePool", y), (wide, before), 1))
        y = self.add("Mul", y, self.add("Sigmoid", self.convolution(gate, (before, wide), 1)))
        y = self.normalised(self.convolution(y, (wide, after), 1), after)
        return self.add("Add", x, y) if stride == 1 and before == after else y


def bottlenecks(path: Path, side: int = 16, seed: int = 11) -> Path:
    """A small network as EfficientNet-B0, whose activations grow from layer to layer."""
    build = _Builder(seed)
    x, channels = build.swish(build.normalised(build.convolution("x", (3, 8), 3, 2), 8)), 8
    for expansion, wanted, count, stride, window in SMALL:
        for number in range(count):
            block = (expansion, 1 if number else stride, window)
            x, channels = build.bottleneck(x, (channels, wanted), block), wanted
    flat = build.add("Flatten", build.add("GlobalAveragePool", x))
    weight = build.weight(build.random.normal(0, 0.2, (channels, 10)))
    build.nodes.append(helper.make_node("Gemm", [flat, weight], ["y"]))
    return saved(path, build.nodes, build.weights, [1, 3, side, side], [1, 10])


def detector(path: Path, offset: float) -> Path:
    """Convolutions and a Sigmoid, which gives about e^offset everywhere: nothing is found."""
    random = np.random.default_rng(0)
    shapes = {"w1": (8, 3, 3, 3), "w2": (8, 8, 3, 3), "w3": (1, 8, 1, 1)}
    values = {name: random.normal(0, 1 / np.sqrt(np.prod(shape[1:])), shape) for name, shape in shapes.items()}
    values["b"] = np.full(1, offset)
    nodes = [
        helper.make_node("Conv", ["x", "w1"], ["c1"], pads=[1] * 4),
        helper.make_node("Relu", ["c1"], ["r1"]),
        helper.make_node("Conv", ["r1", "w2"], ["c2"], pads=[1] * 4),
        helper.make_node("Relu", ["c2"], ["r2"]),
        helper.make_node("Conv", ["r2", "w3", "b"], ["logits"]),
        helper.make_node("Sigmoid", ["logits"], ["y"]),
    ]
    weights = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items()]
    return saved(path, nodes, weights, [1, 3, 16, 16], [1, 1, 16, 16])


def saved(
    path: Path,
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto],
    x: Sequence[int],
    y: Sequence[int],
) -> Path:
    ends = [helper.make_tensor_value_info(n, TensorProto.FLOAT, s) for n, s in (("x", x), ("y", y))]
    graph = helper.make_graph(list(nodes), path.stem, ends[:1], ends[1:], list(weights))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def settings_for(model: Path) -> Settings:
    flags = CommandLineFlags(model=model, board="host", out=model.parent / "out", db=model.parent / "records.db")
    return resolve_settings(flags, {}, model.parent)


def tolerances(path: Path) -> tuple[dict[str, OutputTolerance], list[Golden], list[str]]:
    """The tolerances of a model, its cases, and what is said."""
    loaded, said = LoadedOnnx(read_onnx(path)), list[Event]()
    feeds = loaded.sample_inputs(loaded.inputs, 3, 0)
    outputs, _ = loaded.reference_outputs(feeds, loaded.program, said.append)
    cases = [Golden(feed, output) for feed, output in zip(feeds, outputs, strict=True)]
    return tolerances_of(loaded, cases, said.append), cases, [str(event.data["message"]) for event in said]


def test_a_network_that_amplifies_is_allowed_four_times_what_rounding_does_to_it(tmp_path: Path) -> None:
    path = bottlenecks(tmp_path / "net.onnx")
    found, _, (said,) = tolerances(path)
    assert found["y"].relative == 4 * found["y"].rounding_error > 1e-4
    assert f"four times that, {100 * found['y'].relative:.3g} %, are allowed" in said
    assert tolerances(path)[0] == found  # seeded


@pytest.mark.long
def test_a_network_that_amplifies_is_built_and_says_so(tmp_path: Path) -> None:
    path = bottlenecks(tmp_path / "net.onnx")
    api.build(settings_for(path), events=lambda _: None)
    (stated,) = (tensor["tolerance"] for tensor in read_manifest(tmp_path / "out")["outputs"])
    assert stated["relative"] == 4 * stated["rounding_error"]
    assert "**This network amplifies rounding**" in (tmp_path / "out/REPORT.md").read_text(encoding="utf-8")
    report = api.verify(tmp_path / "out", None, path)
    assert all("are allowed" in output.note for output in report.outputs)


@pytest.mark.long
def test_a_fault_in_each_layer_is_still_caught(tmp_path: Path) -> None:
    paths = (MODELS / "ds_cnn.onnx", bottlenecks(tmp_path / "net.onnx"), detector(tmp_path / "none.onnx", -16.0))
    found = {path.stem: caught(read_onnx(path)) for path in paths}
    assert [name for name, one in found.items() if one.caught < LEAST_CAUGHT * DRAWS] == []


@pytest.mark.parametrize("offset", [-16.0, -40.0, -80.0])
def test_outputs_near_zero_have_a_reference_and_a_bound_that_tells_them_apart(tmp_path: Path, offset: float) -> None:
    path = detector(tmp_path / "none.onnx", offset)
    found, cases, said = tolerances(path)
    logits = onnx.load(path)
    logits.graph.output[0].name = "logits"
    onnx.save(logits, path)
    before = evaluate_model(read_onnx(path), [case.inputs for case in cases])
    for case, one in zip(cases, before, strict=True):
        exact = 1 / (1 + np.exp(-one["logits"].astype(np.float64)))
        np.testing.assert_allclose(case.outputs["y"], exact, rtol=1e-6)
        largest = float(np.max(exact))
        assert 1e-4 * largest < found["y"].bound(largest) < 1e-3 * largest  # far above one unit, far below zeros
    assert said == []


def test_what_a_core_may_flush_to_zero_is_allowed(tmp_path: Path) -> None:
    found, cases, _ = tolerances(detector(tmp_path / "none.onnx", -100.0))
    assert 0.0 < float(np.max(cases[0].outputs["y"])) < 2.0**-126
    assert found["y"].absolute == 2.0**-126


@pytest.mark.long
def test_a_detector_that_finds_nothing_is_built(tmp_path: Path) -> None:
    path = detector(tmp_path / "none.onnx", -16.0)
    api.build(settings_for(path), events=lambda _: None)
    for output in api.verify(tmp_path / "out", None, path).outputs:
        assert output.max_rel < 1e-4
        assert output.bound < 1e-9


def test_a_calm_network_has_half_of_the_usual_tolerance_and_halves_keep_theirs() -> None:
    assert OutputTolerance.rounded("float32", 1e-7, 1.0).relative == 8e-5
    assert OutputTolerance.rounded("float16", 1e-7, 1.0).relative == 4e-3
    assert OutputTolerance.rounded("float16", 2e-3, 1.0).relative == 8e-3


def test_a_chaotic_network_is_allowed_no_more_than_usual() -> None:
    found = OutputTolerance.rounded("float32", 0.2, 1.0)
    assert found.chaotic
    assert found.relative == 1e-4
    endless = OutputTolerance.rounded("float32", np.inf, 1.0)
    assert endless.chaotic
    assert endless.to_json() == {"relative": 1e-4, "absolute": 0.0, "rounding_error": 1.0}


def test_integers_may_differ_where_rounding_changes_them() -> None:
    assert OutputTolerance.rounded("int64", 0.0, 0.0) == OutputTolerance()
    assert OutputTolerance.rounded("int64", np.inf, 1.0) == OutputTolerance()
    found = OutputTolerance.rounded("int64", 3.0, 0.01)
    assert found.to_json() == {"relative": 0.0, "absolute": 3.0, "share": 0.04, "rounding_error": 3.0}


def test_bools_are_exact_and_nothing_is_said() -> None:
    found = OutputTolerance.rounded("bool", 1.0, 0.05)
    behind = OutputTolerance.quantised(1.0).carried("bool", 1, 0.05)
    assert found == behind == OutputTolerance()
    assert note("found", found) == ""


@pytest.mark.parametrize("share", [0.125, 0.3, 1.0])
def test_integers_stay_exact_where_rounding_changes_many(share: float) -> None:
    found = OutputTolerance.rounded("int64", 990.0, share)
    assert found.chaotic
    assert not found.amplified
    assert found.to_json() == {"relative": 0.0, "absolute": 0.0, "rounding_error": 990.0}
    assert "990 or less in 12.5 % of the elements or more" in note("place", found)
    assert "stays exact" in note("place", found)
    assert not compare(np.array([5]), np.array([995]), found).allowed


def test_the_place_of_a_single_maximum_with_two_equal_columns_stays_exact_and_says_so(tmp_path: Path) -> None:
    weight = np.random.default_rng(0).standard_normal((64, 1000)).astype(np.float32)
    weight[:, 5] = weight[:, 995] = 4 * np.abs(weight[:, 5])
    nodes = [
        helper.make_node("Abs", ["x"], ["positive"]),
        helper.make_node("MatMul", ["positive", "w"], ["scores"]),
        helper.make_node("ArgMax", ["scores"], ["y"], axis=1),
    ]
    path = saved(tmp_path / "tie.onnx", nodes, [numpy_helper.from_array(weight, "w")], [1, 64], [1, 1])
    proto = onnx.load(path)
    proto.graph.output[0].type.tensor_type.elem_type = TensorProto.INT64
    onnx.save(proto, path)
    found, _, (said,) = tolerances(path)
    assert found["y"].bound(999.0) == 0.0
    assert "stays exact" in said


@pytest.mark.long
def test_precision_allows_no_less_than_what_rounding_does(tmp_path: Path) -> None:
    path = detector(tmp_path / "net.onnx", 0.0)
    flags = CommandLineFlags(model=path, board="cuda-generic", precision="fp16")
    subject = load(resolve_settings(flags, {}, tmp_path))
    assert subject.tolerances["y"].relative == 1e-2
    assert subject.tolerances["y"].rounding_error > 0.0


def test_a_model_that_nobody_can_move_has_the_usual_tolerance_and_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refused(*_: object) -> None:
        raise ModelError("onnxruntime cannot run net")

    monkeypatch.setattr("edgetune.frontend.onnx.disagreement.effect_of_rounding", refused)
    found, _, said = tolerances(detector(tmp_path / "net.onnx", 0.0))
    assert found == {}
    assert said == ["onnxruntime cannot run net: what rounding does to its outputs is unknown"]


def test_the_tolerance_of_fresh_inputs_is_the_wider_one_where_the_network_amplifies() -> None:
    stored = {"a": OutputTolerance(1e-4), "b": OutputTolerance.rounded("float32", 1e-3, 1.0)}
    fresh = {"a": OutputTolerance.rounded("float32", 1e-3, 1.0), "b": OutputTolerance.rounded("float32", 1e-4, 1.0)}
    assert wider(stored, fresh) == {"a": fresh["a"], "b": stored["b"]}
    assert "0.4 %, are allowed" in note("a", wider(stored, fresh)["a"])


@pytest.mark.parametrize(
    ("stored", "fresh"),
    [
        (OutputTolerance(), OutputTolerance.rounded("int64", 2.0, 0.1)),
        (OutputTolerance(5e-5), OutputTolerance.rounded("float32", 0.2, 1.0)),  # chaotic: 1e-4
        (OutputTolerance.quantised(1.0), OutputTolerance.quantised(1.0, 9.0, 1.0)),
        (OutputTolerance(5e-5), OutputTolerance.quantised(1.0).carried("float32", 1, 1.0)),
    ],
)
def test_inputs_that_failed_widen_nothing_else(stored: OutputTolerance, fresh: OutputTolerance) -> None:
    assert wider({"y": stored}, {"y": fresh}) == {"y": stored}


@pytest.mark.parametrize(("moving", "absolute", "share"), [(0.02, 5.005, 0.03), (0.6, 5.005, 0.9), (0.7, 0.0, 1.0)])
def test_places_behind_quantised_tensors_are_exact_where_all_may_move(
    moving: float, absolute: float, share: float
) -> None:
    """The place of a single maximum passed whatever it was."""
    found = OutputTolerance.quantised(5.0).carried("int64", 2, moving)
    assert found.absolute == pytest.approx(absolute)
    assert found.share == pytest.approx(share)
    assert ("0 are allowed, since a right output" in note("y", found)) == (absolute == 0.0)


def test_the_note_has_both_bounds_of_an_amplified_output_near_zero() -> None:
    found = OutputTolerance.rounded("float32", 5e-5, 1.0).with_floor("float32", 1.0, 1e-6)
    assert found.amplified
    assert found.bound(1e-6) == found.absolute > found.relative * 1e-6
    assert f"(or {found.absolute:.3g}, where that is more)" in note("y", found)


@pytest.mark.long
def test_floats_behind_a_quantised_tensor_may_be_off_by_what_a_step_of_it_makes(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    values = {"w1": random.normal(0, 0.2, (6, 1, 5, 5)), "w2": random.normal(0, 0.1, (16, 6, 5, 5))}
    values |= {"fw": random.normal(0, 0.1, (256, 10)), "s": np.array(0.02), "ws": np.array(0.004)}
    weights = [numpy_helper.from_array(value.astype(np.float32), name) for name, value in values.items()]
    weights.append(numpy_helper.from_array(np.array(0, np.int8), "z"))
    nodes: list[onnx.NodeProto] = []

    def quantised(x: str, scale: str) -> str:
        nodes.append(helper.make_node("QuantizeLinear", [x, scale, "z"], [f"{x}q"]))
        nodes.append(helper.make_node("DequantizeLinear", [f"{x}q", scale, "z"], [f"{x}d"]))
        return f"{x}d"

    last = quantised("x", "s")
    for number in (1, 2):
        nodes.append(helper.make_node("Conv", [last, quantised(f"w{number}", "ws")], [f"c{number}"]))
        nodes.append(helper.make_node("Relu", [f"c{number}"], [f"r{number}"]))
        pooled = helper.make_node("MaxPool", [f"r{number}"], [f"m{number}"], kernel_shape=[2, 2], strides=[2, 2])
        nodes.append(pooled)
        last = quantised(f"m{number}", "s")
    nodes.append(helper.make_node("Flatten", [last], ["flat"]))
    nodes.append(helper.make_node("Gemm", ["flat", quantised("fw", "ws")], ["y"]))
    path = saved(tmp_path / "lenet.onnx", nodes, weights, [1, 1, 28, 28], [1, 10])
    events = list[Event]()
    api.build(settings_for(path), events=events.append)
    (stated,) = (tensor["tolerance"] for tensor in read_manifest(tmp_path / "out")["outputs"])
    assert stated["behind"] == 1
    assert 0.02 * 0.1 < stated["step"] < 0.02 * 0.1 * 256
    assert stated["absolute"] == pytest.approx(1.001 * stated["step"])
    said = [str(event.data["message"]) for event in events if "quantised tensors before it" in str(event.data)]
    assert len(said) == 1
    assert "is computed from quantised tensors" in (tmp_path / "out/REPORT.md").read_text(encoding="utf-8")
    found = api.verify(tmp_path / "out", None, path).outputs
    assert all("quantised tensors before it" in output.note for output in found)


def behind(tmp_path: Path, shift: float) -> tuple[OutputTolerance, list[str]]:
    """The tolerance of Relu(dequantised x - `shift`), and what is said."""
    values = {"s": np.float32(0.5), "k": np.float32(shift)}
    weights = [numpy_helper.from_array(np.array(value), name) for name, value in values.items()]
    weights.append(numpy_helper.from_array(np.array(0, np.int8), "z"))
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("Sub", ["d", "k"], ["m"]),
        helper.make_node("Relu", ["m"], ["y"]),
    ]
    found, _, said = tolerances(saved(tmp_path / "m.onnx", nodes, weights, [4, 16], [4, 16]))
    return found["y"], said


def test_an_output_behind_a_quantised_tensor_that_is_zero_in_all_cases_is_allowed_its_step(tmp_path: Path) -> None:
    found, _ = behind(tmp_path, 3.0)
    assert found.absolute == pytest.approx(1.001 * found.step)
    assert found.step > 0.0
    assert not found.capped


def test_a_step_beyond_half_of_the_largest_element_is_capped_and_all_say_so(tmp_path: Path) -> None:
    found, (said,) = behind(tmp_path, 1.0)
    assert 0.0 < found.absolute < found.step
    assert found.capped
    assert said == note("y", found)
    assert f"{found.absolute:.3g} are allowed, since a right output could not be told" in said
