"""Counts what MLPerf Tiny's int8 models take on boards without operating system: instructions, RAM, flash.

python -m benchmarks.firmware [--models kws_int8,...] [--boards mps2-an386,...] [--trials N] [--cmsis-nn FOLDER]

Each model gets a package with default schedules, and with `--trials` one that is tuned, the fastest within the bar of
RAM (`--ram`). Each is tested by its golden vectors under the emulator, which then counts the instructions of a run as
`edgetune bench` does. Counts are exact and repeatable, and are no times. Beside them are the counts of CMSIS-NN,
measured earlier; `--cmsis-nn` names a checkout of it, whose functions for convolutions and products are counted instead
(benchmarks/cmsis_nn.py). RAM is the arena, the context and the stack of a call, without the caller's tensors.

A row is printed once it is measured, with `--json` as a line of JSON. Packages and records stay in the folder of `-o`,
so that the same call goes on with them. The exit code is 1 where a package cannot be built or run; a bar that is missed
does not change it.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.cmsis_nn import instructions
from benchmarks.command import run_command
from benchmarks.firmware_bars import MILLION, MODELS, bar_of, cmsis_nn_of, ram_bar_of
from edgetune.boards.cores import CoreSplit
from edgetune.errors import EdgetuneError, UsageError
from edgetune.package.manifest import read_manifest
from edgetune.package.size import measure_code
from edgetune.target.target import Target, load_target
from edgetune.verify.bench import bench

ROOT = Path(__file__).resolve().parent.parent
TINY = ROOT.parent / "shared" / "models" / "mlperf_tiny"
BOARDS = ("mps2-an386", "mps2-an500", "mps2-an505", "mps3-an547")
_PER_MICROSECOND = 1000  # a count of 1000 instructions is written as 1 us
_OPTIMISED_FOR_SIZE = "-Os"


@dataclass(frozen=True)
class Package:
    """What a package takes: instructions of a run, and bytes.

    `small_code` is its code where CFLAGS say -Os; kernels keep KERNEL_CFLAGS.
    """

    instructions: int
    arena: int
    stack: int
    weights: int
    code: int
    small_code: int
    context: int = 0

    @property
    def ram(self) -> int:
        """Bytes of the arena, the context and the stack of a call. A package has no variables."""
        return self.arena + self.context + self.stack


@dataclass(frozen=True)
class Row:
    """A model on a board: `default` and `tuned` are its packages (None: not asked for), or `fault` says what failed.

    `counted_cmsis_nn` are the instructions of the convolutions and products of a checkout of CMSIS-NN, if one is named.
    """

    model: str
    board: str
    cpu: str
    default: Package | None
    tuned: Package | None = None
    fault: str = ""
    counted_cmsis_nn: int | None = None

    @property
    def best(self) -> Package | None:
        """The tuned package where there is one."""
        return self.tuned or self.default

    @property
    def met(self) -> bool | None:
        """Whether the best package stays within the bar; None where nothing can be said."""
        bar = bar_of(self.model, self.cpu)
        return None if bar is None or self.best is None else self.best.instructions <= bar

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        earlier = cmsis_nn_of(self.model, self.cpu)
        return {**asdict(self), "bar": bar_of(self.model, self.cpu), "met": self.met, "earlier_cmsis_nn": earlier}

    def line(self) -> str:
        """A row of the table; bytes are those of the best package."""
        best, verdict = self.best, _VERDICTS[self.met]
        if best is None:
            cells = [self.model, self.board, self.fault, *["-"] * 13]
        else:
            ratio = "-" if self.default is None or self.tuned is None else _ratio(self.default, self.tuned)
            cells = [self.model, self.board, _millions(self.default), _millions(self.tuned), ratio]
            cells += [_count(bar_of(self.model, self.cpu)), verdict, self._cmsis_nn()]
            ram = ram_bar_of(self.model)
            cells += [f"{best.ram:,}", *(("-", "-") if ram is None else (f"{ram:,}", _VERDICTS[best.ram <= ram]))]
            cells += [f"{size:,}" for size in (best.arena, best.stack, best.weights, best.code, best.small_code)]
        return "| " + " | ".join(cells) + " |"

    def _cmsis_nn(self) -> str:
        """The count of the named checkout, else the one that was measured earlier."""
        if self.counted_cmsis_nn is not None:
            return f"{_count(self.counted_cmsis_nn)} (counted)"
        earlier = cmsis_nn_of(self.model, self.cpu)
        return "-" if earlier is None else f"{_count(earlier)} (earlier)"


_VERDICTS = {True: "met", False: "missed", None: "-"}
_COLUMNS = (
    "model", "board", "default, M", "tuned, M", "default / tuned", "bar, M", "bar is", "CMSIS-NN, M",
    "RAM, bytes", "RAM bar, bytes", "RAM bar is",
    "arena, bytes", "stack, bytes", "weights, bytes", "code, bytes", f"code at {_OPTIMISED_FOR_SIZE}, bytes",
)  # fmt: skip
HEAD = "\n".join(["| " + " | ".join(_COLUMNS) + " |", "|---|---|" + "---:|" * (len(_COLUMNS) - 2)])
"""The first lines of the table; M are millions of instructions of one run."""


def _millions(package: Package | None) -> str:
    return _count(None if package is None else package.instructions)


def _count(instructions: float | None) -> str:
    return "-" if instructions is None else f"{instructions / MILLION:.3g}"


def _ratio(default: Package, tuned: Package) -> str:
    return f"{default.instructions / tuned.instructions:.2f}"


def measured(model: Path, target: Target, trials: int, out: Path, cmsis_nn: Path | None = None) -> Row:
    """The row of a model on a board; its packages and records lie in `out`, a checkout of CMSIS-NN in `cmsis_nn`."""
    place = out / target.name / model.stem
    place.mkdir(parents=True, exist_ok=True)
    row = partial(Row, model.stem, target.name, target.cpu)
    default = tuned = peer = None
    try:
        default = package_of(["build", "--db", str(place / "none.db")], model, target, place / "default")
        if trials:
            words = ["tune", "--trials", str(trials), "--db", str(place / "records.db"), *_within_bar(model.stem)]
            tuned = package_of(words, model, target, place / "tuned")
        if cmsis_nn is not None:
            peer = instructions(model, target, cmsis_nn)
    except EdgetuneError as error:
        print(f"firmware: {model.stem} on {target.name}: {error.message}", file=sys.stderr)
        return row(default, tuned, error.message, peer)
    return row(default, tuned, "", peer)


_BESIDE_ARENA = 1_000
"""Bytes of RAM left for stack and context."""


def _within_bar(model: str) -> list[str]:
    """The words that ask for the fastest package within the bar of RAM."""
    bar = ram_bar_of(model)
    return [] if bar is None else ["--ram", str(bar - _BESIDE_ARENA)]


def package_of(words: Sequence[str], model: Path, target: Target, folder: Path) -> Package:
    """What the package takes that a command of edgetune writes into `folder`; raises EdgetuneError where it fails."""
    verb, *flags = words
    command = [sys.executable, "-m", "edgetune", verb, str(model.resolve()), "--board", target.name, *flags]
    done = subprocess.run(
        [*command, "-o", str(folder.resolve())],
        cwd=folder.parent,  # no project file of this folder decides anything
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode:
        said = done.stderr.strip().splitlines()[-1:]
        raise EdgetuneError(f"edgetune {verb} ended with exit code {done.returncode}: {' '.join(said)}")
    manifest = read_manifest(folder)
    memory = manifest["memory"]
    return Package(
        instructions=round(bench(folder).median_us * _PER_MICROSECOND),
        arena=memory["arena_bytes"],
        stack=memory["call_stack_bytes"],
        weights=memory["weights_bytes"],
        code=memory["code_bytes"],
        small_code=code_for_size(folder, manifest, target),
        context=_context_bytes(folder, manifest["prefix"]),
    )


def _context_bytes(folder: Path, prefix: str) -> int:
    """Bytes of an instance, as the header of a package declares it."""
    found = re.search(r"uint64_t opaque\[(\d+)\];", (folder / "include" / f"{prefix}.h").read_text(encoding="utf-8"))
    assert found is not None, "the header declares the context"  # noqa: S101
    return 8 * int(found[1])


def code_for_size(folder: Path, manifest: dict[str, Any], target: Target) -> int:
    """Bytes of the code of a package compiled for size in place of speed; raises CompileFailed."""
    flags = tuple(_OPTIMISED_FOR_SIZE if flag.startswith("-O") else flag for flag in target.compiler.cflags)
    small = target.model_copy(update={"compiler": target.compiler.model_copy(update={"cflags": flags})})
    prefix = manifest["prefix"]
    weights = f"src/{prefix}_weights.c"
    files = (name for name in manifest["files"] if name.startswith("src/") and name.endswith(".c") and name != weights)
    sources = sorted(name.removeprefix("src/") for name in files)
    with tempfile.TemporaryDirectory(prefix="edgetune-firmware-") as objects:
        size = measure_code(folder, prefix, small, Path(objects), sources)
    if size is None:
        raise UsageError(f"{target.compiler.cc} is not on PATH: install {target.compiler.package}")
    return size.code_bytes


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 where a package cannot be built or run."""
    return run_command("firmware", partial(_run, _parser().parse_args(arguments)))


def _run(options: argparse.Namespace, split: CoreSplit) -> int:
    del split
    models = [options.folder / f"{name}.tflite" for name in options.models]
    if missing := [path for path in models if not path.is_file()]:
        raise UsageError(f"there is no file {missing[0]}: name its folder with --folder, and models with --models")
    targets = [load_target(name) for name in options.boards]
    if uncounted := [target.name for target in targets if target.clock != "instructions"]:
        raise UsageError(f"no instructions are counted on board '{uncounted[0]}': name boards with 'reach: image'")
    if not options.json:
        print(HEAD, flush=True)
    sound = True
    for target in targets:
        for model in models:
            row = measured(model, target, options.trials, options.out, options.cmsis_nn)
            print(json.dumps(row.to_json()) if options.json else row.line(), flush=True)
            sound &= not row.fault
    return 0 if sound else 1


def _names(text: str) -> tuple[str, ...]:
    return tuple(name.strip() for name in text.split(",") if name.strip())


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.firmware", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--models", type=_names, default=MODELS, help="names of files, without .tflite")
    parser.add_argument("--folder", type=Path, default=TINY, help="where they lie (default: ../shared/models/...)")
    parser.add_argument("--boards", type=_names, default=BOARDS, help="targets whose instructions are counted")
    parser.add_argument("--trials", type=int, default=0, help="tune each model with so many candidates as well")
    parser.add_argument("--cmsis-nn", type=Path, metavar="FOLDER", help="a checkout of CMSIS-NN to count")
    parser.add_argument("--json", action="store_true", help="a line of JSON for each row in place of the table")
    parser.add_argument("-o", "--out", type=Path, default=Path("build/firmware"), help="folder of packages and records")
    return parser


if __name__ == "__main__":
    raise SystemExit(main())
