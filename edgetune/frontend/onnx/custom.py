"""Custom operators: tensor expressions that a user registers for operators that ONNX does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import onnx
from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.errors import UsageError
from edgetune.frontend.onnx.converters import OWN_CONVERTERS
from edgetune.frontend.onnx.reader import OnnxModel

_registered: set[str] = set()


def is_registered(name: str) -> bool:
    """Whether `register_operator` has defined the operator type `name`."""
    return name in _registered


def registered_in(model: OnnxModel) -> tuple[str, ...]:
    """The registered operator types that `model` uses, in order of name; nested graphs and functions count."""
    nodes = [*model.proto.graph.node, *(node for function in model.proto.functions for node in function.node)]
    return tuple(sorted({name for node in nodes for name in _types(node)} & _registered))


def _types(node: onnx.NodeProto) -> Iterator[str]:
    yield node.op_type
    for attribute in node.attribute:
        for graph in (attribute.g, *attribute.graphs):
            for inner in graph.node:
                yield from _types(inner)


def register_operator(name: str, expression: Callable[..., Any]) -> None:
    """Defines the ONNX operator type `name` (of any domain) as `expression(*inputs, **attributes)`.

    `expression` takes `te.Tensor`s and returns one, or a list of them; attributes arrive as Python values. Raises
    UsageError when `name` is an operator already.
    """
    if name in OWN_CONVERTERS or name in tvm_onnx._get_convert_map():
        raise UsageError(f"operator {name} exists already; register the expression under another operator type")

    def convert(_: type, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], _params: Any) -> relax.Expr:
        attributes = {key: value for key, value in attr.items() if key != "tvm_custom"}
        return bb.emit_te(expression, *list(inputs), primfunc_name_hint=name.lower(), **attributes)

    OWN_CONVERTERS[name] = type(name, (tvm_onnx.OnnxOpConverter,), {"_impl_v1": classmethod(convert)})
    _registered.add(name)
