"""Freezes what the middle end makes of a corpus, and compares two such folders.

python -m benchmarks.oracle freeze FOLDER [--like BEFORE] [--subjects NAME,...] [--widths 0,128,256,512] [--jobs N]
python -m benchmarks.oracle compare BEFORE AFTER [--shown N] [--short-rows]
python -m benchmarks.oracle estimates FOLDER [--shown N]
python -m benchmarks.oracle snippets [--widths 128,256,512]
python -m benchmarks.oracle records MODEL DATABASE
python -m benchmarks.oracle doors [--names NAME,...] [--widths 0,128,256,512] [--jobs N]

Frozen are, for vectors of 0, 128, 256 and 512 bits: the C of each kernel under its default schedule, its trace and its
predicted cycles; up to 256 bits also the instructions of a run, counted under QEMU, and the largest error. What is in
the folder already is not frozen again. Kernels that are the same in the folder BEFORE are not run again: what was
counted there is copied. The exit code of `compare` is 1 where something failed or is slower. With `--short-rows`, only
expressions are compared whose results have a last axis of 3 to 31. `estimates` says how far the estimated instructions
lie from the counted ones; `snippets` says the same of functions that kernels call, as a compiler makes them.

`records` says of the correct records of a model whether their schedules still give the C that was timed, or which are
orphaned: the model has no kernel with their workload any more.

`doors` says of forty expressions what kernels are made of the expression, of the same as operators of ONNX
(`onnx_NAME` in the corpus) and of the same as a registered operator (`operator_NAME`), and in how many these are equal.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from multiprocessing import get_context
from pathlib import Path

from benchmarks.oracle.comparison import Difference, compare, report
from benchmarks.oracle.corpus import corpus, selected, short_rows_of
from benchmarks.oracle.doors import doors_of, lines, summary
from benchmarks.oracle.estimates import estimates
from benchmarks.oracle.facts import WIDTHS, Facts, freeze_one
from benchmarks.oracle.old_records import fates
from benchmarks.oracle.snippet_instructions import counted_snippets
from benchmarks.oracle.twins.said import twins

SHARED = Path(__file__).parents[3] / "shared" / "models"


def _freeze(folder: Path, like: Path | None, names: str, widths: Sequence[int], jobs: int) -> int:
    subjects = selected(corpus(SHARED), names)
    left = [
        (subject.name, width, path, _known(like, subject.name, width))
        for subject in subjects
        for width in widths
        if not (path := _path(folder, subject.name, width)).is_file()
    ]
    failures = 0
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = {pool.submit(freeze_one, SHARED, *one): one for one in left}
        for number, done in enumerate(as_completed(waiting), 1):
            name, width, *_ = waiting[done]
            error = done.exception()
            failure = done.result() if error is None else f"{type(error).__name__}: {error}"
            failures += bool(failure)
            print(f"{number}/{len(left)} {name} at {width} bits{f': {failure}' if failure else ''}", flush=True)
    print(f"{len(left)} of {len(subjects) * len(widths)} were frozen in {folder}; {failures} failed")
    return 0


def _path(folder: Path, name: str, width: int) -> Path:
    return folder / str(width) / f"{name}.json"


def _known(like: Path | None, name: str, width: int) -> Path | None:
    path = _path(like, name, width) if like else None
    return path if path and path.is_file() else None


def _compare(before: Path, after: Path, shown: int, *, short_rows: bool) -> int:
    among = short_rows_of(corpus(SHARED)) if short_rows else None
    differences = [one for one in _differences(before, after) if among is None or one.subject in among]
    for line in report(differences, shown):
        print(line)
    return int(any(one.verdict in {"failed", "slower", "other accuracy"} for one in differences))


def _estimates(folder: Path, shown: int) -> int:
    for width in WIDTHS:
        facts = [Facts.read(path) for path in sorted((folder / str(width)).glob("*.json"))]
        for line in estimates(width, facts, shown):
            print(line)
    return 0


def _snippets(widths: Sequence[int]) -> int:
    for width in widths:
        for snippet, counted, estimated in counted_snippets(width):
            print(f"{width} bits, {snippet}: {counted} instructions counted, {estimated:.1f} estimated")
    return 0


def _differences(before: Path, after: Path) -> Iterator[Difference]:
    """Of the subjects and widths that both folders have."""
    for width in WIDTHS:
        for path in sorted((before / str(width)).glob("*.json")):
            other = after / str(width) / path.name
            if other.is_file():
                yield compare(Facts.read(path), Facts.read(other))


def _doors(names: Sequence[str], widths: Sequence[int], jobs: int) -> int:
    found = []
    with ProcessPoolExecutor(jobs, get_context("spawn")) as pool:
        waiting = [pool.submit(doors_of, SHARED, name, width) for width in widths for name in names]
        for one in waiting:
            found.append(one.result())
            print("\n".join(lines(found[-1])), flush=True)
    print("\n".join(summary(found)))
    return 0


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command, and return its exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.oracle", description=(__doc__ or "").split("\n")[0])
    verbs = parser.add_subparsers(dest="verb", required=True)
    freeze = verbs.add_parser("freeze")
    freeze.add_argument("folder", type=Path)
    freeze.add_argument("--like", type=Path)
    freeze.add_argument("--subjects", default="")
    freeze.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    freeze.add_argument("--jobs", type=int, default=2)
    comparing = verbs.add_parser("compare")
    comparing.add_argument("before", type=Path)
    comparing.add_argument("after", type=Path)
    comparing.add_argument("--shown", type=int, default=20)
    comparing.add_argument("--short-rows", action="store_true")
    estimating = verbs.add_parser("estimates")
    estimating.add_argument("folder", type=Path)
    estimating.add_argument("--shown", type=int, default=10)
    snippets = verbs.add_parser("snippets")
    snippets.add_argument("--widths", default=",".join(str(width) for width in WIDTHS if width))
    old = verbs.add_parser("records")
    old.add_argument("model", type=Path)
    old.add_argument("database", type=Path)
    doors = verbs.add_parser("doors")
    doors.add_argument("--names", default=",".join(twins()))
    doors.add_argument("--widths", default=",".join(map(str, WIDTHS)))
    doors.add_argument("--jobs", type=int, default=2)
    options = parser.parse_args(arguments)
    if options.verb == "compare":
        return _compare(options.before, options.after, options.shown, short_rows=options.short_rows)
    if options.verb == "estimates":
        return _estimates(options.folder, options.shown)
    if options.verb == "records":
        print("\n".join(fates(options.model, options.database)))
        return 0
    widths = [int(width) for width in options.widths.split(",")]
    if options.verb == "snippets":
        return _snippets(widths)
    if options.verb == "doors":
        return _doors(options.names.split(","), widths, options.jobs)
    return _freeze(options.folder, options.like, options.subjects, widths, options.jobs)


if __name__ == "__main__":
    sys.exit(main())
