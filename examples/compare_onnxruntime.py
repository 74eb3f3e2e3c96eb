"""Prints the latency of a package beside ONNX Runtime's, both on one core, measured in turns.

Usage: python examples/compare_onnxruntime.py PACKAGE MODEL
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import onnxruntime

from edgetune.boards.lock import TimingLock

ROUNDS = 7
ROUND_SECONDS = 0.3


def package_round(package: Path) -> float:
    """Run the package's own bench and return its median in microseconds."""
    done = subprocess.run(["make", "-s", "-C", str(package), "bench"], capture_output=True, text=True, check=True)
    return float(json.loads(done.stdout.strip().splitlines()[-1])["median_us"])


def open_session(model: Path) -> tuple[onnxruntime.InferenceSession, dict[str, np.ndarray]]:
    """Open ONNX Runtime with one thread, and one input from the file beside the model."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    options.inter_op_num_threads = 1
    session = onnxruntime.InferenceSession(str(model), options, providers=["CPUExecutionProvider"])
    golden = np.load(model.with_suffix(".npz"))
    return session, {value.name: golden[f"i_{value.name}"] for value in session.get_inputs()}


def runtime_round(session: onnxruntime.InferenceSession, feeds: dict[str, np.ndarray]) -> float:
    """Return the median in microseconds of one round of calls."""
    samples = []
    end = time.perf_counter() + ROUND_SECONDS
    while time.perf_counter() < end:
        start = time.perf_counter()
        session.run(None, feeds)
        samples.append((time.perf_counter() - start) * 1e6)
    return statistics.median(samples)


def main() -> None:
    """Measure both sides in turns on one core and print a table."""
    package, model = Path(sys.argv[1]), Path(sys.argv[2])
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
    session, feeds = open_session(model)
    runtime_round(session, feeds)
    package_round(package)
    ours, theirs, lock = [], [], TimingLock()
    for index in range(ROUNDS):
        # In turns, and each side first in half of the rounds: what disturbs one disturbs the other.
        # A search of the same user waits for the round, and the round for what is being timed.
        lock.acquire()
        if index % 2:
            theirs.append(runtime_round(session, feeds))
        ours.append(package_round(package))
        if not index % 2:
            theirs.append(runtime_round(session, feeds))
        lock.release()
    lock.close()
    print(f"{model.stem}, one core, {ROUNDS} rounds in turns, median (lowest to highest):")
    for name, rounds in (("edgetune package", ours), (f"ONNX Runtime {onnxruntime.__version__}", theirs)):
        print(f"  {name:24} {statistics.median(rounds):9.1f} us   ({min(rounds):.1f} to {max(rounds):.1f})")
    print(f"  ratio, package / ONNX Runtime: {statistics.median(ours) / statistics.median(theirs):.2f}")


if __name__ == "__main__":
    main()
