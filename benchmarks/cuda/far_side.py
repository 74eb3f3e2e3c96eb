"""Measures packages on a GPU: python3 measure.py [--minutes 8] [--models NAME...], until it says that all is done.

It needs Python 3.10 and NVIDIA's driver. Where PyTorch, TensorRT (trtexec) or compute-sanitizer are not there, their
rows say so. Results go to results.jsonl, a line for each step: after a kill the same command goes on. All steps and the
search before take 25 minutes at most; a step for which no time is left says so.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
RESULTS = "results.jsonl"
TURNS = 5
TRIES = 2
LEAST_S = 20  # no step begins with less
SANITIZERS = ("memcheck", "racecheck", "synccheck")


@dataclass(frozen=True)
class Step:
    """One measurement of one model, which takes at most `seconds`."""

    name: str
    seconds: float
    run: Callable[[float], dict[str, Any]]


class FailedError(Exception):
    """A step that has no result; the message says why."""


def called(words: Sequence[str | Path], seconds: float, folder: Path = HERE) -> str:
    """What a program says that ends well in time; it and all that it has started are killed otherwise."""
    with subprocess.Popen(
        [str(word) for word in words],
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        try:
            said, complaint = process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            raise FailedError(f"{Path(words[0]).name} took more than {seconds:.0f} s") from None
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)
    if process.returncode:
        lines = (complaint.strip() or said.strip()).splitlines() or [f"status {process.returncode}"]
        raise FailedError(f"{Path(words[0]).name}: {lines[-1][:300]}")
    return said


def device(seconds: float) -> dict[str, Any]:
    """Name, driver, clocks and limits of the GPU, as nvidia-smi tells them."""
    keys = (
        "name",
        "compute_cap",
        "driver_version",
        "clocks.max.sm",
        "clocks.max.mem",
        "power.limit",
        "ecc.mode.current",
    )
    said = called(["nvidia-smi", "-i", "0", f"--query-gpu={','.join(keys)}", "--format=csv,noheader,nounits"], seconds)
    return dict(zip(keys, (part.strip() for part in said.strip().split(",")), strict=False))


def checked(model: str) -> Callable[[float], dict[str, Any]]:
    """The self-test: outputs against those that ONNX Runtime computed where the package was made."""

    def run(seconds: float) -> dict[str, Any]:
        said = called([HERE / model / "selftest"], seconds)
        if said.strip().splitlines()[-1] != "PASS":
            raise FailedError(f"the self-test of {model} does not end with PASS")
        return {"said": said.strip().splitlines()}

    return run


def sanitized(model: str, tool: str) -> Callable[[float], dict[str, Any]]:
    """The self-test under a tool of compute-sanitizer."""

    def run(seconds: float) -> dict[str, Any]:
        program = shutil.which("compute-sanitizer")
        if program is None:
            raise FailedError("compute-sanitizer is not installed")
        words: list[str | Path] = [program, "--tool", tool, "--error-exitcode", "9", HERE / model / "selftest"]
        return {"said": called(words, seconds).strip().splitlines()[-3:]}

    return run


def timed(model: str) -> Callable[[float], dict[str, Any]]:
    """Latency from device memory to device memory, in turns with PyTorch where that is there."""

    def run(seconds: float) -> dict[str, Any]:
        end = time.monotonic() + seconds
        rows: list[dict[str, Any]] = []
        with peers(model, end) as (ready, ask):
            for _ in range(TURNS):
                said = called([HERE / model / "bench", "2000", "1", "1"], end - time.monotonic())
                rows.append({"side": "edgetune", **json.loads(said.strip().splitlines()[-1])})
                rows += [{"side": name, **ask(name)} for name in ready.get("ways", [])]
        return {"turns": rows, "absent": ready.get("absent", {})}

    return run


@contextlib.contextmanager
def peers(model: str, end: float) -> Iterator[tuple[dict[str, Any], Callable[[str], dict[str, Any]]]]:
    """The "ways" in which PyTorch runs the model, why others are "absent", and a function that times a way once."""
    words = [sys.executable, HERE / "torch_side.py", HERE / model]
    with subprocess.Popen(
        [str(word) for word in words], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True
    ) as process:

        def answer(question: str) -> Any:
            if process.stdin is None or process.stdout is None:
                raise FailedError("PyTorch's process has no pipes")
            if question:
                process.stdin.write(question + "\n")
                process.stdin.flush()
            old = signal.signal(signal.SIGALRM, lambda *_: os.killpg(process.pid, signal.SIGKILL))
            signal.alarm(max(1, int(end - time.monotonic())))
            try:
                line = process.stdout.readline()
            finally:
                signal.alarm(0)
                signal.signal(signal.SIGALRM, old)
            return json.loads(line) if line else {"absent": {"PyTorch": "is not installed, died or took too long"}}

        try:
            ready = answer("")
            yield ready, answer
        finally:
            if process.poll() is None:
                os.killpg(process.pid, signal.SIGKILL)


def tensorrt(model: str) -> Callable[[float], dict[str, Any]]:
    """TensorRT's own benchmark, in the precision of the package."""

    def run(seconds: float) -> dict[str, Any]:
        program = shutil.which("trtexec")
        if program is None:
            raise FailedError("TensorRT (trtexec) is not installed")
        half = ["--fp16"] if facts_of(model)["precision"] == "fp16" else ["--noTF32"]
        words = [program, f"--onnx={HERE / model / 'model.onnx'}", "--useCudaGraph", "--noDataTransfers", *half]
        lines = [line for line in called(words, seconds).splitlines() if "GPU Compute Time:" in line]
        if not lines:
            raise FailedError("trtexec told no time")
        median = lines[-1].split("median = ")[1].split(" ms")[0]
        return {"median_us": float(median) * 1000}

    return run


def facts_of(model: str) -> dict[str, Any]:
    """What the folder of a model says of it."""
    facts: dict[str, Any] = json.loads((HERE / model / "facts.json").read_text())
    return facts


def steps(models: Sequence[str]) -> Iterator[Step]:
    """All measurements in their order: whether results are right, times (models with a goal first), sanitizers last.

    Smaller models come before larger ones, so that where time ends, sanitizers of large models are what is left out.
    """
    rising = sorted(models, key=lambda model: (HERE / model / "model.onnx").stat().st_size)
    timed_first = sorted(rising, key=lambda model: facts_of(model).get("goal") is None)
    yield Step("device", 30, device)
    for model in rising:
        yield Step(f"{model} self-test", 60, checked(model))
    for model in timed_first:
        yield Step(f"{model} times", 420, timed(model))
    for model in timed_first:
        yield Step(f"{model} TensorRT", 300, tensorrt(model))
    for model in rising:
        for tool in SANITIZERS:
            yield Step(f"{model} {tool}", 240, sanitized(model, tool))


def spent(known: Sequence[dict[str, Any]]) -> float:
    """Seconds that steps have taken; a step that was killed counts with the most that it was given."""
    total, begun = 0.0, dict[str, float]()
    for line in known:
        if "begun" in line:
            total += begun.get(line["step"], 0.0)
            begun[line["step"]] = line.get("most", 0.0)
        else:
            begun.pop(line["step"], None)
            total += line.get("took", 0.0)
    return total + sum(begun.values())


def main() -> int:
    """Exit status 0 where nothing is left, 75 where the same command has to be run again."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--minutes", type=float, default=8.0, help="begin no step that could take longer")
    parser.add_argument("--models", nargs="+", default=sorted(path.parent.name for path in HERE.glob("*/facts.json")))
    parser.add_argument("--total-minutes", type=float, default=25.0, help="of all steps and of the search before them")
    options = parser.parse_args()
    end = time.monotonic() + 60 * options.minutes
    results = HERE / RESULTS
    lines = results.read_text().splitlines() if results.exists() else []
    known = [json.loads(line) for line in lines if line.endswith("}")]
    done = {line["step"] for line in known if "result" in line or "failed" in line}
    left = [step for step in steps(options.models) if step.name not in done]
    tuned = sum((facts_of(model).get("tuning") or {}).get("seconds", 0.0) for model in options.models)
    room = 60 * options.total_minutes - tuned - spent(known)
    for step in left:
        most = min(step.seconds, room)
        if most < LEAST_S:
            _keep(results, {"step": step.name, "failed": f"no time is left of {options.total_minutes:g} minutes"})
            continue
        begun = sum(line["step"] == step.name for line in known)
        seconds = min(most, end - time.monotonic() - 5)
        if seconds < most and seconds < 60 * options.minutes - 30:
            print(f"{step.name} comes next: run the same command again")
            return 75
        if begun >= TRIES:
            _keep(results, {"step": step.name, "failed": f"the machine or the process died {begun} times"})
            continue
        _keep(results, {"step": step.name, "begun": begun + 1, "most": seconds})
        start = time.monotonic()
        try:
            kept = {"step": step.name, "result": step.run(seconds)}
        except (FailedError, OSError, ValueError, KeyError, IndexError) as error:
            kept = {"step": step.name, "failed": str(error)}
        took = time.monotonic() - start
        room -= took
        _keep(results, kept | {"took": round(took, 1)})
        print(f"{step.name}: {kept.get('failed', 'done')}", flush=True)
    print(f"all is done: take {results} back")
    return 0


def _keep(results: Path, line: dict[str, Any]) -> None:
    """Append a line, after the end of one that a kill has cut."""
    with results.open("a+") as file:
        text = json.dumps(line)
        file.seek(0)
        held = file.read()
        file.write(("\n" if held and not held.endswith("\n") else "") + text + "\n")
        file.flush()
        os.fsync(file.fileno())


if __name__ == "__main__":
    sys.exit(main())
