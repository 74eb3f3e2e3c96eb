"""Records starts of a package on this machine: python -m benchmarks.nightly.record PACKAGE FILE [--starts 200].

PACKAGE is a folder that edgetune wrote for this machine. FILE becomes a JSON object with the median nanoseconds of
each start, in their order: they are the noise of `benchmarks.nightly.simulator`.
"""

from __future__ import annotations

import argparse
import json
import tempfile
from pathlib import Path

from edgetune.boards.lock import timing_lock
from edgetune.package.manifest import read_manifest
from edgetune.pipeline.boards import load_board
from edgetune.target.target import with_cpu
from edgetune.verify.place import Here
from edgetune.verify.starts import build, start
from edgetune.verify.toolchain import PackageToolchain


def main() -> None:
    """Record."""
    parser = argparse.ArgumentParser()
    parser.add_argument("package", type=Path)
    parser.add_argument("file", type=Path)
    parser.add_argument("--starts", type=int, default=200)
    given = parser.parse_args()
    target = with_cpu(load_board("host").target)
    place = Here(PackageToolchain.of(read_manifest(given.package), target))
    with tempfile.TemporaryDirectory() as folder:
        built = Path(folder) / "built"
        build(given.package, target, place, built)
        costs = []
        for _ in range(given.starts):
            with timing_lock():
                costs.append(round(start(given.package, built, place).cost))
    given.file.write_text(json.dumps({"package": given.package.name, "unit": "ns", "starts": costs}) + "\n")


if __name__ == "__main__":
    main()
