"""Channels last: convolutions read unit-stride vectors of channels; transposes vanish or move to the border."""

from __future__ import annotations

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.fold_constant import fold_constants, permutation
from edgetune.graph.layer_names import pass_marks_on
from edgetune.graph.reshaped_transposes import in_front_of_reshape
from edgetune.graph.rewrite import View, constant, rewrite

CHANNELS_LAST = {
    "relax.nn.conv1d": ["NWC", "OWI"],
    "relax.nn.conv2d": ["NHWC", "OHWI"],
    "relax.nn.conv3d": ["NDHWC", "ODHWI"],
}
_ELEMENTWISE = frozenset(
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "divide", "maximum", "minimum"),
        *("astype", "round", "exp", "tanh", "sigmoid", "abs", "negative", "sqrt", "nn.relu"),
    )
)


def channels_last(module: tvm.IRModule) -> tvm.IRModule:
    """Converts convolutions and what stands between them to channels-last, then moves transposes towards the inputs."""
    # Without a convolution there is nothing to convert, and TVM 0.27's pass dies on some operators of any rank.
    view, values = View(module["main"]), relax.analysis.get_var2val(module["main"]).values()
    if any(view.call(value, *CHANNELS_LAST) is not None for value in values):
        module = pass_marks_on(relax.transform.ConvertLayout(CHANNELS_LAST)(module))
    return rewrite(fold_constants(module), _raise_transpose)


def _raise_transpose(call: relax.Call, view: View, builder: relax.BlockBuilder) -> relax.Expr | None:
    """transpose(f(x, constant)) becomes f(transpose(x), transposed constant): fewer and often smaller transposes.

    transpose(transpose(x)) becomes one, also with a reshape between them; a transpose that only moves axes of extent 1
    becomes a reshape, which is free.
    """
    if call.op.name != "relax.permute_dims":
        return None
    axes = permutation(call)
    source = view.call(call.args[0])
    if source is not None and source.op.name == "relax.permute_dims":
        first = permutation(source)
        return relax.op.permute_dims(source.args[0], [first[a] for a in axes])
    if source is not None and (moved := in_front_of_reshape(call, view, _ELEMENTWISE)) is not None:
        return moved
    raised = _raised(source, axes, view, call.args[0], builder)
    shape = [int(e) for e in call.args[0].ty.shape]
    if raised is None and [a for a in axes if shape[a] != 1] == sorted(a for a in axes if shape[a] != 1):
        return relax.op.reshape(call.args[0], [shape[a] for a in axes])
    return raised


def _raised(
    source: relax.Call | None, axes: list[int], view: View, value: relax.Expr, builder: relax.BlockBuilder
) -> relax.Expr | None:
    if source is None or source.op.name not in _ELEMENTWISE or not view.used_once(value):
        return None
    variables = [a for a in source.args if constant(a) is None]
    if len(variables) != 1 or len(variables[0].ty.shape) != len(axes):
        return None
    moved = [_transposed(a, axes, builder) for a in source.args]
    if any(m is None for m in moved):
        return None
    return relax.Call(source.op, moved, source.attrs)


def _transposed(argument: relax.Expr, axes: list[int], builder: relax.BlockBuilder) -> relax.Expr | None:
    value = constant(argument)
    if value is None:
        return builder.emit(relax.op.permute_dims(argument, axes))
    if value.ndim == 0:
        return argument
    if value.ndim > len(axes):
        return None
    aligned = value.reshape((1,) * (len(axes) - value.ndim) + value.shape)
    return relax.const(np.ascontiguousarray(aligned.transpose(axes)))
