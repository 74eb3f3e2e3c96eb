"""A bundle of a small model with candidates for the CPU of this machine, and libraries that do harm."""

from __future__ import annotations

import hashlib
import subprocess
from pathlib import Path
from typing import Literal

import numpy as np
import onnx

from edgetune.bundle.export import BundleRequest, export_bundle
from edgetune.pipeline.model_formats import read_model
from edgetune.target.target import load_target
from tests.bundle.bundle_sample import saved

HARMFUL = {
    "wrong_result": "float *y = buffers[2]; y[0] = 12345.0f;",
    "crashed": "*(volatile int *)buffers[0] = 1;",
    "timeout": "for (;;) buffers = *(void *const *const volatile *)&buffers;",
}
"""Bodies of candidates whose buffers are an input, a weight and an output, and what becomes of them."""


def model(folder: Path) -> Path:
    """A product of two kernels."""
    weights = np.random.default_rng(0).standard_normal((64, 96), np.float32)
    return saved(folder / "small.onnx", ["p = MatMul x w", "y = Softmax p"], [("y", onnx.TensorProto.FLOAT)], w=weights)


def convolution(folder: Path) -> Path:
    """A convolution for which Winograd's algorithm needs fewer products."""
    weights = np.random.default_rng(0).standard_normal((32, 32, 3, 3), np.float32)
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Conv", ["x", "w"], ["y"], pads=[1, 1, 1, 1])],
        "convolution",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 32, 16, 16])],
        [onnx.helper.make_tensor_value_info("y", onnx.TensorProto.FLOAT, [1, 32, 16, 16])],
        [onnx.numpy_helper.from_array(weights, "w")],
    )
    opset = [onnx.helper.make_opsetid("", 20)]
    onnx.save(onnx.helper.make_model(graph, opset_imports=opset, ir_version=10), folder / "convolution.onnx")
    return folder / "convolution.onnx"


def export_libraries(
    folder: Path, out: Path, board: str = "host", candidates: int = 3, caches: Literal["warm", "cold"] = "warm"
) -> None:
    """Write a bundle of `model` for a board with a CPU."""
    program, target = read_model(model(folder)).program(), load_target(board).model_copy(update={"caches": caches})
    export_bundle(program, target, out, BundleRequest(candidates, seed=1), lambda _: None)


def replace_library(bundle: Path, number: int, body: str) -> None:
    """Put a library with the C statements `body` in the place of a candidate's; the plan has its hash."""
    plan = bundle / "plan.txt"
    lines = plan.read_text().splitlines()
    at = [i for i, line in enumerate(lines) if line.startswith("candidate ")][number]
    source, library = bundle.parent / "harm.c", bundle.parent / "harm.so"
    text = f"void edgetune_call(void *const *buffers);\nvoid edgetune_call(void *const *buffers) {{ {body} }}\n"
    source.write_text(text)
    subprocess.run(["gcc", "-O1", "-shared", "-fPIC", str(source), "-o", str(library)], check=True)
    _name(bundle, library.read_bytes(), lines, at)
    plan.write_text("\n".join([*lines, ""]))


def _name(bundle: Path, library: bytes, lines: list[str], at: int) -> None:
    name = hashlib.sha256(library).hexdigest()
    (bundle / "libraries" / name).write_bytes(library)
    lines[at] = f"{lines[at].rpartition(' ')[0]} {name}"
