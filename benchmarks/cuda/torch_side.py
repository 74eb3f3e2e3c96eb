"""Times a model under PyTorch: python3 torch_side.py FOLDER [cuda|cpu]; answers questions on standard input.

The first line that it prints names the ways; then, for each way that is asked for, a line has the median of one turn in
microseconds, and how far outputs are from ONNX Runtime's, as a share of the largest element. On a CPU, where `make
cuda-torch` checks that share, only eager mode runs. The model is an `nn.Module` of the operators of the ONNX graph,
which graph.json describes; its images lie channels last, and its weights in model.onnx.
"""

from __future__ import annotations

import json
import math
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
import torch.nn.functional as F  # noqa: N812  PyTorch's own name for it

SECONDS, WARM_UP = 1.0, 5

Values = Sequence[Any]


def _pads(node: dict[str, Any]) -> list[int]:
    pads = node.get("pads", [0, 0, 0, 0])
    if pads[:2] != pads[2:]:
        raise ValueError(f"{node['op']} has other pads at its ends: {pads}")
    return list(pads[:2])


def _conv(node: dict[str, Any], values: Values) -> Any:
    x, pads = values[0], node.get("pads", [0, 0, 0, 0])
    if pads[:2] != pads[2:]:
        x, pads = F.pad(x, (pads[1], pads[3], pads[0], pads[2])), [0, 0, 0, 0]
    strides, dilations = node.get("strides", 1), node.get("dilations", 1)
    bias = values[2] if len(values) > 2 else None
    return F.conv2d(x, values[1], bias, strides, pads[:2], dilations, node.get("group", 1))


def _gemm(node: dict[str, Any], values: Values) -> Any:
    weight = values[1] if node.get("transB", 0) else values[1].t()
    x = values[0].t() if node.get("transA", 0) else values[0]
    return F.linear(x, weight, values[2] if len(values) > 2 else None)


def _norm(node: dict[str, Any], values: Values) -> Any:
    x, scale, bias, mean, variance = values
    return F.batch_norm(x, mean, variance, scale, bias, eps=node.get("epsilon", 1e-5))


def _mean(node: dict[str, Any], values: Values) -> Any:
    axes = node.get("axes") or [int(axis) for axis in values[1]]
    return values[0].mean(axes, keepdim=bool(node.get("keepdims", 1)))


def _slice(_: dict[str, Any], values: Values) -> Any:
    x, starts, ends = values[:3]
    axes = values[3].tolist() if len(values) > 3 else range(len(starts))
    for axis, start, end in zip(axes, starts.tolist(), ends.tolist(), strict=True):
        x = x.narrow(axis, start, min(end, x.shape[axis]) - start)
    return x


def _reshape(_: dict[str, Any], values: Values) -> Any:
    shape = [values[0].shape[place] if extent == 0 else extent for place, extent in enumerate(values[1].tolist())]
    return values[0].reshape(shape)


def _gather(node: dict[str, Any], values: Values) -> Any:
    x, indices = values
    axis = node.get("axis", 0)
    if axis == 0 and x.dim() == 2 and indices.dim() > 0:
        return F.embedding(indices, x)
    flat = x.index_select(axis, indices.reshape(-1).to(x.device))
    return flat.reshape(*x.shape[:axis], *indices.shape, *x.shape[axis + 1 :])


def _unsqueeze(node: dict[str, Any], values: Values) -> Any:
    for axis in sorted(node.get("axes") or values[1].tolist()):
        values = [values[0].unsqueeze(axis)]
    return values[0]


OPERATORS: dict[str, Callable[[dict[str, Any], Values], Any]] = {
    "Add": lambda _, v: v[0] + v[1],
    "AveragePool": lambda n, v: F.avg_pool2d(v[0], n["kernel_shape"], n.get("strides", 1), _pads(n)),
    "BatchNormalization": _norm,
    "Cast": lambda n, v: v[0].float() if n["to"] == 1 else v[0].long(),
    "Clip": lambda _, v: torch.clamp(v[0], *(float(limit) for limit in v[1:])),
    "Concat": lambda n, v: torch.cat(list(v), n["axis"]),
    "Conv": _conv,
    "Div": lambda _, v: v[0] / v[1],
    "Erf": lambda _, v: torch.erf(v[0]),
    "Flatten": lambda n, v: torch.flatten(v[0], n.get("axis", 1)),
    "Gather": _gather,
    "Gemm": _gemm,
    "GlobalAveragePool": lambda _, v: F.adaptive_avg_pool2d(v[0], 1),
    "Identity": lambda _, v: v[0],
    "MatMul": lambda _, v: v[0] @ v[1],
    "MaxPool": lambda n, v: F.max_pool2d(v[0], n["kernel_shape"], n.get("strides", 1), _pads(n)),
    "Mul": lambda _, v: v[0] * v[1],
    "Pow": lambda _, v: v[0] ** v[1],
    "ReduceMean": _mean,
    "Relu": lambda _, v: F.relu(v[0]),
    "Reshape": _reshape,
    "Sigmoid": lambda _, v: torch.sigmoid(v[0]),
    "Slice": _slice,
    "Softmax": lambda n, v: F.softmax(v[0], n.get("axis", -1)),
    "Sqrt": lambda _, v: torch.sqrt(v[0]),
    "Squeeze": lambda n, v: v[0].squeeze(n["axes"][0] if "axes" in n else int(v[1][0])),
    "Sub": lambda _, v: v[0] - v[1],
    "Tanh": lambda _, v: torch.tanh(v[0]),
    "Transpose": lambda n, v: v[0].permute(n["perm"]),
    "Unsqueeze": _unsqueeze,
}
"""What each ONNX operator is in PyTorch: attributes of the node, and its inputs."""


class GraphModule(torch.nn.Module):
    """The model: weights in `dtype` and on the device, images channels last; integers stay on the CPU."""

    def __init__(self, folder: Path, dtype: torch.dtype) -> None:
        super().__init__()
        graph = json.loads((folder / "graph.json").read_text())
        self._nodes, self._inputs, self._outputs = graph["nodes"], graph["inputs"], graph["outputs"]
        self._integers: dict[str, torch.Tensor] = {}
        self._buffers_of: dict[str, str] = {}
        data = np.memmap(folder / "model.onnx", np.uint8, "r")
        for number, (name, spec) in enumerate(graph["constants"].items()):
            if "offset" in spec:
                array = data[spec["offset"] : spec["offset"] + spec["bytes"]].view(spec["dtype"]).reshape(spec["shape"])
            else:
                array = np.array(spec["values"], spec["dtype"]).reshape(spec["shape"])
            tensor = torch.from_numpy(np.array(array))
            if not tensor.is_floating_point():
                self._integers[name] = tensor
                continue
            tensor = tensor.to(dtype)
            image = tensor.dim() == 4
            self.register_buffer(
                f"w{number}", tensor.contiguous(memory_format=torch.channels_last) if image else tensor
            )
            self._buffers_of[name] = f"w{number}"

    def forward(self, *given: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """Outputs of the graph, in its order."""
        values: dict[str, Any] = dict(zip(self._inputs, given, strict=True))
        values |= self._integers
        values |= {name: getattr(self, buffer) for name, buffer in self._buffers_of.items()}
        for node in self._nodes:
            found = OPERATORS[node["op"]](node, [values[name] for name in node["inputs"] if name])
            if found.is_floating_point() and found.dtype != given_type(self):
                found = found.to(given_type(self))
            values[node["output"]] = found
        return tuple(values[name] for name in self._outputs)


def given_type(module: GraphModule) -> torch.dtype:
    """The type in which a module computes."""
    return next(module.buffers()).dtype


def ways(folder: Path, device: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Functions that run the model once, by way, and a reason for each way that is absent."""
    if device == "cuda" and not torch.cuda.is_available():
        return {}, {"PyTorch": "finds no CUDA device"}
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    facts = json.loads((folder / "facts.json").read_text())
    dtype = torch.float16 if facts["precision"] == "fp16" else torch.float32
    module = GraphModule(folder, dtype).eval().to(device)
    inputs = []
    for spec in facts["inputs"]:
        tensor = torch.from_numpy(np.fromfile(folder / spec["file"], spec["dtype"]).reshape(spec["shape"])).to(device)
        tensor = tensor.to(dtype) if tensor.is_floating_point() else tensor
        inputs.append(tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor)
    found, absent = {}, {}
    models = {"PyTorch eager": module}
    if device == "cuda":
        models["torch.compile"] = torch.compile(module, mode="max-autotune", fullgraph=True)
    for name, model in models.items():
        try:
            with torch.inference_mode():
                outputs = model(*inputs)
        except Exception as error:  # noqa: BLE001  a peer that fails leaves the others in the table
            absent[name] = f"{type(error).__name__}: {str(error).splitlines()[0][:200] if str(error) else ''}"
            continue
        worst = 0.0
        for spec, output in zip(facts["outputs"], outputs, strict=True):
            wanted = np.fromfile(folder / spec["file"], spec["dtype"]).reshape(spec["shape"]).astype("float64")
            difference = np.abs(output.float().cpu().numpy().astype("float64") - wanted).max()
            share = float(difference / max(np.abs(wanted).max(), 1e-30))
            worst = max(worst, share if math.isfinite(share) else sys.float_info.max)
        found[name] = (model, inputs, worst)
    return found, absent


def once_on_gpu(model: Any, inputs: Any) -> float:
    """Microseconds of a run, by events on the device."""
    start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    start.record()
    model(*inputs)
    stop.record()
    stop.synchronize()
    return float(start.elapsed_time(stop) * 1000)


def once_on_cpu(model: Any, inputs: Any) -> float:
    """Microseconds of a run, by the clock."""
    start = time.perf_counter()
    model(*inputs)
    return (time.perf_counter() - start) * 1e6


ONCE: dict[str, Callable[[Any, Any], float]] = {"cuda": once_on_gpu, "cpu": once_on_cpu}
"""By device, how a run is timed."""


def turn(model: Any, inputs: Any, device: str) -> float:
    """Median of runs in one second, in microseconds."""
    samples: list[float] = []
    with torch.inference_mode():
        for _ in range(WARM_UP):
            model(*inputs)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or len(samples) < WARM_UP:
            samples.append(ONCE[device](model, inputs))
    return float(statistics.median(samples))


def main() -> None:
    """Run the command."""
    device = sys.argv[2] if len(sys.argv) > 2 else "cuda"
    try:
        found, absent = ways(Path(sys.argv[1]), device)
    except Exception as error:  # noqa: BLE001  what is wrong with a peer goes into the table
        found, absent = {}, {"PyTorch": f"{type(error).__name__}: {error}"[:300]}
    print(json.dumps({"ways": list(found), "absent": absent}), flush=True)
    for line in sys.stdin:
        model, inputs, worst = found[line.strip()]
        print(json.dumps({"median_us": turn(model, inputs, device), "error": worst}), flush=True)


if __name__ == "__main__":
    main()
