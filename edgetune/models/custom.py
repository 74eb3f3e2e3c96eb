"""Operators that a user writes as tensor expressions, for models that use what ONNX does not have."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.errors import UsageError
from edgetune.models.converters import OWN_CONVERTERS

_registered: set[str] = set()


def is_registered(name: str) -> bool:
    """Whether `register_operator` gave the operator type `name` its meaning."""
    return name in _registered


def register_operator(name: str, expression: Callable[..., Any]) -> None:
    """Makes the ONNX operator type `name` (of any domain) mean `expression(*inputs, **attributes)`.

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
