"""One ONNX node test as edgetune sees it: a model with static shapes, data for its inputs, what must come out."""

from __future__ import annotations

import os
import pickle
import warnings
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper

from tests.conformance.freeze import freeze

_KEPT = Path(__file__).parents[2] / "build" / "conformance"


class UnfitError(Exception):
    """The test has inputs or outputs that are not tensors of numbers."""


@dataclass(frozen=True)
class Case:
    """`inputs` are those left after freezing; `expected` are the outputs of the test; tolerances are the test's own."""

    name: str
    model: onnx.ModelProto
    shapes: dict[str, tuple[int, ...]]
    inputs: dict[str, np.ndarray]
    expected: list[np.ndarray]
    rtol: float
    atol: float


@dataclass(frozen=True)
class _Stored:
    """A test as it is kept between runs: protocol buffers as bytes, arrays as they are."""

    model: bytes
    given: list[Any]
    expected: list[Any]
    rtol: float
    atol: float


@cache
def node_tests() -> dict[str, Any]:
    """All ONNX backend node tests by name, in ONNX's order; kept in build/, because making them takes seconds."""
    kept = _KEPT / f"tests-{onnx.__version__}-numpy-{np.__version__}.pickle"
    if kept.exists():
        stored: dict[str, Any] = pickle.loads(kept.read_bytes())  # noqa: S301 - written below
        return stored
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        from onnx.backend.test.loader import load_model_tests

        tests = {test.name: _stored(test) for test in load_model_tests(kind="node")}
    _KEPT.mkdir(parents=True, exist_ok=True)
    unfinished = kept.with_suffix(f".{os.getpid()}")
    unfinished.write_bytes(pickle.dumps(tests))
    unfinished.replace(kept)
    return tests


def _stored(test: Any) -> _Stored:
    given, expected = ([_array(v) for v in values] for values in test.data_sets[0])
    return _Stored(test.model.SerializeToString(), given, expected, test.rtol, test.atol)


def load(name: str) -> Case:
    """The test `name` with its shape-like inputs frozen; raises UnfitError for sequences, optionals and strings."""
    test = node_tests()[name]
    proto = onnx.load_model_from_string(test.model)
    values = dict(zip((i.name for i in proto.graph.input), test.given, strict=False))
    for value in [*values.values(), *test.expected]:
        _check(value)
    model, frozen = freeze(proto, {k: np.asarray(v) for k, v in values.items()})
    inputs = {k: np.asarray(v) for k, v in values.items() if k not in frozen}
    shapes = {i.name: inputs[i.name].shape for i in model.graph.input if not _fixed(i)}
    return Case(name, model, shapes, inputs, [np.asarray(e) for e in test.expected], test.rtol, test.atol)


def _fixed(value: onnx.ValueInfoProto) -> bool:
    tensor = value.type.tensor_type
    return tensor.HasField("shape") and all(d.HasField("dim_value") for d in tensor.shape.dim)


def _array(value: Any) -> Any:
    """Arrays as they are, tensors as arrays; what is neither as something that is not one."""
    if isinstance(value, onnx.TensorProto):
        return numpy_helper.to_array(value)
    return [] if isinstance(value, onnx.SparseTensorProto) else value


def _check(value: Any) -> None:
    if isinstance(value, list) or value is None:
        raise UnfitError("a sequence or an optional value as input or output")
    if np.asarray(value).dtype.kind in "OUS":
        raise UnfitError("strings")
