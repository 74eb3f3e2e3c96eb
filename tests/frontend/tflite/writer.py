"""Writes `.tflite` files: tensors, operators of the schema with their options, constants, quantisation."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import flatbuffers
import numpy as np
import tflite

TYPES: Mapping[str, int] = {name: number for name, number in vars(tflite.TensorType).items() if isinstance(number, int)}
OPERATORS: Mapping[str, int] = {
    name: number for name, number in vars(tflite.BuiltinOperator).items() if isinstance(number, int)
}
"""Builtin operators of the schema, by name."""
_VERSIONS = {"BROADCAST_TO": 2}
"""First versions that LiteRT knows, where they are not 1."""


@dataclass(frozen=True)
class Quantised:
    """Integers with one scale, or with several along an axis."""

    scale: Sequence[float]
    zero_point: Sequence[int]
    axis: int = 0


@dataclass(frozen=True)
class Written:
    """A tensor of the file."""

    name: str
    shape: tuple[int, ...]
    type: str
    quantised: Quantised | None = None
    data: bytes | None = None
    signature: tuple[int, ...] | None = None
    variable: bool = False
    sparse: bool = False
    """Whether the data are the non-zero elements of a matrix, row by row, at the places of `columns`."""
    columns: tuple[tuple[int, ...], ...] = ()


@dataclass(frozen=True)
class _Operator:
    name: str
    inputs: tuple[int, ...]
    outputs: tuple[int, ...]
    kind: str
    options: Mapping[str, Any]


@dataclass
class Writer:
    """A file in the making; tensors are numbers. An operator's options are fields of the schema's table `kind`.

    `others` are its further subgraphs, which have none of their own.
    """

    tensors: list[Written] = field(default_factory=list)
    operators: list[_Operator] = field(default_factory=list)
    inputs: list[int] = field(default_factory=list)
    outputs: list[int] = field(default_factory=list)
    others: list[Writer] = field(default_factory=list)

    def tensor(self, shape: Sequence[int], type_: str, quantised: Quantised | None = None, name: str = "") -> int:
        """A tensor that an operator makes."""
        self.tensors.append(Written(name or f"t{len(self.tensors)}", tuple(shape), type_, quantised))
        return len(self.tensors) - 1

    def input(self, shape: Sequence[int], type_: str, quantised: Quantised | None = None, name: str = "") -> int:
        """An input of the model."""
        self.inputs.append(self.tensor(shape, type_, quantised, name))
        return self.inputs[-1]

    def constant(self, value: Any, type_: str, quantised: Quantised | None = None) -> int:
        """A constant; integers of 4 bits are packed, the first one in the low half of its byte."""
        array = np.asarray(value)
        if type_ == "INT4":
            flat = np.append(array.reshape(-1), [0] * (array.size % 2)).astype(np.int8)
            data = ((flat[0::2] & 15) | ((flat[1::2] & 15) << 4)).astype(np.uint8).tobytes()
        else:
            data = array.astype(type_.lower() if type_ != "BOOL" else np.bool_).tobytes()
        self.tensors.append(Written(f"t{len(self.tensors)}", array.shape, type_, quantised, data))
        return len(self.tensors) - 1

    def sparse(self, value: np.ndarray, type_: str) -> int:
        """A constant matrix of which the file has the elements that are not 0."""
        columns = tuple(tuple(int(place) for place in np.flatnonzero(row)) for row in value)
        data = value[value != 0].astype(type_.lower()).tobytes()
        one = Written(f"t{len(self.tensors)}", value.shape, type_, data=data, sparse=True, columns=columns)
        self.tensors.append(one)
        return len(self.tensors) - 1

    def operator(
        self, name: str, inputs: Sequence[int], outputs: Sequence[int], kind: str = "", **options: Any
    ) -> None:
        """An operator; an input of -1 is left out."""
        self.operators.append(_Operator(name, tuple(inputs), tuple(outputs), kind, options))

    def reshaped(self, shapes: Mapping[str, tuple[int, ...]]) -> Writer:
        """The same file with other shapes of some tensors."""
        tensors = [replace(one, shape=shapes.get(one.name, one.shape)) for one in self.tensors]
        return replace(self, tensors=tensors)

    def content(self) -> bytes:
        """The bytes of the file."""
        builder = flatbuffers.Builder(1 << 16)
        every = [self, *self.others]
        names = list(dict.fromkeys(one.name for graph in every for one in graph.operators))
        buffers = [b"", *dict.fromkeys(one.data for graph in every for one in graph.tensors if one.data)]
        graphs = [graph._graph(builder, names, buffers) for graph in every]
        stored = [
            _table(builder, "Buffer", **({"Data": builder.CreateByteVector(data)} if data else {})) for data in buffers
        ]
        codes = [
            _table(
                builder,
                "OperatorCode",
                DeprecatedBuiltinCode=min(OPERATORS[name], 127),
                BuiltinCode=OPERATORS[name],
                Version=_VERSIONS.get(name, 1),
            )
            for name in names
        ]
        model = _table(
            builder,
            "Model",
            Version=3,
            OperatorCodes=_offsets(builder, codes),
            Subgraphs=_offsets(builder, graphs),
            Buffers=_offsets(builder, stored),
            Description=builder.CreateString("made by a test"),
        )
        builder.Finish(model, b"TFL3")
        return bytes(builder.Output())

    def _graph(self, builder: flatbuffers.Builder, names: Sequence[str], buffers: Sequence[bytes]) -> int:
        numbers = {data: number for number, data in enumerate(buffers)}
        tensors = [_tensor(builder, one, numbers[one.data or b""]) for one in self.tensors]
        operators = [_operator(builder, one, names.index(one.name)) for one in self.operators]
        return _table(
            builder,
            "SubGraph",
            Tensors=_offsets(builder, tensors),
            Inputs=builder.CreateNumpyVector(np.asarray(self.inputs, np.int32)),
            Outputs=builder.CreateNumpyVector(np.asarray(self.outputs, np.int32)),
            Operators=_offsets(builder, operators),
            Name=builder.CreateString("main"),
        )


def _table(builder: flatbuffers.Builder, kind: str, **fields: Any) -> int:
    """A table of the schema; vectors and strings among `fields` are there already."""
    function: Callable[[str], Callable[..., Any]] = lambda suffix: getattr(tflite, kind + suffix)  # noqa: E731
    function("Start")(builder)
    for name, value in fields.items():
        function(f"Add{name}")(builder, value)
    return int(function("End")(builder))


def _offsets(builder: flatbuffers.Builder, offsets: Sequence[int]) -> int:
    builder.StartVector(4, len(offsets), 4)
    for offset in reversed(offsets):
        builder.PrependUOffsetTRelative(offset)
    return int(builder.EndVector())


def _tensor(builder: flatbuffers.Builder, one: Written, buffer: int) -> int:
    fields: dict[str, Any] = {
        "Name": builder.CreateString(one.name),
        "Shape": builder.CreateNumpyVector(np.asarray(one.shape, np.int32)),
    }
    if one.signature is not None:
        fields["ShapeSignature"] = builder.CreateNumpyVector(np.asarray(one.signature, np.int32))
    if one.quantised is not None:
        fields["Quantization"] = _table(
            builder,
            "QuantizationParameters",
            Scale=builder.CreateNumpyVector(np.asarray(one.quantised.scale, np.float32)),
            ZeroPoint=builder.CreateNumpyVector(np.asarray(one.quantised.zero_point, np.int64)),
            QuantizedDimension=one.quantised.axis,
        )
    if one.sparse:
        fields["Sparsity"] = _sparsity(builder, one)
    return _table(builder, "Tensor", Type=TYPES[one.type], Buffer=buffer, IsVariable=one.variable, **fields)


def _sparsity(builder: flatbuffers.Builder, one: Written) -> int:
    """Rows that are all there, and in each the columns that are stored."""
    ends = np.cumsum([0, *map(len, one.columns)])
    vectors = [
        _table(builder, "Int32Vector", Values=builder.CreateNumpyVector(np.asarray(values, np.int32)))
        for values in (ends, [place for row in one.columns for place in row])
    ]
    kind = tflite.SparseIndexVector.Int32Vector
    levels = [
        _table(builder, "DimensionMetadata", Format=tflite.DimensionType.DENSE, DenseSize=len(one.columns)),
        _table(
            builder,
            "DimensionMetadata",
            Format=tflite.DimensionType.SPARSE_CSR,
            ArraySegmentsType=kind,
            ArraySegments=vectors[0],
            ArrayIndicesType=kind,
            ArrayIndices=vectors[1],
        ),
    ]
    order = builder.CreateNumpyVector(np.arange(2, dtype=np.int32))
    return _table(builder, "SparsityParameters", TraversalOrder=order, DimMetadata=_offsets(builder, levels))


def _operator(builder: flatbuffers.Builder, one: _Operator, code: int) -> int:
    fields: dict[str, Any] = {
        "Inputs": builder.CreateNumpyVector(np.asarray(one.inputs, np.int32)),
        "Outputs": builder.CreateNumpyVector(np.asarray(one.outputs, np.int32)),
    }
    if one.kind:
        options = {name: _stored(builder, value) for name, value in one.options.items()}
        fields["BuiltinOptions"] = _table(builder, one.kind, **options)
        fields["BuiltinOptionsType"] = getattr(tflite.BuiltinOptions, one.kind)
    return _table(builder, "Operator", OpcodeIndex=code, **fields)


def _stored(builder: flatbuffers.Builder, value: Any) -> Any:
    """A field's value: vectors and strings are stored ahead of the table."""
    if isinstance(value, np.ndarray):
        return builder.CreateNumpyVector(value)
    return builder.CreateString(value) if isinstance(value, str) else value
