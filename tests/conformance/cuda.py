"""Runs ONNX's node tests through CUDA kernels on the CPU, and counts them in SUPPORT.md (`make cuda-conformance`).

Kernels have the default schedules for cuda-generic. Those of some twenty tests are compiled together, and run under the
checks of `tests/cuda/batch.py`. Results are kept as they come: the same command goes on after a kill.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "conformance"
JOURNAL = BUILD / "cuda.jsonl"
WORKER = ["-m", "tests.conformance.cuda_worker"]
TOGETHER = 20
BATCH_S = 900


@dataclass
class _Running:
    """A process that judges some tests; its answers go to a file."""

    names: list[str]
    process: subprocess.Popen[bytes]
    answers: Path


def judged_apart(batches: Sequence[list[str]], jobs: int, keep: Callable[[dict[str, Any]], None]) -> None:
    """Judge batches of tests in `jobs` processes at once; `keep` gets each result.

    A process that dies or hangs costs the test that it was at; the others of its batch are judged again.
    """
    waiting = list(batches)
    running: list[_Running] = []
    with tempfile.TemporaryDirectory() as folder:
        for number in range(sys.maxsize):
            if not waiting and not running:
                return
            if waiting and len(running) < jobs:
                names, answers = waiting.pop(0), Path(folder) / str(number)
                command = [sys.executable, *WORKER, str(answers), *names]
                running.append(_Running(names, subprocess.Popen(command, cwd=ROOT), answers))
                continue
            one = running.pop(0)
            try:
                one.process.wait(BATCH_S)
            except subprocess.TimeoutExpired:
                one.process.kill()
                one.process.wait()
            lines = one.answers.read_text().splitlines() if one.answers.exists() else []
            begun, left = "", set(one.names)
            for line in map(json.loads, lines):
                begun = line.get("begun", begun)
                if "status" in line:
                    keep(line)
                    left.discard(line["name"])
            if left:
                culprit = begun if begun in left else min(left)
                keep({"name": culprit, "status": "crashed", "reason": "the generating process died or hung"})
                waiting.append([name for name in one.names if name in left and name != culprit])
                waiting = [names for names in waiting if names]


def main() -> int:
    """Exit status 1 where a test that passes on CPUs does not pass here."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--every", type=int, default=1, metavar="N", help="only every Nth test")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--again", metavar="STATUS", help="judge tests anew that had this status")
    parser.add_argument("--only-report", action="store_true", help="judge nothing")
    options = parser.parse_args()
    from tests.conformance.case import node_tests
    from tests.conformance.report import gpu_section, with_gpu_section

    names = list(node_tests())[:: options.every]
    BUILD.mkdir(parents=True, exist_ok=True)
    lines = JOURNAL.read_text().splitlines() if JOURNAL.exists() else []
    known: dict[str, dict[str, Any]] = {result["name"]: result for result in map(json.loads, lines)}
    left = [name for name in names if name not in known or known[name]["status"] == options.again]
    with JOURNAL.open("a") as file:

        def keep(result: dict[str, Any]) -> None:
            known[result["name"]] = result
            file.write(json.dumps(result) + "\n")
            file.flush()
            if result["status"] not in {"passed", "constant", "out of scope"}:
                print(f"{result['name']}: {result['status']} {result['reason']}", flush=True)  # noqa: T201

        if not options.only_report:
            batches = [left[start : start + TOGETHER] for start in range(0, len(left), TOGETHER)]
            judged_apart(batches, options.jobs, keep)
    found = [known[name] for name in names if name in known]
    print(Counter(result["status"] for result in found))  # noqa: T201
    support = ROOT / "SUPPORT.md"
    section, missing = gpu_section(support.read_text(), found, options.every)
    support.write_text(with_gpu_section(support.read_text(), section))
    return int(missing > 0)


if __name__ == "__main__":
    sys.exit(main())
