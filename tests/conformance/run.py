"""Runs ONNX's node tests and chains of operators through the emitted C, writes SUPPORT.md (`make conformance`)."""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import select
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

ROOT = Path(__file__).parents[2]
BUILD = ROOT / "build" / "conformance"
# A test takes a second or two; one that takes this long hangs.
DEADLINE_S = 180.0


@dataclass
class Worker:
    """One process that judges tests; `test` is the one it is at."""

    process: subprocess.Popen[str]
    answers: IO[str]
    test: str = ""
    since: float = 0.0

    @classmethod
    def start(cls, log: IO[str], judges: str) -> Worker:
        receive, send = os.pipe()
        script = str(Path(__file__).with_name("worker.py"))
        environment = os.environ | {"TVM_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, script, str(send), judges],
            stdin=subprocess.PIPE, stdout=log, stderr=log, text=True, pass_fds=[send], env=environment,
        )  # fmt: skip
        os.close(send)
        return cls(process, os.fdopen(receive))

    def give(self, test: str) -> None:
        """Sends the next test."""
        assert self.process.stdin is not None
        self.test, self.since = test, time.monotonic()
        self.process.stdin.write(test + "\n")
        self.process.stdin.flush()

    def stop(self) -> None:
        """Ends the process."""
        assert self.process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self.process.stdin.close()
        self.process.kill()
        self.process.wait()
        self.answers.close()


def results_of(
    tests: list[str], jobs: int, judges: str = "tests.conformance.judge", build: Path = BUILD
) -> Iterator[dict[str, Any]]:
    """Results of `tests` as they come, of the module `judges`. A worker that dies or hangs costs the test it was at."""
    build.mkdir(parents=True, exist_ok=True)
    waiting = list(reversed(tests))
    with (build / "log.txt").open("w") as log:
        workers: list[Worker] = []
        while waiting or workers:
            while waiting and len(workers) < jobs:
                workers.append(Worker.start(log, judges))
                workers[-1].give(waiting.pop())
            ready, _, _ = select.select([w.answers for w in workers], [], [], 5.0)
            for worker in list(workers):
                line = worker.answers.readline() if worker.answers in ready else None
                late = time.monotonic() - worker.since > DEADLINE_S
                if line:
                    yield json.loads(line)
                elif line == "" or late:
                    reason = "it took too long" if late else "the generating process died"
                    yield {"name": worker.test, "status": "crashed", "reason": reason, "seconds": 0.0}
                else:
                    continue
                if line and waiting:
                    worker.give(waiting.pop())
                else:
                    worker.stop()
                    workers.remove(worker)


def main() -> int:
    """Exit status 0 when every test of the selection was run, whatever came of it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", metavar="PATTERN", help="tests whose names match; SUPPORT.md is not written")
    parser.add_argument("--jobs", type=int, default=min(os.cpu_count() or 1, 4))
    parser.add_argument("--resume", action="store_true", help="keep the results of an earlier run that was interrupted")
    parser.add_argument("--again", metavar="STATUS", help="keep earlier results, run only tests that had this status")
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    from tests.compile_cache import prune
    from tests.conformance.case import node_tests
    from tests.conformance.chains import BY_KEY
    from tests.conformance.report import gpu_section_of, support_text, with_gpu_section

    names = [*node_tests(), *BY_KEY]
    journal = BUILD / "results.jsonl"
    known = _known(journal) if options.resume or options.again or options.only else {}
    tests = [n for n in names if not options.only or fnmatch.fnmatch(n, options.only)]
    if options.again:
        tests = [n for n in tests if n not in known or known[n]["status"] == options.again]
    elif options.resume:
        tests = [n for n in tests if n not in known]
    BUILD.mkdir(parents=True, exist_ok=True)
    with journal.open("a" if known else "w") as file:
        for count, result in enumerate(results_of(tests, max(options.jobs, 1)), 1):
            known[result["name"]] = result
            file.write(json.dumps(result) + "\n")
            file.flush()
            print(f"[{count}/{len(tests)}] {result['name']}: {result['status']} {result['reason']}", flush=True)  # noqa: T201
    print(Counter(known[n]["status"] for n in tests if n in known))  # noqa: T201
    if not options.only:
        support = ROOT / "SUPPORT.md"
        text = support_text([known[n] for n in names if n not in BY_KEY], {n: known[n] for n in BY_KEY})
        support.write_text(with_gpu_section(text, gpu_section_of(support.read_text())))
    prune()
    return 0


def _known(journal: Path) -> dict[str, dict[str, Any]]:
    lines = journal.read_text().splitlines() if journal.exists() else []
    return {result["name"]: result for result in map(json.loads, lines)}


if __name__ == "__main__":
    sys.exit(main())
