"""Operator domains: an operator name has ONNX's meaning only in ONNX's own domains."""

from __future__ import annotations

import onnx

from edgetune.frontend.onnx.fixed_point import is_fixed_point

# Operators of ONNX Runtime's domain that TVM's converters implement; others with a name of ONNX's may differ from it.
_OF_ONNX_RUNTIME = frozenset(
    ["BiasGelu", "EmbedLayerNormalization", "FastGelu", "Gelu", "MatMulInteger16", "SkipLayerNormalization"]
)


DEFAULT_DOMAIN = ("", "ai.onnx")
"""The names of the domain of ONNX's own operators."""


def opset_of(proto: onnx.ModelProto) -> int:
    """The opset of ONNX's own operators that a model is of; the newest for a model that has none of them."""
    versions = (entry.version for entry in proto.opset_import if entry.domain in DEFAULT_DOMAIN)
    return int(next(versions, onnx.defs.onnx_opset_version()))


def is_onnx(node: onnx.NodeProto) -> bool:
    """Whether ONNX defines the operator of `node`: the default domain, or one such as ai.onnx.ml."""
    return node.domain in {"", "ai.onnx"} or node.domain.startswith("ai.onnx.")


def means_what_it_says(node: onnx.NodeProto) -> bool:
    """Whether a converter chosen only by the name of the operator may be used for `node`."""
    return (
        is_onnx(node) or is_fixed_point(node) or (node.domain == "com.microsoft" and node.op_type in _OF_ONNX_RUNTIME)
    )


def shown_operator(node: onnx.NodeProto) -> str:
    """The operator's name in messages: Relu, or com.example::Relu."""
    return f"{node.domain}::{node.op_type}" if node.domain not in {"", "ai.onnx"} else node.op_type
