"""ONNX reader: reads an ONNX file and its external data into a checked model whose input shapes are all known.

It also checks what reading alone does not: text is UTF-8, and a tensor has as many values as its shape and type need.
Protobuf returns bytes for text that is not UTF-8, and the checker of ONNX does not count the values of tensors. Without
these checks, later steps would fail with exceptions of their own.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from math import prod
from pathlib import Path

import onnx
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message
from onnx import TensorProto, helper, shape_inference

from edgetune.errors import ModelError
from edgetune.frontend.model_format import AxisSizes, OpenShape, Shapes
from edgetune.frontend.onnx.decompositions.onnx_runtime import rule_of
from edgetune.frontend.onnx.domains import DEFAULT_DOMAIN, opset_of
from edgetune.frontend.onnx.external_data import ExternalData, element_bits, external_tensors, tensors
from edgetune.frontend.onnx.inline import Evaluator
from edgetune.frontend.onnx.input_shapes import fix_shapes
from edgetune.frontend.onnx.large_tensors import Weights, as_inputs, take_in
from edgetune.frontend.onnx.nested_graphs import all_nodes
from edgetune.frontend.onnx.old_forms import CURRENT, with_current_forms
from edgetune.frontend.onnx.other_formats import require_model_file
from edgetune.frontend.onnx.runtime_forms import with_operators_of_onnx

_COMPLEX = (TensorProto.COMPLEX64, TensorProto.COMPLEX128)
_BYTE = 8
_DEPRECATED = "edgetune.deprecated"
_SHARED_BITS = (2, 4)  # bits of values that share an entry where they are not raw bytes


def require_text(message: Message, where: str) -> None:
    """Raises ModelError when `message`, or a part of it, has text that is not UTF-8; `where` names the model."""
    for kind, value in message.ListFields():
        if kind.type == FieldDescriptor.TYPE_STRING:
            for text in value if kind.is_repeated else (value,):
                if not isinstance(text, str):
                    shown = ascii(text.decode(errors="replace"))[:60]
                    raise ModelError(
                        f"{where} has text that is not UTF-8 ({kind.name} {shown} of a {message.DESCRIPTOR.name}); "
                        "export the model again"
                    )
        elif kind.type == FieldDescriptor.TYPE_MESSAGE:
            for part in value if kind.is_repeated else (value,):
                require_text(part, where)


def require_values(proto: onnx.ModelProto, where: str) -> None:
    """Raises ModelError when the number of a tensor's values, stored in the file, differs from its shape."""
    for tensor in tensors(proto):
        if tensor.data_location != TensorProto.EXTERNAL and not _is_whole(tensor):
            named = f"tensor {tensor.name!r}" if tensor.name else "an unnamed tensor"
            raise ModelError(
                f"{named} of {where} has data that does not match its shape and type, or a type that ONNX does "
                "not define; "
                "export the model again"
            )


def _is_whole(tensor: TensorProto) -> bool:
    if any(extent < 0 for extent in tensor.dims):
        return False
    count = prod(tensor.dims)
    if tensor.data_type == TensorProto.STRING:
        return bool(len(tensor.string_data) == count)
    bits = element_bits(tensor.data_type)
    if bits is None:
        return False
    nbytes = -(-count * bits // _BYTE)
    if tensor.HasField("raw_data"):
        return bool(len(tensor.raw_data) == nbytes)
    entries = len(getattr(tensor, helper.tensor_dtype_to_field(tensor.data_type)))
    if bits in _SHARED_BITS:
        return bool(entries == nbytes)
    return bool(entries == count * (2 if tensor.data_type in _COMPLEX else 1))


@dataclass(frozen=True)
class OnnxModel:
    """A model as read: the graph with fixed input shapes, its default opset and its hash (`ExternalData.sha256`).

    No tensor of `proto` is in another file, but large ones are stand-ins for the arrays of `weights`, by name
    (`edgetune.frontend.onnx.large_tensors`). `settled` tells which axes become 1, and which branches its
    shapes rule out. `read` is the model with ONNX Runtime's own operators, where `proto` has them written out in
    operators of ONNX.
    """

    proto: onnx.ModelProto
    opset: int
    sha256: str
    name: str
    weights: Weights = field(default_factory=dict)
    settled: tuple[str, ...] = ()
    read: OnnxModel | None = None

    def with_proto(self, proto: onnx.ModelProto) -> OnnxModel:
        """A copy whose graph is `proto`, which is no longer the one that was read."""
        return replace(self, proto=proto, read=None)


@dataclass(frozen=True)
class OnnxFile:
    """The content of the file `path` and its external data, as in `OnnxModel`, with the shapes of the file."""

    path: Path
    proto: onnx.ModelProto
    sha256: str
    weights: Weights


def read_onnx(path: Path, shapes: Shapes | None = None, sizes: AxisSizes | None = None) -> OnnxModel:
    """Reads `path` and fixes its input shapes from the file, `shapes` (by input) and `sizes` (by symbol of an axis).

    An axis that is the batch becomes 1 (`fix_shapes`). Raises ModelError when the file or its external data are
    missing, unreadable or not a valid ONNX model, DynamicShape when an input's extent stays unknown, and ModelError
    when `shapes` or `sizes` name what the model does not have or contradict it.
    """
    return with_shapes(read_stored(path), shapes, sizes)


def read_signature(path: Path) -> dict[str, OpenShape]:
    """Return name and shape of each input of an ONNX file; tensors in other files are not read.

    Raises ModelError where the file is missing, empty, or not an ONNX model.
    """
    require_model_file(path)
    data = path.read_bytes()
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError:
        raise ModelError(f"{path} is not an ONNX model, or is truncated ({len(data)} bytes): copy it again") from None
    if not model.graph.output or not model.opset_import:
        raise ModelError(f"{path} is not an ONNX model: it has no graph with outputs")
    constants = {tensor.name for tensor in model.graph.initializer}
    return {
        value.name: tuple(_dimension(dim) for dim in value.type.tensor_type.shape.dim)
        for value in model.graph.input
        if value.name not in constants
    }


def _dimension(dim: onnx.TensorShapeProto.Dimension) -> int | str:
    if dim.WhichOneof("value") == "dim_value" and dim.dim_value >= 0:
        return int(dim.dim_value)
    return str(dim.dim_param) or "?"


def with_shapes(stored: OnnxFile, shapes: Shapes | None = None, sizes: AxisSizes | None = None) -> OnnxModel:
    """`stored`, which stays as it is, checked and with fixed input shapes; raises as `read_onnx` does."""
    path, proto = stored.path, onnx.ModelProto()
    proto.CopyFrom(stored.proto)
    return model_from_proto(proto, stored.sha256, path.stem, shapes, str(path), stored.weights, sizes)


def read_stored(path: Path) -> OnnxFile:
    """Reads `path` with all its external tensors, and hashes both.

    Raises ModelError when the file is missing, unreadable or no ONNX model, or when its external data is (see
    `ExternalData`).
    """
    require_model_file(path)
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        raise ModelError(f"there is no model file at {path}; check the path") from None
    except OSError as error:
        raise ModelError(f"the model file {path} cannot be read ({error.strerror}); check its permissions") from None
    if not data:
        raise ModelError(f"the model file {path} is empty; export the model again")
    try:
        proto = onnx.load_model_from_string(data)
    except (DecodeError, ValueError):
        raise ModelError(f"{path} is not an ONNX file, or it is cut short; export the model again") from None
    if not proto.graph.output or not proto.opset_import:
        raise ModelError(f"{path} holds no ONNX graph with outputs; it is not an ONNX file, or it is cut short")
    require_text(proto, str(path))
    require_values(proto, str(path))
    external = ExternalData(proto, path)
    sha256 = external.sha256(data)
    # Training information does not affect the result, so later steps need not carry it.
    proto.ClearField("training_info")
    return OnnxFile(path, proto, sha256, take_in(proto, external))


def model_from_proto(
    proto: onnx.ModelProto,
    sha256: str,
    name: str,
    shapes: Shapes | None,
    where: str,
    weights: Weights | None = None,
    sizes: AxisSizes | None = None,
) -> OnnxModel:
    """Checks `proto`, fixes its input shapes and infers the rest; `where` names the model in messages.

    `weights` are the arrays of its stand-ins. Raises ModelError as `read_onnx` does, and for external tensors, because
    only `read_stored` knows where their files are; UnsupportedOperator for an old form of an operator that no later
    opset has.
    """
    weights = weights or {}
    if next(external_tensors(proto), None) is not None:
        raise ModelError(f"{where} has tensors in other files; read it from its own file")
    assumed = fix_shapes(proto, shapes or {}, sizes or {}, where)
    try:
        # Infer shapes first: the checker needs them on outputs, and exporters omit them.
        proto = shape_inference.infer_shapes(proto)
        _check(proto, weights)
        current = with_current_forms(proto, where)
        if current is not proto:
            proto = shape_inference.infer_shapes(current)
            _check(proto, weights)
    except (onnx.checker.ValidationError, shape_inference.InferenceError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        supposed = f"; {assumed[0]}" if assumed else ""
        raise ModelError(f"{where} is not a valid ONNX model ({reason}); export it again{supposed}") from None
    proto, settled = _with_settled_branches(proto, weights)
    model = OnnxModel(proto, opset_of(proto), sha256, name, weights, assumed + settled)
    written, own = with_operators_of_onnx(proto, weights)
    if written is proto:
        return model
    return replace(model, proto=written, weights=own, read=model)


def _check(proto: onnx.ModelProto, weights: Weights) -> None:
    """Lets ONNX check `proto`. It wants a shape of each output, but many of its first operators have no rule for it."""
    checked = _without_deprecated(as_inputs(proto, weights) if weights else proto)
    if opset_of(proto) < CURRENT:
        filled = onnx.ModelProto()
        filled.CopyFrom(checked)
        for tensor in (output.type.tensor_type for output in filled.graph.output):
            tensor.elem_type = tensor.elem_type or TensorProto.FLOAT
            tensor.shape.SetInParent()
        checked = filled
    onnx.checker.check_model(checked)


def _without_deprecated(proto: onnx.ModelProto) -> onnx.ModelProto:
    """`proto` for ONNX's checker, which refuses deprecated operators: they get a domain that it does not know.

    GroupNormalization of opset 18 is one, since that of opset 21 reads its scales otherwise. Runtimes compute both. So
    do operators that ONNX Runtime puts into the domain of ONNX.
    """
    version = opset_of(proto)
    if not any(_deprecated(node, version) for node in all_nodes(proto.graph)):
        return proto
    result = onnx.ModelProto()
    result.CopyFrom(proto)
    for node in all_nodes(result.graph):
        if _deprecated(node, version):
            node.domain = _DEPRECATED
    result.opset_import.append(helper.make_opsetid(_DEPRECATED, 1))
    return result


def _deprecated(node: onnx.NodeProto, version: int) -> bool:
    if node.domain not in DEFAULT_DOMAIN:
        return False
    if rule_of(node, version) is not None:  # an operator of ONNX Runtime in the domain of ONNX
        return True
    try:
        return bool(onnx.defs.get_schema(node.op_type, version).deprecated)
    except onnx.defs.SchemaError:
        return False


def _with_settled_branches(proto: onnx.ModelProto, weights: Weights) -> tuple[onnx.ModelProto, tuple[str, ...]]:
    """`proto`, whose input shapes are fixed, without the branches that they rule out; a sentence for each of these.

    A model for audio of two rates has a branch for each, and a chunk of one rate does not fit the other branch. A run
    that takes such a branch ends with an error, in every runtime. So the model, its reference and its C never take it.
    """
    chosen = [node for node in proto.graph.node if node.op_type == "If"]
    if not chosen:
        return proto, ()
    evaluator = Evaluator(proto, lambda _: True, frozenset(), weights)
    evaluator.run(proto.graph.node, {}, "")
    if evaluator.refused:  # the import refuses them in its own words
        return proto, ()
    result, said = onnx.ModelProto(), []
    result.CopyFrom(proto)
    for node in result.graph.node:
        if node.op_type != "If" or node.output[0] not in evaluator.settled:
            continue
        value, misfit = evaluator.settled[node.output[0]]
        _fill(node, "then_branch" if value else "else_branch")
        said.append(
            f"the If that makes {node.output[0]!r} always takes its {'then' if value else 'else'} branch: in the other "
            f"one, {misfit}"
        )
    return result, tuple(said)


def _fill(node: onnx.NodeProto, chosen: str) -> None:
    """Makes both branches of an If the `chosen` one.

    ONNX Runtime refuses a branch even where it is never taken, and crashes where a constant condition takes the other.
    """
    (taken,) = (attribute.g for attribute in node.attribute if attribute.name == chosen)
    for attribute in node.attribute:
        if attribute.name != chosen:
            attribute.g.CopyFrom(taken)
