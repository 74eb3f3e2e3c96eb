"""What a step of a model with states costs, and whether it is right: `python -m benchmarks.state_steps MODEL...`.

For each model that has states by itself, such as a `.tflite` file with variables, its package is built with default
schedules, and run step by step against the reference, in two sequences. One line says in how many steps the outputs are
equal, bit by bit, and on this machine what they leave in the states; multiply-adds of a step as a multiple of the 8-bit
integers among the weights; and how many bytes a step writes by calls of kernels that only move elements, as
`MANIFEST.json` lists the calls. `--board NAME` is for the emulator of a board, where `verify` compares the outputs and
allows no difference. `--most-products` and `--most-moved` are limits. The exit code is 1 where something differs or a
limit is passed.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import edgetune
from edgetune.errors import WrongResult
from edgetune.package.golden import Golden, GoldenCases, OutputTolerance
from edgetune.package.manifest import kernels_of_layer, read_manifest
from edgetune.pipeline.model_formats import read_stored
from edgetune.verify.verify import verify

MOVING = frozenset(
    {"concatenate", "copy", "expand_dims", "reshape", "ring_read", "row_write", "split"}
    | {"squeeze", "strided_slice", "take", "transpose"}
)
"""Operators of kernels that only move elements."""


@dataclass(frozen=True)
class StepCosts:
    """A package against its reference: runs, those that are equal, and what a run does."""

    model: str
    runs: int
    equal: int
    macs: int
    narrow_weights: int
    moving_calls: int
    moved_bytes: int

    @property
    def products(self) -> float:
        """Multiply-adds for each weight of 8 bits."""
        return self.macs / max(self.narrow_weights, 1)

    def __str__(self) -> str:
        return (
            f"{self.model}: {self.equal} of {self.runs} runs equal, {self.macs:,} multiply-adds are "
            f"{self.products:.3f} of {self.narrow_weights:,} weights of 8 bits, {self.moving_calls} calls that only "
            f"move write {self.moved_bytes:,} bytes"
        )


def moving_calls(manifest: Mapping[str, Any]) -> list[int]:
    """The bytes that each call of a kernel writes that only moves elements, in a run of the package."""
    sources = {kernel["name"]: kernel["sources"] for kernel in manifest["kernels"]}
    return [
        sum(place.get("row_bytes") or place["bytes"] for place in layer["written"])
        for layer in manifest["layers"]
        if all(MOVING.issuperset(sources[name]) for name in kernels_of_layer(layer))
    ]


def sequences(path: Path, runs: int, seed: int = 0) -> tuple[list[Golden], str]:
    """Steps of a model by its reference, of two sequences, with the name of the reference."""
    model = read_stored(path).with_shapes({})
    states = {one.name_in: one.name_out for one in model.states()}
    first = {one.name_in: one.first for one in model.states()}
    inputs = [one for one in model.inputs if one.name not in states]
    generator = np.random.default_rng(seed)
    cases: list[Golden] = []
    reference = ""
    for length in (runs // 2, runs - runs // 2):
        feeds = [{one.name: _drawn(generator, one.shape, one.dtype) for one in inputs} for _ in range(length)]
        outputs, reference = model.sequence_outputs(feeds, first, states, model.program, lambda one: print(one.data))
        kept = first
        for number, (feed, found) in enumerate(zip(feeds, outputs, strict=True)):
            cases.append(Golden({**feed, **kept}, found, number > 0))
            kept = {name_in: found[name_out] for name_in, name_out in states.items()}
    return cases, reference


def _drawn(generator: np.random.Generator, shape: Sequence[int], dtype: str) -> np.ndarray:
    if np.dtype(dtype).kind == "f":
        return generator.standard_normal(shape).astype(dtype)
    limits = np.iinfo(dtype)
    return generator.integers(limits.min, int(limits.max) + 1, shape).astype(dtype)


def equal_here(folder: Path, cases: Sequence[Golden]) -> int:
    """In how many of `cases` the package in `folder` gives their outputs, and leaves their states, bit by bit."""
    equal = 0
    with edgetune.Package.open(folder) as package:
        for case in cases:
            if not case.goes_on:
                package.reset()
            inputs = {package.fields[tensor.name]: case.inputs[tensor.name] for tensor in package.inputs}
            found = package.run(**inputs) | {one.name_out: package.kept[one.name_in] for one in package.states}
            equal += all(np.array_equal(found[name], case.outputs[name]) for name in found)
    return equal


def equal_emulated(folder: Path, cases: Sequence[Golden], reference: str) -> int:
    """`len(cases)` where the emulator of the board gives the outputs of all of them, bit by bit, else 0."""
    exact = {name: OutputTolerance(absolute=0.0, relative=0.0) for name in cases[0].outputs}
    try:
        return verify(folder, fresh=GoldenCases(cases, reference, exact)).fresh_cases
    except WrongResult as error:
        print(error.message)
        return 0


def step_costs(path: Path, board: str, folder: Path, runs: int) -> StepCosts:
    """Builds the package of a model for `board` in `folder`, and compares it."""
    edgetune.load(path).build(board=board, out=folder)
    cases, reference = sequences(path, runs)
    equal = equal_here(folder, cases) if board == "host" else equal_emulated(folder, cases, reference)
    manifest = read_manifest(folder)
    moved = moving_calls(manifest)
    macs = sum(layer["macs"] for layer in manifest["layers"])
    narrow = read_stored(path).facts({}, {}).weights.get("int8", 0)
    return StepCosts(path.name, runs, equal, macs, narrow, len(moved), sum(moved))


def main(arguments: Sequence[str]) -> int:
    """The command."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.state_steps", description=(__doc__ or "").split(":")[0])
    parser.add_argument("models", nargs="+", type=Path)
    parser.add_argument("--board", default="host")
    parser.add_argument("--runs", type=int, default=50)
    parser.add_argument("--most-products", type=float, default=float("inf"))
    parser.add_argument("--most-moved", type=float, default=float("inf"))
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args(arguments)
    failed = False
    for path in asked.models:
        with tempfile.TemporaryDirectory(prefix="edgetune-steps-") as name:
            found = step_costs(path, asked.board, Path(name) / "package", asked.runs)
        print(json.dumps(vars(found)) if asked.json else found, flush=True)
        failed |= found.equal < found.runs or found.products > asked.most_products
        failed |= found.moved_bytes > asked.most_moved
    return int(failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
