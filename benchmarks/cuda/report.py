"""Tables of what a GPU has measured: python -m benchmarks.cuda.report FOLDER.

The first table has latencies from device memory to device memory, and what the goals say of them; the others have each
kernel's share of the GPU's roofline, and whether a record chose its schedule. The exit status is 1 where a goal is
missed, or a model or a result is wrong or missing.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from statistics import median
from typing import Any

GOALS = {"ds_cnn": 1.5, "resnet8": 1.5, "mobilenet_v2": 1.5, "resnet50_fp16": 0.8, "bert_base_fp16": 0.8}
"""By folder, the best peer's time over ours: of torch.compile for the first three, of all for the others."""

COMPILE, TENSORRT = "torch.compile", "TensorRT"
SIDES = ("edgetune", "PyTorch eager", COMPILE, TENSORRT)
_LANES = {75: 64, 80: 64}  # multiply-adds of a multiprocessor in a cycle (CUDA C++ Programming Guide, "Throughput")
_MOST_LANES = 128

TOLERANCES = {"fp32": 1e-3, "fp16": 1e-2}
"""How far outputs may be from ONNX Runtime's, as a share of the largest element."""

Results = Mapping[str, Mapping[str, Any]]
"""By step, the last line that has its end: a "result", or why it "failed"."""


def read(folder: Path) -> Results:
    """What results.jsonl says; lines that a kill has cut are left out."""
    found = {}
    for line in (folder / "results.jsonl").read_text().splitlines():
        try:
            told = json.loads(line)
        except ValueError:
            continue
        if "result" in told or "failed" in told:
            found[told["step"]] = told
    return found


def _turns(model: str, results: Results) -> list[dict[str, Any]]:
    told: list[dict[str, Any]] = results.get(f"{model} times", {}).get("result", {}).get("turns", [])
    return told


def errors(model: str, results: Results) -> dict[str, float]:
    """The largest error of each peer that was compared with ONNX Runtime (trtexec gives no outputs)."""
    found: dict[str, float] = {}
    for row in _turns(model, results):
        if "error" in row:
            found[row["side"]] = max(found.get(row["side"], 0.0), row["error"])
    return found


def wrong(model: str, results: Results) -> set[str]:
    """Peers whose outputs are wrong: they are not ranked."""
    most = TOLERANCES["fp16" if model.endswith("_fp16") else "fp32"]
    return {side for side, error in errors(model, results).items() if not error <= most}


def latencies(model: str, results: Results) -> dict[str, list[float]]:
    """Microseconds of each turn, by side; those of peers with wrong outputs are left out."""
    found: dict[str, list[float]] = {}
    refused = wrong(model, results)
    for row in _turns(model, results):
        if "median_us" in row and row["side"] not in refused:
            found.setdefault(row["side"], []).append(row["median_us"])
    rival = results.get(f"{model} {TENSORRT}", {}).get("result")
    return found | ({TENSORRT: [rival["median_us"]]} if rival else {})


def ratio(model: str, times: Mapping[str, Sequence[float]]) -> float | None:
    """The time of the peer that the goal names over ours; None where either is missing."""
    rivals = [COMPILE] if GOALS.get(model, 0) > 1 else list(SIDES[1:])
    known = [median(times[side]) for side in rivals if side in times]
    return min(known) / median(times["edgetune"]) if known and "edgetune" in times else None


def verdict(model: str, results: Results) -> tuple[str, bool]:
    """A phrase on a model, and whether it reached its goal with right results."""
    check = results.get(f"{model} self-test", {"failed": "not run"})
    if "failed" in check:
        return f"self-test: {check['failed']}", False
    if "failed" in results.get(f"{model} times", {"failed": "not run"}):
        return f"not timed: {results.get(f'{model} times', {}).get('failed', 'not run')}", False
    found, goal = ratio(model, latencies(model, results)), GOALS.get(model)
    if found is None:
        return "no peer to compare with", False
    if goal is None:
        return "", True
    return (f"at least {goal}", True) if found >= goal else (f"**loss**: at least {goal} is asked", False)


def table(models: Sequence[str], results: Results) -> Iterator[str]:
    """The lines of the first table."""
    yield f"| model | {' | '.join(f'{side}, us' for side in SIDES)} | peer / edgetune | goal |"
    yield f"|---|{'---:|' * (len(SIDES) + 1)}---|"
    for model in models:
        times = latencies(model, results)
        cells = [
            f"{median(times[side]):.1f} ({min(times[side]):.1f} to {max(times[side]):.1f})" if side in times else "-"
            for side in SIDES
        ]
        found = ratio(model, times)
        share = "-" if found is None else f"{found:.2f}"
        yield f"| {model} | {' | '.join(cells)} | {share} | {verdict(model, results)[0]} |"


def kernels(folder: Path, model: str, results: Results) -> Iterator[str]:
    """The lines of a table of kernels: the time of each, and the least that the GPU's peaks allow."""
    turns = results.get(f"{model} times", {}).get("result", {}).get("turns", [])
    ours = [row for row in turns if row["side"] == "edgetune"]
    if not ours:
        return
    device = ours[0]["device"]
    lanes = _LANES.get(device["capability"], _MOST_LANES)
    macs_per_us = device["multiprocessors"] * lanes * device["clock_khz"] / 1000
    bytes_per_us = 2 * device["memory_khz"] * device["bus_bits"] / 8 / 1000
    manifest = json.loads((folder / model / "MANIFEST.json").read_text())
    yield f"\n{model}: each kernel alone, warm, beside the roofline of {macs_per_us / 500000:.1f} TFLOP/s and "
    yield f"{bytes_per_us / 1000:.0f} GB/s.\n"
    origins = {kernel["name"]: kernel["provenance"]["origin"] for kernel in manifest["kernels"]}
    yield "| kernel | calls | schedule | us | roofline, us | share |"
    yield "|---|---:|---|---:|---:|---:|"
    seen: dict[str, list[int]] = {}
    for number, layer in enumerate(manifest["layers"]):
        seen.setdefault(layer["kernel"], []).append(number)
    for kernel, layers in seen.items():
        layer = manifest["layers"][layers[0]]
        took = median(row["layers"][layers[0]]["median_us"] for row in ours)
        least = max(layer["macs"] / macs_per_us, layer["bytes"] / bytes_per_us)
        share = f"{least / took if took else 0:.0%}"
        yield f"| {kernel} | {len(layers)} | {origins[kernel]} | {took:.2f} | {least:.2f} | {share} |"


def schedules(folder: Path, model: str) -> Iterator[str]:
    """A line on how many kernels of a model have a record, and on the search before."""
    kinds = json.loads((folder / model / "MANIFEST.json").read_text())["kernels"]
    found = [kernel["name"] for kernel in kinds if kernel["provenance"]["origin"] == "record"]
    tuning = json.loads((folder / model / "facts.json").read_text()).get("tuning")
    how = f"searched for {tuning['seconds']} s" if tuning else "not searched"
    how += f", which failed: {tuning['failed']}" if tuning and "failed" in tuning else ""
    yield f"- {model}: {how}; {len(found)} of {len(kinds)} kernels have a record"


def compared(model: str, results: Results) -> Iterator[str]:
    """A line for each peer: how far its outputs are from ONNX Runtime's."""
    for side, error in errors(model, results).items():
        said = ", **wrong: not ranked**" if side in wrong(model, results) else ""
        yield f"- {model}: {side} is off by {error:.1e} of the largest element{said}"


def missing(folder: Path) -> Iterator[str]:
    """A line for each model that was asked for and is not there."""
    told = folder / "missing.json"
    names = json.loads(told.read_text()) if told.exists() else {}
    yield from (f"- {name}: **missing**, not measured: {why}" for name, why in names.items())


def others(results: Results) -> Iterator[str]:
    """Sanitizers, and steps without a result."""
    for step, told in results.items():
        if "failed" in told:
            yield f"- {step}: {told['failed']}"
        elif isinstance(told["result"].get("absent"), dict):
            yield from (f"- {step}: {side} {why}" for side, why in told["result"]["absent"].items())


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("folder", type=Path)
    folder = parser.parse_args().folder
    models = sorted(path.parent.name for path in folder.glob("*/facts.json"))
    results = read(folder)
    lines = [*table(models, results)]
    for model in models:
        lines += kernels(folder, model, results)
    absent = list(missing(folder))
    for model in models:
        lines += ["", *compared(model, results)]
    lines += ["", *(line for model in models for line in schedules(folder, model)), *absent, *others(results)]
    sys.stdout.write("\n".join(lines) + "\n")
    return int(bool(absent) or not all(verdict(model, results)[1] for model in models))


if __name__ == "__main__":
    sys.exit(main())
