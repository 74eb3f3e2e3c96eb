"""Free input axes: finds the axes that a model leaves free, and proposes sizes (1 for a batch, usual image sizes).

A proposal is a guess, and messages call it that. Facts of the model come before usual sizes: channels that a
convolution or a matrix product fixes, axes that are fixed already, and symbols that several axes share.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import onnx
from onnx import TensorProto, shape_inference

Dims = tuple[int | None, ...]

_IMAGE_SIZES = (224, 256, 192, 160, 128, 112, 96, 100, 80, 64, 48, 40, 32, 28, 299, 320, 384, 416, 512, 640)
_LENGTH = 128  # length of a text or a signal
_FRAMES = 16  # frames of a video
_CHANNELS = (1, 3, 4)
_SMALL = 1024
_CONVOLUTIONS = {"Conv": 1, "FusedConv": 1, "ConvInteger": 1, "QLinearConv": 3}  # operator -> which input is the weight
_PRODUCTS = {
    "Gemm": 1,
    "MatMul": 1,
    "MatMulInteger": 1,
    "QLinearMatMul": 3,
    "FusedGemm": 1,
    "FusedMatMul": 1,
    "QGemm": 3,
    "DynamicQuantizeMatMul": 1,
    "MatMulIntegerToFloat": 1,
}
"""Operators whose first input is multiplied row by row -> which input is the other factor."""
_UNNAMED = frozenset({"", "?", "None"})
_ONE_TO_ONE = frozenset(
    {
        "Cast",
        "Add",
        "Sub",
        "Mul",
        "Div",
        "QuantizeLinear",
        "DequantizeLinear",
        "BatchNormalization",
        "Identity",
        "Dropout",
    }
)
_IMAGE_RANK, _FILM_RANK = 4, 5


@dataclass(frozen=True)
class FreeInput:
    """An input with free axes: sizes (None where free; no sizes where their number is unknown) and symbols."""

    name: str
    dims: Dims | None
    symbols: tuple[str, ...] = ()

    @property
    def in_words(self) -> str:
        """Its free axes by number, with their symbols."""
        if self.dims is None:
            return f"input {self.name!r} has no shape"
        free = [
            f"{axis} ({symbol})" if symbol else str(axis)
            for axis, (size, symbol) in enumerate(zip(self.dims, self.symbols, strict=True))
            if size is None
        ]
        listed = f"{', '.join(free[:-1])} and {free[-1]}" if len(free) > 1 else free[0]
        return f"input {self.name!r} leaves {'axes' if len(free) > 1 else 'axis'} {listed} free"


def size_of(dim: onnx.TensorShapeProto.Dimension) -> int | None:
    """The size of an axis, None where it is open."""
    return int(dim.dim_value) if dim.HasField("dim_value") and dim.dim_value >= 0 else None


def symbol_of(dim: onnx.TensorShapeProto.Dimension) -> str:
    """The name of an open axis, "" where it has none. Some exporters write None as a name."""
    name = str(dim.dim_param)
    return "" if name in _UNNAMED else name


def free_input(value: onnx.ValueInfoProto) -> FreeInput | None:
    """Return the free axes of `value`, None where its shape is fixed. A size of zero is fixed."""
    tensor = value.type.tensor_type
    if not tensor.HasField("shape"):
        return FreeInput(value.name, None)
    dims = tuple(map(size_of, tensor.shape.dim))
    if None not in dims:
        return None
    return FreeInput(value.name, dims, tuple(map(symbol_of, tensor.shape.dim)))


def multiplied_by_rows(graph: onnx.GraphProto, name: str) -> bool:
    """Whether a matrix product reads `name`, two axes, row by row: rows are then no steps of time."""
    return any(
        node.op_type in _PRODUCTS
        and node.input[0] == read
        and not any(a.name == "transA" and a.i for a in node.attribute)
        for read, node in _readers(graph, name, _ONE_TO_ONE | {"Flatten"})
    )


def proposed_shapes(
    graph: onnx.GraphProto, free: Sequence[FreeInput], opsets: list[onnx.OperatorSetIdProto], known: Mapping[str, int]
) -> dict[str, tuple[int, ...]]:
    """Return a shape for each of `free`; `known` are sizes by symbol."""
    channels = {one.name: found for one in free if (found := _convolution_of(graph, one.name)) is not None}
    for size in _IMAGE_SIZES:
        shapes = _proposal(graph, free, channels, size, known)
        if _fits(graph, shapes, opsets):
            break
    else:
        shapes = _proposal(graph, free, channels, _IMAGE_SIZES[0], known)
    return shapes


def _proposal(
    graph: onnx.GraphProto,
    free: Sequence[FreeInput],
    weights: Mapping[str, tuple[int, ...]],
    image: int,
    known: Mapping[str, int],
) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {}
    named = dict(known)
    for one in free:
        weight = weights.get(one.name)
        if one.dims is not None:
            dims, symbols = one.dims, one.symbols
        else:
            rank = len(weight) if weight else _IMAGE_RANK
            dims, symbols = (None,) * rank, ("",) * rank
        usual = _usual(graph, one.name, dims, weight, image)
        for size, symbol, other in zip(dims, symbols, usual, strict=True):
            if size is None and symbol:
                named.setdefault(symbol, other)
        shapes[one.name] = tuple(
            size if size is not None else named.get(symbol, other)
            for size, symbol, other in zip(dims, symbols, usual, strict=True)
        )
    return shapes


def _usual(
    graph: onnx.GraphProto, name: str, dims: Dims, weight: tuple[int, ...] | None, image: int
) -> tuple[int, ...]:
    """Return a size for each axis; the sizes of fixed axes are not used."""
    rank = len(dims)
    if rank <= 1:
        return (1,) * rank
    if rank == 2:
        return 1, _features(graph, name) or _LENGTH
    last = rank - 1
    channel, unbatched = 1, False
    if weight is None:
        last_is_channel = dims[last] in _CHANNELS and dims[1] not in _CHANNELS
        channel = last if last_is_channel else 1
        if rank == _IMAGE_RANK - 1 and dims.count(None) == rank - 1:  # one image without a batch
            unbatched = last_is_channel or dims[0] in _CHANNELS
            channel = channel if last_is_channel or not unbatched else 0
        if rank == _IMAGE_RANK - 1 and not unbatched:  # a text or a signal: batch, time and features
            return 1, _LENGTH, _features(graph, name) or _LENGTH
    spatial = [axis for axis in range(rank) if axis != channel and (axis or unbatched)]
    fixed = next((size for axis in spatial if (size := dims[axis]) is not None and size > 1), None)
    sizes = [1] * rank
    sizes[channel] = weight[1] if weight else _CHANNELS[1]
    for axis in spatial:
        sizes[axis] = fixed or image
    if weight and rank == _IMAGE_RANK - 1:
        sizes[last] = _LENGTH
    if rank == _FILM_RANK and not fixed:
        sizes[spatial[0]] = _FRAMES
    return tuple(sizes)


def _readers(
    graph: onnx.GraphProto, name: str, through: frozenset[str] = _ONE_TO_ONE
) -> Iterator[tuple[str, onnx.NodeProto]]:
    """Nodes that read `name`, also through operators that keep the order of its axes, and what they call it."""
    names, seen = [name], {name}
    while names:
        wanted = names.pop()
        for node in graph.node:
            if wanted not in node.input:
                continue
            if node.op_type in through and node.input[0] == wanted:
                new = [output for output in node.output if output not in seen]
                names += new
                seen.update(new)
            else:
                yield wanted, node


def _convolution_of(graph: onnx.GraphProto, name: str) -> tuple[int, ...] | None:
    """Shape of the weight of a convolution that reads `name`, with the input's channels (not those of a group)."""
    shapes = _weight_shapes(graph)
    for _, node in _readers(graph, name):
        number = _CONVOLUTIONS.get(node.op_type)
        if number is None or len(node.input) <= number:
            continue
        shape = shapes.get(node.input[number])
        if shape is not None and len(shape) >= _IMAGE_RANK - 1:
            group = next((attribute.i for attribute in node.attribute if attribute.name == "group"), 1)
            return shape[0], shape[1] * group, *shape[2:]
    return None


def _features(graph: onnx.GraphProto, name: str) -> int | None:
    """Number of features of a matrix product that reads `name`."""
    shapes = _weight_shapes(graph)
    for _, node in _readers(graph, name):
        found = _depth(node, shapes)
        if found is not None:
            return found
    return None


def _depth(node: onnx.NodeProto, shapes: Mapping[str, tuple[int, ...]]) -> int | None:
    number = _PRODUCTS.get(node.op_type)
    shape = shapes.get(node.input[number]) if number is not None and len(node.input) > number else None
    if shape is None or len(shape) < 2:
        return None
    transposed = any(attribute.name == "transB" and attribute.i for attribute in node.attribute)
    return shape[-1] if transposed else shape[-2]


def _weight_shapes(graph: onnx.GraphProto) -> dict[str, tuple[int, ...]]:
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    for node in graph.node:
        if node.op_type == "DequantizeLinear" and node.output and node.input and node.input[0] in shapes:
            shapes[node.output[0]] = shapes[node.input[0]]
    return shapes


def _fits(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]], opsets: list[onnx.OperatorSetIdProto]) -> bool:
    """Whether shape inference accepts inputs of these `shapes`."""
    try:
        model = onnx.ModelProto(ir_version=onnx.IR_VERSION, graph=_light(graph, shapes), opset_import=opsets)
        inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True).graph
    except (shape_inference.InferenceError, ValueError, RuntimeError):
        return False
    known = {
        value.name: [dim.dim_value for dim in value.type.tensor_type.shape.dim]
        for value in (*inferred.value_info, *inferred.input)
    }
    weights = _weight_shapes(graph)
    for node in graph.node:
        if node.op_type == "Gemm" and (depth := _depth(node, weights)) is not None:
            left = known.get(node.input[0], [])
            across = any(attribute.name == "transA" and attribute.i for attribute in node.attribute)
            if left and left[0 if across else -1] not in {0, depth}:
                return False
    return True


def _light(graph: onnx.GraphProto, shapes: Mapping[str, tuple[int, ...]]) -> onnx.GraphProto:
    """A copy of `graph` with inputs of these shapes and without the values of weights, whose sizes suffice."""
    light = onnx.GraphProto(name=graph.name or "g", node=graph.node, input=graph.input)
    light.output.extend(onnx.ValueInfoProto(name=value.name, type=_rankless(value.type)) for value in graph.output)
    for tensor in graph.initializer:
        size = 1
        for dim in tensor.dims:
            size *= dim
        external = tensor.data_location == TensorProto.EXTERNAL
        if size > _SMALL or external:
            light.initializer.add(name=tensor.name, data_type=tensor.data_type, dims=tensor.dims)
        else:
            light.initializer.append(tensor)
    for value in light.input:
        if value.name in shapes:
            shape = value.type.tensor_type.shape
            value.type.tensor_type.shape.SetInParent()
            del shape.dim[:]
            for extent in shapes[value.name]:
                shape.dim.add(dim_value=extent)
    return light


def _rankless(kind: onnx.TypeProto) -> onnx.TypeProto:
    """The type of an output without its shape, which may be valid only for other inputs."""
    bare = onnx.TypeProto()
    bare.CopyFrom(kind)
    if bare.HasField("tensor_type"):
        bare.tensor_type.ClearField("shape")
    return bare
