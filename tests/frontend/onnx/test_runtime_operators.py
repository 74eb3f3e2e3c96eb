"""Operators of ONNX Runtime, written out in operators of ONNX: by ONNX's evaluator, against ONNX Runtime itself."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgetune.frontend.onnx.decompositions.onnx_runtime import OF_ONNX_RUNTIME
from edgetune.frontend.onnx.importer import import_onnx
from edgetune.frontend.onnx.reader import OnnxModel, model_from_proto
from edgetune.frontend.onnx.reference import evaluate_model

_SEED = np.random.default_rng(5)


def floats(*shape: int, scale: float = 1.0) -> np.ndarray:
    """Normal numbers."""
    return (_SEED.standard_normal(shape) * scale).astype("float32")


def u8(*shape: int) -> np.ndarray:
    """Any unsigned bytes."""
    return _SEED.integers(0, 256, shape).astype("uint8")


def i8(*shape: int) -> np.ndarray:
    """Any signed bytes but the least."""
    # Without VNNI, ONNX Runtime adds two products of bytes in 16 bits, which saturate beyond 64.
    return _SEED.integers(-64, 65, shape).astype("int8")


def f(*values: float) -> np.ndarray:
    """A number, or a vector of some."""
    return np.array(values[0] if len(values) == 1 else values, "float32")


@dataclass(frozen=True)
class Fed:
    """An operand that is an input of the model; all others are constants."""

    value: np.ndarray


@dataclass(frozen=True)
class Case:
    """One node: operands in order ("" for one that is left out), attributes, and which of its outputs are made."""

    operator: str
    operands: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    outputs: tuple[int, ...] = (0,)
    note: str = ""
    opset: int = 17
    domain: str = "com.microsoft"

    @property
    def name(self) -> str:
        """The name of its test."""
        return f"{self.operator} {self.note}".strip()

    def model(self) -> OnnxModel:
        """The model of the node, as read."""
        names, inputs, constants = [], [], []
        for index, operand in enumerate(self.operands):
            name = "" if isinstance(operand, str) else f"i{index}"
            names.append(name)
            if isinstance(operand, Fed):
                kind = helper.np_dtype_to_tensor_dtype(operand.value.dtype)
                inputs.append(helper.make_tensor_value_info(name, kind, operand.value.shape))
            elif name:
                constants.append(numpy_helper.from_array(np.asarray(operand), name))
        made = [f"o{index}" if index in self.outputs else "" for index in range(max(self.outputs) + 1)]
        node = helper.make_node(self.operator, names, made, name="node", domain=self.domain, **self.attributes)
        graph = helper.make_graph(
            [node], "g", inputs, [onnx.ValueInfoProto(name=name) for name in made if name], constants
        )
        opsets = [helper.make_opsetid("", self.opset), helper.make_opsetid("com.microsoft", 1)]
        proto = helper.make_model(graph, opset_imports=opsets, ir_version=10)
        for value, kind in zip(proto.graph.output, _types(proto), strict=True):
            value.type.CopyFrom(kind)
        return model_from_proto(proto, "0" * 64, "m", None, "m.onnx")

    @property
    def feed(self) -> dict[str, np.ndarray]:
        """Its inputs by name."""
        return {f"i{n}": one.value for n, one in enumerate(self.operands) if isinstance(one, Fed)}


def _types(proto: onnx.ModelProto) -> list[onnx.TypeProto]:
    """The types of the outputs, by ONNX Runtime, which infers them for its own operators."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(proto.SerializeToString(), options, providers=["CPUExecutionProvider"])
    kinds = {"float": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "float16": 10, "int4": 22}
    return [
        helper.make_tensor_type_proto(
            kinds[output.type[7:-1]], [extent if isinstance(extent, int) else None for extent in output.shape]
        )
        for output in session.get_outputs()
    ]


Z8, ZI = np.array(120, "uint8"), np.array(-3, "int8")
_X = Fed(u8(1, 4, 6, 6))
_POOL = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
_ROWS = Fed(floats(2, 5, 12))
_SHORT = np.array([5, 3], "int32")
_RAW = np.array([[1, 1, 1, 1, 0], [1, 0, 1, 1, 0]], "int32")
_LEFT = np.array([[0, 1, 1, 1, 1], [0, 0, 1, 1, 1]], "int32")

_QUANTISED = [
    Case("QuantizeLinear", [Fed(floats(3, 4)), f(0.02), Z8]),
    Case("QuantizeLinear", [Fed(floats(3, 4)), f(0.0001), np.array(-7, "int16")], note="of 16 bits"),
    Case(
        "QuantizeLinear",
        [Fed(floats(3, 4)), f(0.02, 0.03, 0.05), np.array([1, 2, 3], "uint16")],
        {"axis": 0},
        note="per row",
    ),
    Case("DequantizeLinear", [Fed(u8(3, 4)), f(0.02), Z8]),
    Case("DequantizeLinear", [i8(3, 4).astype("int16") * 99, Fed(f(0.02)), np.array(-5, "int16")], note="of 16 bits"),
    Case(
        "DequantizeLinear",
        [Fed(i8(3, 4)), f(0.02, 0.03, 0.05), np.array([1, 2, 3], "int8")],
        {"axis": 0},
        note="per row",
    ),
    Case("QLinearAdd", [Fed(u8(2, 3, 4)), f(0.021), Z8, Fed(u8(3, 1)), f(0.013), Z8, f(0.031), Z8]),
    Case("QLinearAdd", [Fed(i8(2, 3)), f(0.021), ZI, Fed(i8(3)), f(0.013), ZI, f(0.031)], note="without a zero point"),
    Case("QLinearMul", [Fed(u8(2, 3, 4)), f(0.021), Z8, u8(4), f(0.013), Z8, f(0.031), Z8]),
    Case(
        "QLinearWhere",
        [Fed(np.array([[True], [False]])), Fed(u8(2, 3)), f(0.021), Z8, u8(3), f(0.013), Z8, f(0.031), Z8],
    ),
    Case("QLinearConcat", [f(0.03), Z8, Fed(u8(2, 3)), f(0.021), Z8, Fed(u8(2, 2)), f(0.013), Z8], {"axis": 1}),
    Case("QLinearSigmoid", [Fed(u8(3, 8)), f(0.043), Z8, f(0.0039), np.array(1, "uint8")]),
    Case("QLinearSigmoid", [Fed(i8(3, 8)), f(0.043), ZI, f(0.0078), ""], note="of int8"),
    Case("QLinearLeakyRelu", [Fed(u8(3, 8)), f(0.043), Z8, f(0.031), Z8], {"alpha": 0.3}),
    Case("QLinearSoftmax", [Fed(u8(2, 3, 4)), f(0.031), Z8, f(0.0039), np.array(0, "uint8")], {"opset": 13, "axis": 1}),
    Case(
        "QLinearSoftmax",
        [Fed(u8(2, 3, 4)), f(0.031), Z8, f(0.0039), np.array(0, "uint8")],
        {"opset": 11, "axis": 1},
        note="of many axes",
    ),
    Case(
        "QLinearSoftmax",
        [Fed(i8(2, 3, 4)), f(0.031), ZI, f(0.0039), np.array(-128, "int8")],
        {"opset": 12},
        note="before 13",
        opset=12,
    ),
    Case("QLinearAveragePool", [_X, f(0.031), Z8, f(0.023), Z8], _POOL),
    Case(
        "QLinearAveragePool",
        [_X, f(0.031), Z8, f(0.023), Z8],
        {**_POOL, "channels_last": 1, "ceil_mode": 1},
        note="channels last",
    ),
    Case("QLinearGlobalAveragePool", [_X, f(0.031), Z8, f(0.011), Z8]),
    Case("QLinearGlobalAveragePool", [_X, f(0.031), Z8, f(0.011), Z8], {"channels_last": 1}, note="channels last"),
    Case("NhwcMaxPool", [_X], {"kernel_shape": [2, 2], "strides": [2, 2]}),
    Case(
        "QLinearConv",
        [
            Fed(u8(1, 5, 6, 4)),
            f(0.021),
            Z8,
            i8(3, 4, 3, 3),
            f(0.003),
            np.array(0, "int8"),
            f(0.07),
            Z8,
            np.array([100, -70, 31], "int32"),
        ],
        {"channels_last": 1, "pads": [1, 1, 1, 1]},
    ),
    Case(
        "QGemm", [Fed(u8(3, 5)), f(0.021), Z8, i8(5, 4), f(0.003), ZI, np.array([9, -70, 31, 5], "int32"), f(0.017), Z8]
    ),
    Case(
        "QGemm",
        [Fed(u8(5, 3)), f(0.021), Z8, u8(5, 4), f(0.003), Z8, "", f(0.017), Z8],
        {"transA": 1},
        note="without bias",
    ),
]

_COLUMNS = np.array([0.003, 0.001, 0.002, 0.004], "float32")


def _gemm(note: str, bias: Any, *, transposed: bool = False) -> Case:
    weights = i8(4, 5) if transposed else i8(5, 4)
    operands = [Fed(u8(3, 5)), f(0.021), Z8, weights, _COLUMNS, np.array([1, 2, 3, -4], "int8"), bias]
    return Case("QGemm", operands, {"alpha": 0.5, "transB": int(transposed)}, note=note)


_BIASES = [
    _gemm("to floats, per column", np.array([9, -70, 31, 5], "int32"), transposed=True),
    _gemm("of one bias, per column", np.array([-70], "int32")),
    _gemm("of a scalar bias, per column", np.array(31, "int32")),
    _gemm("of a bias per row, per column", np.array([[9], [-70], [31]], "int32"), transposed=True),
    _gemm("of biases, per column", np.arange(12, dtype="int32").reshape(3, 4)),
]


def _packed(columns: int, blocks: int, block: int, bits: int) -> np.ndarray:
    return u8(columns, blocks, block * bits // 8)


_PRODUCTS = [
    Case("DynamicQuantizeMatMul", [_ROWS, i8(12, 4), f(0.003), ZI, floats(4)]),
    Case(
        "DynamicQuantizeMatMul",
        [_ROWS, u8(12, 4), _COLUMNS, np.array([1, 2, 3, 250], "uint8")],
        note="per column",
    ),
    Case(
        "DynamicQuantizeMatMul",
        [_ROWS, u8(12, 4), f(0.003), np.array([1, 2, 3, 250], "uint8")],
        note="of one scale, with a zero point per column",
    ),
    Case(
        "DynamicQuantizeMatMul",
        [_ROWS, i8(12, 4), _COLUMNS.reshape(1, 4), np.array([[1, 2, 3, -4]], "int8")],
        note="per column of two axes",
    ),
    Case(
        "DynamicQuantizeMatMul",
        [_ROWS, u8(2, 12, 4), np.abs(floats(2, 1, 4, scale=0.01)), u8(2, 1, 4)],
        note="per column of each matrix",
    ),
    Case("MatMulIntegerToFloat", [Fed(u8(2, 3, 12)), i8(12, 4), Fed(f(0.02)), f(0.003), Fed(Z8), ZI, floats(4)]),
    Case(
        "MatMulIntegerToFloat",
        [Fed(i8(3, 12)), i8(12, 4), f(0.02), _COLUMNS, ZI, np.array([1, 2, 3, -4], "int8")],
        note="per column",
    ),
    Case(
        "MatMulIntegerToFloat",
        [Fed(i8(3, 12)), i8(12, 4), f(0.02), _COLUMNS, ZI, ZI],
        note="per column, with one zero point",
    ),
    Case(
        "MatMulIntegerToFloat",
        [Fed(i8(3, 12)), i8(12, 4), f(0.02), f(0.003), ZI, np.array([1, 2, 3, -4], "int8")],
        note="of one scale, with a zero point per column",
    ),
    Case(
        "MatMulNBits",
        [Fed(floats(2, 3, 40)), _packed(5, 3, 16, 4), floats(5, 3)],
        {"K": 40, "N": 5, "bits": 4, "block_size": 16},
    ),
    Case(
        "MatMulNBits",
        [Fed(floats(3, 40)), _packed(5, 3, 16, 4), floats(5, 3), u8(5, 2), "", floats(5)],
        {"K": 40, "N": 5, "bits": 4, "block_size": 16},
        note="with zero points",
    ),
    Case(
        "MatMulNBits",
        [Fed(floats(3, 40)), _packed(5, 3, 16, 4), floats(15), floats(5, 3)],
        {"K": 40, "N": 5, "bits": 4, "block_size": 16},
        note="with zero points of floats",
    ),
    Case(
        "MatMulNBits",
        [Fed(floats(3, 40)), _packed(5, 2, 32, 8), floats(5, 2)],
        {"K": 40, "N": 5, "bits": 8, "block_size": 32},
        note="of 8 bits",
    ),
    Case(
        "MatMulNBits",
        [Fed(floats(3, 40)), _packed(5, 2, 32, 8), floats(5, 2), u8(5, 2)],
        {"K": 40, "N": 5, "bits": 8, "block_size": 32},
        note="of 8 bits with zero points",
    ),
    Case(
        "MatMulNBits",
        [Fed(floats(3, 40)), _packed(5, 3, 16, 2), floats(5, 3)],
        {"K": 40, "N": 5, "bits": 2, "block_size": 16},
        note="of 2 bits",
    ),
    Case("MatMulInteger16", [Fed(i8(3, 4).astype("int16") * 99), i8(4, 2).astype("int16") * 99]),
    Case("FusedMatMul", [Fed(floats(2, 3, 4, 5)), Fed(floats(2, 3, 4, 6))], {"transA": 1, "alpha": 0.5}),
    Case(
        "FusedMatMul",
        [Fed(floats(4, 2, 3, 5)), Fed(floats(6, 2, 3, 5))],
        {"transBatchA": 1, "transBatchB": 1, "transB": 1},
        note="of batches",
    ),
    Case("TransposeMatMul", [Fed(floats(3, 4)), floats(6, 4)], {"transB": 1}),
    Case("FusedGemm", [Fed(floats(3, 4)), floats(6, 4), floats(6)], {"transB": 1, "activation": "Relu", "beta": 2.0}),
    Case(
        "FusedGemm",
        [Fed(floats(3, 4)), floats(4, 6)],
        {"activation": "LeakyRelu", "activation_alpha": 0.2},
        note="without bias",
    ),
    Case(
        "FusedGemm",
        [Fed(floats(3, 4)), floats(4, 6), floats(6)],
        {"activation": "HardSigmoid", "activation_alpha": 0.2, "activation_beta": 0.4},
        note="of two parameters",
    ),
    Case(
        "FusedConv",
        [Fed(floats(1, 3, 5, 5)), floats(2, 3, 3, 3), floats(2)],
        {"pads": [1, 1, 1, 1], "activation": "Sigmoid"},
    ),
    Case(
        "FusedConv",
        [Fed(floats(1, 3, 5, 5)), floats(2, 3, 3, 3), floats(2), Fed(floats(1, 2, 3, 3))],
        {"activation": "Relu"},
        note="of a sum",
    ),
    Case(
        "FusedConv",
        [Fed(floats(1, 3, 5, 5)), floats(2, 3, 3, 3)],
        {"activation": "Clip", "activation_params": [-1.0, 2.0]},
        note="limited",
    ),
]

_FLOATS = [
    Case("Gelu", [_ROWS]),
    Case("BiasGelu", [_ROWS, floats(12)]),
    Case("FastGelu", [_ROWS]),
    Case("FastGelu", [_ROWS, floats(12)], note="with bias"),
    Case("QuickGelu", [_ROWS], {"alpha": 1.3}),
    Case("LayerNormalization", [_ROWS, floats(12), floats(12)], {"axis": -1}, note="before 17", opset=13, domain=""),
    Case("SimplifiedLayerNormalization", [_ROWS, floats(12)], {"axis": -1, "epsilon": 0.001}, domain=""),
    Case("SkipLayerNormalization", [_ROWS, Fed(floats(2, 5, 12)), floats(12), floats(12)]),
    Case(
        "SkipLayerNormalization",
        [_ROWS, Fed(floats(5, 12)), floats(12), "", floats(12)],
        {"epsilon": 0.01},
        (0, 3),
        "with its sum",
    ),
    Case("SkipLayerNormalization", [_ROWS, Fed(floats(2, 5, 12)), floats(12), floats(12)], note="before 17", opset=13),
    Case("SkipSimplifiedLayerNormalization", [_ROWS, Fed(floats(2, 5, 12)), floats(12)]),
    Case(
        "SkipSimplifiedLayerNormalization",
        [_ROWS, Fed(floats(2, 5, 12)), floats(12), floats(12)],
        {},
        (0, 3),
        "with its sum",
        opset=20,
    ),
    Case(
        "EmbedLayerNormalization",
        [
            Fed(np.array([[1, 2, 0], [3, 1, 1]], "int32")),
            Fed(np.array([[0, 1, 1], [1, 1, 0]], "int32")),
            floats(4, 8),
            floats(5, 8),
            floats(2, 8),
            floats(8),
            floats(8),
            Fed(np.array([[1, 1, 0], [1, 1, 1]], "int32")),
        ],
        {},
        (0, 1, 2),
    ),
    Case(
        "EmbedLayerNormalization",
        [
            Fed(np.array([[1, 2, 0]], "int32")),
            "",
            floats(4, 8),
            floats(5, 8),
            "",
            floats(8),
            floats(8),
            "",
            Fed(np.array([[4, 0, 1]], "int32")),
        ],
        {"epsilon": 0.1},
        (0, 1),
        "of words and given positions",
    ),
    Case(
        "QEmbedLayerNormalization",
        [
            Fed(np.array([[1, 2, 0], [3, 1, 1]], "int32")),
            Fed(np.array([[0, 1, 1], [1, 1, 0]], "int32")),
            u8(4, 8),
            u8(5, 8),
            u8(2, 8),
            u8(8),
            u8(8),
            "",
            *(f(0.01 * n) for n in range(1, 6)),
            *[Z8] * 5,
        ],
        {},
        (0, 1),
    ),
]


def _attention(note: str, mask: Any, *rest: Any, outputs: tuple[int, ...] = (0,), **attributes: Any) -> Case:
    operands = [_ROWS, floats(12, 24), floats(24), mask, *rest]
    return Case("Attention", operands, {"num_heads": 2, **attributes}, outputs, note)


def _qattention(note: str, *operands: Any, outputs: tuple[int, ...] = (0,), **attributes: Any) -> Case:
    return Case("QAttention", operands, {"num_heads": 2, **attributes}, outputs, note)


_Q, _K, _V = Fed(floats(2, 5, 12)), Fed(floats(2, 7, 12)), Fed(floats(2, 7, 8))
_PAST = Fed(floats(2, 2, 2, 3, 4))
_CACHE = [Fed(floats(1, 2, 6, 16)), Fed(floats(1, 2, 6, 16))]
_COS, _SIN = floats(16, 8), floats(16, 8)


def _grouped(note: str, *operands: Any, outputs: tuple[int, ...] = (0, 1, 2), **attributes: Any) -> Case:
    return Case("GroupQueryAttention", operands, {"num_heads": 4, "kv_num_heads": 2, **attributes}, outputs, note)


def _new(batch: int, length: int) -> list[Fed]:
    return [Fed(floats(batch, length, width)) for width in (64, 32, 32)]


def _total(count: int) -> np.ndarray:
    return np.array(count, "int32")


_ATTENTION = [
    _attention("", ""),
    _attention("with ends of rows", Fed(_SHORT)),
    _attention("with ends and starts of rows", Fed(np.array([5, 4, 1, 2], "int32"))),
    _attention("with a mask", Fed(_RAW), mask_filter_value=-50.0),
    _attention(
        "with a mask of pairs", Fed(_SEED.integers(0, 2, (2, 5, 5)).astype("int32")), scale=0.3, mask_filter_value=-5.0
    ),
    _attention("in one direction", Fed(_RAW), unidirectional=1),
    _attention("in one direction, after padding", Fed(_LEFT), unidirectional=1),
    _attention("in one direction, with a small penalty", Fed(_LEFT), unidirectional=1, mask_filter_value=-5.0),
    _attention("in one direction, without a mask", "", unidirectional=1, mask_filter_value=-5.0),
    _attention(
        "in one direction, with the largest penalty",
        Fed(_LEFT),
        unidirectional=1,
        mask_filter_value=float(np.finfo("float32").min),
    ),
    _attention("with earlier keys", "", _PAST, outputs=(0, 1), unidirectional=1),
    _attention("before the first step", Fed(_LEFT), Fed(floats(2, 2, 2, 0, 4)), outputs=(0, 1), unidirectional=1),
    Case(
        "Attention",
        [_ROWS, floats(12, 20), floats(20), ""],
        {"num_heads": 2, "qkv_hidden_sizes": [6, 6, 8]},
        note="of three sizes",
    ),
    _qattention("", Fed(u8(2, 5, 12)), i8(12, 24), floats(24), f(0.02), f(0.003), Fed(_SHORT), Z8, ZI),
    _qattention(
        "per column",
        Fed(u8(2, 5, 12)),
        i8(12, 24),
        floats(24),
        f(0.02),
        np.linspace(0.001, 0.003, 24, dtype="f4"),
        "",
        Z8,
        np.zeros(24, "int8"),
        _PAST,
        outputs=(0, 1),
        unidirectional=1,
    ),
    Case("MultiHeadAttention", [_Q, _K, _V], {"num_heads": 2}),
    Case(
        "MultiHeadAttention",
        [_Q, _K, _V, floats(32), Fed(np.array([7, 4], "int32")), floats(1, 2, 5, 7)],
        {"num_heads": 2, "scale": 0.3},
        (0, 1, 2),
        "with bias and ends of rows",
    ),
    Case(
        "MultiHeadAttention",
        [_Q, Fed(floats(2, 2, 7, 6)), Fed(floats(2, 2, 7, 6))],
        {"num_heads": 2},
        note="of keys by head",
    ),
    Case(
        "MultiHeadAttention",
        [
            _Q,
            Fed(floats(2, 5, 12)),
            Fed(floats(2, 5, 12)),
            "",
            Fed(_SEED.integers(0, 2, (2, 8)).astype("int32")),
            "",
            Fed(floats(2, 2, 3, 6)),
            Fed(floats(2, 2, 3, 6)),
        ],
        {"num_heads": 2, "unidirectional": 1},
        (0, 1, 2),
        "with earlier keys",
    ),
    Case(
        "MultiHeadAttention",
        [_ROWS, _ROWS, _ROWS, "", Fed(_LEFT)],
        {"num_heads": 2, "unidirectional": 1},
        note="in one direction, after padding",
    ),
    Case(
        "MultiHeadAttention",
        [_Q, _K, _V],
        {"num_heads": 2, "unidirectional": 1},
        note="in one direction, of other keys",
    ),
    Case(
        "MultiHeadAttention",
        [_ROWS, _ROWS, _ROWS, "", "", "", Fed(floats(2, 2, 0, 6)), Fed(floats(2, 2, 0, 6))],
        {"num_heads": 2, "unidirectional": 1},
        (0, 1, 2),
        "before the first step",
    ),
    Case("RotaryEmbedding", [Fed(floats(2, 3, 8)), Fed(np.array([[0, 1, 2], [4, 5, 3]])), floats(9, 2), floats(9, 2)]),
    Case(
        "RotaryEmbedding",
        [Fed(floats(2, 3, 8)), Fed(np.array([4])), floats(9, 2), floats(9, 2)],
        {"interleaved": 1},
        note="interleaved from a place on",
    ),
    Case(
        "RotaryEmbedding",
        [Fed(floats(2, 2, 3, 8)), Fed(np.array([[0, 1, 2], [4, 5, 3]])), floats(9, 2), floats(9, 2)],
        {"rotary_embedding_dim": 4, "num_heads": 2},
        note="of a part of each head",
    ),
    _grouped("of a first step", *_new(1, 3), "", "", Fed(np.array([2], "int32")), _total(3)),
    _grouped(
        "turned",
        *_new(1, 3),
        "",
        "",
        Fed(np.array([2], "int32")),
        _total(3),
        _COS,
        _SIN,
        do_rotary=1,
        local_window_size=2,
    ),
    _grouped(
        "packed, interleaved",
        Fed(floats(1, 3, 128)),
        "",
        "",
        "",
        "",
        Fed(np.array([2], "int32")),
        _total(3),
        _COS,
        _SIN,
        do_rotary=1,
        rotary_interleaved=1,
    ),
    _grouped(
        "of one more key",
        *_new(1, 1),
        *_CACHE,
        Fed(np.array([6], "int32")),
        _total(7),
        _COS,
        _SIN,
        do_rotary=1,
        softcap=2.0,
    ),
    _grouped(
        "in a buffer of many",
        *_new(1, 1),
        *_CACHE,
        Fed(np.array([3], "int32")),
        _total(4),
        _COS,
        _SIN,
        do_rotary=1,
        smooth_softmax=1,
    ),
    _grouped(
        "of several keys", *_new(1, 2), *_CACHE, Fed(np.array([7], "int32")), _total(8), local_window_size=3, scale=0.3
    ),
    _grouped(
        "of rows of several lengths",
        *_new(2, 1),
        Fed(floats(2, 2, 6, 16)),
        Fed(floats(2, 2, 6, 16)),
        Fed(np.array([5, 3], "int32")),
        _total(6),
    ),
    _grouped(
        "with a bias and sinks",
        *_new(1, 3),
        "",
        "",
        Fed(np.array([2], "int32")),
        _total(3),
        "",
        "",
        "",
        floats(1, 4, 3, 3),
        floats(4),
    ),
]


def _recurrent(note: str, directions: int, per_column: bool, *rest: Any, **attributes: Any) -> Case:
    wide = [24] if per_column else []
    scales = [np.abs(floats(directions, *wide, scale=0.01)) + np.float32(0.001) for _ in range(2)]
    zeros = [np.zeros((directions, *wide), "int8") for _ in range(2)]
    operands = [Fed(floats(4, 1, 5)), i8(directions, 5, 24), i8(directions, 6, 24), floats(directions, 48), *rest]
    operands += [""] * (8 - len(operands))
    operands += [scales[0], zeros[0], scales[1], zeros[1]]
    return Case("DynamicQuantizeLSTM", operands, {"hidden_size": 6, **attributes}, (0, 1, 2), note)


_RECURRENT = [
    _recurrent("", 1, False),
    _recurrent("in both directions, per column", 2, True, direction="bidirectional"),
    _recurrent(
        "with states", 1, False, "", Fed(floats(1, 1, 6)), Fed(floats(1, 1, 6)), floats(1, 18), direction="reverse"
    ),
]

CASES = [*_QUANTISED, *_BIASES, *_PRODUCTS, *_FLOATS, *_ATTENTION, *_RECURRENT]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_written_out_it_computes_what_onnx_runtime_does(case: Case) -> None:
    model = case.model()
    assert model.read is not None
    assert not any(node.domain == "com.microsoft" for node in model.proto.graph.node)
    assert "com.microsoft" not in {entry.domain for entry in model.proto.opset_import}
    wanted = evaluate_model(model, [case.feed], "onnxruntime")[0]
    found = evaluate_model(model, [case.feed], "onnx.reference")[0]
    for name, right in wanted.items():
        assert found[name].dtype == right.dtype
        if right.dtype.kind == "f":
            np.testing.assert_allclose(found[name], right, rtol=2e-5, atol=2e-5 * np.max(np.abs(right)))
        else:
            assert np.max(np.abs(found[name].astype(int) - right.astype(int))) <= 1
            assert np.mean(found[name] != right) <= 0.15
    import_onnx(model)


def test_every_operator_has_a_case() -> None:
    assert {case.operator for case in CASES} == set(OF_ONNX_RUNTIME)
