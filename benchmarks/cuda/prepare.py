"""Makes the folder that travels to a GPU: python -m benchmarks.cuda.prepare OUT MODEL.onnx... [--precision fp16].

For each model: programs of its package (self-test and benchmark, with CUDA's runtime inside), the model, its graph for
PyTorch, an input, and ONNX Runtime's outputs for it. In fp16 a model has a folder of its own, NAME_fp16. `--arch
"80 90"` names compute capabilities that get machine code; `--rehearse` makes programs for this machine's CPU instead.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from edgetune.cli.main import run as edgetune
from edgetune.target.cuda_toolkit import find_nvcc
from edgetune.target.preferences import Precision
from edgetune.target.tool_process import run_tool

HERE = Path(__file__).parent
TRAVELLING = {"far_side.py": "measure.py", "torch_side.py": "torch_side.py"}
_SMALL = 16  # elements of constants that graph.json holds itself
_BUILD_S = 1800


@dataclass(frozen=True)
class How:
    """How packages and their programs are made."""

    board: str = "cuda-generic"
    precision: Precision = "fp32"
    arch: str = "75 80 90"
    rehearse: bool = False

    def folder(self, model: Path) -> str:
        """The name of a model's folder."""
        return model.stem if self.precision == "fp32" else f"{model.stem}_{self.precision}"


def prepare(out: Path, models: Sequence[Path], how: How) -> None:
    """Write the folder; a model that is there already stays as it is. Raises RuntimeError where one does not build."""
    out.mkdir(parents=True, exist_ok=True)
    for name, there in TRAVELLING.items():
        shutil.copyfile(HERE / name, out / there)
    for model in models:
        kept = out / how.folder(model)
        if (kept / "facts.json").exists():
            continue
        with tempfile.TemporaryDirectory(dir=out) as place:
            folder = Path(place) / kept.name
            folder.mkdir()
            _programs(model, folder, how)
            facts = {"precision": how.precision, **_graph_and_goldens(model, folder)}
            (folder / "facts.json").write_text(json.dumps(facts, indent=1))
            shutil.rmtree(kept, ignore_errors=True)
            folder.rename(kept)


def _programs(model: Path, folder: Path, how: How) -> None:
    with tempfile.TemporaryDirectory() as place:
        package = Path(place) / "package"
        words = [str(model), "--board", how.board, "--precision", how.precision, "-o", str(package), "--quiet"]
        if edgetune(["build", *words]):
            raise RuntimeError(f"the package of {model} cannot be built: see above")
        prefix = json.loads((package / "MANIFEST.json").read_text())["prefix"]
        programs = {name: f"build/{prefix}_{name}" for name in ("selftest", "bench")}
        device = ["DEVICE=cpu"] if how.rehearse else ["DEVICE=gpu", f"NVCC={find_nvcc()}", f"CUDA_ARCH={how.arch}"]
        done = run_tool(["make", "-s", *device, *programs.values()], timeout_s=_BUILD_S, folder=package)
        if done.returncode:
            raise RuntimeError(f"the programs of {model} cannot be built: {done.stderr.strip()[-300:]}")
        for name, program in programs.items():
            shutil.copy(package / program, folder / name)
        shutil.copy(package / "MANIFEST.json", folder)


def _graph_and_goldens(path: Path, folder: Path) -> dict[str, Any]:
    """Write the model, its graph as JSON, an input, and the outputs of ONNX Runtime; returns how they look."""
    shutil.copyfile(path, folder / "model.onnx")
    graph = onnx.load(path).graph
    data = path.read_bytes()
    constants = {tensor.name: _constant(tensor, data) for tensor in graph.initializer}
    nodes = []
    for node in graph.node:
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        if node.op_type == "Constant":
            constants[node.output[0]] = _constant(attributes["value"], data)
            continue
        plain = {name: value for name, value in attributes.items() if isinstance(value, int | float | list)}
        nodes.append({"op": node.op_type, "inputs": list(node.input), "output": node.output[0], **plain})
    given = [one for one in graph.input if one.name not in constants]
    told = {"nodes": nodes, "constants": constants, "inputs": [one.name for one in given]}
    (folder / "graph.json").write_text(json.dumps(told | {"outputs": [one.name for one in graph.output]}))
    feed = {one.name: _input(one) for one in given}
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    outputs = dict(zip((one.name for one in graph.output), session.run(None, feed), strict=True))
    return {
        "inputs": [_stored(folder, f"input_{n}.bin", array) for n, array in enumerate(feed.values())],
        "outputs": [_stored(folder, f"output_{n}.bin", array) for n, array in enumerate(outputs.values())],
    }


def _constant(tensor: onnx.TensorProto, data: bytes) -> dict[str, Any]:
    array = numpy_helper.to_array(tensor)
    facts: dict[str, Any] = {"dtype": str(array.dtype), "shape": list(array.shape)}
    raw = array.tobytes()
    at = data.find(raw) if array.size > _SMALL else -1
    return facts | ({"values": array.ravel().tolist()} if at < 0 else {"offset": at, "bytes": len(raw)})


def _input(spec: onnx.ValueInfoProto) -> np.ndarray:
    tensor = spec.type.tensor_type
    shape = [axis.dim_value or 1 for axis in tensor.shape.dim]
    random = np.random.default_rng(7)
    if tensor.elem_type == onnx.TensorProto.FLOAT:
        return random.standard_normal(shape).astype(np.float32)
    return random.integers(0, 2, shape).astype(helper.tensor_dtype_to_np_dtype(tensor.elem_type))


def _stored(folder: Path, name: str, array: np.ndarray) -> dict[str, Any]:
    (folder / name).write_bytes(np.ascontiguousarray(array).tobytes())
    return {"file": name, "dtype": str(array.dtype), "shape": list(array.shape)}


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path)
    parser.add_argument("models", type=Path, nargs="+")
    parser.add_argument("--board", default=How.board)
    parser.add_argument("--precision", choices=("fp32", "fp16"), default=How.precision)
    parser.add_argument("--arch", default=How.arch, help="compute capabilities that get machine code")
    parser.add_argument("--rehearse", action="store_true")
    given = parser.parse_args()
    prepare(given.out, given.models, How(given.board, given.precision, given.arch, given.rehearse))
    size = sum(path.stat().st_size for path in given.out.rglob("*") if path.is_file())
    sys.stdout.write(
        f"{given.out} has {size >> 20} MiB. On the machine with the GPU: python3 measure.py, until all is done. Then "
        f"copy its results.jsonl to {given.out}{os.sep}, and run python -m benchmarks.cuda.report {given.out}\n"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
