"""Times a model under PyTorch on the GPU: python3 torch_side.py FOLDER; answers questions on standard input.

The first line that it prints names the ways; then, for each way that is asked for, a line has the median of one turn in
microseconds. The model is an `nn.Module` made of the operators of the ONNX graph, with its images channels last.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

SECONDS, WARM_UP = 1.0, 5


def ways(folder: Path) -> tuple[dict[str, Any], dict[str, Any]]:
    """Functions that run the model once, by way, and a reason for each way that is absent."""
    import numpy as np
    import torch
    from graph_module import GraphModule

    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = True
    facts = json.loads((folder / "facts.json").read_text())
    dtype = torch.float16 if facts["precision"] == "fp16" else torch.float32
    module = GraphModule(folder, dtype).eval().cuda()
    inputs = []
    for spec in facts["inputs"]:
        tensor = torch.from_numpy(np.fromfile(folder / spec["file"], spec["dtype"]).reshape(spec["shape"])).cuda()
        tensor = tensor.to(dtype) if tensor.is_floating_point() else tensor
        inputs.append(tensor.contiguous(memory_format=torch.channels_last) if tensor.dim() == 4 else tensor)
    found, absent = {}, {}
    eager = module
    compiled = torch.compile(module, mode="max-autotune", fullgraph=True)
    for name, model in (("PyTorch eager", eager), ("torch.compile", compiled)):
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
            worst = max(worst, float(difference / max(np.abs(wanted).max(), 1e-30)))
        found[name] = (model, inputs, worst)
    return found, absent


def turn(model: Any, inputs: Any) -> float:
    """Median of runs in one second, by events on the device."""
    import statistics
    import time

    import torch

    samples = []
    with torch.inference_mode():
        for _ in range(WARM_UP):
            model(*inputs)
        end = time.monotonic() + SECONDS
        while time.monotonic() < end or len(samples) < WARM_UP:
            start, stop = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
            start.record()
            model(*inputs)
            stop.record()
            stop.synchronize()
            samples.append(start.elapsed_time(stop) * 1000)
    return statistics.median(samples)


def main() -> None:
    """Run the command."""
    try:
        found, absent = ways(Path(sys.argv[1]))
    except ImportError as error:
        found, absent = {}, {"PyTorch": f"is not installed ({error})"}
    except Exception as error:  # noqa: BLE001  what is wrong with a peer goes into the table
        found, absent = {}, {"PyTorch": f"{type(error).__name__}: {error}"[:300]}
    print(json.dumps({"ways": list(found), "absent": absent}), flush=True)
    for line in sys.stdin:
        model, inputs, worst = found[line.strip()]
        print(json.dumps({"median_us": turn(model, inputs), "error": worst}), flush=True)


if __name__ == "__main__":
    main()
