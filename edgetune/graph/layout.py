"""Channels last: convolutions read unit-stride vectors of channels; transposes vanish or move to the border."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.axis_order import from_model, to_model
from edgetune.graph.exchanged_inputs import remove_stand_ins, stand_for_inputs
from edgetune.graph.fold_constant import fold_constants, permutation
from edgetune.graph.layer_names import pass_marks_on
from edgetune.graph.reshaped_transposes import in_front_of_reshape
from edgetune.graph.rewrite import View, constant, constant_of, rewrite
from edgetune.graph.transposed_pieces import through_pieces

CHANNELS_LAST = {
    "relax.nn.conv1d": ["NWC", "OWI"],
    "relax.nn.conv2d": ["NHWC", "OHWI"],
    "relax.nn.conv3d": ["NDHWC", "ODHWI"],
}
_TRANSPOSED_CONVOLUTIONS = {
    "relax.nn.conv1d_transpose": (relax.op.nn.conv1d_transpose, "NCW"),
    "relax.nn.conv2d_transpose": (relax.op.nn.conv2d_transpose, "NCHW"),
    "relax.nn.conv3d_transpose": (relax.op.nn.conv3d_transpose, "NCDHW"),
}
_ELEMENTWISE = frozenset(
    f"relax.{name}"
    for name in (
        *("add", "subtract", "multiply", "divide", "maximum", "minimum"),
        *("astype", "round", "exp", "tanh", "sigmoid", "abs", "negative", "sqrt", "nn.relu"),
        *("clip", "nn.leakyrelu"),  # which TVM 0.27's layout pass leaves in the model's order
    )
)


def channels_last(module: tvm.IRModule, exchanged: Collection[int] = ()) -> tvm.IRModule:
    """Converts convolutions and what stands between them to channels-last, then moves transposes towards the inputs."""
    module = stand_for_inputs(module, exchanged)
    # Without a convolution there is nothing to convert, and TVM 0.27's pass dies on some operators of any rank.
    view, values = View(module["main"]), relax.analysis.get_var2val(module["main"]).values()
    if any(view.call(value, *CHANNELS_LAST) is not None for value in values):
        module = rewrite(relax.transform.ConvertLayout(CHANNELS_LAST)(module), _channels_first)
        module = pass_marks_on(module)
    module = fold_constants(module)
    if exchanged:
        module = remove_stand_ins(module)
    return through_pieces(rewrite(module, _raise_transpose), _raise_transpose, _ELEMENTWISE)


def _channels_first(call: relax.Call, _view: View, _builder: relax.BlockBuilder) -> relax.Expr | None:
    """A transposed convolution between transposes: TVM's layout pass converts it, and nothing computes that."""
    if call.op.name not in _TRANSPOSED_CONVOLUTIONS:
        return None
    operator, layout = _TRANSPOSED_CONVOLUTIONS[call.op.name]
    if call.attrs.data_layout == layout:
        return None
    rank, attrs = len(layout), call.attrs
    convolved = operator(
        relax.op.permute_dims(call.args[0], to_model(rank, "channels_last")),
        call.args[1],
        strides=list(attrs.strides),
        padding=list(attrs.padding),
        output_padding=list(attrs.output_padding),
        dilation=list(attrs.dilation),
        groups=attrs.groups,
        data_layout=layout,
        kernel_layout=attrs.kernel_layout,
    )
    return relax.op.permute_dims(convolved, from_model(rank, "channels_last"))


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
    variables = [a for a in source.args if _is_tensor(a) and constant(a) is None]
    if len(variables) != 1 or len(variables[0].ty.shape) != len(axes):
        return None
    moved = [_transposed(a, axes, builder) for a in source.args]
    if any(m is None for m in moved):
        return None
    return relax.Call(source.op, moved, source.attrs)


def _is_tensor(argument: relax.Expr) -> bool:
    return isinstance(argument.ty, relax.TensorType)  # a bound of clip is a number


def _transposed(argument: relax.Expr, axes: list[int], builder: relax.BlockBuilder) -> relax.Expr | None:
    if not _is_tensor(argument):
        return argument
    value = constant(argument)
    if value is None:
        return builder.emit(relax.op.permute_dims(argument, axes))
    if value.ndim == 0:
        return argument
    if value.ndim > len(axes):
        return None
    aligned = value.reshape((1,) * (len(axes) - value.ndim) + value.shape)
    return constant_of(np.ascontiguousarray(aligned.transpose(axes)))
