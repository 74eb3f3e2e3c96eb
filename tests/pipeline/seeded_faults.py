"""Seeded faults: how often the tolerances of a model tell that weights are wrong. make seeded-faults [FAULTS=MODELS].

In each draw, one weight of each layer is 1 % larger, drawn at random. The outputs of that model for the golden inputs
of a package are compared with the right ones, as its self-test does. The exit status is 1 where fewer than 95 of 100
draws are caught.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, numpy_helper

from edgetune.frontend.onnx.format import LoadedOnnx
from edgetune.frontend.onnx.reader import OnnxModel, read_onnx
from edgetune.frontend.onnx.reference import evaluate_model
from edgetune.graph.accuracy import compare
from edgetune.package.golden import Golden, OutputTolerance
from edgetune.pipeline.compile_input import GOLDEN_CASES
from edgetune.pipeline.tolerances import tolerances_of

DRAWS = 100
LEAST_CAUGHT = 0.95
_FAULT = np.float32(1.01)
_LAYERS = frozenset(["Conv", "ConvTranspose", "Gemm", "MatMul"])


@dataclass(frozen=True)
class Caught:
    """How many of `draws` the `tolerances` of the outputs tell from a right model."""

    caught: int
    draws: int
    tolerances: dict[str, OutputTolerance]

    @property
    def enough(self) -> bool:
        """Whether at least 95 of 100 are."""
        return self.caught >= LEAST_CAUGHT * self.draws


def caught(model: OnnxModel, draws: int = DRAWS) -> Caught:
    """Draw faults of `model` by a fixed seed and judge each."""
    loaded = LoadedOnnx(model)
    feeds = loaded.sample_inputs(loaded.inputs, GOLDEN_CASES, 0)
    outputs, _ = loaded.reference_outputs(feeds, loaded.program, lambda _: None)
    cases = [Golden(feed, output) for feed, output in zip(feeds, outputs, strict=True)]
    tolerances = tolerances_of(loaded, cases, lambda _: None)
    random = np.random.default_rng(0)
    found = sum(_is_caught(evaluate_model(_faulty(model, random), feeds), cases, tolerances) for _ in range(draws))
    return Caught(found, draws, tolerances)


def _is_caught(
    answers: Sequence[dict[str, np.ndarray]], cases: Sequence[Golden], tolerances: dict[str, OutputTolerance]
) -> bool:
    pairs = ((answer[name], case.outputs[name], tolerances[name]) for answer, case in zip(answers, cases, strict=True)
             for name in answer)  # fmt: skip
    return any(not compare(found, wanted, tolerance).allowed for found, wanted, tolerance in pairs)


def _faulty(model: OnnxModel, random: np.random.Generator) -> OnnxModel:
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for weight in _weights(proto):
        values = numpy_helper.to_array(weight).copy()
        values.reshape(-1)[random.choice(np.flatnonzero(values))] *= _FAULT
        weight.CopyFrom(numpy_helper.from_array(values, weight.name))
    return replace(model, proto=proto)


def _weights(proto: onnx.ModelProto) -> Iterator[onnx.TensorProto]:
    """The weights of each layer."""
    read = {node.input[1] for node in proto.graph.node if node.op_type in _LAYERS}
    return (t for t in proto.graph.initializer if t.name in read and t.data_type == TensorProto.FLOAT)


def main(paths: Sequence[str]) -> int:
    """Print a row for each model; 1 where too few faults are caught."""
    enough = True
    print(f"{'model':24} {'caught':>9}  allowed, as a share of the largest element")
    for path in paths:
        model = read_onnx(Path(path))
        if not any(True for _ in _weights(model.proto)):
            continue  # int8 weights have no 1 %
        found = caught(model)
        allowed = ", ".join(f"{tolerance.relative:.2g}" for tolerance in found.tolerances.values())
        print(f"{model.name:24} {found.caught:4}/{found.draws:4}  {allowed}", flush=True)
        enough &= found.enough
    return 0 if enough else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
