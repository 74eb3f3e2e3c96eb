"""Whose operator a node is: a name means what ONNX says only in ONNX's own domains."""

from __future__ import annotations

import onnx

# Operators of ONNX Runtime's own domain that TVM's converters mean; others there that are named like ONNX's may differ.
_OF_ONNX_RUNTIME = frozenset(
    ["BiasGelu", "EmbedLayerNormalization", "FastGelu", "Gelu", "MatMulInteger16", "SkipLayerNormalization"]
)


def is_onnx(node: onnx.NodeProto) -> bool:
    """Whether ONNX defines the operator of `node`: the default domain, or one of ai.onnx.ml and its kind."""
    return node.domain in {"", "ai.onnx"} or node.domain.startswith("ai.onnx.")


def means_what_it_says(node: onnx.NodeProto) -> bool:
    """Whether a converter that goes by the name of the operator alone may be used for `node`."""
    return is_onnx(node) or (node.domain == "com.microsoft" and node.op_type in _OF_ONNX_RUNTIME)


def shown_operator(node: onnx.NodeProto) -> str:
    """The operator as messages name it: Relu, or com.example::Relu."""
    return f"{node.domain}::{node.op_type}" if node.domain not in {"", "ai.onnx"} else node.op_type
