"""Type inference for one node: element types and shapes of its outputs, also in types that ONNX does not allow.

Decompositions write such nodes, for example a convolution of int32, which ONNX defines only for floats. The rule for
shapes is the same in every type.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence

import numpy as np
import onnx
from onnx import helper, numpy_helper, shape_inference

# ONNX's shape inference gets constants up to this many elements, because it reads shapes, axes and the like.
_SHAPE_LIKE = 4096
_SHAPES_REFUSED = "ShapeInferenceError"
"""How ONNX marks an error about extents; its other errors are about types, which decompositions may extend."""

Types = Mapping[str, onnx.TypeProto]


class UnfitInputsError(ValueError):
    """ONNX's definition of an operator refuses the shapes of its inputs; the message is ONNX's own."""


def inferred_types(
    node: onnx.NodeProto,
    schema: onnx.defs.OpSchema | None,
    types: Types,
    constants: Mapping[str, np.ndarray],
    opsets: Sequence[onnx.OperatorSetIdProto],
    ir_version: int,
) -> dict[str, onnx.TypeProto]:
    """Known types of the outputs of `node`, from the `types` and `constants` of its inputs, by name; may be empty.

    An output that by definition has the type of an input has it here too, whatever type that is. Raises
    UnfitInputsError where the operator cannot have inputs of these shapes.
    """
    if schema is None or any(i and i not in types for i in node.input):
        return {}
    nested = any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute)
    known = dict(types) if nested else {i: types[i] for i in node.input if i}
    foreign = _foreign(node, schema, types)
    for name, (stand_in, _) in foreign.items():
        known[name] = _retyped(types[name], stand_in)
    data = {
        i: numpy_helper.from_array(constants[i], i)
        for i in node.input
        if i in constants and i not in foreign and constants[i].size <= _SHAPE_LIKE
    }

    def inferred(data: dict[str, onnx.TensorProto]) -> dict[str, onnx.TypeProto]:
        if not schema.has_type_and_shape_inference_function:
            return _through_its_body(node, known, data, opsets, ir_version)
        outputs: dict[str, onnx.TypeProto] = shape_inference.infer_node_outputs(
            schema, node, known, data, opset_imports=list(opsets), ir_version=ir_version
        )
        return outputs

    try:
        found = inferred(data)
    except shape_inference.InferenceError:
        # The names of a nested graph are not those of `types`, and stand-ins have types of their own.
        if not nested and not foreign:
            _require_shapes(inferred)
        return {}
    except (onnx.checker.ValidationError, ValueError):  # ValueError: not a type of ONNX
        return {}  # nodes that depend on these types stay unchanged
    own = {variable: types[name].tensor_type.elem_type for name, (_, variable) in foreign.items()}
    for name, variable in _paired(node.output, schema.outputs):
        if variable in own and name in found:
            found[name] = _retyped(found[name], own[variable])
    return found


def _require_shapes(inferred: Callable[[dict[str, onnx.TensorProto]], object]) -> None:
    """Raises UnfitInputsError where inference refuses the shapes alone: runtimes take values that ONNX does not."""
    try:
        inferred({})
    except shape_inference.InferenceError as error:
        before, _, reason = str(error).strip().splitlines()[0].rpartition(_SHAPES_REFUSED)
        if before:
            raise UnfitInputsError(reason.removeprefix("]").strip() or "their shapes are wrong") from None


def _through_its_body(
    node: onnx.NodeProto,
    known: Types,
    data: Mapping[str, onnx.TensorProto],
    opsets: Sequence[onnx.OperatorSetIdProto],
    ir_version: int,
) -> dict[str, onnx.TypeProto]:
    """Types of an operator without a rule of its own: ONNX has those of its function body in a whole model only."""
    values = [onnx.ValueInfoProto(name=name, type=known[name]) for name in node.input if name]
    graph = helper.make_graph([node], "node", values, [], list(data.values()))
    model = helper.make_model(graph, opset_imports=list(opsets), ir_version=ir_version)
    return {value.name: value.type for value in shape_inference.infer_shapes(model).graph.value_info}


def _foreign(node: onnx.NodeProto, schema: onnx.defs.OpSchema, types: Types) -> dict[str, tuple[int, str]]:
    """Inputs of a disallowed element type: an allowed type to use instead, and the type variable."""
    allowed = {c.type_param_str: set(c.allowed_type_strs) for c in schema.type_constraints}
    found = {}
    for name, variable in _paired(node.input, schema.inputs):
        if not name or variable not in allowed or not types[name].HasField("tensor_type"):
            continue
        if _text(types[name].tensor_type.elem_type) not in allowed[variable]:
            floats = _text(onnx.TensorProto.FLOAT) in allowed[variable]
            others = (element for element in map(_element, sorted(allowed[variable])) if element)
            stand_in = onnx.TensorProto.FLOAT if floats else next(others, 0)
            if stand_in:
                found[name] = (stand_in, variable)
    return found


def _paired(names: Sequence[str], formal: Sequence[onnx.defs.OpSchema.FormalParameter]) -> Iterator[tuple[str, str]]:
    """Each value with its type variable; the last formal parameter stands for all that follow."""
    for index, name in enumerate(names):
        if formal:
            yield name, formal[min(index, len(formal) - 1)].type_str


def _text(element: int) -> str:
    name = onnx.TensorProto.DataType.Name(element).lower()
    return f"tensor({name})"


def _element(text: str) -> int:
    """The element type that `tensor(...)` names, 0 for other types."""
    name = text.removeprefix("tensor(").removesuffix(")").upper()
    return onnx.TensorProto.DataType.Value(name) if name in onnx.TensorProto.DataType.keys() else 0  # noqa: SIM118


def _retyped(value: onnx.TypeProto, element: int) -> onnx.TypeProto:
    result = helper.make_tensor_type_proto(element, None)
    if value.tensor_type.HasField("shape"):
        result.tensor_type.shape.CopyFrom(value.tensor_type.shape)
    return result
