"""Operator domains: an operator name has ONNX's meaning only in ONNX's own domains."""

from __future__ import annotations

import onnx

ONNX_RUNTIME = "com.microsoft"
"""The domain of ONNX Runtime's own operators."""

DEFAULT_DOMAIN = ("", "ai.onnx")
"""The names of the domain of ONNX's own operators."""


def opset_of(proto: onnx.ModelProto) -> int:
    """The opset of ONNX's own operators that a model is of; the newest for a model that has none of them."""
    versions = (entry.version for entry in proto.opset_import if entry.domain in DEFAULT_DOMAIN)
    return int(next(versions, onnx.defs.onnx_opset_version()))


def is_onnx(node: onnx.NodeProto) -> bool:
    """Whether ONNX defines the operator of `node`: the default domain, or one such as ai.onnx.ml."""
    return node.domain in {"", "ai.onnx"} or node.domain.startswith("ai.onnx.")


def shown_operator(node: onnx.NodeProto) -> str:
    """The operator's name in messages: Relu, or com.example::Relu."""
    return f"{node.domain}::{node.op_type}" if node.domain not in {"", "ai.onnx"} else node.op_type


ADVICE = {
    "com.microsoft.nchwc": "it is of a layout that ONNX Runtime chose for one processor: export the model with "
    "`options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED`, not with all of them",
}
"""What to do about the operators of a domain that no decomposition has."""
