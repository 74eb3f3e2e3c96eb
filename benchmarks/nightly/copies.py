"""Compares a package with its copy here: python -m benchmarks.nightly.copies PACKAGE [--times 200] [--check].

Nothing differs, so each *slower* or *faster* is a false alarm. Turns hold the timing lock as in a night. With --check
the exit status is 1 after more than one alarm. The last line is one JSON object.
"""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections import Counter
from pathlib import Path

from edgetune.boards.lock import TimingLock
from edgetune.farm import gate
from edgetune.package.manifest import read_manifest
from edgetune.pipeline.boards import load_board
from edgetune.target.target import with_cpu
from edgetune.verify.place import Here
from edgetune.verify.starts import Start, build, start
from edgetune.verify.toolchain import PackageToolchain

CELLS, LIMIT = 60, 0.02


def main() -> None:
    """Compare."""
    parser = argparse.ArgumentParser()
    parser.add_argument("package", type=Path)
    parser.add_argument("--times", type=int, default=200)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    target = with_cpu(load_board("host").target)
    place = Here(PackageToolchain.of(read_manifest(given.package), target))
    lock = TimingLock()
    words: Counter[str] = Counter()
    with tempfile.TemporaryDirectory() as name:
        folders = {which: Path(name) / which for which in ("old", "new")}
        build(given.package, target, place, folders["old"])
        shutil.copytree(folders["old"], folders["new"])

        def measured(which: str) -> Start:
            return start(given.package, folders[which], place)

        def between() -> None:
            lock.release()
            lock.acquire()

        for _ in range(given.times):
            lock.acquire()
            found = gate.compare(measured, LIMIT, CELLS, between)
            lock.release()
            words[found.word] += 1
            print(found.word, found.turns, f"{found.whole.ratio:.4f} ({found.whole.low:.4f} to {found.whole.high:.4f})")
            sys.stdout.flush()
    lock.close()
    print(json.dumps({"package": given.package.name, **words}))
    if given.check and words["slower"] + words["faster"] > 1:
        sys.exit("equal packages raised alarms")


if __name__ == "__main__":
    main()
