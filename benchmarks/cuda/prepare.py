"""Makes the folder that travels to a GPU: python -m benchmarks.cuda.prepare OUT MODEL.onnx... [--precision fp16].

For each model: programs of its package (self-test and benchmark, with CUDA's runtime inside), the model, its graph for
PyTorch, an input, and ONNX Runtime's outputs for it. In fp16 a model has a folder of its own, NAME_fp16. `--arch
"80 90"` names compute capabilities that get machine code; `--rehearse` makes programs for this machine's CPU instead.
`--tune 60` searches that many seconds for each model first where this machine has a GPU.

A model that is not there is named, and left out; the exit status is 1 then.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnxruntime
from onnx import helper, numpy_helper

from benchmarks.cuda.report import GOALS
from edgetune.cli.main import run as edgetune
from edgetune.errors import UsageError
from edgetune.target.cuda_toolkit import find_nvcc, has_gpu
from edgetune.target.gpu import GpuTarget
from edgetune.target.preferences import Precision
from edgetune.target.target import list_targets, load_board_kind
from edgetune.target.tool_process import run_tool

HERE = Path(__file__).parent
TRAVELLING = {"far_side.py": "measure.py", "torch_side.py": "torch_side.py"}
_SMALL = 16  # elements of constants that graph.json holds itself
_BUILD_S = 1800
MISSING = "missing.json"
_ASK_S = 30
GENERIC, GENERIC_ARCH = "cuda-generic", "75 80 90"


@dataclass(frozen=True)
class How:
    """How packages and their programs are made."""

    board: str = GENERIC
    precision: Precision = "fp32"
    arch: str = GENERIC_ARCH
    rehearse: bool = False
    tune_s: int = 0

    def folder(self, model: Path) -> str:
        """The name of a model's folder."""
        return model.stem if self.precision == "fp32" else f"{model.stem}_{self.precision}"


def origin(model: Path) -> str:
    """How to get a model that is not there."""
    if model.stem in ("mobilenet_v2", "resnet50"):
        return f"`python examples/make_models.py {model.parent} {model.stem}` writes it"
    return f"no script of this repository writes it: export it with fixed shapes and batch 1 to {model}"


def prepare(out: Path, models: Sequence[Path], how: How) -> dict[str, str]:
    """Write the folder; a model that is there already stays as it is. Raises RuntimeError where one does not build.

    Returns, by folder, how to get each model that is not there.
    """
    out.mkdir(parents=True, exist_ok=True)
    for name, there in TRAVELLING.items():
        shutil.copyfile(HERE / name, out / there)
    for model in models:
        kept = out / how.folder(model)
        if (kept / "facts.json").exists() or not model.exists():
            continue
        with tempfile.TemporaryDirectory(dir=out) as place:
            folder = Path(place) / kept.name
            folder.mkdir()
            tuning = _programs(model, folder, how, out / "records.db")
            goal = GOALS.get(kept.name)
            facts = {"precision": how.precision, "goal": goal, "tuning": tuning, **graph_and_goldens(model, folder)}
            (folder / "facts.json").write_text(json.dumps(facts, indent=1))
            shutil.rmtree(kept, ignore_errors=True)
            folder.rename(kept)
    told = out / MISSING
    missing = json.loads(told.read_text()) if told.exists() else {}
    missing |= {how.folder(model): origin(model) for model in models}
    missing = {name: why for name, why in missing.items() if not (out / name / "facts.json").exists()}
    told.write_text(json.dumps(missing, indent=1))
    return {name: why for name, why in missing.items() if name in map(how.folder, models)}


def board_here() -> str:
    """The board for the GPU of this machine: the nearest one below its compute capability with the same first digit."""
    done = run_tool(["nvidia-smi", "-i", "0", "--query-gpu=compute_cap", "--format=csv,noheader"], timeout_s=_ASK_S)
    words = done.stdout.strip().replace(".", "")
    if done.returncode or not words.isdecimal():
        raise RuntimeError("nvidia-smi tells no compute capability: name the board with --board")
    known = [one for one in list_targets() if isinstance(one, GpuTarget)]
    near = [one for one in known if int(words) // 10 == one.compute_capability // 10]
    near = [one for one in near if one.compute_capability <= int(words)]
    return max(near, key=lambda one: one.compute_capability).name if near else GENERIC


def gpu_here() -> bool:
    """Whether `edgetune tune` finds a GPU here, or the stub of a driver that stands in for one."""
    return has_gpu() or "EDGETUNE_CUDA_DRIVER" in os.environ


def _built(model: Path, package: Path, how: How, records: Path) -> dict[str, Any] | None:
    """Make a package, tuned first where that is asked for and possible; returns how long a search took, or failed."""
    words = [str(model), "--board", how.board, "--precision", how.precision, "-o", str(package), "--quiet"]
    words += ["--db", str(records)]
    tuning: dict[str, Any] | None = None
    if how.tune_s and gpu_here():
        start = time.monotonic()
        status = edgetune(["tune", *words, "--time", f"{how.tune_s}s"])
        tuning = {"seconds": round(time.monotonic() - start)}
        if not status:
            return tuning
        tuning["failed"] = f"`edgetune tune` ended with exit status {status}"
        shutil.rmtree(package, ignore_errors=True)
    if edgetune(["build", *words]):
        raise RuntimeError(f"the package of {model} cannot be built: see above")
    return tuning


def _programs(model: Path, folder: Path, how: How, records: Path) -> dict[str, Any] | None:
    with tempfile.TemporaryDirectory() as place:
        package = Path(place) / "package"
        tuning = _built(model, package, how, records)
        prefix = json.loads((package / "MANIFEST.json").read_text())["prefix"]
        programs = {name: f"build/{prefix}_{name}" for name in ("selftest", "bench")}
        device = ["DEVICE=cpu"] if how.rehearse else ["DEVICE=gpu", f"NVCC={find_nvcc()}", f"CUDA_ARCH={how.arch}"]
        done = run_tool(["make", "-s", *device, *programs.values()], timeout_s=_BUILD_S, folder=package)
        if done.returncode:
            raise RuntimeError(f"the programs of {model} cannot be built: {done.stderr.strip()[-300:]}")
        for name, program in programs.items():
            shutil.copy(package / program, folder / name)
        shutil.copy(package / "MANIFEST.json", folder)
    return tuning


def graph_and_goldens(path: Path, folder: Path) -> dict[str, Any]:
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
    parser.add_argument("models", type=Path, nargs="*")
    parser.add_argument("--board", help="default: that of this GPU where --tune finds one, else cuda-generic")
    parser.add_argument("--precision", choices=("fp32", "fp16"), default=How.precision)
    parser.add_argument("--arch", help="compute capabilities that get machine code")
    parser.add_argument("--tune", type=int, default=0, metavar="SECONDS", help="of a search for each model before")
    parser.add_argument("--rehearse", action="store_true")
    given = parser.parse_args()
    board = given.board or (board_here() if given.tune and gpu_here() else GENERIC)
    arch = given.arch or (GENERIC_ARCH if board == GENERIC else _own_arch(board))
    missing = prepare(given.out, given.models, How(board, given.precision, arch, given.rehearse, given.tune))
    size = sum(path.stat().st_size for path in given.out.rglob("*") if path.is_file())
    sys.stdout.write(
        f"{given.out} has {size >> 20} MiB. On the machine with the GPU: python3 measure.py, until all is done. Then "
        f"copy its results.jsonl to {given.out}{os.sep}, and run python -m benchmarks.cuda.report {given.out}\n"
    )
    for name, why in missing.items():
        sys.stderr.write(f"{name} is missing and will not be measured: {why}\n")
    return int(bool(missing))


def _own_arch(board: str) -> str:
    target = load_board_kind(board)
    if not isinstance(target, GpuTarget):
        raise UsageError(f"board {board} has no GPU: name another with --board")
    return str(target.compute_capability)


if __name__ == "__main__":
    sys.exit(main())
