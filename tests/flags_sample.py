"""A small model whose kernels call every function of the preamble, packaged for any compiler of C."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings

# No feature of a processor is required, so the sources compile for any; vectors are GCC's and clang's own.
_TARGET = """\
name: anywhere
description: any machine with a compiler of GNU C
isa: x86_64
triple: x86_64-linux-gnu
cpu: x86-64
vector_bits: 128
vector_registers: 16
cores: 1
l1_bytes: 32768
l2_bytes: 262144
has_float16: false
reach: none
compiler:
  cc: gcc
  cflags: [-O2]
"""
_ROWS, _COLUMNS = 5, 24  # four rows are reduced together, and one alone
_SHAPE = [_ROWS, _COLUMNS]
_FEW = [5]  # too few for vectors of four
_FLOAT, _DOUBLE, _INT32, _INT64 = TensorProto.FLOAT, TensorProto.DOUBLE, TensorProto.INT32, TensorProto.INT64

# Output: operator, inputs, element type and attributes. What is not an input or a constant is an output of another.
_NODES: dict[str, tuple[str, list[str], int, dict[str, object]]] = {
    "exp": ("Exp", ["x"], _FLOAT, {}),
    "tanh": ("Tanh", ["x"], _FLOAT, {}),
    "sigmoid": ("Sigmoid", ["x"], _FLOAT, {}),
    "erf": ("Erf", ["x"], _FLOAT, {}),
    "log": ("Log", ["positive"], _FLOAT, {}),
    "softplus": ("Softplus", ["x"], _FLOAT, {}),
    "sin": ("Sin", ["x"], _FLOAT, {}),
    "cos": ("Cos", ["x"], _FLOAT, {}),
    "positive": ("Add", ["magnitude", "one"], _FLOAT, {}),
    "magnitude": ("Abs", ["x"], _FLOAT, {}),
    "masked": ("Add", ["x", "mask"], _FLOAT, {}),
    "softmax": ("Softmax", ["masked"], _FLOAT, {}),
    "round": ("Round", ["x"], _FLOAT, {}),
    "floor": ("Floor", ["x"], _FLOAT, {}),
    "ceil": ("Ceil", ["x"], _FLOAT, {}),
    "relu": ("Relu", ["x"], _FLOAT, {}),
    "smaller": ("Min", ["x", "one"], _FLOAT, {}),
    "sum": ("ReduceSum", ["x", "axis"], _FLOAT, {"keepdims": 1}),
    "largest": ("ReduceMax", ["x", "axis"], _FLOAT, {"keepdims": 1}),
    "smallest": ("ReduceMin", ["x", "axis"], _FLOAT, {"keepdims": 1}),
    "quantised": ("QuantizeLinear", ["x", "scale", "zero"], TensorProto.INT8, {}),
    "limited": ("Clip", ["x", "low", "high"], _FLOAT, {}),
    "byte": ("Cast", ["limited"], TensorProto.INT8, {"to": TensorProto.INT8}),
    "whole": ("Cast", ["x"], _INT32, {"to": _INT32}),
    "long": ("Cast", ["x"], _INT64, {"to": _INT64}),
    "wide_sigmoid": ("Sigmoid", ["d"], _DOUBLE, {}),
    "from_double": ("Cast", ["d"], _INT32, {"to": _INT32}),
    "long_from_double": ("Cast", ["d"], _INT64, {"to": _INT64}),
    "half": ("Cast", ["x"], TensorProto.FLOAT16, {"to": TensorProto.FLOAT16}),
    "from_half": ("Cast", ["half"], _FLOAT, {"to": _FLOAT}),
    "brain": ("Cast", ["x"], TensorProto.BFLOAT16, {"to": TensorProto.BFLOAT16}),
    "from_brain": ("Cast", ["brain"], _FLOAT, {"to": _FLOAT}),
    "quotient": ("Div", ["i", "j"], _INT32, {}),
    "modulus": ("Mod", ["i", "j"], _INT32, {}),
    "remainder": ("Mod", ["i", "j"], _INT32, {"fmod": 1}),
    "power": ("Pow", ["i", "k"], _INT32, {}),
    "absolute": ("Abs", ["i"], _INT32, {}),
    "left": ("BitShift", ["u", "v"], TensorProto.UINT32, {"direction": "LEFT"}),
    "right": ("BitShift", ["u", "v"], TensorProto.UINT32, {"direction": "RIGHT"}),
    "product": ("MatMulInteger", ["quantised", "weights"], _INT32, {}),
    "few_exp": ("Exp", ["few"], _FLOAT, {}),
    "few_tanh": ("Tanh", ["few"], _FLOAT, {}),
    "few_sigmoid": ("Sigmoid", ["few"], _FLOAT, {}),
    "few_erf": ("Erf", ["few"], _FLOAT, {}),
    "few_sin": ("Sin", ["few"], _FLOAT, {}),
    "few_cos": ("Cos", ["few"], _FLOAT, {}),
    "few_softplus": ("Softplus", ["few"], _FLOAT, {}),
    "few_log": ("Log", ["few_magnitude"], _FLOAT, {}),
    "few_magnitude": ("Abs", ["few"], _FLOAT, {}),
    "few_quantised": ("QuantizeLinear", ["few", "scale", "zero"], TensorProto.INT8, {}),
}
_HELD = {"limited", "half", "brain", "magnitude", "few_magnitude", "positive", "masked"}  # tensors that are no outputs


def write_model(path: Path) -> None:
    """Write the model to `path`."""
    generator = np.random.default_rng(17)
    mask = np.where(generator.random(_SHAPE) < 0.3, -np.inf, 0).astype(np.float32)
    constants = {
        "one": np.array(0.5, np.float32),
        "mask": mask,
        "low": np.array(-2, np.float32),
        "high": np.array(2, np.float32),
        "axis": np.array([1], np.int64),
        "scale": np.array(0.02, np.float32),
        "zero": np.array(3, np.int8),
        "j": generator.choice(np.array([-7, -2, 1, 3], np.int32), _SHAPE),
        "k": generator.integers(0, 5, _SHAPE, np.int32),
        "weights": generator.integers(-9, 9, (_COLUMNS, 16), np.int8),
    }
    inputs = {"x": _FLOAT, "few": _FLOAT, "d": _DOUBLE, "i": _INT32, "u": TensorProto.UINT32, "v": TensorProto.UINT32}
    nodes = [helper.make_node(kind, given, [name], **more) for name, (kind, given, _, more) in _ordered().items()]
    shapes = {"product": [_ROWS, 16], "sum": [_ROWS, 1], "largest": [_ROWS, 1], "smallest": [_ROWS, 1]}
    shapes |= {name: _FEW for name in (*inputs, *_NODES) if name.startswith("few")}
    graph = helper.make_graph(
        nodes,
        "flags",
        [helper.make_tensor_value_info(name, of, shapes.get(name, _SHAPE)) for name, of in inputs.items()],
        [
            helper.make_tensor_value_info(name, of, shapes.get(name, _SHAPE))
            for name, (_, _, of, _) in _NODES.items()
            if name not in _HELD
        ],
        [numpy_helper.from_array(value, name) for name, value in constants.items()],
    )
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)


def _ordered() -> dict[str, tuple[str, list[str], int, dict[str, object]]]:
    """The nodes, each behind those that it reads."""
    done: dict[str, tuple[str, list[str], int, dict[str, object]]] = {}

    def place(name: str) -> None:
        if name not in done:
            for given in _NODES[name][1]:
                if given in _NODES:
                    place(given)
            done[name] = _NODES[name]

    for name in _NODES:
        place(name)
    return done


def build(folder: Path, name: str = "flags") -> Path:
    """Package the model for the target `anywhere`; returns the package, whose prefix is `name`."""
    target, model = folder / "anywhere.yaml", folder / f"{name}.onnx"
    target.write_text(_TARGET, encoding="utf-8")
    write_model(model)
    asked = CommandLineFlags(model=model, board=str(target), out=folder / name, db=folder / "records.db")
    api.build(resolve_settings(asked, {}, folder), events=lambda _: None)
    return folder / name
