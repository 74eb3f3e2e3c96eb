"""Models that no exporter writes: nodes without operands, types that ONNX lacks, text that is no text. One sentence."""

from __future__ import annotations

import contextlib
import random
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import onnx
import pytest
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import Message
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import DynamicShape, EdgetuneError, ModelError
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import read_onnx
from edgetune.graph.imported import Imported

_NUMBERS = (-1, 0, 1, 3, 2**31 - 1, 2**62, 2**63 - 1)
_WORDS = ("", "x", "w", "../w.bin", "-1", "Conv", "Gemm", "Reshape")


def sample(extents: tuple[int | str, ...] = ("b", 3, "h", "w")) -> onnx.ModelProto:
    """A quantised convolution, a matrix product and a branch, with external tensors in `w.bin`."""
    inner = [external("k", [300, 300]), external("e", [300, 300])]
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "s", "z"], ["q"]),
        helper.make_node("DequantizeLinear", ["q", "s", "z"], ["d"]),
        helper.make_node("DequantizeLinear", ["wq", "s", "z"], ["wd"]),
        helper.make_node("Conv", ["d", "wd"], ["c"], group=1, strides=[2, 2]),
        helper.make_node("Flatten", ["c"], ["f"]),
        helper.make_node("Gemm", ["f", "w"], ["y"], transB=0),
        helper.make_node(
            "If",
            ["cond"],
            ["i"],
            then_branch=branch([helper.make_node("Constant", [], ["t"], value=inner[0])], []),
            else_branch=branch([helper.make_node("Identity", ["e"], ["t"])], inner[1:]),
        ),
    ]
    small = {"s": np.array(0.1, np.float32), "z": np.array(0, np.int8), "cond": np.array(True)}
    initializers = [numpy_helper.from_array(value, name) for name, value in small.items()]
    initializers += [external("wq", [8, 3, 3, 3], TensorProto.INT8), external("w", [8 * 15 * 15, 10], offset=64)]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, extents)
    outputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("y", "i")]
    graph = helper.make_graph(nodes, "g", [x], outputs, initializers)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=10)


def branch(nodes: list[onnx.NodeProto], initializers: list[TensorProto]) -> onnx.GraphProto:
    return helper.make_graph(
        nodes, "b", [], [helper.make_tensor_value_info("t", TensorProto.FLOAT, None)], initializers
    )


def external(name: str, dims: list[int], kind: int = TensorProto.FLOAT, **entries: int) -> TensorProto:
    tensor = TensorProto(name=name, data_type=kind, dims=dims, data_location=TensorProto.EXTERNAL)
    for key, value in {"location": "w.bin", **entries}.items():
        tensor.external_data.add(key=key, value=str(value))
    return tensor


def read(data: bytes, folder: Path) -> None:
    (folder / "w.bin").write_bytes(bytes(1 << 19))
    (folder / "m.onnx").write_bytes(data)
    read_onnx(folder / "m.onnx")


def imported(model: onnx.ModelProto, folder: Path) -> Imported:
    read(model.SerializeToString(), folder)
    return import_onnx(read_onnx(folder / "m.onnx"))


def _no_operands(model: onnx.ModelProto) -> None:
    del model.graph.node[2].input[:]


def _no_results(model: onnx.ModelProto) -> None:
    del model.graph.node[2].output[:]


def _one_operand(model: onnx.ModelProto) -> None:
    del model.graph.node[5].input[1:]


def _many_channels(model: onnx.ModelProto) -> None:
    model.graph.node[3].attribute[0].i = 2**62


@pytest.mark.parametrize("change", [_no_operands, _no_results, _one_operand, _many_channels])
def test_a_proposal_minds_no_broken_node(change: Callable[[onnx.ModelProto], None], tmp_path: Path) -> None:
    model = sample()
    change(model)
    with pytest.raises(DynamicShape, match="for example with --shape x="):
        read(model.SerializeToString(), tmp_path)


@pytest.mark.parametrize("kind", [-1, 0, 2**31 - 1])
def test_types_that_onnx_lacks_are_refused(kind: int, tmp_path: Path) -> None:
    model = sample((1, 3, 32, 32))
    model.graph.initializer[0].data_type = kind
    with pytest.raises(ModelError, match=r"tensor 's' of .* has .*; export the model again"):
        read(model.SerializeToString(), tmp_path)


@pytest.mark.parametrize("dims", [[2], [-1], [0], [2**62, 4]])
@pytest.mark.parametrize("raw", [True, False])
def test_tensors_hold_what_their_shape_says(dims: list[int], raw: bool, tmp_path: Path) -> None:
    model = sample((1, 3, 32, 32))
    model.graph.initializer[0].CopyFrom(
        helper.make_tensor("s", TensorProto.FLOAT, [], b"\0\0\0?" if raw else [0.5], raw)
    )
    read(model.SerializeToString(), tmp_path)
    model.graph.initializer[0].dims[:] = dims
    with pytest.raises(ModelError, match=r"tensor 's' of .* has data that does not match its shape and type"):
        read(model.SerializeToString(), tmp_path)


@pytest.mark.parametrize("raw", [True, False])
@pytest.mark.parametrize("kind", sorted(set(TensorProto.DataType.values()) - {TensorProto.UNDEFINED}))
def test_tensors_of_every_type_are_whole(kind: int, raw: bool, tmp_path: Path) -> None:
    if kind == TensorProto.STRING:
        tensor = helper.make_tensor("more", kind, [5], [b"a"] * 5)
    else:
        values = np.ones(5).astype(helper.tensor_dtype_to_np_dtype(kind))
        tensor = numpy_helper.from_array(values, "more")
        if not raw:
            tensor = helper.make_tensor("more", kind, [5], [1.0] * 5)
    model = sample((1, 3, 32, 32))
    model.graph.initializer.append(tensor)
    read(model.SerializeToString(), tmp_path)


@pytest.mark.parametrize("text", [b"w.bin", b"location", b"QuantizeLinear", b"then_branch", b"cond"])
def test_text_that_is_none_is_refused(text: bytes, tmp_path: Path) -> None:
    data = sample((1, 3, 32, 32)).SerializeToString()
    assert text in data
    with pytest.raises(ModelError, match=r"has text that is not UTF-8 \(.*\); export the model again"):
        read(data.replace(text, b"\xff" + text[1:], 1), tmp_path)


def test_a_quantised_weight_that_no_output_needs_is_left_out(tmp_path: Path) -> None:
    model = sample((1, 3, 32, 32))
    del model.graph.output[0]
    found = imported(model, tmp_path)
    assert found.outputs == ("i",)
    assert not found.weights


@pytest.mark.parametrize("kind", [-1, 0, 2**31 - 1])
def test_inputs_of_types_that_onnx_lacks_are_refused(kind: int, tmp_path: Path) -> None:
    graph = sample((1, 3, 32, 32)).graph
    graph.input[0].type.tensor_type.elem_type = kind
    node = helper.make_node("Identity", ["x"], ["y"])
    model = helper.make_model(helper.make_graph([node], "g", graph.input, graph.output[:1]))
    with pytest.raises(ModelError, match=r"export it again"):
        imported(model, tmp_path)


@pytest.mark.parametrize("seed", range(10))
def test_whatever_is_changed_in_a_model_it_is_read_or_refused(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)  # noqa: S311 (no secret)
    for _ in range(25):
        model = sample(draw.choice([("b", 3, "h", "w"), (1, 3, 32, 32)]))
        for _ in range(draw.randint(1, 3)):
            _change(draw.choice(list(_messages(model))), draw)
        with contextlib.suppress(EdgetuneError):
            read(model.SerializeToString(), tmp_path)


def _messages(message: Message) -> Iterator[Message]:
    yield message
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_MESSAGE:
            for part in value if field.is_repeated else (value,):
                yield from _messages(part)


def _change(message: Message, draw: random.Random) -> None:
    """Clears a field that is set, or gives it, or one of its parts, another value."""
    fields = message.ListFields()
    if not fields:
        return
    field, value = draw.choice(fields)
    if field.is_repeated and draw.random() < 0.5:
        del value[draw.randrange(len(value))]
    elif field.type == FieldDescriptor.TYPE_MESSAGE or draw.random() < 0.3:
        message.ClearField(field.name)
    else:
        new = _other(field, draw)
        if field.is_repeated:
            value[draw.randrange(len(value))] = new
        else:
            setattr(message, field.name, new)


def _other(field: FieldDescriptor, draw: random.Random) -> str | bytes | int | float:
    if field.type == FieldDescriptor.TYPE_STRING:
        return draw.choice(_WORDS)
    if field.type == FieldDescriptor.TYPE_BYTES:
        return draw.choice(_WORDS).encode()
    if field.type == FieldDescriptor.TYPE_ENUM:
        return int(draw.choice(field.enum_type.values).number)
    number = draw.choice(_NUMBERS)
    return number if field.type != FieldDescriptor.TYPE_INT32 else max(-1, min(number, 2**31 - 1))
