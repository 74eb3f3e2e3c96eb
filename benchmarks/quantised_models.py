"""Counts what packages of quantised models give up: elements that differ from the reference, bytes of weights, arena.

python -m benchmarks.quantised_models MODEL... [--twins MODEL,...] [--inputs N] [--out FOLDER]

Packages are built for this machine with default schedules. Elements are those of all outputs, on seeded random inputs,
against the reference of the model: ONNX's evaluator, or LiteRT's reference kernels. The bound of the weights is 1.05
times the model's own integers and 12 bytes for each output channel, plus 2 KB. A twin is the same model in float32,
whose arena is compared.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
from onnx import numpy_helper

from benchmarks.command import run_command
from benchmarks.run import build_package
from benchmarks.side import Case
from benchmarks.sides.edgetune_package import EdgetunePackage
from edgetune.boards.cores import CoreSplit
from edgetune.errors import UsageError
from edgetune.frontend.model_format import Model
from edgetune.frontend.onnx.format import LoadedOnnx
from edgetune.frontend.onnx.reader import OnnxModel
from edgetune.frontend.tflite.format import LoadedTflite
from edgetune.package.manifest import read_manifest
from edgetune.pipeline.model_formats import read_model

_OF_CHANNEL = 12
_SLACK, _MORE = 1.05, 2048
_SUMS = {"Conv": 1, "ConvInteger": 1, "QLinearConv": 3, "ConvTranspose": 1, "Gemm": 1, "MatMul": 1, "MatMulInteger": 1}
"""The operand of the weights, by operator; QLinearMatMul has the one of QLinearConv."""
_FIRST_AXIS = frozenset({"Conv", "ConvInteger", "QLinearConv"})


@dataclass(frozen=True)
class Counted:
    """A model: `differing` of `elements`, by at most so many `steps`; bytes; the arena of its twin, if it has one."""

    model: str
    elements: int
    differing: int
    steps: float
    weights: int
    bound: float
    arena: int
    twin: int | None

    def row(self) -> str:
        """A row of the table."""
        share = 100 * self.differing / self.elements
        twin = "-" if self.twin is None else f"{self.arena / self.twin:.2f}"
        return (
            f"| {self.model} | {self.differing} of {self.elements} ({share:.3f} %) | {self.steps:.2f} "
            f"| {self.weights} | {self.weights / self.bound:.2f} | {self.arena} | {twin} |"
        )


_HEAD = """| model | elements that differ | largest, steps | weights, bytes | of bound | arena, bytes | of twin |
|---|---|---|---|---|---|---|"""


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the table; 1 where more than one element of a thousand differs, or any by more than a step."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("model", nargs="+", type=Path)
    parser.add_argument("--twins", type=_paths, default=[])
    parser.add_argument("--inputs", type=int, default=50)
    parser.add_argument("--out", type=Path, default=Path(".edgetune/quantised"))
    return run_command("quantised_models", partial(_run, parser.parse_args(arguments)))


def _paths(text: str) -> list[Path | None]:
    return [Path(one) if one else None for one in text.split(",")]


def _run(options: argparse.Namespace, split: CoreSplit) -> int:
    del split
    twins = [*options.twins, *[None] * len(options.model)]
    print(_HEAD)
    found = []
    for model, twin in zip(options.model, twins, strict=False):
        found.append(counted(model, twin, options.inputs, options.out))
        print(found[-1].row(), flush=True)
    exact = all(one.steps <= 1 + 1e-3 and one.differing <= one.elements / 1000 for one in found)
    return 0 if exact else 1


def counted(path: Path, twin: Path | None, inputs: int, out: Path) -> Counted:
    """What a package of a model gives up; raises as its build does."""
    model, package = read_model(path), build_package(path, out / "packages" / path.stem, None)
    memory = read_manifest(package)["memory"]
    elements, differing, steps = _differences(model, path, package, inputs, out)
    other = None
    if twin is not None:
        other = read_manifest(build_package(twin, out / "twins" / twin.stem, None))["memory"]["arena_bytes"]
    return Counted(
        path.stem,
        elements,
        differing,
        steps,
        memory["weights_bytes"],
        _SLACK * sum(_bytes_of_weights(_onnx(model))) + _MORE,
        memory["arena_bytes"],
        other,
    )


def _differences(model: Model, path: Path, package: Path, inputs: int, out: Path) -> tuple[int, int, float]:
    """All elements, those that differ, and by how many quantisation steps at most."""
    specs = tuple(model.inputs)
    feeds = model.sample_inputs(specs, inputs, 0)
    wanted, _ = model.reference_outputs(feeds, model.program, lambda event: print(event.data, file=sys.stderr))
    quantised = model.quantised_outputs(feeds, wanted)
    side = EdgetunePackage()
    work = out / "work" / path.stem
    work.mkdir(parents=True, exist_ok=True)
    side.load(Case(path.stem, path, package.resolve(), specs, tuple(wanted[0]), work.resolve()))
    elements, differing, largest = 0, 0, 0.0
    for feed, outputs in zip(feeds, wanted, strict=True):
        side.prepare(feed)
        for name, found in side.answers().items():
            apart = np.abs(found.astype(np.float64) - outputs[name])
            step = quantised[name].step if name in quantised else 1.0
            elements += apart.size
            differing += int(np.count_nonzero(apart > step / 2))
            largest = max(largest, float(apart.max(initial=0) / step))
    return elements, differing, largest


def _onnx(model: Model) -> OnnxModel:
    """The model in ONNX's operators; a TensorFlow Lite file has those of its translation."""
    own = model.translation if isinstance(model, LoadedTflite) else model
    if not isinstance(own, LoadedOnnx):
        raise UsageError(f"{type(own).__name__} has no operators of ONNX: give ONNX or TensorFlow Lite files")
    return own.model


def _bytes_of_weights(model: OnnxModel) -> Iterator[float]:
    """The bytes of each weight of 8 bits, and those of its channels."""
    graph = model.proto.graph
    values = {one.name: numpy_helper.to_array(one) for one in graph.initializer} | dict(model.weights)
    made = {node.output[0]: node for node in graph.node}
    for node in graph.node:
        place = _SUMS.get(node.op_type, 3 if node.op_type == "QLinearMatMul" else None)
        if place is None or len(node.input) <= place:
            continue
        name = node.input[place]
        while name in made and name not in values:
            name = made[name].input[0]
        integers = values.get(name)
        if integers is not None and integers.dtype.itemsize == 1:
            transposed = any(one.name == "transB" and one.i for one in node.attribute)
            channels = integers.shape[0 if node.op_type in _FIRST_AXIS or transposed else -1]
            yield integers.nbytes + _OF_CHANNEL * channels


if __name__ == "__main__":
    raise SystemExit(main())
