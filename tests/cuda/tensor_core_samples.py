"""Kernels of 16 bits that tensor cores multiply: single layers whose operands and results have 16 bits."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from edgetune.graph.kernels import kernel_of
from edgetune.graph.precision import STORED, with_types
from edgetune.graph.program import Kernel
from edgetune.graph.workload import workload_hash
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.gpu.design import BlockLimits
from edgetune.schedule.gpu.tensor_tile import TensorTile, tensor_tiles
from edgetune.schedule.sketches.block_analysis import analyse_blocks
from edgetune.schedule.sketches.tile import find_tile
from edgetune.target.gpu import GpuTarget
from edgetune.target.preferences import Precision
from tests.cuda.cpu_check import gpu

LAYERS = {
    "1x1 of 7x7 images": ("conv", (64, 7, 7), (96, 64, 1, 1), 1, 0),
    "3x3 of 14x14 images": ("conv", (32, 14, 14), (48, 32, 3, 3), 1, 1),
    "3x3 of stride 2": ("conv", (16, 15, 15), (32, 16, 3, 3), 2, 1),
    "3x3 of 24 channels": ("conv", (24, 7, 7), (32, 24, 3, 3), 1, 1),
    "odd channels": ("conv", (20, 9, 9), (37, 20, 3, 3), 1, 1),
    "three channels": ("conv", (3, 17, 17), (16, 3, 3, 3), 2, 1),
    "product": ("matmul", (50, 72), (72, 40), 1, 0),
    "product of two inputs": ("matmul of inputs", (4, 33, 24), (4, 24, 17), 1, 0),
}
"""By name: the operator, the shapes of its input and weights, stride and padding."""


@cache
def layer(name: str, precision: Precision = "fp16") -> Kernel:
    """The kernel of one layer, followed by an addition and a rectifier, with all elements of 16 bits."""
    operator, shape, weights, stride, pad = LAYERS[name]
    random = np.random.default_rng(0)
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, *shape] if operator == "conv" else shape)]
    constants = []
    if operator == "matmul of inputs":
        inputs.append(helper.make_tensor_value_info("w", TensorProto.FLOAT, weights))
    else:
        constants.append(numpy_helper.from_array(random.standard_normal(weights).astype(np.float32), "w"))
    bias: tuple[int, ...] = (weights[-1],)
    if operator == "conv":
        around = {"strides": [stride] * 2, "pads": [pad] * 4, "kernel_shape": weights[2:]}
        node, bias = helper.make_node("Conv", ["x", "w"], ["p"], **around), (weights[0], 1, 1)
    else:
        node = helper.make_node("MatMul", ["x", "w"], ["p"])
    constants.append(numpy_helper.from_array(random.standard_normal(bias).astype(np.float32), "b"))
    nodes = [node, helper.make_node("Add", ["p", "b"], ["s"]), helper.make_node("Relu", ["s"], ["y"])]
    output = helper.make_tensor_value_info("y", TensorProto.FLOAT, None)
    model = helper.make_model(helper.make_graph(nodes, "layer", inputs, [output], constants))
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(model, Path(folder) / "layer.onnx")
        program = read_model(Path(folder) / "layer.onnx").program()
    return narrow(max(program.kernels, key=lambda kernel: kernel.macs), precision)


def narrow(kernel: Kernel, precision: Precision = "fp16") -> Kernel:
    """A kernel whose tensors all have 16 bits."""
    function = with_types(kernel.function, [STORED[precision]] * len(kernel.params))
    mask = [param.role == "constant" for param in kernel.params if param.role != "output"]
    made = kernel_of(kernel.sources, workload_hash(function), function, mask, 0, {})
    return replace(made, name=kernel.name)


def tensor_gpu(precision: Precision = "fp16") -> GpuTarget:
    """The target cuda-generic, whose tensor cores multiply elements of a precision."""
    newer = {"compute_capability": 80, "tensor_cores": (precision,)}
    return gpu() if precision == "fp16" else gpu().model_copy(update=newer)


def design_for(kernel: Kernel, target: GpuTarget | None = None) -> TensorTile:
    """The design of tensor cores for a kernel."""
    analysis = analyse_blocks(kernel.function)
    assert analysis is not None
    tile = find_tile(analysis, 1)
    assert tile is not None
    (found,) = tensor_tiles(analysis, tile, BlockLimits.of(target or gpu()))
    return found
