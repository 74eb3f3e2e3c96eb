"""Reads an ONNX file and its external data into a checked model whose input shapes are all known."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import shape_inference

from edgetune.config.model_file import require_model_file
from edgetune.errors import DynamicShape, ModelError
from edgetune.models.external_data import ExternalData, external_tensors
from edgetune.models.free_axes import free_input, proposed_shapes
from edgetune.models.large_tensors import Weights, as_inputs, take_in
from edgetune.models.well_formed import require_text, require_values

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class OnnxModel:
    """A model as read: the graph with fixed input shapes, its default opset and its hash (`ExternalData.sha256`).

    No tensor of `proto` lies outside of it, but large ones are stand-ins for the arrays of `weights`, by name
    (`edgetune.models.large_tensors`).
    """

    proto: onnx.ModelProto
    opset: int
    sha256: str
    name: str
    weights: Weights = field(default_factory=dict)


@dataclass(frozen=True)
class StoredModel:
    """What the file `path` and its external data hold, as `OnnxModel` has it, with shapes as they are there."""

    path: Path
    proto: onnx.ModelProto
    sha256: str
    weights: Weights


def read_onnx(path: Path, shapes: Shapes | None = None) -> OnnxModel:
    """Reads `path` and fixes its input shapes from the file or from `shapes` (input name to extents).

    Raises ModelError when the file or its external data are missing, unreadable or not a valid ONNX model, DynamicShape
    when an input's extent stays unknown, and ModelError when `shapes` names an input that the model does not have or
    contradicts it.
    """
    return with_shapes(read_stored(path), shapes)


def with_shapes(stored: StoredModel, shapes: Shapes | None = None) -> OnnxModel:
    """`stored` checked and with fixed input shapes; raises as `read_onnx` does."""
    path = stored.path
    return model_from_proto(stored.proto, stored.sha256, path.stem, shapes, str(path), stored.weights)


def read_stored(path: Path) -> StoredModel:
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
    # How a model is trained is no part of what it computes, and later steps need not carry it.
    proto.ClearField("training_info")
    return StoredModel(path, proto, sha256, take_in(proto, external))


def model_from_proto(
    proto: onnx.ModelProto,
    sha256: str,
    name: str,
    shapes: Shapes | None,
    where: str,
    weights: Weights | None = None,
) -> OnnxModel:
    """Checks `proto`, fixes its input shapes and infers the rest; `where` names the model in messages.

    `weights` are the arrays of its stand-ins. Raises ModelError as `read_onnx` does, and for external tensors: only
    `read_stored` knows where their files are.
    """
    weights = weights or {}
    if next(external_tensors(proto), None) is not None:
        raise ModelError(f"{where} has tensors in other files; read it from its own file")
    _fix_shapes(proto, shapes or {}, where)
    try:
        # First the shapes: the checker wants them on outputs, and exporters leave them out.
        proto = shape_inference.infer_shapes(proto)
        onnx.checker.check_model(as_inputs(proto, weights) if weights else proto)
    except (onnx.checker.ValidationError, shape_inference.InferenceError, ValueError) as error:
        reason = (str(error).strip() or type(error).__name__).splitlines()[0]
        raise ModelError(f"{where} is not a valid ONNX model ({reason}); export it again") from None
    versions = [o.version for o in proto.opset_import if o.domain in {"", "ai.onnx"}]
    return OnnxModel(proto, versions[0] if versions else 1, sha256, name, weights)


def real_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Graph inputs that are not initializers (files of IR version 3 list both)."""
    initializers = {i.name for i in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
    return [i for i in graph.input if i.name not in initializers]


def _fix_shapes(proto: onnx.ModelProto, shapes: Shapes, where: str) -> None:
    inputs = {i.name: i for i in real_inputs(proto.graph)}
    unknown = sorted(set(shapes) - set(inputs))
    if unknown:
        raise ModelError(
            f"--shape names {unknown[0]!r}, but {where} has the inputs {', '.join(sorted(inputs)) or 'none'}"
        )
    for name, value in inputs.items():
        if not value.type.HasField("tensor_type"):
            raise ModelError(f"input {name!r} of {where} is not a tensor; only tensor inputs can be built")
        tensor = value.type.tensor_type
        wanted = shapes.get(name)
        if wanted is not None:
            _check_against_file(name, tensor, wanted, where)
            tensor.ClearField("shape")
            tensor.shape.SetInParent()
            for extent in wanted:
                tensor.shape.dim.add().dim_value = extent
    free = [one for name, value in inputs.items() if name not in shapes and (one := free_input(value)) is not None]
    if free:
        example = proposed_shapes(proto.graph, free, list(proto.opset_import))
        raise DynamicShape(
            f"{' and '.join(one.in_words for one in free)} in {where}: fix all sizes, for example with {example} "
            "(a proposal; take the sizes that the model is used with)"
        )


def _check_against_file(name: str, tensor: onnx.TypeProto.Tensor, wanted: tuple[int, ...], where: str) -> None:
    if any(extent <= 0 for extent in wanted):
        raise ModelError(f"--shape {name} has an extent below 1; every extent must be positive")
    if not tensor.HasField("shape"):
        return
    known = [d.dim_value for d in tensor.shape.dim]
    if len(known) != len(wanted) or any(k > 0 and k != w for k, w in zip(known, wanted, strict=True)):
        shown = ",".join(str(k) if k > 0 else "?" for k in known)
        raise ModelError(f"--shape {name}={','.join(map(str, wanted))} contradicts {where}, where its shape is {shown}")
