"""Sub-byte types and 8-bit floats: stored as codes, one per byte, and computed as float32 or int32.

C has no such types. The interface of a package uses uint8 codes for 8-bit and 4-bit floats, and int8 or uint8 values
for 4- and 2-bit integers. Conversions follow ONNX's own cast: its rounding and overflow are evaluated when the tables
are made.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

import numpy as np
import onnx
from onnx import TensorProto, helper
from onnx.reference import ReferenceEvaluator

from edgetune.frontend.onnx.decompositions.builder import Builder

if TYPE_CHECKING:
    from edgetune.frontend.onnx.inline import Evaluator

INTEGERS = {
    TensorProto.INT4: (4, TensorProto.INT8),
    TensorProto.UINT4: (4, TensorProto.UINT8),
    TensorProto.INT2: (2, TensorProto.INT8),
    TensorProto.UINT2: (2, TensorProto.UINT8),
}
FLOATS = frozenset(
    {
        *(TensorProto.FLOAT8E4M3FN, TensorProto.FLOAT8E4M3FNUZ, TensorProto.FLOAT8E5M2, TensorProto.FLOAT8E5M2FNUZ),
        *(TensorProto.FLOAT8E8M0, TensorProto.FLOAT4E2M1),
    }
)
# These operators move elements without using their values.
_MOVING = frozenset(
    [
        *("Identity", "Reshape", "Transpose", "Squeeze", "Unsqueeze", "Flatten", "Slice", "Gather", "Split", "Concat"),
        *("Expand", "Tile"),
    ]
)


def is_narrow(element: int) -> bool:
    """Whether values of this ONNX element type are stored as codes."""
    return element in FLOATS or element in INTEGERS


def storage(element: int) -> int:
    """The element type in which they are stored."""
    return int(INTEGERS[element][1] if element in INTEGERS else TensorProto.UINT8)


def to_stored(array: np.ndarray) -> np.ndarray:
    """`array` as a package takes it; other types stay unchanged."""
    element = helper.np_dtype_to_tensor_dtype(array.dtype)
    if element in INTEGERS:
        return array.astype(helper.tensor_dtype_to_np_dtype(storage(element)))
    return array.view(np.uint8) if element in FLOATS else array


def store_interface(evaluator: Evaluator, graph: onnx.GraphProto) -> None:
    """Gives narrow inputs and outputs of `graph` their storage types, and registers these inputs in the evaluator."""
    for value in graph.input:
        element = value.type.tensor_type.elem_type
        if is_narrow(element):
            evaluator.narrow[value.name] = element
            value.type.tensor_type.elem_type = storage(element)
    for value in graph.output:
        if is_narrow(value.type.tensor_type.elem_type):
            value.type.tensor_type.elem_type = storage(value.type.tensor_type.elem_type)


def written_out(evaluator: Evaluator, node: onnx.NodeProto) -> bool:
    """Replaces a node that reads or makes narrow values; False for all others."""
    attributes = {a.name: helper.get_attribute_value(a) for a in node.attribute}
    reads = bool(node.input) and _element(evaluator, node.input[0]) is not None
    b = Builder(evaluator, node)
    if node.op_type == "Cast" and (reads or is_narrow(attributes["to"])):
        _give(b, _decoded(b, evaluator, node.input[0]), attributes["to"], attributes)
        _remember(evaluator, node, attributes["to"])
    elif node.op_type == "DequantizeLinear" and (reads or attributes.get("block_size", 0)):
        constant = _dequantizes_constants(b, evaluator, node)
        if constant and not reads:
            return False  # the converter has blocks
        if constant:
            stored = [_decoded(b, evaluator, name) if name else "" for name in node.input]
            b.output(0, b.op("DequantizeLinear", stored[0], node.input[1], *stored[2:], **attributes))
        else:
            _dequantize(b, evaluator, node, attributes)
    elif node.op_type == "QuantizeLinear":
        element = attributes.get("output_dtype", 0) or TensorProto.UINT8
        if b.input(2):
            element = evaluator.narrow.get(b.input(2), evaluator.types[b.input(2)].tensor_type.elem_type)
        if not is_narrow(element) and not attributes.get("block_size", 0):
            return False
        _quantize(b, evaluator, node, element, attributes)
        _remember(evaluator, node, element)
    elif node.op_type in _MOVING and reads and node.input[0] not in evaluator.constants:
        for output in node.output:
            evaluator.narrow[output] = evaluator.narrow[node.input[0]]
        return False
    else:
        return False
    return True


def _remember(evaluator: Evaluator, node: onnx.NodeProto, element: int) -> None:
    """Records the narrow type of the output of `node` for its readers: the storage type does not identify it."""
    if is_narrow(element):
        evaluator.narrow[node.output[0]] = element


def _element(evaluator: Evaluator, name: str) -> int | None:
    if name in evaluator.narrow:
        return evaluator.narrow[name]
    found = evaluator.types[name].tensor_type.elem_type if name in evaluator.types else 0
    return found if is_narrow(found) else None


def _decoded(b: Builder, evaluator: Evaluator, name: str) -> str:
    """The values of `name` as numbers: float32 for codes of floats, the stored integers, or `name` itself."""
    element = _element(evaluator, name)
    if element is None:
        return name
    constant = b.value(name)
    if constant is not None:
        return b.constant(constant.astype("float32" if element in FLOATS else to_stored(constant).dtype))
    name = evaluator.plain(name)
    if element in INTEGERS:
        return name
    table = np.arange(256, dtype=np.uint8).view(helper.tensor_dtype_to_np_dtype(element)).astype("float32")
    return b.op("Gather", b.constant(table), b.cast(name, "int32"), axis=0)


def _give(b: Builder, value: str, element: int, attributes: dict[str, Any]) -> None:
    """Makes `value`, cast to `element`, the output."""
    if element in INTEGERS:
        bits, kept = INTEGERS[element]
        size = b.constant(1 << bits, "int32")
        whole = b.cast(value, "int32")
        if kept == TensorProto.INT8:
            half = b.constant(1 << (bits - 1), "int32")
            whole = b.op("Sub", b.op("Mod", b.op("Add", whole, half), size), half)
        else:
            whole = b.op("Mod", whole, size)
        b.output(0, b.op("Cast", whole, to=kept))
    elif element in FLOATS:
        rounding = attributes.get("round_mode", b"up").decode()
        b.output(0, _encoded(b, b.cast(value, "float32"), element, attributes.get("saturate", 1), rounding))
    else:
        b.output(0, b.op("Cast", value, to=element))


def _encoded(b: Builder, value: str, element: int, saturate: int, rounding: str) -> str:
    """Codes of float32 values: the number of boundaries at or below the magnitude selects the code."""
    boundaries, positive, negative, nan = _tables(element, saturate, rounding)
    shape = b.shape(value)
    magnitude = b.reshape(b.op("Abs", value), *shape, 1)
    passed = b.cast(b.op("GreaterOrEqual", magnitude, b.constant(boundaries)), "int32")
    step = b.reshape(b.total(passed, len(shape)), *shape)
    below = b.op("Less", b.op("BitCast", value, to=TensorProto.INT32), b.constant(0, "int32"))
    code = b.op("Where", below, *(b.op("Gather", b.constant(t, "int32"), step, axis=0) for t in (negative, positive)))
    return b.cast(b.op("Where", b.op("IsNaN", value), b.constant(nan, "int32"), code), "uint8")


@cache
def _tables(element: int, saturate: int, rounding: str) -> tuple[np.ndarray, np.ndarray, np.ndarray, int]:
    """Boundaries of magnitude in float32, codes between them for positive and negative values, the code of NaN."""
    values = np.arange(256, dtype=np.uint8).view(helper.tensor_dtype_to_np_dtype(element)).astype("float64")
    finite = np.unique(np.abs(values[np.isfinite(values)]))
    last = finite[-1] + (finite[-1] - finite[-2])
    cuts = np.concatenate([finite, (finite[1:] + finite[:-1]) / 2, [(finite[-1] + last) / 2, last]]).astype("float32")
    both = np.concatenate([cuts, np.nextafter(cuts, np.float32(np.inf)), np.array([0, np.inf], "float32")])
    boundaries = np.unique(both[~np.isnan(both)]).astype("float32")
    codes = _reference(boundaries, element, saturate, rounding)
    mirrored = _reference(-boundaries, element, saturate, rounding)
    changes = np.concatenate([[True], (codes[1:] != codes[:-1]) | (mirrored[1:] != mirrored[:-1])])
    nan = int(_reference(np.array([np.nan], "float32"), element, saturate, rounding)[0])
    return boundaries[changes][1:], codes[changes], mirrored[changes], nan


def _reference(values: np.ndarray, element: int, saturate: int, rounding: str) -> np.ndarray:
    attributes: dict[str, Any] = {"saturate": saturate} if element != TensorProto.FLOAT4E2M1 else {}
    if element == TensorProto.FLOAT8E8M0:
        attributes["round_mode"] = rounding
    node = helper.make_node("Cast", ["x"], ["y"], to=element, **attributes)
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, values.shape)
    graph = helper.make_graph([node], "codes", [x], [helper.make_tensor_value_info("y", element, values.shape)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 25)])
    with np.errstate(all="ignore"):
        result = ReferenceEvaluator(model).run(None, {"x": values})[0]
    return np.asarray(result).view(np.uint8).astype("int32")


def _along(b: Builder, parameter: str, value: str, axis: int) -> str:
    """Scale or zero point, shaped to broadcast along `axis` of `value`; blocks are expanded."""
    shape = b.shape(parameter)
    if int(np.prod(shape)) == 1:
        return b.reshape(parameter)
    if len(shape) != 1:
        extent, block = b.shape(value)[axis], int(b.attributes.get("block_size", 0))
        index = np.arange(extent) // block if block else np.arange(extent)
        return b.op("Gather", parameter, b.constant(index, "int64"), axis=axis)
    aligned = [1] * len(b.shape(value))
    aligned[axis] = shape[0]
    return b.reshape(parameter, *aligned)


def _dequantizes_constants(b: Builder, evaluator: Evaluator, node: onnx.NodeProto) -> bool:
    """Whether a DequantizeLinear reads constants alone, and integers: its result is made where it is read."""
    element = _element(evaluator, node.input[0])
    known = all(not name or name in evaluator.constants or name in evaluator.kept for name in node.input)
    return known and element not in FLOATS and b.dtype(b.input(1)) == np.float32


def _dequantize(b: Builder, evaluator: Evaluator, node: onnx.NodeProto, attributes: dict[str, Any]) -> None:
    axis = attributes.get("axis", 1)
    value = b.cast(_decoded(b, evaluator, node.input[0]), "float32")
    if b.input(2):
        zero = b.cast(_decoded(b, evaluator, b.input(2)), "float32")
        value = b.op("Sub", value, _along(b, zero, value, axis))
    scale = b.cast(_along(b, b.input(1), value, axis), "float32")
    b.output(0, b.cast(b.op("Mul", value, scale), b.dtype(b.input(1))))


def _quantize(b: Builder, evaluator: Evaluator, node: onnx.NodeProto, element: int, attributes: dict[str, Any]) -> None:
    axis = attributes.get("axis", 1)
    x = node.input[0]
    value = b.cast(b.op("Div", x, _along(b, b.input(1), x, axis)), "float32")
    if element in FLOATS:
        b.output(0, _encoded(b, value, element, attributes.get("saturate", 1), "up"))
        return
    value = b.op("Round", value)
    if b.input(2):
        zero = b.cast(_decoded(b, evaluator, b.input(2)), "float32")
        value = b.op("Add", value, _along(b, zero, value, axis))
    if element in INTEGERS:
        bits, kept = INTEGERS[element]
        low = -(1 << (bits - 1)) if kept == TensorProto.INT8 else 0
        high = low + (1 << bits) - 1
    else:
        limits, kept = np.iinfo(helper.tensor_dtype_to_np_dtype(element)), element
        low, high = int(limits.min), int(limits.max)
    bounds = [b.constant(v, "float32") for v in (low, high)]
    b.output(0, b.op("Cast", b.op("Min", b.op("Max", value, bounds[0]), bounds[1]), to=kept))
