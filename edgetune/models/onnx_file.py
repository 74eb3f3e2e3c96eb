"""Reads an ONNX file into a checked model whose input shapes are all known."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError
from onnx import TensorProto, shape_inference

from edgetune.errors import DynamicShape, ModelError

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class OnnxModel:
    """A model as read: the graph with fixed input shapes, its default opset and the SHA-256 of the file's bytes."""

    proto: onnx.ModelProto
    opset: int
    sha256: str
    name: str


def read_onnx(path: Path, shapes: Shapes | None = None) -> OnnxModel:
    """Reads `path` and fixes its input shapes from the file or from `shapes` (input name to extents).

    Raises ModelError when the file is missing, unreadable or not a valid ONNX model, DynamicShape when an input's
    extent stays unknown, and ModelError when `shapes` names an input that the model does not have or contradicts it.
    """
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
    _load_external_data(proto, path)
    return model_from_proto(proto, hashlib.sha256(data).hexdigest(), path.stem, shapes, str(path))


def model_from_proto(proto: onnx.ModelProto, sha256: str, name: str, shapes: Shapes | None, where: str) -> OnnxModel:
    """Checks `proto`, fixes its input shapes and infers the rest; `where` names the model in messages."""
    _fix_shapes(proto, shapes or {}, where)
    try:
        # First the shapes: the checker wants them on outputs, and exporters leave them out.
        proto = shape_inference.infer_shapes(proto)
        onnx.checker.check_model(proto)
    except (onnx.checker.ValidationError, shape_inference.InferenceError) as error:
        reason = str(error).strip().splitlines()[0]
        raise ModelError(f"{where} is not a valid ONNX model ({reason}); export it again") from None
    versions = [o.version for o in proto.opset_import if o.domain in {"", "ai.onnx"}]
    return OnnxModel(proto, versions[0] if versions else 1, sha256, name)


def real_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """Graph inputs that are not initializers (files of IR version 3 list both)."""
    initializers = {i.name for i in graph.initializer} | {s.values.name for s in graph.sparse_initializer}
    return [i for i in graph.input if i.name not in initializers]


def _load_external_data(proto: onnx.ModelProto, path: Path) -> None:
    if not any(i.data_location == TensorProto.EXTERNAL for i in proto.graph.initializer):
        return
    try:
        onnx.load_external_data_for_model(proto, str(path.parent))
    except (OSError, onnx.checker.ValidationError) as error:
        raise ModelError(
            f"the weights beside {path} cannot be read ({error}); keep them in the model's folder"
        ) from None


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
        elif not tensor.HasField("shape") or any(d.dim_value <= 0 and not _is_zero(d) for d in tensor.shape.dim):
            dims = ",".join(str(d.dim_value) if d.dim_value > 0 else "1" for d in tensor.shape.dim) or "1"
            raise DynamicShape(
                f"input {name!r} of {where} has no fixed shape; give one, for example --shape {name}={dims}"
            )


def _is_zero(dim: onnx.TensorShapeProto.Dimension) -> bool:
    return bool(dim.HasField("dim_value")) and dim.dim_value == 0


def _check_against_file(name: str, tensor: onnx.TypeProto.Tensor, wanted: tuple[int, ...], where: str) -> None:
    if any(extent <= 0 for extent in wanted):
        raise ModelError(f"--shape {name} has an extent below 1; every extent must be positive")
    if not tensor.HasField("shape"):
        return
    known = [d.dim_value for d in tensor.shape.dim]
    if len(known) != len(wanted) or any(k > 0 and k != w for k, w in zip(known, wanted, strict=True)):
        shown = ",".join(str(k) if k > 0 else "?" for k in known)
        raise ModelError(f"--shape {name}={','.join(map(str, wanted))} contradicts {where}, where its shape is {shown}")
