"""Reader of `.tflite` files: from a flatbuffer that nobody has checked to plain values.

A flatbuffer is a web of offsets. Python checks each of them when it follows one, so a wrong offset raises an exception
and never reads outside the file. What is read is checked before anything else uses it: numbers of elements, types,
places of tensors, order of operators.

The schema is that of TensorFlow Lite 2.18 (tensorflow/lite/schema/schema.fbs), as package `tflite` has it.
"""

from __future__ import annotations

import hashlib
import struct
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from edgetune.errors import ModelError
from edgetune.frontend.tflite.content import DTYPES, Operator, Quantisation, Tensor, TfliteContent, dense, level_of

IDENTIFIER = b"TFL3"
"""The bytes 4 to 7 of a file."""

_QUANTISED = {"INT4", "INT8", "UINT8", "INT16", "INT32", "INT64"}
_MOST_AXES = 8
_MOST_ELEMENTS = 1 << 27
_MOST_TABLES = 1 << 17
_SPARSE = {"FLOAT32", "FLOAT16", "INT8"}
_MOST_SPARSE = 128
"""A sparse constant has at most as many places for each value."""
_BROKEN = (struct.error, LookupError, ValueError, TypeError, OverflowError, AttributeError)

_Read = TypeVar("_Read")


def read_content(path: Path) -> TfliteContent:
    """Reads `path`.

    Raises ModelError where it cannot be read, is no such file, is cut off or contradicts itself, and where the package
    `tflite` is not installed.
    """
    try:
        data = path.read_bytes()
    except OSError as error:
        raise ModelError(f"the model file {path} cannot be read ({error.strerror}); check its permissions") from None
    if data[4:8] != IDENTIFIER:
        raise ModelError(f"{path} is not a TensorFlow Lite file: its bytes 4 to 7 are not TFL3; export it again")
    return _Reader(path, data).content()


class _Reader:
    """Reads one file with the classes of package `tflite`; every exception of theirs becomes a ModelError."""

    def __init__(self, path: Path, data: bytes) -> None:
        try:
            import tflite
        except ImportError:
            raise ModelError(
                f"reading {path} needs the packages tflite and flatbuffers: `pip install 'edgetune[tflite]'` installs "
                "them"
            ) from None
        self._schema = tflite
        self._path, self._data = path, data

    def content(self) -> TfliteContent:
        model = self._read("the model", lambda: self._schema.Model.GetRootAs(self._data, 0))
        version = self._read("the version", model.Version)
        count = self._read("the subgraphs", model.SubgraphsLength)
        if not count or version != 3:
            raise self._wrong(f"has {count} subgraphs and schema version {version}, and one of version 3 is wanted")
        main = self._graph(model, 0, count, version)
        if not main.outputs:
            raise self._wrong("has no outputs")
        called = {one.options.get("InitSubgraphIndex", 0) for one in main.operators if one.name == "CALL_ONCE"}
        initial = {number: self._graph(model, number, count, version) for number in called if 0 < number < count}
        return replace(main, initial=initial)

    def _graph(self, model: Any, place: int, count: int, version: int) -> TfliteContent:
        """The subgraph at `place` of `count`."""
        graph = self._read(f"subgraph {place}", lambda: model.Subgraphs(place))
        tensors = tuple(self._tensors(model, graph))
        operators = tuple(self._operators(model, graph, len(tensors)))
        inputs = self._numbers("the inputs", graph.InputsAsNumpy)
        outputs = self._numbers("the outputs", graph.OutputsAsNumpy)
        for number in (*inputs, *outputs):
            if not 0 <= number < len(tensors):
                raise self._wrong(f"has tensor {number} among its inputs and outputs, of {len(tensors)} tensors")
            if tensors[number].type not in DTYPES:
                raise ModelError(
                    f"{self._path} has {tensors[number].name!r} of type {tensors[number].type} among its inputs and "
                    "outputs, which have to be numbers or bool: remove it from the model"
                )
        if len(set(inputs)) < len(inputs):
            raise self._wrong("has one tensor as two inputs")
        tensors = _with_empty_constants(tensors, {*inputs, *(n for one in operators for n in one.outputs)})
        content = TfliteContent(
            self._path,
            self._data,
            hashlib.sha256(self._data).hexdigest(),
            version,
            self._text("the description", model.Description),
            count,
            tensors,
            operators,
            inputs,
            outputs,
        )
        self._require_order(content)
        return content

    def _read(self, what: str, read: Callable[[], _Read]) -> _Read:
        try:
            return read()
        except _BROKEN as error:
            raise self._wrong(f"is damaged: {what} cannot be read ({type(error).__name__})") from None

    def _wrong(self, what: str) -> ModelError:
        return ModelError(f"{self._path} {what}: copy or export the file again")

    def _text(self, what: str, read: Callable[[], bytes | None]) -> str:
        return (self._read(what, read) or b"").decode("utf-8", "backslashreplace")

    def _numbers(self, what: str, read: Callable[[], Any]) -> tuple[int, ...]:
        found = self._read(what, read)
        if isinstance(found, int):  # an absent vector reads as 0
            return ()
        return tuple(int(number) for number in found)

    def _tables(self, what: str, length: Callable[[], int], at: Callable[[int], _Read]) -> Iterator[_Read]:
        """The tables of a vector, which are as many as it says, unless it says more than the file can hold."""
        count = self._read(what, length)
        if not 0 <= count <= min(_MOST_TABLES, len(self._data) // 4):
            raise self._wrong(f"is damaged: it says that it has {count:,} {what}")
        for number in range(count):
            yield self._read(f"number {number} of the {what}", lambda number=number: at(number))  # type: ignore[misc]

    def _tensors(self, model: Any, graph: Any) -> Iterator[Tensor]:
        buffers = [*self._tables("buffers", model.BuffersLength, model.Buffers)]
        types = {number: name for name, number in vars(self._schema.TensorType).items() if isinstance(number, int)}
        taken: set[str] = set()
        for index, table in enumerate(self._tables("tensors", graph.TensorsLength, graph.Tensors)):
            name = self._text(f"the name of tensor {index}", table.Name) or f"tensor{index}"
            if name in taken:
                name = f"{name}#{index}"
            taken.add(name)
            where = f"tensor {name!r}"
            shape = self._shape(where, table.ShapeAsNumpy)
            signature = self._shape(where, table.ShapeSignatureAsNumpy) or shape
            if len(signature) != len(shape) or any(extent < 0 for extent in shape):
                raise self._wrong(f"gives {where} the shape {list(shape)} and the free shape {list(signature)}")
            number = self._read(f"the type of {where}", table.Type)
            if number not in types:
                raise self._wrong(f"gives {where} type {number}, which the schema does not have")
            quantisation = self._quantisation(where, table, types[number], shape)
            buffer = self._read(f"the buffer of {where}", table.Buffer)
            if not 0 <= buffer < len(buffers):
                raise self._wrong(f"gives {where} buffer {buffer}, and has {len(buffers)}")
            sparsity = self._read(f"the sparsity of {where}", table.Sparsity)
            if sparsity is None:
                data = self._data_of(where, buffers[buffer], types[number], shape)
            else:
                data = self._dense_data(where, sparsity, buffers[buffer], types[number], shape)
            variable = bool(self._read(where, table.IsVariable))
            yield Tensor(index, name, shape, signature, types[number], buffer, data, quantisation, variable)

    def _shape(self, where: str, read: Callable[[], Any]) -> tuple[int, ...]:
        found = self._read(f"the shape of {where}", read)
        if isinstance(found, int):
            return ()
        if found.size > _MOST_AXES or prod(max(1, int(extent)) for extent in found) >= _MOST_ELEMENTS:
            raise self._wrong(f"gives {where} {found.size} axes, or 2^27 elements or more")
        return tuple(int(extent) for extent in found)

    def _dense_data(
        self, where: str, sparsity: Any, buffer: Any, kind: str, shape: tuple[int, ...]
    ) -> memoryview | None:
        """The bytes of a sparse constant with all its zeros."""
        stored = self._stored_bytes(where, buffer)
        if stored is None or kind not in _SPARSE:
            raise self._wrong(f"gives {where} no values, or values of {kind}, and says that it is sparse")
        values = self._read(f"the values of {where}", lambda: np.frombuffer(stored, DTYPES[kind]))
        if prod(shape) > _MOST_SPARSE * values.size:
            raise self._wrong(f"gives {where} {values.size:,} values for {prod(shape):,} places")
        order, blocked = (
            self._numbers(f"the axes of {where}", read)
            for read in (sparsity.TraversalOrderAsNumpy, sparsity.BlockMapAsNumpy)
        )
        levels = [
            self._read(f"the places of {where}", lambda one=one: level_of(self._schema, one))  # type: ignore[misc]
            for one in self._tables(f"axes of {where}", sparsity.DimMetadataLength, sparsity.DimMetadata)
        ]
        whole = self._read(f"the places of {where}", lambda: dense(values, shape, order, blocked, levels))
        return memoryview(whole.tobytes())

    def _data_of(self, where: str, buffer: Any, kind: str, shape: tuple[int, ...]) -> memoryview | None:
        data = self._stored_bytes(where, buffer)
        if data is None:
            return None
        if kind not in DTYPES:
            return data
        wanted = -(-prod(shape) // 2) if kind == "INT4" else prod(shape) * DTYPES[kind].itemsize
        if data.nbytes != wanted:
            raise self._wrong(f"gives {where} {data.nbytes:,} bytes, and its shape and type need {wanted:,}")
        return data

    def _stored_bytes(self, where: str, buffer: Any) -> memoryview | None:
        start, size = self._read(f"the buffer of {where}", lambda: (buffer.Offset(), buffer.Size()))
        if start > 1:  # files of more than 2 GB have data after the flatbuffer
            if start + size > len(self._data):
                raise self._wrong(
                    f"is damaged: the data of {where} end at byte {start + size:,} of {len(self._data):,}"
                )
            return memoryview(self._data)[start : start + size]
        found = self._read(f"the buffer of {where}", buffer.DataAsNumpy)
        return None if isinstance(found, int) or not found.size else memoryview(found)

    def _quantisation(self, where: str, table: Any, kind: str, shape: tuple[int, ...]) -> Quantisation | None:
        found = self._read(f"the quantisation of {where}", table.Quantization)
        if found is None or kind not in _QUANTISED:
            return None
        scale = self._read(f"the scale of {where}", found.ScaleAsNumpy)
        if isinstance(scale, int) or not scale.size:
            return None
        zero_point = self._read(f"the zero point of {where}", found.ZeroPointAsNumpy)
        if isinstance(zero_point, int) or not zero_point.size:
            zero_point = np.zeros(1, np.int64)
        axis = self._read(f"the axis of {where}", found.QuantizedDimension) if scale.size > 1 else 0
        limits = _limits(kind)
        if not np.all(np.isfinite(scale)) or np.any(scale <= 0):
            raise self._wrong(f"gives {where} a scale that is not positive")
        if np.any(zero_point < limits[0]) or np.any(zero_point > limits[1]):
            raise self._wrong(f"gives {where} a zero point outside {limits[0]} to {limits[1]}")
        if scale.size > 1 and not (0 <= axis < len(shape) and shape[axis] == scale.size):
            raise self._wrong(f"gives {where} of shape {list(shape)} {scale.size} scales along axis {axis}")
        if zero_point.size not in {1, scale.size}:
            raise self._wrong(f"gives {where} {scale.size} scales and {zero_point.size} zero points")
        whole = np.broadcast_to(zero_point, scale.shape)
        return Quantisation(scale.astype(np.float32), whole.astype(np.int32), int(axis))

    def _operators(self, model: Any, graph: Any, tensors: int) -> Iterator[Operator]:
        names = {number: name for name, number in vars(self._schema.BuiltinOperator).items() if isinstance(number, int)}
        codes = []
        for code in self._tables("operator codes", model.OperatorCodesLength, model.OperatorCodes):
            # A byte was enough for the first 127 operators; later files give both fields.
            number = max(self._read(what, read) for what, read in _numbers_of(code))
            own = self._text("an operator code", code.CustomCode)
            codes.append((names.get(number, f"operator {number}"), own, self._read("an operator code", code.Version)))
        for index, table in enumerate(self._tables("operators", graph.OperatorsLength, graph.Operators)):
            where = f"operator {index}"
            code = self._read(where, table.OpcodeIndex)
            if not 0 <= code < len(codes):
                raise self._wrong(f"gives {where} code {code}, and has {len(codes)}")
            inputs = self._numbers(f"the inputs of {where}", table.InputsAsNumpy)
            outputs = self._numbers(f"the outputs of {where}", table.OutputsAsNumpy)
            if any(not -1 <= number < tensors for number in inputs) or any(not 0 <= n < tensors for n in outputs):
                raise self._wrong(f"gives {where} ({codes[code][0]}) a tensor that it does not have")
            name, custom, version = codes[code]
            yield Operator(index, name, custom, version, inputs, outputs, self._options(where, table))

    def _options(self, where: str, table: Any) -> Mapping[str, Any]:
        """The fields of the operator's options by their names in the schema, vectors as arrays; {} without options."""
        number = self._read(where, table.BuiltinOptionsType)
        kinds = {value: name for name, value in vars(self._schema.BuiltinOptions).items() if isinstance(value, int)}
        union = self._read(where, table.BuiltinOptions)
        if union is None or kinds.get(number, "NONE") == "NONE":
            return {}
        options = getattr(self._schema, kinds[number])()
        self._read(f"the options of {where}", lambda: options.Init(union.Bytes, union.Pos))
        found: dict[str, Any] = {}
        for name, method in vars(type(options)).items():
            field_name = name.removesuffix("AsNumpy")
            takes_nothing = callable(method) and getattr(method, "__code__", None) and method.__code__.co_argcount == 1
            if takes_nothing and not name.endswith(("Length", "IsNone")) and not name.startswith("_"):
                found[field_name] = self._read(f"{field_name} of {where}", getattr(options, name))
        return found

    def _require_order(self, content: TfliteContent) -> None:
        """Raises ModelError unless each operator reads only what is there when it runs, and no tensor is made twice."""
        known = {t.index for t in content.tensors if t.data is not None or t.variable} | set(content.inputs)
        for operator in content.operators:
            missing = next((number for number in operator.inputs if number >= 0 and number not in known), None)
            if missing is not None:
                raise self._wrong(
                    f"reads tensor {content.tensors[missing].name!r} in operator {operator.index} ({operator.name}) "
                    "before anything makes it"
                )
            twice = next((number for number in operator.outputs if number in known), None)
            if twice is not None:
                raise self._wrong(f"makes tensor {content.tensors[twice].name!r} a second time in {operator.name}")
            known |= set(operator.outputs)
        lost = next((number for number in content.outputs if number not in known), None)
        if lost is not None:
            raise self._wrong(f"has the output {content.tensors[lost].name!r}, which nothing makes")


def _with_empty_constants(tensors: tuple[Tensor, ...], made: set[int]) -> tuple[Tensor, ...]:
    """A tensor without elements has no data in a file; it is a constant where nothing makes it."""
    return tuple(
        replace(one, data=memoryview(b""))
        if one.data is None and prod(one.shape) == 0 and one.type in DTYPES and one.index not in made
        else one
        for one in tensors
    )


def _numbers_of(code: Any) -> tuple[tuple[str, Callable[[], int]], ...]:
    return ("an operator code", code.BuiltinCode), ("an operator code", code.DeprecatedBuiltinCode)


def _limits(kind: str) -> tuple[int, int]:
    if kind == "INT4":
        return -8, 7
    limits = np.iinfo(DTYPES[kind])
    return int(limits.min), int(limits.max)
