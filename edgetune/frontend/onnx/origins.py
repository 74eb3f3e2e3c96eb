"""Origins: which node of the model a node came from that decompositions, function bodies or loops wrote in its place.

A node carries that in its metadata, so that messages name what the model's author knows.
"""

from __future__ import annotations

import onnx

from edgetune.frontend.onnx.domains import shown_operator

_NAME, _OPERATOR = "edgetune.node", "edgetune.operator"


def shown_node(node: onnx.NodeProto) -> str:
    """The name of a node in messages, or of its first output where it has none."""
    return str(node.name or next(iter(node.output), "") or "unnamed")


def keep_origin(node: onnx.NodeProto, origin: onnx.NodeProto) -> None:
    """Note in `node` that it stands for `origin`, or for a part of it; or for what `origin` itself stands for."""
    kept = {entry.key: entry.value for entry in origin.metadata_props}
    del node.metadata_props[:]
    for key, value in ((_NAME, shown_node(origin)), (_OPERATOR, shown_operator(origin))):
        node.metadata_props.add(key=key, value=kept.get(key, value))


def origin_of(node: onnx.NodeProto) -> tuple[str, str]:
    """Name and operator, as messages have them, of the node of the model that `node` stands for."""
    kept = {entry.key: entry.value for entry in node.metadata_props}
    return kept.get(_NAME, shown_node(node)), kept.get(_OPERATOR, "") or shown_operator(node)


def described(node: onnx.NodeProto, model: str) -> str:
    """Operator and node in messages about `model`: the node that is in the model, whatever stands for it."""
    (name, origin), own = origin_of(node), shown_operator(node)
    part = f"{own} in {origin}" if origin != own else own
    return f"operator {part} (node {name!r} of {model})"


def name_of_written(node: onnx.NodeProto) -> str:
    """The name of the node of the model that a rule wrote `node` for; "" where `node` is that one itself."""
    name, operator = origin_of(node)
    return name if operator != shown_operator(node) else ""
