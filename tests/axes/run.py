"""Axis fuzzer: operators with axes behind layers that turn channels last, against ONNX Runtime (`make axis-fuzz`).

Each case is `SEED-NUMBER` and runs in a worker: one that dies costs its case. `--only SEED-NUMBER` repeats a case.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from tests.axes.judge import STATUSES
from tests.axes.operators import OPERATORS
from tests.conformance.run import ROOT, results_of

_DIED = "crashed"  # what stands for a worker that died, or for a fault of the fuzzer itself
_FAULTS = ("unnamed", "wrong", "traceback", _DIED)


def main() -> int:
    """Exit status 0 where every result is right, or refused by a sentence that names its node."""
    parser = argparse.ArgumentParser(prog="python -m tests.axes.run", description=__doc__)
    parser.add_argument("--cases", type=int, default=2000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--jobs", type=int, default=1)
    parser.add_argument("--only", metavar="CASE", help="one case, as the list of faults names it")
    options = parser.parse_args()
    names = [options.only] if options.only else [f"{options.seed}-{number}" for number in range(options.cases)]
    found = []
    for result in results_of(names, max(options.jobs, 1), "tests.axes.judge", ROOT / "build" / "axes"):
        found.append(result)
        if result["status"] in _FAULTS or options.only:
            print(f"{result['name']}: {result['status']} {result['reason']}", flush=True)  # noqa: T201
    print(table(found))  # noqa: T201
    return int(any(result["status"] in _FAULTS for result in found))


def table(results: Iterable[Mapping[str, Any]]) -> str:
    """Cases by operator and status, their sum, and why cases were refused."""
    columns = [*STATUSES, _DIED]
    counts: dict[str, Counter[str]] = {name: Counter() for name in sorted(OPERATORS)}
    reasons: Counter[str] = Counter()
    for result in results:
        counts[case_operator(result["name"])][result["status"]] += 1
        if result["status"] == "refused":
            reasons[_without_names(result["reason"])] += 1
    rows = [(name, count) for name, count in counts.items() if count]
    rows.append(("all", sum((count for _, count in rows), Counter())))
    lines = [f"| operator | {' | '.join(columns)} |", f"|---|{'---|' * len(columns)}"]
    lines += [f"| {name} | {' | '.join(str(count[column]) for column in columns)} |" for name, count in rows]
    return "\n".join([*lines, *(f"refused {number} times: {reason}" for reason, number in reasons.most_common())])


def case_operator(name: str) -> str:
    """The operator of a case."""
    return list(OPERATORS)[int(name.partition("-")[2]) % len(OPERATORS)]


def _without_names(reason: str) -> str:
    """A reason without what differs from case to case."""
    return re.sub(r"\d+", "N", reason.partition(" [")[0])


if __name__ == "__main__":
    sys.exit(main())
