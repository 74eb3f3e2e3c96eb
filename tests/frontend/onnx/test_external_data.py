"""External tensors: found in every place, read from the model's folder alone, refused in a sentence, and hashed."""

from __future__ import annotations

import hashlib
import os
import tempfile
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.errors import ModelError, UnsupportedOperator
from edgetune.frontend.onnx.external_data import external_tensors
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.large_tensors import LARGE
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto, read_onnx, read_stored
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.partition import to_program
from tests import external_sample as sample

SMALL = 8
SIZES = [SMALL, LARGE // 4]


@pytest.fixture
def model_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder for a model; the working folder is another one."""
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path / "elsewhere")
    return tmp_path / "model"


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("place", sample.PLACES)
def test_every_tensor_comes_from_the_folder_of_the_model(place: str, size: int, model_folder: Path) -> None:
    sample.decoy(Path.cwd(), size)
    path = sample.write(model_folder, sample.PLACES[place](sample.external(size)), sample.values(size))
    stored = read_stored(path)
    assert not list(external_tensors(stored.proto))
    everything = stored.proto.SerializeToString() + b"".join(array.tobytes() for array in stored.weights.values())
    assert place == "training" or sample.values(size).tobytes() in everything
    assert np.full(size, 1000.0, "float32").tobytes() not in everything


@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("place", sample.RIGHT)
def test_the_model_computes_with_its_own_tensors(place: str, size: int, model_folder: Path) -> None:
    sample.decoy(Path.cwd(), size)
    feed = {"x": np.ones(size, "float32")}
    model = read_onnx(sample.write(model_folder, sample.RIGHT[place](sample.external(size)), sample.values(size)))
    for answer in (*evaluate_model(model, [feed]), *evaluate_program(to_program(import_onnx(model)), [feed])):
        np.testing.assert_allclose(answer["y"], 1 + sample.values(size), rtol=1e-6)


@pytest.mark.parametrize("place", sample.REFUSED)
def test_what_cannot_be_built_is_refused(place: str, model_folder: Path) -> None:
    sample.decoy(Path.cwd(), SMALL)
    path = sample.write(model_folder, sample.REFUSED[place](sample.external(SMALL)), sample.values(SMALL))
    with pytest.raises((ModelError, UnsupportedOperator)):
        import_onnx(read_onnx(path))


@pytest.mark.parametrize("place", sample.PLACES)
def test_a_missing_file_is_refused_though_the_working_folder_has_one(place: str, model_folder: Path) -> None:
    sample.decoy(Path.cwd(), SMALL)
    path = sample.write(model_folder, sample.PLACES[place](sample.external(SMALL)), sample.values(SMALL))
    (model_folder / sample.DATA_FILE).unlink()
    with pytest.raises(ModelError, match=r"tensor 'w'.*'w\.bin'.*not in the model's folder"):
        read_onnx(path)


@pytest.mark.parametrize(
    ("entries", "words"),
    [
        ({"offset": 1000}, r"needs bytes 1000 to 1032 of 'w\.bin', which has 32"),
        ({"offset": 4}, "needs bytes 4 to 36"),
        ({"offset": 10**19}, "which has 32"),
        ({"offset": -4}, "offset '-4', which is not a number"),
        ({"offset": "four"}, "offset 'four', which is not a number"),
        ({"offset": ""}, "offset '', which is not a number"),
        ({"offset": "٣"}, "which is not a number"),
        ({"offset": "9" * 5000}, "which is not a number"),
        ({"length": 10**15}, "length 1000000000000000, but its shape and type need 32 bytes"),
        ({"length": 28}, "need 32 bytes"),
        ({"length": "0x20"}, "which is not a number"),
        ({"location": None}, "does not name the file"),
        ({"location": ""}, "does not name the file"),
        ({"location": "."}, "does not name the file"),
        ({"location": "a\0b"}, "does not name the file"),
        ({"location": "/dev/zero"}, "outside the model's folder"),
        ({"location": "../elsewhere/w.bin"}, "outside the model's folder"),
        ({"location": "inner/../../elsewhere/w.bin"}, "outside the model's folder"),
        ({"location": "w.bin/w.bin"}, "not in the model's folder"),
        ({"location": "x" * 300}, "cannot be read"),
        ({"location": "inner"}, "Is a directory"),
    ],
)
@pytest.mark.parametrize("place", ["initializer", "constant of a branch"])
def test_a_wrong_entry_is_refused_in_one_sentence(
    place: str, entries: dict[str, object], words: str, model_folder: Path
) -> None:
    sample.decoy(Path.cwd(), SMALL)
    path = sample.write(model_folder, sample.PLACES[place](sample.external(SMALL, **entries)), sample.values(SMALL))
    (model_folder / "inner").mkdir()
    with pytest.raises(ModelError, match=words) as raised:
        read_onnx(path)
    assert "\n" not in raised.value.message
    assert f"tensor 'w' of {path}" in raised.value.message


@given(
    st.dictionaries(st.sampled_from(["offset", "length", "checksum"]), st.text(max_size=12)),
    st.one_of(st.just(sample.DATA_FILE), st.text(max_size=12)),
)
def test_any_entry_is_read_or_refused_in_one_sentence(entries: dict[str, str], location: str) -> None:
    model = sample.RIGHT["initializer"](sample.external(SMALL, location=location, **entries))
    with tempfile.TemporaryDirectory() as folder:
        path = sample.write(Path(folder), model, sample.values(SMALL))
        try:
            read = numpy_helper.to_array(read_stored(path).proto.graph.initializer[0])
        except ModelError as error:
            assert len(error.message.splitlines()) == 1  # noqa: PT017 - most entries are refused, not all of them
        else:
            assert np.array_equal(read, sample.values(SMALL))


def wrong_tensor(field: str) -> TensorProto:
    tensor = sample.external(SMALL)
    match field:
        case "twice":
            tensor.external_data.add(key="location", value="other.bin")
        case "inline as well":
            tensor.raw_data = sample.values(SMALL).tobytes()
        case "negative":
            tensor.dims[0] = -SMALL
        case "huge":
            tensor.dims.extend([2**62] * 3)
        case "many axes":
            tensor.dims.extend([2**62] * 100_000)
        case "strings":
            tensor.data_type = TensorProto.STRING
        case "unknown type":
            tensor.data_type = 99
    return tensor


@pytest.mark.parametrize(
    ("field", "words"),
    [
        ("twice", "two entries 'location'"),
        ("inline as well", "in the file as well"),
        ("negative", "which is not valid"),
        ("huge", "which is not valid"),
        ("many axes", "which is not valid"),
        ("strings", "the type STRING"),
        ("unknown type", "the type 99"),
    ],
)
def test_a_wrong_tensor_is_refused_in_one_sentence(field: str, words: str, model_folder: Path) -> None:
    path = sample.write(model_folder, sample.model_of(sample.graph_of([], SMALL)), sample.values(SMALL))
    model = onnx.load(path, load_external_data=False)
    model.graph.initializer.append(wrong_tensor(field))
    path.write_bytes(model.SerializeToString())
    with pytest.raises(ModelError, match=words) as raised:
        read_onnx(path)
    assert len(raised.value.message) < 600


@pytest.mark.parametrize("kind", ["link outside", "link to a device", "circle", "fifo", "folder outside"])
def test_no_link_leads_out_and_no_special_file_is_read(kind: str, model_folder: Path) -> None:
    sample.decoy(Path.cwd(), SMALL)
    location = "inner/w.bin" if kind == "folder outside" else sample.DATA_FILE
    model = sample.RIGHT["initializer"](sample.external(SMALL, location=location))
    path = sample.write(model_folder, model, sample.values(SMALL))
    file = model_folder / sample.DATA_FILE
    file.unlink()
    match kind:
        case "link outside":
            file.symlink_to(Path.cwd() / sample.DATA_FILE)
        case "link to a device":
            file.symlink_to("/dev/zero")
        case "circle":
            file.symlink_to(file)
        case "fifo":
            os.mkfifo(file)
        case "folder outside":
            (model_folder / "inner").symlink_to(Path.cwd())
    with pytest.raises(ModelError, match=r"outside the model's folder|form a circle|cannot be read|not a regular file"):
        read_onnx(path)


def test_a_link_within_the_folder_is_followed(model_folder: Path) -> None:
    model = sample.RIGHT["initializer"](sample.external(SMALL))
    path = sample.write(model_folder, model, sample.values(SMALL))
    (model_folder / "data").mkdir()
    (model_folder / sample.DATA_FILE).rename(model_folder / "data/weights")
    (model_folder / sample.DATA_FILE).symlink_to("data/weights")
    assert np.array_equal(numpy_helper.to_array(read_onnx(path).proto.graph.initializer[0]), sample.values(SMALL))


def test_a_model_in_memory_cannot_have_tensors_in_files() -> None:
    model = sample.RIGHT["constant node"](sample.external(SMALL))
    with pytest.raises(ModelError, match="read it from its own file"):
        model_from_proto(model, "0" * 64, "m", None, "m")


@pytest.mark.parametrize("place", ["initializer", "constant of a function", "sparse constant"])
def test_the_hash_covers_the_tensors(place: str, model_folder: Path) -> None:
    model = sample.PLACES[place](sample.external(SMALL))
    before = read_stored(sample.write(model_folder, model, sample.values(SMALL))).sha256
    assert read_stored(sample.write(model_folder, model, sample.values(SMALL))).sha256 == before
    trained = sample.values(SMALL)
    trained[-1] += 1
    assert read_stored(sample.write(model_folder, model, trained)).sha256 != before


def test_without_external_tensors_the_hash_is_that_of_the_file(model_folder: Path) -> None:
    path = sample.write(model_folder, sample.RIGHT["initializer"](sample.inline(SMALL)), sample.values(SMALL))
    assert read_stored(path).sha256 == hashlib.sha256(path.read_bytes()).hexdigest()


def several(model_folder: Path, ranges: list[tuple[str, int, int]]) -> Path:
    """A model with one external tensor of int8 for each (location, offset, size) of `ranges`."""
    tensors = []
    for number, (location, offset, size) in enumerate(ranges):
        tensor = sample.external(size, location=location, offset=offset)
        tensor.name, tensor.data_type = f"w{number}", TensorProto.INT8
        tensors.append(tensor)
    relu = helper.make_node("Relu", ["x"], ["y"])
    return sample.write(model_folder, sample.model_of(sample.graph_of([relu], SMALL, tensors)), sample.values(SMALL))


def test_the_hash_can_be_computed_by_hand(model_folder: Path) -> None:
    """As docs/models.md says: `sha256sum model.onnx a.bin b.bin | cut -c1-64 | sha256sum`."""
    path = several(model_folder, [("b.bin", 0, 10), ("a.bin", 4, 4), ("a.bin", 0, 6)])
    (model_folder / "a.bin").write_bytes(b"abcdefgh")
    (model_folder / "b.bin").write_bytes(b"0123456789")
    files = [path, model_folder / "a.bin", model_folder / "b.bin"]
    lines = [hashlib.sha256(file.read_bytes()).hexdigest() + "\n" for file in files]
    assert read_stored(path).sha256 == hashlib.sha256("".join(lines).encode()).hexdigest()


def test_gaps_are_not_hashed(model_folder: Path) -> None:
    path = several(model_folder, [("./a.bin", 0, 2), ("a.bin", 6, 2)])
    (model_folder / "a.bin").write_bytes(b"ab....gh")
    before = read_stored(path).sha256
    (model_folder / "a.bin").write_bytes(b"ab,,,,gh and more")
    assert read_stored(path).sha256 == before
    (model_folder / "a.bin").write_bytes(b"ab,,,,gH and more")
    assert read_stored(path).sha256 != before


def test_a_file_for_each_of_many_tensors_is_read(model_folder: Path) -> None:
    """More of them than a process may have open."""
    ranges = [(f"t{number}.bin", 0, 3) for number in range(1500)]
    path = several(model_folder, ranges)
    for number in range(1500):
        (model_folder / f"t{number}.bin").write_bytes(number.to_bytes(3, "little"))
    read = [numpy_helper.to_array(tensor).tobytes() for tensor in read_onnx(path).proto.graph.initializer]
    assert read == [number.to_bytes(3, "little") for number in range(1500)]


@pytest.mark.parametrize(
    "kind", ["FLOAT16", "BFLOAT16", "INT4", "UINT4", "INT8", "INT64", "DOUBLE", "BOOL", "FLOAT8E4M3FN"]
)
@pytest.mark.parametrize("offset", [0, 1])
def test_every_type_is_read_at_any_offset(kind: str, offset: int, model_folder: Path) -> None:
    element = TensorProto.DataType.Value(kind)
    dims = [2, LARGE]
    dtype = helper.tensor_dtype_to_np_dtype(element)
    array = (np.arange(2 * LARGE) % 2).reshape(dims).astype(dtype)
    inline = numpy_helper.from_array(array, "w")
    tensor = TensorProto(name="w", data_type=element, dims=dims, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=sample.DATA_FILE)
    tensor.external_data.add(key="offset", value=str(offset))
    shape = [helper.make_node("Shape", ["w"], ["s"]), helper.make_node("Cast", ["s"], ["y"], to=TensorProto.FLOAT)]
    path = sample.write(model_folder, sample.model_of(sample.graph_of(shape, 2, [tensor])), sample.values(SMALL))
    (model_folder / sample.DATA_FILE).write_bytes(b"\1" * offset + inline.raw_data)
    stored = read_stored(path)
    assert stored.weights["w"].dtype == dtype
    assert stored.weights["w"].flags.aligned
    assert np.array_equal(stored.weights["w"], array)


def quantised(weights: TensorProto, opset: int) -> onnx.ModelProto:
    """A product with int8 weights, whose quantised operators the evaluator knows from opset 19 on."""
    rows, columns = weights.dims
    nodes = [
        helper.make_node("QuantizeLinear", ["x", "scale", "zero"], ["xq"]),
        helper.make_node("DequantizeLinear", ["xq", "scale", "zero"], ["xr"]),
        helper.make_node("DequantizeLinear", ["w", "scale", "zero"], ["wide"]),
        helper.make_node("MatMul", ["xr", "wide"], ["y"]),
    ]
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, rows])
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, columns])
    scale = numpy_helper.from_array(np.array(0.5, "float32"), "scale")
    zero = numpy_helper.from_array(np.array(0, "int8"), "zero")
    graph = helper.make_graph(nodes, "quantised", [x], [y], [weights, scale, zero])
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", opset)], ir_version=9)


@pytest.mark.parametrize("opset", [13, 19])
def test_large_integer_weights_reach_the_program_as_they_are(opset: int, model_folder: Path) -> None:
    array = (np.arange(LARGE) % 255 - 127).astype("int8").reshape(256, -1)
    tensor = TensorProto(name="w", data_type=TensorProto.INT8, dims=array.shape, data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value=sample.DATA_FILE)
    path = sample.write(model_folder, quantised(tensor, opset), array)
    feed = {"x": 0.5 * np.arange(-128, 128, dtype="float32").reshape(1, 256)}
    model = read_onnx(path)
    program = to_program(import_onnx(model))
    assert "int8" in {constant.dtype.name for constant in program.constants.values()}
    for answer in (*evaluate_model(model, [feed]), *evaluate_program(program, [feed])):
        np.testing.assert_allclose(answer["y"], feed["x"] @ (array * 0.5), rtol=1e-3, atol=1e-2)


def test_large_tensors_may_be_unused_or_outputs(model_folder: Path) -> None:
    size = LARGE // 4
    named = {name: sample.external(size) for name in ("y", "shadowed", "unused")}
    for name, tensor in named.items():
        tensor.name = name
    graph = sample.graph_of([], size, [*named.values()])
    graph.input.append(helper.make_tensor_value_info("shadowed", TensorProto.FLOAT, [size]))
    model = read_onnx(sample.write(model_folder, sample.model_of(graph), sample.values(size)))
    assert set(model.weights) == set(named)
    assert [spec.name for spec in import_onnx(model).inputs] == ["x"]
    feed = {"x": np.ones(size, "float32")}
    for evaluator in ("onnxruntime", "onnx.reference"):
        assert np.array_equal(evaluate_model(model, [feed], evaluator)[0]["y"], sample.values(size))


def test_both_forms_of_a_model_give_the_same_program(model_folder: Path) -> None:
    size = LARGE // 4

    def constants(model: OnnxModel) -> list[bytes]:
        return [array.tobytes() for array in to_program(import_onnx(model)).constants.values()]

    for place in sample.RIGHT.values():
        outside = sample.write(model_folder, place(sample.external(size)), sample.values(size))
        inside = model_from_proto(place(sample.inline(size)), "0" * 64, "model", None, "model")
        assert constants(read_onnx(outside)) == constants(inside)
