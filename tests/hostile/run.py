"""Try the whole hostile library every way, over and over: python -m tests.hostile.run [--seeds 20] [--ways local,agent]

Prints a line for each way and each candidate that was not recorded as it has to be; the exit status tells whether all
were. `make hostile` runs it.
"""

from __future__ import annotations

import argparse
import secrets
import sys
import tempfile
from pathlib import Path

from tests.hostile.ways import RIGHT, WAYS, WRONG, Way, way


def failures(tried: Way, seeds: list[int]) -> list[str]:
    """Say of each trial that did not end as it has to what it was."""
    found = []
    for seed in seeds:
        for what, (number, (status, words)) in WRONG.items():
            result = tried.try_it(number, seed)
            if result.status == "ok" or (status and (result.status != status or words not in result.reason)):
                found.append(f"{what}, seed {seed}: {result.status} ({result.reason})")
        for what, number in RIGHT.items():
            result = tried.try_it(number, seed)
            if result.status != "ok":
                found.append(f"{what}, seed {seed}: {result.status} ({result.reason})")
    return found


def main() -> int:
    """Run it."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--seeds", type=int, default=20, help="how often, each time with another seed")
    parser.add_argument("--ways", default=",".join(WAYS))
    options = parser.parse_args()
    seeds = [secrets.randbits(64) for _ in range(options.seeds)]
    wrong = 0
    for name in options.ways.split(","):
        with tempfile.TemporaryDirectory() as folder, way(name, Path(folder)) as tried:
            found = failures(tried, seeds)
        tries = len(seeds) * (len(WRONG) + len(RIGHT))
        lines = [f"{name}: {tries} trials, {len(found)} not recorded as they have to be", *found]
        sys.stdout.write("\n  ".join(lines) + "\n")
        sys.stdout.flush()
        wrong += len(found)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
