"""The corpus: expressions of the search benchmark, the twins of some of them, wild networks, and model files."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path

import onnx

from benchmarks.oracle.twins.said import onnx_twin, operator_twin, operator_type, twins
from benchmarks.oracle.wild import WILD
from benchmarks.search.cases import expression_named, names_of
from benchmarks.search.expression import Expression
from edgetune.errors import UsageError
from edgetune.frontend.model_format import Model
from edgetune.frontend.tensor_expression.format import TensorExpression
from edgetune.pipeline.model_formats import read_model, register_operator
from edgetune.yaml_reader.nearest import nearest

LISTS = (
    "quick",
    "losses",
    "published",
    "unforeseen",
    "held-out",
    "small-extents",
    "later",
    "fields",
    "everyday",
    "short-rows",
)
"""Lists of expressions; of the operators of papers, those of the quick benchmark, as the others are other extents."""
_SHORT = (3, 31)


@dataclass(frozen=True)
class Subject:
    """A model of the corpus; `file` is that of its `settings`, which need not exist."""

    name: str
    file: Path
    read: Callable[[], Model]


def corpus(shared: Path) -> Mapping[str, Subject]:
    """All subjects by name; `shared` is the folder with the shared models."""
    files = [*sorted(shared.glob("*.onnx")), *sorted((shared / "mlperf_tiny").glob("*.tflite"))]
    wild = (_of_proto(name, make) for name, make in WILD.items())
    found = [*_expressions(), *_twins(), *wild, *map(_of_file, files)]
    return {subject.name: subject for subject in found}


def short_rows_of(subjects: Mapping[str, Subject]) -> frozenset[str]:
    """The names of the expressions whose results have a last axis of 3 to 31."""
    return frozenset(name for name in dict.fromkeys(_names()) if _has_short_rows(subjects[name]))


def _has_short_rows(subject: Subject) -> bool:
    shapes = [tensor.shape for tensor in subject.read().program().outputs]
    return all(shape and _SHORT[0] <= shape[-1] <= _SHORT[1] for shape in shapes)


def selected(subjects: Mapping[str, Subject], names: str) -> list[Subject]:
    """The subjects with these names, separated by commas; all of them for "". Raises UsageError."""
    wanted = list(filter(None, names.split(",")))
    for name in wanted:
        if name not in subjects:
            raise UsageError(f"the corpus has no '{name}': {nearest(name, subjects)}")
    return [subjects[name] for name in wanted or subjects]


@cache
def _expressions() -> tuple[Subject, ...]:
    return tuple(_of_expression(expression_named(name)) for name in dict.fromkeys(_names()))


def _names() -> Iterator[str]:
    for one in LISTS:
        yield from names_of(one)


def _of_expression(case: Expression) -> Subject:
    return Subject(case.name, Path(f"{case.name}.te"), partial(_read_expression, case))


def _read_expression(case: Expression) -> Model:
    inputs = {name: (shape, "float32") for name, shape in case.inputs.items()}
    return read_model(TensorExpression(case.compute, inputs, case.values(case.constants), case.name))


@cache
def _twins() -> tuple[Subject, ...]:
    """As ONNX nodes and as registered operators."""
    plain = [_of_proto(f"onnx_{name}", partial(onnx_twin, name)) for name in twins()]
    return (*plain, *(_of_proto(f"operator_{name}", partial(_registered, name)) for name in twins()))


def _registered(name: str) -> onnx.ModelProto:
    _register(name)
    return operator_twin(name)


@cache
def _register(name: str) -> None:
    """Once in a process: an operator is registered once."""
    register_operator(operator_type(name), expression_named(name).compute)


def _of_proto(name: str, make: Callable[[], onnx.ModelProto]) -> Subject:
    return Subject(name, Path(f"{name}.onnx"), partial(_read_proto, name, make))


def _read_proto(name: str, make: Callable[[], onnx.ModelProto]) -> Model:
    with tempfile.TemporaryDirectory(prefix="edgetune-oracle-") as folder:
        path = Path(folder) / f"{name}.onnx"
        onnx.save(make(), path)
        return read_model(path)


def _of_file(path: Path) -> Subject:
    kind = "tflite" if path.suffix == ".tflite" else "model"
    return Subject(f"{kind}_{path.stem}", path, partial(read_model, path))
