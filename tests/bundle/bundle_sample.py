"""A bundle of ds_cnn, and a stub of the CUDA driver with which its runner works on any machine."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import onnx

from edgetune.bundle.export import BundleRequest, export_bundle
from edgetune.bundle.kinds import KINDS
from edgetune.bundle.kinds.kind import RUNNER
from edgetune.pipeline.model_formats import read_model
from edgetune.resources import templates_dir
from tests.cuda.cpu_check import gpu

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"
STUB = Path(__file__).parent / "stub_driver.c"


def export(out: Path, candidates: int = 2) -> None:
    """Write a bundle of ds_cnn for cuda-generic."""
    export_bundle(read_model(MODEL).program(), gpu(), out, BundleRequest(candidates, seed=1), lambda _: None)


def saved(path: Path, operators: Sequence[str], outputs: Sequence[tuple[str, int]], **weights: np.ndarray) -> Path:
    """A model file of operators such as "y = MatMul x w", all of input x[1, 64] in float; outputs with their types."""
    nodes = []
    for text in operators:
        to, _, operator, *operands = text.split()
        nodes.append(onnx.helper.make_node(operator, operands, [to]))
    graph = onnx.helper.make_graph(
        nodes,
        "small",
        [onnx.helper.make_tensor_value_info("x", onnx.TensorProto.FLOAT, [1, 64])],
        [onnx.helper.make_tensor_value_info(name, kind, None) for name, kind in outputs],
        [onnx.numpy_helper.from_array(array, name) for name, array in weights.items()],
    )
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 20)], ir_version=10)
    onnx.save(onnx.shape_inference.infer_shapes(model), path)
    return path


def compiled(folder: Path) -> tuple[Path, Path]:
    """The runner, and the stub of the driver."""
    runner, stub = folder / "runner", folder / "libcuda.so"
    strict = ["-O2", "-Wall", "-Wextra", "-Werror", "-Wno-format-truncation"]
    compile_runner(runner_sources(folder, "cubins"), runner)
    subprocess.run(["gcc", *strict, "-shared", "-fPIC", str(STUB), "-o", str(stub)], check=True)
    return runner, stub


def compile_runner(sources: Sequence[str], runner: Path, *flags: str, cc: str = "gcc") -> None:
    """Compile a runner without a warning."""
    strict = ["-O2", "-Wall", "-Wextra", "-Wconversion", "-Werror", *flags]
    subprocess.run([cc, *strict, *sources, "-o", str(runner), "-ldl", "-lm"], check=True)


def runner_sources(folder: Path, kind: str) -> list[str]:
    """The C files of the runner for a kind of candidates, with their headers beside them in a folder of their own."""
    place = folder / f"runner-{kind}"
    place.mkdir(exist_ok=True)
    files = [shutil.copy(templates_dir() / name, place) for name in (*RUNNER, *KINDS[kind].runner)]
    return [str(file) for file in files if str(file).endswith(".c")]


def environment(stub: Path, **facts: str) -> dict[str, str]:
    """Environment variables under which the runner loads the stub."""
    return {**os.environ, "EDGETUNE_CUDA_DRIVER": str(stub), **facts}
