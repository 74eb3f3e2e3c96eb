"""Measures single convolutions from ONNX beside other runtimes, with the share of the core's peak: a table.

python benchmarks/convolution_layers.py [--cases transposed|3d|NAME,...] [--trials N] [--peers onnxruntime,ncnn]
                                        [--out DIR]

The cases are transposed convolutions of 1 to 3 dimensions, and 3x3x3 convolutions. Each case is a model of one layer
with a bias and an activation; its tensors are channels first, as the runtimes want them. Without --trials, packages
have default schedules.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from math import prod
from pathlib import Path
from typing import Literal

ROOT = Path(__file__).resolve().parent.parent
if str(ROOT) not in sys.path:  # as a script, the folder above is not on the path
    sys.path.insert(0, str(ROOT))

import numpy as np  # noqa: E402  the path comes first
import onnx  # noqa: E402
from onnx import TensorProto, helper, numpy_helper  # noqa: E402

from benchmarks.peaks import measure_peaks  # noqa: E402
from benchmarks.result import ModelResult  # noqa: E402
from benchmarks.run import Plan, build_package, compare  # noqa: E402
from benchmarks.sides import OURS, PEERS, TITLES  # noqa: E402
from edgetune.boards.cores import confined, split_cores  # noqa: E402
from edgetune.errors import EdgetuneError  # noqa: E402
from edgetune.pipeline.boards import load_board  # noqa: E402
from edgetune.target.target import with_cpu  # noqa: E402

_FULL = 16
"""Output channels that this number divides should reach a share of the peak."""


@dataclass(frozen=True)
class Layer:
    """One convolution: channels (in, out), and extents, taps, stride, pads and extra elements, equal on all axes."""

    channels: tuple[int, int]
    extents: tuple[int, ...]
    taps: int
    stride: int
    pads: int = 0
    extra: int = 0
    operator: Literal["ConvTranspose", "Conv"] = "ConvTranspose"

    @property
    def operations(self) -> int:
        """Additions and multiplications of taps that reach the output, or the input of a plain convolution."""
        ends = (self.extents, self.output) if self.operator == "ConvTranspose" else (self.output, self.extents)
        pairs = [
            sum(0 <= place * self.stride + tap - self.pads < extent for place in range(own) for tap in range(self.taps))
            for own, extent in zip(*ends, strict=True)
        ]
        return 2 * prod(self.channels) * prod(pairs)

    @property
    def output(self) -> tuple[int, ...]:
        """Spatial extents of the output."""
        if self.operator == "Conv":
            return tuple((own + 2 * self.pads - self.taps) // self.stride + 1 for own in self.extents)
        return tuple((own - 1) * self.stride + self.taps - 2 * self.pads + self.extra for own in self.extents)

    def model(self) -> onnx.ModelProto:
        """The model: the layer and an activation."""
        random, rank = np.random.default_rng(0), len(self.extents)
        scale = (self.channels[0] * self.taps**rank) ** -0.5
        channels = self.channels if self.operator == "ConvTranspose" else self.channels[::-1]
        weights = (random.standard_normal((*channels, *[self.taps] * rank)) * scale).astype(np.float32)
        bias = random.standard_normal(self.channels[1]).astype(np.float32)
        attributes = {"kernel_shape": [self.taps] * rank, "strides": [self.stride] * rank}
        attributes["pads"] = [self.pads] * 2 * rank
        if self.operator == "ConvTranspose":
            attributes["output_padding"] = [self.extra] * rank
        layer = helper.make_node(self.operator, ["x", "weights", "bias"], ["sum"], **attributes)
        graph = helper.make_graph(
            [layer, helper.make_node("Relu", ["sum"], ["y"])],
            "layer",
            [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, self.channels[0], *self.extents])],
            [helper.make_tensor_value_info("y", TensorProto.FLOAT, [1, self.channels[1], *self.output])],
            [numpy_helper.from_array(weights, "weights"), numpy_helper.from_array(bias, "bias")],
        )
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


TRANSPOSED = {
    "2d_2x2_s2_decoder": Layer((256, 128), (32, 32), 2, 2),
    "2d_2x2_s2_last_decoder": Layer((64, 32), (64, 64), 2, 2),
    "2d_3x3_s2": Layer((128, 64), (28, 28), 3, 2, 1, 1),
    "2d_4x4_s2": Layer((256, 128), (16, 16), 4, 2, 1),
    "2d_5x5_s2": Layer((64, 32), (28, 28), 5, 2, 2, 1),
    "2d_3x3_s1": Layer((128, 128), (28, 28), 3, 1, 1),
    "2d_3x3_s3": Layer((96, 20), (24, 24), 3, 3),
    "2d_5x5_s3": Layer((64, 48), (20, 20), 5, 3, 1),
    "1d_4_s2": Layer((128, 64), (512,), 4, 2, 1),
    "1d_5_s3": Layer((64, 32), (400,), 5, 3, 1),
    "3d_2x2x2_s2": Layer((64, 32), (8, 16, 16), 2, 2),
    "3d_3x3x3_s2": Layer((32, 16), (8, 16, 16), 3, 2, 1, 1),
}
IN_SPACE = {
    "3x3x3_c64": Layer((64, 64), (8, 28, 28), 3, 1, 1, operator="Conv"),
    "3x3x3_c128": Layer((128, 128), (8, 14, 14), 3, 1, 1, operator="Conv"),
    "3x3x3_c256": Layer((256, 256), (4, 14, 14), 3, 1, 1, operator="Conv"),
    "3x3x3_c512": Layer((512, 512), (2, 7, 7), 3, 1, 1, operator="Conv"),
    "3x3x3_c128_s2": Layer((128, 256), (8, 28, 28), 3, 2, 1, operator="Conv"),
}
LAYERS = TRANSPOSED | IN_SPACE
_GROUPS = {"transposed": TRANSPOSED, "3d": IN_SPACE}


@dataclass(frozen=True)
class Measured:
    """A layer beside its peers: microseconds of the package, share of the peak, ratio of each peer's time to ours."""

    name: str
    channels: int
    median_us: float
    share: float
    ratios: dict[str, float]


def main(arguments: Sequence[str] | None = None) -> int:
    """Measures all cases and prints the table; 1 where a package gives wrong answers."""
    options = _parser().parse_args(arguments)
    split = split_cores()
    plan = Plan(max(split.measuring), options.rounds, options.seconds, tuple(options.peers.split(",")))
    folder: Path = options.out.resolve()
    found, wrong = [], []
    try:
        with confined(split.building):
            peak = measure_peaks(with_cpu(load_board("host").target), plan.core, 4).flops
            for name in _GROUPS.get(options.cases, options.cases.split(",")):
                result = _measure(name, folder, options.trials, plan)
                if not result.sides or result.sides[0].name != OURS or not result.sides[0].correct:
                    wrong.append(name)
                    continue
                found.append(_measured(name, result, peak))
                print(f"{name}: {found[-1]}", file=sys.stderr)
    except EdgetuneError as error:
        print(f"benchmark: {error}", file=sys.stderr)
        return error.exit_code
    rows = [asdict(one) for one in found]
    (folder / f"convolution_layers.{options.trials}.json").write_text(json.dumps(rows, indent=1), encoding="utf-8")
    print(_table(found, plan.peers))
    if wrong:
        print(f"benchmark: wrong or missing answers: {', '.join(wrong)}", file=sys.stderr)
    return 1 if wrong else 0


def _measure(name: str, folder: Path, trials: int, plan: Plan) -> ModelResult:
    model = folder / "models" / f"{name}.onnx"
    model.parent.mkdir(parents=True, exist_ok=True)
    onnx.save(LAYERS[name].model(), model)
    db = folder / "records.db"
    if trials:
        _tune(model, db, trials)
    package = build_package(model, folder / "packages" / f"{name}.{trials}", db if trials else None)
    return compare(model, package, folder / "work" / name, plan)


def _tune(model: Path, db: Path, trials: int) -> None:
    command = [sys.executable, "-m", "edgetune", "tune", str(model), "--board", "host", "--trials", str(trials)]
    done = subprocess.run(
        [*command, "--db", str(db), "-o", str(db.parent / "tuned" / model.stem)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(entry for entry in sys.path if entry)},
        stdout=subprocess.DEVNULL,
        check=False,
    )
    if done.returncode:
        raise EdgetuneError(f"edgetune tune of {model} failed with exit code {done.returncode}: see above")


def _measured(name: str, result: ModelResult, peak: float) -> Measured:
    ours = result.sides[0]
    share = LAYERS[name].operations / (ours.median_us * 1e-6) / peak
    ratios = {side.name: round(side.ratio, 3) for side in result.sides if side.ratio is not None and side.correct}
    return Measured(name, LAYERS[name].channels[1], round(ours.median_us, 1), round(share, 3), ratios)


def _table(found: Sequence[Measured], peers: Sequence[str]) -> str:
    """One row per layer; then of each peer how many layers take it longer, and the smallest ratio."""
    rows = [["layer", "us", "of peak", *(f"{TITLES[peer]} / edgetune" for peer in peers)]]
    for one in found:
        ratios = [f"{one.ratios[peer]:.2f}" if peer in one.ratios else "-" for peer in peers]
        rows.append([one.name, f"{one.median_us:.0f}", f"{one.share:.0%}", *ratios])
    of_peer = [[one.ratios[peer] for one in found if peer in one.ratios] for peer in peers]
    rows.append(["slower than edgetune", "", "", *(f"{sum(r > 1 for r in each)} of {len(each)}" for each in of_peer)])
    rows.append(["smallest", "", "", *(f"{min(each):.2f}" if each else "-" for each in of_peer)])
    full = [one.share for one in found if one.channels % _FULL == 0]
    head, *body = ["| " + " | ".join(row) + " |" for row in rows]
    least = f"Smallest share of the peak where {_FULL} divides the channels: {min(full, default=0):.0%}."
    return "\n".join([head, "|" + "---|" * len(rows[0]), *body, "", least])


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="benchmarks/convolution_layers.py")
    parser.add_argument(
        "--cases", default=",".join(LAYERS), help=f"transposed, 3d, or of {','.join(LAYERS)} (default: all)"
    )
    parser.add_argument("--trials", type=int, default=0, help="trials of a search for each layer (default: none)")
    parser.add_argument("--peers", default="onnxruntime,openvino,ncnn,mnn", help=f"of {','.join(PEERS)}")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=0.3, help="per side and round")
    parser.add_argument("-o", "--out", type=Path, default=Path("build/convolution_layers"))
    return parser


if __name__ == "__main__":
    sys.exit(main())
