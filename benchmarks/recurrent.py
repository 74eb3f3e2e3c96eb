"""Recurrent layers of many steps: what a package costs, and its time beside ONNX Runtime's. A Markdown table.

python benchmarks/recurrent.py [--operators lstm,gru] [--units 64,256] [--steps 25,100,400] [--ways 1,2]
    [--weights float,int8] [--db FILE] [--no-times]

Layers read 64 features and answer with all steps. Weights of `int8` have a scale for each row, behind DequantizeLinear;
ONNX Runtime computes with them in float. Packages have default schedules, or the records of `--db`. Both sides run on
one thread, in turns; a ratio is ONNX Runtime's time divided by that of the package, beside those of single rounds.

The workspace is to have room for the product of the whole input (4 bytes x steps x units x gates x directions) and
16 KiB. The exit status is 1 where it has more, and where an answer is wrong.
"""

from __future__ import annotations

import argparse
import resource
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import product
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402  the path comes first
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from benchmarks.command import run_command  # noqa: E402
from benchmarks.result import ModelResult  # noqa: E402
from benchmarks.run import LEAST_ROUNDS, Plan, build_package, compare  # noqa: E402
from benchmarks.sides import OURS  # noqa: E402
from edgetune.boards.cores import CoreSplit  # noqa: E402
from edgetune.package.manifest import read_manifest  # noqa: E402

PEER = "onnxruntime"
GATES = {"lstm": 4, "gru": 3, "rnn": 1}
FEATURES = 64
SPARE = 16 << 10
HEADINGS = (
    *("layer", "build, CPU s", "code, bytes", "workspace, bytes", "bound, bytes"),
    *("edgetune, us", "ONNX Runtime, us", "ratio", "of single rounds"),
)


@dataclass(frozen=True)
class Layer:
    """One case: an operator of `GATES`, its sizes, directions (1 or 2), and whether its weights are integers."""

    operator: str
    units: int
    steps: int
    ways: int = 1
    integers: bool = False

    @property
    def name(self) -> str:
        """Name of the model."""
        way = "_both" if self.ways == 2 else ""
        return f"{self.operator}_{self.units}x{self.steps}{way}{'_int8' if self.integers else ''}"

    @property
    def bound(self) -> int:
        """The largest workspace that is expected, in bytes."""
        return 4 * self.steps * self.units * GATES[self.operator] * self.ways + SPARE

    def model(self) -> onnx.ModelProto:
        """The layer as a model with the input x and the output y."""
        draw, rows = np.random.default_rng(self.units), GATES[self.operator] * self.units
        nodes: list[onnx.NodeProto] = []
        constants = {"b": np.asarray(draw.standard_normal((self.ways, 2 * rows)) / 8, "f4")}
        for name, columns in (("w", FEATURES), ("r", self.units)):
            weights = draw.standard_normal((self.ways, rows, columns)) / np.sqrt(columns)
            if not self.integers:
                constants[name] = weights.astype("f4")
                continue
            scale = np.abs(weights).max((0, 2)) / 127
            constants[f"{name}_integers"] = np.round(weights / scale[:, None]).astype("i1")
            constants[f"{name}_scale"] = scale.astype("f4")
            nodes.append(helper.make_node("DequantizeLinear", [f"{name}_integers", f"{name}_scale"], [name], axis=1))
        direction = "bidirectional" if self.ways == 2 else "forward"
        layer = helper.make_node(
            self.operator.upper(), ["x", "w", "r", "b"], ["y"], hidden_size=self.units, direction=direction
        )
        ends = {"x": [self.steps, 1, FEATURES], "y": [self.steps, self.ways, 1, self.units]}
        infos = [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in ends.items()]
        initializers = [numpy_helper.from_array(value, name) for name, value in constants.items()]
        graph = helper.make_graph([*nodes, layer], self.name, infos[:1], infos[1:], initializers)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)


@dataclass(frozen=True)
class Row:
    """What was found of a layer: seconds of the build, bytes, and times where both sides were timed."""

    layer: Layer
    build_s: float
    code_bytes: int | None
    workspace_bytes: int
    times: ModelResult | None = None

    @property
    def faults(self) -> tuple[str, ...]:
        """What is not as expected."""
        found = [] if self.workspace_bytes <= self.layer.bound else ["the workspace is above its bound"]
        sides = self.times.sides if self.times else ()
        found += [f"{side.name} gives wrong answers" for side in sides if not side.correct]
        return (*found, *(self.times.missing.values() if self.times else ()))

    def cells(self) -> tuple[str, ...]:
        """One for each of `HEADINGS`."""
        size = "-" if self.code_bytes is None else f"{self.code_bytes:,}"
        known = (self.layer.name, f"{self.build_s:.1f}", size, f"{self.workspace_bytes:,}", f"{self.layer.bound:,}")
        sides = {side.name: side for side in self.times.sides} if self.times else {}
        if sides.keys() < {OURS, PEER}:
            return (*known, "-", "-", "-", "-")
        ours, peer = sides[OURS], sides[PEER]
        spread = f"{peer.ratio_low:.2f} to {peer.ratio_high:.2f}"
        return (*known, f"{ours.median_us:.1f}", f"{peer.median_us:.1f}", f"{peer.ratio:.2f}", spread)


def layers_of(options: argparse.Namespace) -> Iterator[Layer]:
    """The chosen cases."""
    for weights, operator, units, ways, steps in product(
        options.weights, options.operators, options.units, options.ways, options.steps
    ):
        yield Layer(operator, int(units), int(steps), int(ways), weights == "int8")


def measured(layer: Layer, folder: Path, db: Path | None, plan: Plan | None) -> Row:
    """Build and, with a plan, time a layer in `folder`; raises EdgetuneError."""
    model = folder / f"{layer.name}.onnx"
    folder.mkdir(parents=True, exist_ok=True)
    onnx.save(layer.model(), model)
    before = _seconds_of_children()
    package = build_package(model, folder / layer.name, db or folder / "none.db")
    build_s = _seconds_of_children() - before
    memory = read_manifest(package)["memory"]
    times = compare(model, package, folder / "work" / layer.name, plan) if plan else None
    return Row(layer, build_s, memory.get("code_bytes"), memory["workspace_bytes"], times)


def _seconds_of_children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(rows: Sequence[Row]) -> str:
    """Markdown: a row per layer."""
    ends = ["---", *["---:"] * (len(HEADINGS) - 1)]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in (HEADINGS, ends, *(row.cells() for row in rows)))


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table; 1 where something is not as expected, or the code of an error."""
    options = _parser().parse_args(arguments)
    return run_command("recurrent", partial(_run, options))


def _run(options: argparse.Namespace, split: CoreSplit) -> int:
    core = options.core if options.core is not None else max(split.measuring)
    plan = None if options.no_times else Plan(core, max(options.rounds, LEAST_ROUNDS), options.seconds, (PEER,))
    rows = []
    for layer in layers_of(options):
        rows.append(measured(layer, options.out.resolve(), options.db, plan))
        print(" ".join(rows[-1].cells()), file=sys.stderr)
    print(table(rows))
    faults = [f"{row.layer.name}: {fault}" for row in rows for fault in row.faults]
    print("".join(f"\n{fault}" for fault in faults))
    return 1 if faults else 0


def _among(*choices: str) -> Callable[[str], list[str]]:
    """Reads words between commas, which are some of `choices`."""

    def several(text: str) -> list[str]:
        names = [name.strip() for name in text.split(",")]
        if unknown := sorted(set(names) - set(choices)):
            raise argparse.ArgumentTypeError(f"{unknown[0]!r} is none of {', '.join(choices)}")
        return names

    return several


def _numbers(text: str) -> list[int]:
    return [int(number) for number in text.split(",")]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/recurrent.py", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--operators", type=_among(*GATES), default=["lstm", "gru"], help=f"some of {', '.join(GATES)}")
    parser.add_argument("--units", type=_numbers, default=[64, 256])
    parser.add_argument("--steps", type=_numbers, default=[25, 100, 400])
    parser.add_argument("--ways", type=_among("1", "2"), default=["1", "2"], help="directions: 1, 2 or both")
    parser.add_argument("--weights", type=_among("float", "int8"), default=["float", "int8"])
    parser.add_argument("--db", type=Path, help="records of the packages (default: none, so default schedules)")
    parser.add_argument("--no-times", action="store_true", help="build only")
    parser.add_argument("--rounds", type=int, default=8, help=f"at least {LEAST_ROUNDS}")
    parser.add_argument("--seconds", type=float, default=0.3, help="per side and round")
    parser.add_argument("--core", type=int, help="core to measure on (default: the last one)")
    parser.add_argument("-o", "--out", type=Path, default=ROOT / "build" / "recurrent", help="folder of packages")
    return parser


if __name__ == "__main__":
    sys.exit(main())
