"""Recurrent layers in all their forms, and with gates other than the usual ones, have the values of ONNX Runtime."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.partition import to_program
from tests.interpreter import run_program
from tests.loop_samples import GATES, Recurrent, numbers, recurrent

ACTIVATIONS = {"LSTM": 3, "GRU": 2, "RNN": 1}
STEPS, BATCH, FEATURES, HIDDEN = 2, 2, 4, 3
LONG = pytest.mark.long


def cell(operator: str, attributes: dict[str, Any], *, peepholes: bool = False) -> OnnxModel:
    draw, gates = np.random.default_rng(7), GATES[operator]
    directions = 2 if attributes.get("direction") == "bidirectional" else 1
    shapes = {"w": (gates * HIDDEN, FEATURES), "r": (gates * HIDDEN, HIDDEN), "b": (2 * gates * HIDDEN,)}
    inputs = ["x", *shapes]
    if peepholes:
        shapes |= {"p": (3 * HIDDEN,)}
        inputs += ["", "", "", "p"]
    weights = [
        numpy_helper.from_array((0.6 * draw.standard_normal((directions, *shape))).astype("f4"), name)
        for name, shape in shapes.items()
    ]
    state = (directions, BATCH, HIDDEN)
    outputs = {"y": (STEPS, *state), "h": state} | ({"c": state} if operator == "LSTM" else {})
    graph = helper.make_graph(
        [helper.make_node(operator, inputs, list(outputs), hidden_size=HIDDEN, **attributes)],
        "cell",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (STEPS, BATCH, FEATURES))],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        weights,
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)
    return model_from_proto(proto, "0" * 64, "m", None, "m.onnx")


def compare(model: OnnxModel) -> None:
    feed = {"x": 2 * np.random.default_rng(8).standard_normal((STEPS, BATCH, FEATURES)).astype("f4")}
    found = run_program(to_program(import_onnx(model)), feed)
    for name, wanted in evaluate_model(model, [feed], "onnxruntime")[0].items():
        np.testing.assert_allclose(found[name], wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize(
    "attributes",
    [
        {"activations": ["HardSigmoid"], "activation_alpha": [0.2, 0.3, 0.4], "activation_beta": [0.5, 0.4, 0.3]},
        {"activations": ["LeakyRelu"], "activation_alpha": [0.2]},
        {"activations": ["ThresholdedRelu"], "activation_alpha": [0.2, 0.3, 0.1]},
        {"activations": ["ThresholdedRelu"]},  # 0 for ONNX Runtime, 1 for the operator
        {"activations": ["ScaledTanh"], "activation_alpha": [0.9, 0.8, 0.7], "activation_beta": [0.5, 1.5, 2.5]},
        {"activations": ["Affine"], "activation_alpha": [0.3, 0.2, 0.1], "activation_beta": [0.1, 0.2, 0.3]},
        {"activations": ["Elu"], "activation_alpha": [0.5]},
        {"activations": ["Softsign"]},
        {"clip": 0.4},
    ],
    ids=str,
)
@pytest.mark.parametrize("operator", [pytest.param("LSTM", marks=LONG), pytest.param("GRU", marks=LONG), "RNN"])
def test_each_activation_has_the_parameters_of_onnx_runtime(operator: str, attributes: dict[str, Any]) -> None:
    names = [name for name in attributes.get("activations", []) for _ in range(ACTIVATIONS[operator])]
    compare(cell(operator, attributes | ({"activations": names} if names else {})))


KERAS: dict[str, Any] = {"activation_alpha": [0.2], "activation_beta": [0.5]}


@LONG
@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("LSTM", {"activations": ["HardSigmoid", "Tanh", "Tanh"], **KERAS}),
        ("GRU", {"activations": ["HardSigmoid", "Tanh"], "linear_before_reset": 1, **KERAS}),
        ("GRU", {"activations": ["HardSigmoid", "Tanh"], "clip": 0.3, **KERAS}),
        ("LSTM", {"activations": ["hardsigmoid", "TANH", "tanh"], **KERAS}),
        ("LSTM", {"input_forget": 1}),
        (
            "LSTM",
            {
                "direction": "bidirectional",
                "activations": ["HardSigmoid", "Tanh", "Affine", "Sigmoid", "LeakyRelu", "Tanh"],
                "activation_alpha": [0.2, 0.3, 0.4],
                "activation_beta": [0.5, 0.1],
            },
        ),
    ],
    ids=str,
)
def test_gates_of_keras_and_of_two_directions_share_lists_of_parameters(
    operator: str, attributes: dict[str, Any]
) -> None:
    compare(cell(operator, attributes))


@LONG
@pytest.mark.parametrize("clip", [0.2, 0.5, 2.0])
@pytest.mark.parametrize("peepholes", [False, True])
def test_the_memory_is_not_clipped_before_its_activation(clip: float, peepholes: bool) -> None:
    compare(cell("LSTM", {"clip": clip}, peepholes=peepholes))


def test_an_activation_that_onnx_does_not_define_is_refused_with_the_node() -> None:
    model = cell("GRU", {})
    model.proto.graph.node[0].attribute.append(helper.make_attribute("activations", ["Sigmoid", "Mish"]))
    with pytest.raises(UnsupportedOperator, match=r"node 'y': operator GRU does not know activation 'Mish'"):
        import_onnx(model)


# Direction, lengths of the sequences; whether there are initial states, an axis of the batch that comes first, what
# only some cells have, a bound, and biases; and which outputs are used. Each pair of two columns' values is there.
FORMS: list[tuple[str, tuple[int, ...], bool, bool, bool, bool, bool, str]] = [
    ("forward", (), False, False, True, False, False, "y"),
    ("forward", (3, 5), True, True, False, False, True, "yhc"),
    ("forward", (5, 1), False, True, False, True, True, "hc"),
    ("forward", (5, 0), True, False, True, True, False, "h"),
    ("reverse", (), False, False, True, True, True, "yhc"),
    ("reverse", (), True, True, False, False, False, "y"),
    ("reverse", (), True, True, True, True, False, "hc"),
    ("reverse", (3, 5), True, False, True, False, True, "h"),
    ("reverse", (5, 1), True, True, False, True, False, "y"),
    ("bidirectional", (), False, True, False, False, False, "h"),
    ("bidirectional", (3, 5), False, True, True, True, True, "y"),
    ("bidirectional", (3, 5), True, False, True, False, False, "hc"),
    ("bidirectional", (0, 5), True, False, False, False, False, "yhc"),
]


def forms(operator: str) -> Iterator[Recurrent]:
    """A layer of each form; without lengths, it has one row of the batch alone."""
    for number, (direction, lengths, initial, turned, more, clip, bias, used) in enumerate(FORMS):
        letters = "yhc" if operator == "LSTM" else "yh"
        attributes: dict[str, Any] = {"clip": 0.3} if clip else {}
        if more and operator == "GRU":
            attributes["linear_before_reset"] = 1
        yield Recurrent(
            operator,
            f"layer{number}",
            batch=len(lengths) or 1,
            direction=direction,
            layout=int(turned),
            lengths=lengths,
            initial=initial,
            bias=bias,
            peepholes=more and operator == "LSTM",
            outputs=tuple(f"{letter}{number}" if letter in used else "" for letter in letters),
            attributes=attributes,
        )


@LONG
@pytest.mark.parametrize("operator", ["LSTM", "GRU", "RNN"])
def test_each_form_of_a_layer(operator: str) -> None:
    """ONNX Runtime has no layout with the batch first: there, the layer has the other one, and tensors are turned."""
    layers = list(forms(operator))
    program = to_program(import_onnx(recurrent(*layers)))
    assert [loop.steps for loop in program.loops] == [5] * sum(layer.directions for layer in layers)
    feed = {spec.name: numbers(*spec.shape, seed=number) for number, spec in enumerate(program.inputs)}
    found = run_program(program, feed)
    batch_second = [replace(layer, layout=0) for layer in layers]
    for layer in layers:
        for name in [name for name in feed if layer.layout and name.startswith(f"{layer.name}_")]:
            feed[name] = feed[name].transpose(1, 0, 2)
    (wanted,) = evaluate_model(recurrent(*batch_second), [feed], "onnxruntime")
    for layer in layers:
        for name in filter(None, layer.outputs):
            turned = wanted[name].transpose((2, 0, 1, 3) if name[0] == "y" else (1, 0, 2))
            value = turned if layer.layout else wanted[name]
            np.testing.assert_allclose(found[name], value, rtol=1e-4, atol=1e-5, err_msg=f"{name} of {layer}")
