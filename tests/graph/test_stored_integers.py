"""Stored integers: what lies in memory for a constant behind a dequantisation, and that its readers are right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.evaluate import evaluate_program
from edgetune.graph.partition import to_program
from edgetune.graph.precision import with_precision
from edgetune.graph.program import Program
from edgetune.graph.stored_integers import stored_integers
from edgetune.graph.widened_integers import STORED, Widened
from edgetune.target.target import load_target
from tests.model_in_c import outputs_in_c

_RANDOM = np.random.default_rng(0)
_NARROW = {TensorProto.INT4: 0.5, TensorProto.UINT4: 0.5}


def _ints(*shape: int, low: int = -127, high: int = 127, dtype: str = "int8") -> np.ndarray:
    return _RANDOM.integers(low, high + 1, shape).astype(dtype)


def _scales(*shape: int) -> np.ndarray:
    return _RANDOM.uniform(0.005, 0.02, shape).astype(np.float32)


def _four_bits(name: str, element: int, *shape: int) -> onnx.TensorProto:
    low = -8 if element == TensorProto.INT4 else 0
    return helper.make_tensor(name, element, shape, _ints(*shape, low=low, high=low + 15).reshape(-1))


@dataclass(frozen=True)
class _Model:
    """Nodes from x to y, with constants; `widened` are the operators whose kernels read integers."""

    nodes: Sequence[onnx.NodeProto]
    x: np.ndarray
    y: tuple[int, ...]
    constants: Mapping[str, np.ndarray | onnx.TensorProto]
    widened: int = 1
    opset: int = 21
    made: str = "float32"

    @property
    def proto(self) -> onnx.ModelProto:
        def value(name: str, dtype: str, shape: Sequence[int]) -> onnx.ValueInfoProto:
            return helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(np.dtype(dtype)), shape)

        stored = [
            one if isinstance(one, onnx.TensorProto) else numpy_helper.from_array(np.asarray(one), name)
            for name, one in self.constants.items()
        ]
        ends = [value("x", self.x.dtype.name, self.x.shape)], [value("y", self.made, self.y)]
        graph = helper.make_graph(self.nodes, "g", *ends, stored)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", self.opset)], ir_version=10)

    @property
    def asked(self) -> float:
        """Bytes of the integers and all other constants, as the model has them."""
        sizes = [
            int(np.prod(one.dims)) * _NARROW.get(one.data_type, numpy_helper.to_array(one).itemsize)
            for one in self.proto.graph.initializer
        ]
        return float(sum(sizes))


def _node(operator: str, inputs: str, output: str, **attributes: object) -> onnx.NodeProto:
    return helper.make_node(operator, [name.strip() for name in inputs.split(",")], output.split(","), **attributes)


def _dequantised(name: str = "w", zero: str = "z", **attributes: object) -> onnx.NodeProto:
    return _node("DequantizeLinear", f"{name},s" + (f",{zero}" if zero else ""), f"{name}f", **attributes)


def _floats(*shape: int) -> np.ndarray:
    return _RANDOM.standard_normal(shape).astype(np.float32)


_ZEROS = np.zeros(48, "int8")
_ONE = {"s": np.float32(0.01), "z": np.int8(3)}
_RECURRENT = [_dequantised(axis=1, zero=""), _dequantised("r", axis=1, zero="")]

_MODELS = {
    "embedding": _Model(
        [_dequantised(), _node("Gather", "wf,x", "y")],
        _ints(1, 12, low=0, high=499, dtype="int64"), (1, 12, 64), {"w": _ints(500, 64), **_ONE},
    ),
    "linear layer, transposed weights per row": _Model(
        [_dequantised(axis=0), _node("Gemm", "x,wf,b", "y", transB=1)],
        _floats(4, 64), (4, 48), {"w": _ints(48, 64), "s": _scales(48), "z": _ZEROS, "b": _scales(48)},
    ),
    "linear layer, uint8 with a zero point per column": _Model(
        [_dequantised(axis=1), _node("MatMul", "x,wf", "y")],
        _floats(2, 4, 64), (2, 4, 48),
        {"w": _ints(64, 48, low=0, high=255, dtype="uint8"), "s": _scales(48),
         "z": _ints(48, low=100, high=150, dtype="uint8")},
    ),
    "transposed convolution": _Model(
        [_dequantised(axis=1), _node("ConvTranspose", "x,wf", "y", strides=[2, 2], dilations=[2, 2])],
        _floats(1, 16, 6, 6), (1, 8, 15, 15), {"w": _ints(16, 8, 3, 3), "s": _scales(8), "z": _ZEROS[:8]},
    ),
    "transposed convolution, a dense one for each phase": _Model(
        [_dequantised(axis=1), _node("ConvTranspose", "x,wf,b", "y", strides=[2, 3])],
        _floats(1, 16, 6, 6), (1, 8, 13, 18),
        {"w": _ints(16, 8, 3, 3), "s": _scales(8), "z": _ZEROS[:8], "b": _scales(8)}, 2,
    ),
    "convolution of floats": _Model(
        [_dequantised(axis=0), _node("Conv", "x,wf,b", "c", pads=[1] * 4), _node("Relu", "c", "y")],
        _floats(1, 16, 6, 6), (1, 32, 6, 6),
        {"w": _ints(32, 16, 3, 3), "s": _scales(32), "z": _ZEROS[:32], "b": _scales(32)},
    ),
    "convolution of floats, one axis": _Model(
        [_dequantised(axis=0), _node("Conv", "x,wf", "y")],
        _floats(1, 16, 18), (1, 32, 16), {"w": _ints(32, 16, 3), "s": _scales(32), "z": _ZEROS[:32]},
    ),
    "depthwise convolution": _Model(
        [_dequantised(axis=0), _node("Conv", "x,wf", "y", pads=[1] * 4, group=64)],
        _floats(1, 64, 6, 6), (1, 64, 6, 6), {"w": _ints(64, 1, 3, 3), "s": _scales(64), "z": np.zeros(64, "int8")},
    ),
    "convolution and normalisation": _Model(
        [_dequantised(axis=0), _node("Conv", "x,wf", "c"), _node("BatchNormalization", "c,g,b,m,v", "y")],
        _floats(1, 16, 4, 4), (1, 32, 2, 2),
        {"w": _ints(32, 16, 3, 3), "s": _scales(32), "z": _ZEROS[:32], **{name: _scales(32) for name in "gbmv"}},
    ),
    "LSTM": _Model(
        [*_RECURRENT, _node("LSTM", "x,wf,rf", "y", hidden_size=32)],
        _floats(2, 1, 24), (2, 1, 1, 32), {"w": _ints(1, 128, 24), "r": _ints(1, 128, 32), "s": _scales(128)}, 2,
    ),
    "GRU": _Model(
        [*_RECURRENT, _node("GRU", "x,wf,rf", "y", hidden_size=32)],
        _floats(2, 1, 24), (2, 1, 1, 32), {"w": _ints(1, 96, 24), "r": _ints(1, 96, 32), "s": _scales(96)}, 3,
    ),
    "blocks of 8 bits": _Model(
        [_dequantised(axis=0, block_size=32, zero=""), _node("MatMul", "x,wf", "y")],
        _floats(4, 128), (4, 48), {"w": _ints(128, 48), "s": _scales(4, 48)},
    ),
    "blocks of 8 bits, the last one shorter": _Model(
        [_dequantised(axis=1, block_size=32, zero=""), _node("MatMul", "x,wf", "y")],
        _floats(4, 40), (4, 80), {"w": _ints(40, 80), "s": _scales(40, 3)},
    ),
    "blocks of 4 bits": _Model(
        [_dequantised(axis=0, block_size=32), _node("MatMul", "x,wf", "y")],
        _floats(4, 128), (4, 48),
        {"w": _four_bits("w", TensorProto.INT4, 128, 48), "s": _scales(4, 48),
         "z": _four_bits("z", TensorProto.INT4, 4, 48)},
    ),
    "blocks of unsigned 4 bits, transposed": _Model(
        [_dequantised(axis=1, block_size=16), _node("Transpose", "wf", "t", perm=[1, 0]), _node("MatMul", "x,t", "y")],
        _floats(4, 128), (4, 48),
        {"w": _four_bits("w", TensorProto.UINT4, 48, 128), "s": _scales(48, 8),
         "z": _four_bits("z", TensorProto.UINT4, 48, 8)},
    ),
    "4 bits, one scale": _Model(
        [_dequantised(), _node("Gather", "wf,x", "y")], _ints(3, low=0, high=59, dtype="int64"), (3, 64),
        {"w": _four_bits("w", TensorProto.UINT4, 60, 64), "s": np.float32(0.1),
         "z": helper.make_tensor("z", TensorProto.UINT4, (), [8])},
    ),
    "sum": _Model(
        [_dequantised(zero=""), _node("Add", "x,wf", "y")], _floats(1, 32, 64), (1, 32, 64),
        {"w": _ints(1, 32, 64, low=-30000, high=30000, dtype="int16"), "s": np.float32(1e-4)},
    ),
    "layer normalisation": _Model(
        [_dequantised(zero=""), _node("LayerNormalization", "x,wf,b", "y", axis=-1)],
        _floats(8, 256), (8, 256), {"w": _ints(256), "s": np.float32(0.01), "b": _scales(256)},
    ),
    "slopes": _Model(
        [_dequantised(axis=0), _node("PRelu", "x,wf", "y")],
        _floats(2, 8, 64), (2, 8, 64), {"w": _ints(8, 64), "s": _scales(8), "z": _ZEROS[:8]},
    ),
    "reshaped, transposed, sliced": _Model(
        [_dequantised(axis=0, zero=""), _node("Reshape", "wf,shape", "g"), _node("Transpose", "g", "h", perm=[2, 1, 0]),
         _node("Slice", "h,from,to,axis", "k"), _node("MatMul", "x,k", "y")],
        _floats(2, 4, 24), (2, 4, 16),
        {"w": _ints(16, 72), "s": _scales(16), "shape": np.array([16, 24, 3]), "from": np.array([1]),
         "to": np.array([3]), "axis": np.array([0])},
    ),
    "joined and padded": _Model(
        [_dequantised(axis=0), _node("DequantizeLinear", "v,vs,vz", "vf", axis=0),
         _node("Concat", "wf,vf", "c", axis=0), _node("Pad", "c,p", "d"), _node("Gather", "d,x", "y")],
        _ints(7, low=0, high=20, dtype="int64"), (7, 66),
        {"w": _ints(8, 64), "s": _scales(8), "z": _ints(8, low=-4, high=4), "v": _ints(13, 64), "vs": _scales(13),
         "vz": _ints(13, low=-4, high=4), "p": np.array([0, 1, 0, 1])},
    ),
    "a conversion, a difference and a product": _Model(
        [_node("Cast", "w", "c", to=TensorProto.FLOAT), _node("Sub", "c,z", "d"), _node("Mul", "d,s", "e"),
         _node("MatMul", "x,e", "y")],
        _floats(3, 64), (3, 48),
        {"w": _ints(64, 48, low=0, high=255, dtype="uint8"), "z": _ints(48, low=100, high=130).astype("float32"),
         "s": _scales(48)},
    ),
    "a factor without axes": _Model(
        [_dequantised(axis=0), _dequantised("k", zero=""), _node("Mul", "wf,kf", "m"), _node("Add", "x,m", "y")],
        _floats(8, 64), (8, 64), {"w": _ints(8, 64), "k": np.int8(3), **_ONE},
    ),
    "repeated along an axis": _Model(
        [_dequantised(), _node("Expand", "wf,shape", "e"), _node("Add", "x,e", "y")],
        _floats(32, 64), (32, 64), {"w": _ints(1, 64), **_ONE, "shape": np.array([32, 64])},
    ),
    "a difference that is no zero point": _Model(
        [_dequantised(), _node("Sub", "wf,k", "d"), _node("Add", "x,d", "y")],
        _floats(8, 64), (8, 64), {"w": _ints(8, 64), **_ONE, "k": np.float32(0.3)},
    ),
    "a scale of half precision": _Model(
        [_dequantised(), _node("Cast", "wf", "c", to=TensorProto.FLOAT), _node("Add", "x,c", "y")],
        _floats(8, 64), (8, 64), {"w": _ints(8, 64), "s": np.float16(0.01), "z": np.int8(3)},
    ),
    "product of integers": _Model(
        [_node("MatMulInteger", "x,w", "y")],  # without VNNI, ONNX Runtime's sums of larger weights saturate
        _ints(3, 64, low=0, high=255, dtype="uint8"), (3, 48), {"w": _ints(64, 48, low=-64, high=64)}, made="int32",
    ),
    "quantised convolution": _Model(
        [_node("QLinearConv", "x,xs,xz,w,s,z,xs,xz", "y", pads=[1] * 4)],
        _ints(1, 16, 6, 6, low=0, high=255, dtype="uint8"), (1, 32, 6, 6),
        {"w": _ints(32, 16, 3, 3), "s": _scales(32), "z": _ZEROS[:32], "xs": np.float32(0.03), "xz": np.uint8(120)},
        made="uint8",
    ),
}  # fmt: skip


def _program(model: _Model) -> Program:
    return to_program(import_onnx(model_from_proto(model.proto, "0" * 64, "model", None, "model.onnx")))


@pytest.mark.parametrize("name", [pytest.param(n, marks=[pytest.mark.long] * (n == "GRU")) for n in _MODELS])
def test_a_constant_behind_a_dequantisation_stays_integers(name: str) -> None:
    model = _MODELS[name]
    program, proto = _program(model), model_from_proto(model.proto, "0" * 64, "model", None, "model.onnx")
    assert program.constant_bytes <= 1.1 * model.asked
    read = [param for kernel in program.kernels for param in kernel.params if param.role == "constant"]
    assert sum(param.dtype in STORED and param.name != "zero_points" for param in read) == model.widened
    (found,), (wanted,) = evaluate_program(program, [{"x": model.x}]), evaluate_model(proto, [{"x": model.x}])
    largest = np.abs(wanted["y"].astype("float64")).max()
    np.testing.assert_allclose(found["y"], wanted["y"], atol=1e-6 * largest if model.made == "float32" else 0)


@pytest.mark.long
@pytest.mark.parametrize("name", ["blocks of 4 bits", "4 bits, one scale", "sum", "transposed convolution"])
def test_the_c_of_its_readers_is_right(name: str, tmp_path: Path) -> None:
    model = _MODELS[name]
    found = outputs_in_c(_program(model), {"x": model.x}, load_target("generic-x86_64"), tmp_path)
    reference = model_from_proto(model.proto, "0" * 64, "model", None, "model.onnx")
    (wanted,) = evaluate_model(reference, [{"x": model.x}])
    np.testing.assert_allclose(found["y"], wanted["y"], atol=1e-5 * np.abs(wanted["y"]).max())


def test_a_scale_of_all_terms_is_applied_to_the_sum() -> None:
    """One product for each term, and one for each result."""
    (kernel,) = _program(_MODELS["linear layer, transposed weights per row"]).kernels
    assert str(kernel.function).count("scales[") == 2, kernel.function  # one read, and its region
    assert "_sum" in str(kernel.function)


def test_the_layout_of_packed_integers_is_not_free() -> None:
    (packed,) = _program(_MODELS["blocks of 4 bits"]).kernels
    (whole,) = _program(_MODELS["blocks of 8 bits"]).kernels
    assert list(packed.function.attrs["layout_free_buffers"]) == []
    assert list(whole.function.attrs["layout_free_buffers"]) == [1]


def test_equal_layers_with_other_scales_share_a_kernel() -> None:
    nodes: list[onnx.NodeProto] = []
    constants: dict[str, np.ndarray] = {}
    for layer, (name, result) in enumerate((("x", "a"), ("a", "y"))):
        nodes += [
            _node("DequantizeLinear", f"w{layer},s{layer}", f"f{layer}"),
            _node("MatMul", f"{name},f{layer}", result),
        ]
        constants |= {f"w{layer}": _ints(64, 64), f"s{layer}": _scales()}
    program = _program(_Model(nodes, _floats(4, 64), (4, 64), constants))
    assert [kernel.weight for kernel in program.kernels] == [2]


@pytest.mark.parametrize("factors", [(1e25, 1e25), (1e-30, 1e-20, 1e30), (np.inf,)], ids=["large", "small", "infinite"])
def test_scales_that_no_number_holds_are_not_joined(factors: tuple[float, ...]) -> None:
    """An integer of 0 times a scale that overflows would be NaN, and all others 0 below the smallest number."""
    nodes = [_dequantised(zero="")]
    nodes += [_node("Mul", f"{'p' * n or 'wf'},k{n}", "p" * (n + 1)) for n in range(len(factors) - 1)]
    nodes.append(_node("Add", f"x,{nodes[-1].output[0]}", "y"))
    constants = {"w": np.arange(-4, 4, dtype="int8"), "s": np.float32(factors[0])}
    constants |= {f"k{n}": np.float32(factor) for n, factor in enumerate(factors[1:])}
    model = _Model(nodes, _floats(8), (8,), constants)
    (found,) = evaluate_program(_program(model), [{"x": model.x}])
    wanted = np.arange(-4, 4, dtype="float32")
    with np.errstate(over="ignore", invalid="ignore"):
        for factor in factors:
            wanted = wanted * np.float32(factor)
    wanted = model.x + wanted
    np.testing.assert_array_equal(found["y"], wanted)


def test_a_tensor_times_a_quantised_number_lies_as_integers() -> None:
    nodes = [
        _node("QuantizeLinear", "x,s,z", "q"), _node("DequantizeLinear", "q,s,z", "xf"), _dequantised("k"),
        _node("Mul", "xf,kf", "m"), _node("MaxPool", "m", "y", kernel_shape=[2, 2]),
    ]  # fmt: skip
    model = _Model(nodes, _floats(1, 4, 8, 8), (1, 4, 7, 7), {"k": np.int8(7), **_ONE})
    program = _program(model)
    assert [buffer.dtype for buffer in program.buffers if buffer.kind == "intermediate"] == ["int8"]
    (found,) = evaluate_program(program, [{"x": model.x}])
    (wanted,) = evaluate_model(model_from_proto(model.proto, "", "m", None, "m"), [{"x": model.x}])
    np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-6)


def test_a_reshape_keeps_integers_of_many_scales() -> None:
    """Channels that stay an axis keep their scales; merged with another axis, they would need one per element."""
    for shape, dtype in (([4, 64], "int8"), ([256], "float32")):
        nodes = [
            _node("QuantizeLinear", "x,s,z", "q", axis=1), _node("DequantizeLinear", "q,s,z", "xf", axis=1),
            _node("Reshape", "xf,shape", "r"), _node("Softmax", "r", "y", axis=-1),
        ]  # fmt: skip
        constants = {"s": _scales(4), "z": np.zeros(4, "int8"), "shape": np.array(shape)}
        model = _Model(nodes, _floats(1, 4, 8, 8), tuple(shape), constants)
        program = _program(model)
        kinds = {buffer.dtype for buffer in program.buffers if buffer.kind == "intermediate"}
        assert kinds == {dtype}
        (found,) = evaluate_program(program, [{"x": model.x}])
        (wanted,) = evaluate_model(model_from_proto(model.proto, "", "m", None, "m"), [{"x": model.x}])
        np.testing.assert_allclose(found["y"], wanted["y"], rtol=1e-5)


@given(st.data())
@settings(max_examples=60, deadline=None)
def test_every_form_stands_for_the_same_numbers(data: st.DataObject) -> None:
    """Integers of any range; scales and zero points for all, along axes, or in runs."""
    shape = data.draw(st.lists(st.sampled_from([1, 2, 3, 8, 12]), min_size=1, max_size=3), label="shape")
    dtype = data.draw(st.sampled_from(["int8", "uint8", "int16"]), label="dtype")
    random = np.random.default_rng(data.draw(st.integers(0, 1 << 16), label="seed"))
    low = int(np.iinfo(dtype).min) if data.draw(st.booleans(), label="whole range") else 0
    high = int(np.iinfo(dtype).max) if low else data.draw(st.integers(1, 20), label="largest")

    def along_axes(values: np.ndarray) -> np.ndarray:
        """Equal along some axes, and in runs along others."""
        for axis, extent in enumerate(shape):
            run = data.draw(st.sampled_from([n for n in (1, 2, 4, extent) if n <= extent]), label="run")
            values = values.take(np.arange(extent) // run * run, axis)
            values = values.take([0], axis) if run == extent else values
        return values

    zeros = along_axes(random.integers(low, high + 1, shape).astype("int32"))
    scales = along_axes(random.uniform(0.5, 2, shape).astype("float32"))
    constant = Widened(random.integers(low, high + 1, shape).astype(dtype), "float32", zeros, scales)
    form = stored_integers(constant)
    if form is None:
        return
    places = [place.reshape(-1) for place in np.indices(shape)]

    def at(number: int) -> np.ndarray:
        part = form.parts[number]
        if not part.axes:
            return part.array.reshape(-1)
        index = [places[axis] // run for axis, run, _ in part.axes]
        inside = tuple(i % extent for i, extent in zip(index, part.array.shape, strict=True))
        return np.asarray(part.array[inside])

    integers = at(0).astype("int64")
    if form.integers.packed is not None:
        second = places[form.integers.packed] // form.integers.array.shape[form.integers.packed]
        integers = (integers >> (4 * second) & 15) + form.integers.least
    if form.zeros is not None:
        integers = integers - at(1)
    factor = 1.0 if form.integers.packed is None else 16.0
    found = integers.astype("float32") * (at(len(form.parts) - 1) * np.float32(factor))
    np.testing.assert_array_equal(found.reshape(shape), constant.numbers())
    assert sum(array.nbytes for array in form.arrays) <= 0.9 * constant.numbers().nbytes


def test_scales_keep_their_precision() -> None:
    """float16 has no number near some scales of 16 bits."""
    program = with_precision(_program(_MODELS["sum"]), "fp16")
    (kernel,) = program.kernels
    assert {param.name: param.dtype for param in kernel.params if param.role == "constant"} == {
        "constant": "int16",
        "scales": "float32",
    }
