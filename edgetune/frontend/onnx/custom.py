"""Custom operators: tensor expressions that a user registers for operators that ONNX does not have."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from inspect import Parameter, signature
from traceback import extract_tb
from typing import Any

import onnx
import tvm_ffi
from tvm import relax, te
from tvm.relax.frontend.onnx import onnx_frontend as tvm_onnx

from edgetune.errors import UsageError
from edgetune.frontend.onnx.converters import OWN_CONVERTERS
from edgetune.frontend.onnx.decompositions import DECOMPOSITIONS
from edgetune.frontend.onnx.decompositions.onnx_runtime import OF_ONNX_RUNTIME
from edgetune.frontend.onnx.reader import OnnxModel

_ANY_NUMBER = (Parameter.VAR_POSITIONAL, Parameter.VAR_KEYWORD)
_LONGEST = 200
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


class ExpressionMisfitError(ValueError):
    """A node cannot be computed by the expression of its operator; the message goes on after the name of the node."""


def register_operator(name: str, expression: Callable[..., Any]) -> None:
    """Defines the ONNX operator type `name` (of any domain) as `expression(*inputs, **attributes)`.

    `expression` takes `te.Tensor`s and returns one, or a list of them; attributes arrive as Python values, those of
    text as `str`. Raises UsageError when `name` is an operator already, or no text, and when `expression` cannot be
    called.
    """
    given: object = name
    if not isinstance(given, str) or not given:
        raise UsageError(f"an operator type is the text that models name it by, not {given!r}")
    if not callable(expression):
        raise UsageError(
            f"operator {name} is registered with {expression!r}, which cannot be called: give a function of te.Tensors"
        )
    if name in _registered:
        raise UsageError(f"operator {name} is registered already: register it once, or under another operator type")
    known = (OWN_CONVERTERS, DECOMPOSITIONS, OF_ONNX_RUNTIME, tvm_onnx._get_convert_map())
    if any(name in operators for operators in known):
        raise UsageError(f"operator {name} exists already; register the expression under another operator type")

    def convert(_: type, bb: relax.BlockBuilder, inputs: Any, attr: dict[str, Any], _params: Any) -> relax.Expr:
        given = list(inputs)
        attributes = {key: _python(value) for key, value in attr.items() if key != "tvm_custom"}
        _check_arguments(name, expression, len(given), attributes)
        tensors = [value for value in given if value is not None]

        # TVM takes numbers and tensors as arguments: attributes, and inputs that are left out, go past it.
        def called(*arguments: te.Tensor) -> Any:
            rest = iter(arguments)
            values = [None if value is None else next(rest) for value in given]
            return _result(name, expression, values, attributes, int(attr["tvm_custom"]["num_outputs"]))

        return bb.emit_te(called, *tensors, primfunc_name_hint=name.lower())

    OWN_CONVERTERS[name] = type(name, (tvm_onnx.OnnxOpConverter,), {"_impl_v1": classmethod(convert)})
    _registered.add(name)


def _python(value: Any) -> Any:
    """An attribute as a Python value: ONNX has its text as bytes."""
    if isinstance(value, bytes):
        return value.decode()
    return [_python(one) for one in value] if isinstance(value, list | tuple) else value


def _check_arguments(name: str, expression: Callable[..., Any], inputs: int, attributes: Mapping[str, Any]) -> None:
    """Raises ExpressionMisfitError where the inputs and attributes of a node are not the parameters of `expression`."""
    try:
        parameters = list(signature(expression).parameters.values())
    except (TypeError, ValueError):  # something of C, which does not tell its parameters
        return
    by_place = [p.name for p in parameters if p.kind in {Parameter.POSITIONAL_ONLY, Parameter.POSITIONAL_OR_KEYWORD}]
    by_name = {p.name for p in parameters if p.kind in {Parameter.KEYWORD_ONLY, Parameter.POSITIONAL_OR_KEYWORD}}
    kinds = {p.kind for p in parameters}
    filled = set(by_place[:inputs])
    wanted = [p.name for p in parameters if p.default is Parameter.empty and p.kind not in _ANY_NUMBER]
    missing = [one for one in wanted if one not in filled and one not in attributes]
    unknown = [one for one in attributes if one not in by_name] if Parameter.VAR_KEYWORD not in kinds else []
    twice = [one for one in attributes if one in filled and one in by_name]
    heading = f"does not fit its expression {name}({', '.join(map(str, parameters))})"
    if missing:
        raise ExpressionMisfitError(
            f"{heading}: it has {inputs} input{'s' * (inputs != 1)} and no attribute {missing[0]!r}; give the node "
            "that attribute, or the parameter a default value"
        )
    if unknown:
        raise ExpressionMisfitError(
            f"{heading}: it has the attribute {unknown[0]!r}; give the expression a parameter of that name"
        )
    if twice or (inputs > len(by_place) and Parameter.VAR_POSITIONAL not in kinds):
        raise ExpressionMisfitError(
            f"{heading}: it has {inputs} input{'s' * (inputs != 1)}; give the expression a parameter for each input, "
            "before those of attributes"
        )


def _result(
    name: str, expression: Callable[..., Any], values: list[Any], attributes: Mapping[str, Any], outputs: int
) -> Any:
    """What `expression` returns; raises ExpressionMisfitError where it raises, or returns no tensor for an output."""
    try:
        result = expression(*values, **attributes)
    # The expression is its author's code: whatever it raises, the message says where.
    except Exception as error:
        last = extract_tb(error.__traceback__)[-1]
        reason = (str(error).strip().splitlines() or [""])[0][:_LONGEST]
        raise ExpressionMisfitError(
            f"cannot be computed: its expression {name} raised {type(error).__name__}({reason}) at {last.filename}, "
            f"line {last.lineno}; correct the expression"
        ) from error
    made = list(result) if isinstance(result, list | tuple | tvm_ffi.Array) else [result]
    wrong = [type(one).__name__ for one in made if not isinstance(one, te.Tensor)]
    if wrong or not made:
        raise ExpressionMisfitError(
            f"cannot be computed: its expression {name} returned {wrong[0] if wrong else 'nothing'}; return a "
            "te.Tensor, or a list of them"
        )
    if len(made) < outputs:
        raise ExpressionMisfitError(
            f"has {outputs} outputs, and its expression {name} returned {len(made)}; return a tensor for each output"
        )
    return result
