"""Measures packages beside ONNX Runtime, OpenVINO, ncnn, MNN and LiteRT, and writes a table.

python benchmarks/run.py --model examples/models/ds_cnn.onnx [--package DIR | --db FILE] [--peers onnxruntime,ncnn]
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

from benchmarks.command import run_command  # noqa: E402
from benchmarks.machine import machine_facts  # noqa: E402  the path comes first
from benchmarks.result import ModelResult, difference, model_result, side_result, tolerance, within  # noqa: E402
from benchmarks.rounds import measure_rounds  # noqa: E402
from benchmarks.side import CannotLoad, Case, Loaded  # noqa: E402
from benchmarks.side_process import SideProcess  # noqa: E402
from benchmarks.sides import OURS, PEERS, TITLES  # noqa: E402
from benchmarks.table import markdown  # noqa: E402
from edgetune.boards.cores import CoreSplit  # noqa: E402
from edgetune.boards.lock import TimingLock  # noqa: E402
from edgetune.errors import EdgetuneError  # noqa: E402
from edgetune.package.manifest import read_manifest  # noqa: E402
from edgetune.pipeline.model_formats import read_model  # noqa: E402
from edgetune.verify.toolchain import PackageToolchain  # noqa: E402

CHECKED_INPUTS = 2
LEAST_ROUNDS = 5


@dataclass(frozen=True)
class Plan:
    """How to measure: core, rounds, seconds per side and round, which peers."""

    core: int
    rounds: int
    seconds: float
    peers: tuple[str, ...]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; an error of edgetune's own code, or 1.

    That is when a package gives wrong answers, cannot be measured, or takes longer than `--at-most` allows.
    """
    options = _parser().parse_args(arguments)
    return run_command("benchmark", partial(_run, options))


def _run(options: argparse.Namespace, split: CoreSplit) -> int:
    core = options.core if options.core is not None else max(split.measuring)
    plan = Plan(core, max(options.rounds, LEAST_ROUNDS), options.seconds, options.peers)
    folder: Path = options.out
    packages = options.package or [None] * len(options.model)
    if len(packages) != len(options.model):
        print("benchmark: give one --package for each --model, in the same order, or none", file=sys.stderr)
        return 2
    results, compilers = [], set()
    for model, given in zip(options.model, packages, strict=True):
        package = given or build_package(model, folder / "packages" / model.stem, options.db)
        compilers.add(PackageToolchain.of(read_manifest(package)).cc)
        print(f"{model.stem}: loading", file=sys.stderr)
        results.append(compare(model, package, folder.resolve() / "work" / model.stem, plan))
    facts = machine_facts(core, tuple(sorted(compilers)))
    setting = f"{plan.rounds} rounds of {plan.seconds:g} s per side."
    titles = {name: TITLES[name] for name in (OURS, *plan.peers)}
    text = markdown(results, facts, setting, titles)
    report = {
        "machine": facts,
        "rounds": plan.rounds,
        "seconds": plan.seconds,
        "models": [r.to_json() for r in results],
    }
    (folder / "benchmark.md").write_text(text, encoding="utf-8")
    (folder / "benchmark.json").write_text(json.dumps(report, indent=1) + "\n", encoding="utf-8")
    print(text)
    print(f"written to {folder / 'benchmark.md'} and {folder / 'benchmark.json'}", file=sys.stderr)
    slow = [result.model for result in results if options.at_most and not within(result, options.at_most)]
    if slow:
        print(f"benchmark: more than {options.at_most:g} times the fastest peer: {', '.join(slow)}", file=sys.stderr)
    return 0 if not slow and all(_ours_is_right(result) for result in results) else 1


def compare(model: Path, package: Path, work: Path, plan: Plan) -> ModelResult:
    """Measure one package and all peers with one model; raises ModelError where the model itself is at fault."""
    read, title = read_model(model), model.stem
    specs = tuple(read.inputs)
    feeds = read.sample_inputs(specs, CHECKED_INPUTS, 0)
    references, _ = read.reference_outputs(feeds, read.program, lambda event: print(event.data, file=sys.stderr))
    outputs = tuple(references[0])
    steps = {name: one.step for name, one in read.quantised_outputs(feeds, references).items()}
    allowed = max(tolerance(reference, steps) for reference in references)
    loaded: dict[str, Loaded] = {}
    gaps: dict[str, float] = {}
    missing: dict[str, str] = {}
    with contextlib.ExitStack() as stack:
        sides: list[SideProcess] = []
        for name in (OURS, *plan.peers):
            case = Case(title, model.resolve(), package.resolve(), specs, outputs, work / name)
            side = SideProcess(name, case, plan.core)
            stack.callback(side.stop)
            try:
                loaded[name] = side.load()
                answers = [side.answer(feed) for feed in feeds]
            except CannotLoad as error:
                missing[name] = str(error)
                print(f"{title}: {TITLES[name]}: {error}", file=sys.stderr)
                continue
            gaps[name] = max(difference(a, r) for a, r in zip(answers, references, strict=True))
            sides.append(side)
        print(f"{title}: timing {', '.join(side.name for side in sides)}", file=sys.stderr)
        lock = TimingLock(on_event=lambda event: print(event.data.get("message", event), file=sys.stderr))
        stack.callback(lock.close)
        found = measure_rounds(sides, plan.rounds, plan.seconds, lambda: held(lock))
    missing |= found.died
    done = [side_result(name, loaded[name], samples, gaps[name], allowed) for name, samples in found.samples.items()]
    return model_result(title, done, missing, OURS)


@contextlib.contextmanager
def held(lock: TimingLock) -> Iterator[None]:
    """The machine's timing lock, so that a search of this user does not time at the same moment."""
    lock.acquire()
    try:
        yield
    finally:
        lock.release()


def build_package(model: Path, package: Path, db: Path | None) -> Path:
    """`edgetune build` in a process of its own, from `db` or the default records."""
    command = [sys.executable, "-m", "edgetune", "build", str(model), "--board", "host", "-o", str(package)]
    done = subprocess.run(
        [*command, *(["--db", str(db)] if db else [])],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise EdgetuneError(f"edgetune build of {model} failed with exit code {done.returncode}: see above")
    return package


def _ours_is_right(result: ModelResult) -> bool:
    return any(side.name == OURS and side.correct for side in result.sides)


def _peers(text: str) -> tuple[str, ...]:
    names = tuple(name.strip() for name in text.split(",") if name.strip())
    if unknown := sorted(set(names) - set(PEERS)):
        raise argparse.ArgumentTypeError(f"there is no peer {unknown[0]!r}: choose from {', '.join(PEERS)}")
    return names


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/run.py", description=__doc__.splitlines()[0] if __doc__ else None)
    models = sorted((ROOT / "examples" / "models").glob("*.onnx"))
    parser.add_argument(
        "--model", type=Path, nargs="+", default=models, help="ONNX or TensorFlow Lite files (default: examples/models)"
    )
    parser.add_argument("--package", type=Path, nargs="+", help="one package per model; default: edgetune build")
    parser.add_argument("--db", type=Path, help="records that packages are built from")
    parser.add_argument("--peers", type=_peers, default=PEERS, help=f"of {','.join(PEERS)} (default: all)")
    parser.add_argument("--rounds", type=int, default=7, help=f"at least {LEAST_ROUNDS}")
    parser.add_argument("--seconds", type=float, default=0.5, help="per side and round")
    parser.add_argument(
        "--at-most", type=float, metavar="RATIO", help="of a package's time to that of the fastest peer"
    )
    parser.add_argument("--core", type=int, help="core to measure on (default: the last one)")
    parser.add_argument("-o", "--out", type=Path, default=Path("build/benchmarks"), help="folder of table and JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
