"""What a model leaves free: a batch becomes 1, the rest is asked for with flags that are proposed for it."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import DynamicShape, ModelError
from edgetune.frontend.onnx.facts import facts_of
from edgetune.frontend.onnx.reader import OnnxModel, read_onnx, read_stored, with_shapes

Dim = int | str | None


def weight(name: str, *dims: int) -> onnx.TensorProto:
    return numpy_helper.from_array(np.full(dims, 0.01, np.float32), name)


def save(
    path: Path,
    inputs: Mapping[str, Sequence[Dim] | None],
    nodes: Sequence[onnx.NodeProto],
    weights: Sequence[onnx.TensorProto] = (),
    kind: int = TensorProto.FLOAT,
) -> Path:
    values = [helper.make_tensor_value_info(name, kind, dims) for name, dims in inputs.items()]
    output = helper.make_tensor_value_info(nodes[-1].output[0], TensorProto.FLOAT, None)
    graph = helper.make_graph(list(nodes), "g", values, [output], list(weights))
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8), path)
    return path


def conv(channels: int, group: int = 1) -> tuple[onnx.NodeProto, onnx.TensorProto]:
    node = helper.make_node("Conv", ["x", "k"], ["c"], pads=[1, 1, 1, 1], group=group)
    return node, weight("k", 8, channels // group, 3, 3)


def pooled_classifier(size: int) -> tuple[list[onnx.NodeProto], list[onnx.TensorProto]]:
    node, kernel = conv(3)
    flat = helper.make_node("Flatten", ["c"], ["f"])
    dense = helper.make_node("Gemm", ["f", "w"], ["y"], transB=1)
    return [node, flat, dense], [kernel, weight("w", 10, 8 * size * size)]


IMAGE = helper.make_node("Relu", ["x"], ["y"])


@pytest.mark.parametrize(
    ("dims", "nodes", "weights", "axes", "flags"),
    [
        pytest.param(
            ["batch", 3, "h", "w"], [IMAGE], [], "axes 0 (batch), 2 (h) and 3 (w)", "--shape x=1,3,224,224", id="nchw"
        ),
        pytest.param([None, None, None, 3], [IMAGE], [], "axes 0, 1 and 2", "--shape x=1,224,224,3", id="nhwc"),
        pytest.param(["n", "c", "h", "w"], [IMAGE], [], "axes 0 (n)", "--shape x=1,3,224,224", id="all free"),
        pytest.param([None, 1, 32, None], [IMAGE], [], "axes 0 and 3", "--shape x=1,1,32,32", id="the other side"),
        pytest.param(
            [None] * 4, [conv(16, 16)[0]], [conv(16, 16)[1]], "axes 0, 1, 2", "--shape x=1,16,224,224", id="depthwise"
        ),
        pytest.param(
            ["n", 3, None, None], *pooled_classifier(32), "axes 0 (n), 2 and 3", "--shape x=1,3,32,32", id="classifier"
        ),
        pytest.param(None, [conv(3)[0]], [conv(3)[1]], "has no shape", "--shape x=1,3,224,224", id="no rank"),
        pytest.param([None, 3, 224], [IMAGE], [], "axis 0 free", "--shape x=1,3,224", id="signal"),
        pytest.param([3, None, None], [IMAGE], [], "axes 1 and 2", "--shape x=3,224,224", id="no batch"),
        pytest.param(["n", "t", 40], [IMAGE], [], "axes 0 (n) and 1 (t)", "--shape x=1,128,40", id="frames"),
        pytest.param(
            ["n", None],
            [helper.make_node("MatMul", ["x", "w"], ["y"])],
            [weight("w", 12, 3)],
            "axes 0 (n) and 1",
            "--shape x=1,12",
            id="features",
        ),
        pytest.param(
            [None, 3, None, None, None], [IMAGE], [], "axes 0, 2, 3 and 4", "--shape x=1,3,16,224,224", id="film"
        ),
        pytest.param(["n"], [IMAGE], [], "axis 0 (n)", "--shape x=1", id="vector"),
    ],
)
def test_what_is_proposed(
    tmp_path: Path,
    dims: Sequence[Dim] | None,
    nodes: list[onnx.NodeProto],
    weights: list[onnx.TensorProto],
    axes: str,
    flags: str,
) -> None:
    path = save(tmp_path / "m.onnx", {"x": dims}, nodes, weights)
    with pytest.raises(DynamicShape) as refusal:
        read_onnx(path)
    sentence = refusal.value.message
    assert axes in sentence
    assert f"{flags} (an example" in sentence
    sizes = tuple(int(size) for size in flags.partition("=")[2].split(","))
    assert read_onnx(path, {"x": sizes}).proto.graph.input[0].type.tensor_type.shape.dim[0].dim_value == sizes[0]


def test_inputs_that_share_a_symbol_are_proposed_alike_and_all_at_once(tmp_path: Path) -> None:
    both: dict[str, Sequence[Dim] | None] = {
        "the words": ["batch", "tokens"],
        "mask": ["batch", "tokens"],
        "fixed": [1, 4],
    }
    nodes = [helper.make_node("Add", ["the words", "mask"], ["s"]), helper.make_node("Identity", ["fixed"], ["y"])]
    path = save(tmp_path / "m.onnx", both, nodes)
    with pytest.raises(DynamicShape) as refusal:
        read_onnx(path)
    sentence = refusal.value.message
    assert "input 'the words' leaves axes 0 (batch) and 1 (tokens) free and input 'mask' leaves" in sentence
    assert "--shape 'the words=1,128' --shape mask=1,128" in sentence
    assert "fixed" not in sentence
    stated = read_onnx(path, {"the words": (1, 7)})
    assert [shape_of(stated, number) for number in (0, 1)] == [(1, 7), (1, 7)], "a name has one size in all inputs"


MATMUL = helper.make_node("MatMul", ["x", "w"], ["y"])
ROWS = weight("w", 3, 2)


def shape_of(model: OnnxModel, number: int = 0) -> tuple[int, ...]:
    return tuple(dim.dim_value for dim in model.proto.graph.input[number].type.tensor_type.shape.dim)


@pytest.mark.parametrize(
    "name", ["batch", "Batch_Size", "batch_size", "N", "unk__6", "DynamicDimension.0", "p2o.dim.0"]
)
@pytest.mark.parametrize("rest", [[], [3], [7, 40], [3, 8, 8]], ids=["vector", "rows", "frames", "image"])
def test_a_first_axis_that_is_called_batch_becomes_1(tmp_path: Path, name: str, rest: list[int]) -> None:
    path = save(tmp_path / "m.onnx", {"x": [name, *rest]}, [IMAGE])
    model = read_onnx(path)
    assert shape_of(model) == (1, *rest)
    (sentence,) = model.settled
    assert sentence == (
        f"axis 0 ({name}) of input 'x' becomes 1, as a board runs one input at a time: --dim {name}=4 gives another "
        "size"
    )
    assert shape_of(read_onnx(path, sizes={name: 5})) == (5, *rest)
    assert read_onnx(path, sizes={name: 5}).settled == ()
    assert read_onnx(path, {"x": (4, *rest)}).settled == ()


@pytest.mark.parametrize(
    ("dims", "nodes", "weights"),
    [
        pytest.param([None, 3, 8, 8], [IMAGE], [], id="image"),
        pytest.param([None, 3], [MATMUL], [ROWS], id="rows of a product"),
        pytest.param(["None", 3], [MATMUL], [ROWS], id="None as a name"),
        pytest.param(
            [None, 3],
            [
                helper.make_node("Mul", ["x", "x"], ["s"]),
                helper.make_node("Flatten", ["s"], ["f"]),
                helper.make_node("Gemm", ["f", "w"], ["y"]),
            ],
            [ROWS],
            id="rows after others",
        ),
    ],
)
def test_a_first_axis_without_a_name_becomes_1_where_no_axis_is_time(
    tmp_path: Path, dims: Sequence[Dim], nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]
) -> None:
    model = read_onnx(save(tmp_path / "m.onnx", {"x": dims}, nodes, weights))
    rest = [dim for dim in dims[1:] if isinstance(dim, int)]
    assert shape_of(model) == (1, *rest)
    (sentence,) = model.settled
    assert sentence.startswith("axis 0 of input 'x' becomes 1")
    assert f"--shape x=4,{','.join(map(str, rest))} gives another size" in sentence


@pytest.mark.parametrize(
    ("dims", "nodes", "weights"),
    [
        pytest.param([None, 3], [IMAGE], [], id="rows of no product"),
        pytest.param([None, 7, 40], [IMAGE], [], id="frames"),
        pytest.param([None, 3, 4, 8, 8], [IMAGE], [], id="film"),
        pytest.param([None], [IMAGE], [], id="vector"),
        pytest.param(
            [None, 3], [helper.make_node("Gemm", ["x", "w"], ["y"], transA=1)], [weight("w", 1, 3)], id="turned"
        ),
        pytest.param(
            [None, 3], [helper.make_node("MatMul", ["w", "x"], ["y"])], [weight("w", 2, 1)], id="right factor"
        ),
        pytest.param([2, "batch"], [IMAGE], [], id="second axis"),
        pytest.param(["N", "N"], [IMAGE], [], id="twice in one input"),
        *(
            pytest.param([name, 3, 8, 8], [IMAGE], [], id=name)
            for name in ("time", "T", "seq_len", "n", "batch_frames", "nb", "points", "dim_0", "height")
        ),
    ],
)
def test_every_other_axis_is_asked_for(
    tmp_path: Path, dims: Sequence[Dim], nodes: list[onnx.NodeProto], weights: list[onnx.TensorProto]
) -> None:
    with pytest.raises(DynamicShape, match=r"fix all sizes, for example with --shape x="):
        read_onnx(save(tmp_path / "m.onnx", {"x": dims}, nodes, weights))


def test_one_sentence_for_all_batches_and_a_symbol_is_one_size(tmp_path: Path) -> None:
    inputs: dict[str, Sequence[Dim] | None] = {
        "x": ["batch", 3],
        "m": ["batch", 3],
        "state": [2, "batch", 4],
        "image": [None, 3, 8, 8],
    }
    nodes = [helper.make_node("Identity", [name], [f"{name}_y"]) for name in inputs]
    path = save(tmp_path / "m.onnx", inputs, nodes)
    model = read_onnx(path)
    assert [shape_of(model, number) for number in range(4)] == [(1, 3), (1, 3), (2, 1, 4), (1, 3, 8, 8)]
    (sentence,) = model.settled
    assert sentence == (
        "axis 0 (batch) of inputs 'x' and 'm', axis 1 (batch) of input 'state' and axis 0 of input 'image' become 1, "
        "as a board runs one input at a time: --dim batch=4 and --shape image=4,3,8,8 give another size"
    )
    stated = read_onnx(path, {"x": (6, 3), "image": (1, 3, 8, 8)})
    assert [shape_of(stated, number) for number in (1, 2)] == [(6, 3), (2, 6, 4)]
    assert stated.settled == ()


def test_two_shapes_that_give_one_symbol_two_sizes_are_refused(tmp_path: Path) -> None:
    inputs: dict[str, Sequence[Dim] | None] = {"x": ["t", 3], "m": ["t", 3], "square": ["s", "s"]}
    nodes = [helper.make_node("Identity", [name], [f"{name}_y"]) for name in inputs]
    path = save(tmp_path / "m.onnx", inputs, nodes)
    with pytest.raises(ModelError) as refusal:
        read_onnx(path, {"x": (2, 3), "m": (5, 3), "square": (4, 4)})
    assert refusal.value.message.startswith("--shape x=2,3 and --shape m=5,3 give the axis 't' the sizes 2 and 5,")
    with pytest.raises(ModelError, match=r"^--shape square=4,5 gives the axis 's' the sizes 4 and 5,"):
        read_onnx(path, {"x": (2, 3), "square": (4, 5)})


def test_names_fix_the_axes_of_all_inputs(tmp_path: Path) -> None:
    inputs: dict[str, Sequence[Dim] | None] = {"words": ["batch", "past tokens"], "mask": ["batch", "past tokens"]}
    path = save(tmp_path / "m.onnx", inputs, [helper.make_node("Add", ["words", "mask"], ["y"])])
    with pytest.raises(DynamicShape) as refusal:
        read_onnx(path)
    assert refusal.value.message.endswith(", or by name with --dim 'past tokens=128'")
    model = read_onnx(path, sizes={"past tokens": 9})
    assert [shape_of(model, number) for number in (0, 1)] == [(1, 9), (1, 9)]
    assert len(model.settled) == 1


def test_a_file_that_is_read_once_takes_other_sizes_each_time(tmp_path: Path) -> None:
    node = helper.make_node("Relu", ["x"], ["y"])
    stored = read_stored(save(tmp_path / "m.onnx", {"x": ["batch", "time"]}, [node]))
    for size in (3, 4):
        model = with_shapes(stored, {}, {"time": size})
        assert [dim.dim_value for dim in model.proto.graph.input[0].type.tensor_type.shape.dim] == [1, size]
    assert facts_of(stored, {"x": (2, 5)}, {}).inputs[0].shape == (2, 5)
    assert facts_of(stored, {}, {}).inputs[0].shape == ("batch", "time")


@pytest.mark.parametrize(
    ("shapes", "sizes", "words"),
    [
        ({}, {"u": 3}, "--dim names 'u', but .* has the named axes batch, t$"),
        ({}, {"t": -1}, "--dim t has a negative size"),
        (
            {"x": (1, 4)},
            {"t": 3},
            "--dim t=3 and --shape x=1,4 give the axis 't' the sizes 3 and 4, .*: give the same$",
        ),
    ],
)
def test_a_wrong_dim_is_refused(
    shapes: dict[str, tuple[int, ...]], sizes: dict[str, int], words: str, tmp_path: Path
) -> None:
    path = save(tmp_path / "m.onnx", {"x": ["batch", "t"]}, [IMAGE])
    with pytest.raises(ModelError, match=words):
        read_onnx(path, shapes, sizes)


def test_what_a_model_cannot_be_with_a_batch_of_1_says_so(tmp_path: Path) -> None:
    both: dict[str, Sequence[Dim] | None] = {"x": ["batch", 3], "y": [4, 3]}
    node = helper.make_node("Concat", ["x", "y"], ["z"], axis=1)
    with pytest.raises(ModelError, match=r"is not a valid ONNX model .*; axis 0 \(batch\) of input 'x' becomes 1"):
        read_onnx(save(tmp_path / "m.onnx", both, [node]))


names = st.one_of(st.none(), st.integers(1, 9), st.sampled_from(["batch", "N", "t", "a b", "unk__1", "x.dim.0"]))


@pytest.mark.long
@given(st.lists(st.lists(names, min_size=1, max_size=4), min_size=1, max_size=3), st.booleans())
def test_what_is_proposed_can_be_pasted(
    tmp_path_factory: pytest.TempPathFactory, inputs: list[list[Dim]], by_name: bool
) -> None:
    given_names = {f"in {number}": dims for number, dims in enumerate(inputs)}
    nodes = [helper.make_node("Identity", [name], [f"{name} y"]) for name in given_names]
    path = save(tmp_path_factory.mktemp("open") / "m.onnx", given_names, nodes)
    try:
        read_onnx(path)
    except DynamicShape as refusal:
        parts = re.split(r", or by name with |fix all sizes, for example with ", refusal.message)[1:]
        words = shlex.split(parts[-1 if by_name else 0].partition(" (an example")[0])
        pasted: dict[str, dict[str, str]] = {"--shape": {}, "--dim": {}}
        for flag, value in zip(words[::2], words[1::2], strict=True):
            name, _, sizes = value.rpartition("=")
            pasted[flag][name] = sizes
        shapes = {name: tuple(map(int, sizes.split(","))) for name, sizes in pasted["--shape"].items()}
        read_onnx(path, shapes, {name: int(size) for name, size in pasted["--dim"].items()})
