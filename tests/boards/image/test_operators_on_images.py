"""Operators that multiply small integers, as packages whose self-test runs on an emulated microcontroller."""

from __future__ import annotations

import zlib
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import helper, numpy_helper

from edgetune import api
from edgetune.config.settings import CommandLineFlags, resolve_settings
from edgetune.frontend.tflite import litert
from edgetune.frontend.tflite.reader import read_content
from tests.frontend.tflite.branches import Branches
from tests.frontend.tflite.operator_table import CASES, built_in

pytestmark = pytest.mark.long

_NAMES = {
    "ADD",
    "AVERAGE_POOL_2D",
    "BATCH_MATMUL",
    "CONV_2D",
    "DEPTHWISE_CONV_2D",
    "FULLY_CONNECTED",
    "MEAN",
    "MUL",
    "TRANSPOSE_CONV",
}


@pytest.mark.parametrize(("type_", "board"), [("INT8", "mps2-an386"), ("UINT8", "mps2-an386"), ("INT8", "mps3-an547")])
def test_operators_are_right_on_an_image(type_: str, board: str, tmp_path: Path) -> None:
    """All forms of each in one model, whose constants and shapes are small: compilers know whole buffers then."""
    branches = Branches(type_)
    for name in sorted(_NAMES & set(built_in(type_))):
        branches.random = np.random.default_rng(zlib.crc32(name.encode()))
        CASES[name][0](branches)
    path = tmp_path / "operators.tflite"
    path.write_bytes(branches.writer.content())
    (right,) = litert.evaluate(read_content(path), [branches.feeds])
    path.write_bytes(branches.writer.reshaped({name: value.shape for name, value in right.items()}).content())
    flags = CommandLineFlags(model=path, board=board, out=tmp_path / "out")
    api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)


@pytest.mark.parametrize("first", [0, 1])
def test_data_of_16_bits_need_not_begin_at_a_word(first: int, tmp_path: Path) -> None:
    """A kernel reads a part of the input from an odd element on: what reads pairs of words there faults."""
    weights = np.random.default_rng(0).integers(-127, 128, (64, 16)).astype("int8")
    numbers = {
        "w": weights,
        "begin": np.array([first]),
        "end": np.array([first + 64]),
        "axes": np.array([1]),
        "rough": np.float32(0.5),
        "fine": np.float32(0.01),
        "zero": np.int8(3),
        "middle": np.int8(0),
        "wide": np.int16(0),
    }
    nodes = [
        helper.make_node("Slice", ["x", "begin", "end", "axes"], ["part"]),
        helper.make_node("DequantizeLinear", ["part", "fine", "wide"], ["data"]),
        helper.make_node("DequantizeLinear", ["w", "fine", "middle"], ["factors"]),
        helper.make_node("MatMul", ["data", "factors"], ["sums"]),
        helper.make_node("QuantizeLinear", ["sums", "rough", "zero"], ["y"]),
    ]
    graph = helper.make_graph(
        nodes,
        "part",
        [helper.make_tensor_value_info("x", onnx.TensorProto.INT16, [1, 65])],
        [helper.make_tensor_value_info("y", onnx.TensorProto.INT8, [1, 16])],
        [numpy_helper.from_array(np.asarray(value), name) for name, value in numbers.items()],
    )
    path = tmp_path / "part.onnx"
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10), path)
    flags = CommandLineFlags(model=path, board="mps2-an386", out=tmp_path / "out")
    api.build(resolve_settings(flags, {}, tmp_path), events=lambda _: None)
