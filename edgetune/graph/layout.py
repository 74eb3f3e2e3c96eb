"""Layout conversion to channels last: convolutions read unit-stride vectors of channels; transposes vanish or move.

Transposes move towards the border of the model. The first convolution reads a channels-first input directly, without a
transpose: a register tile loads its input as single numbers and broadcasts them, so the order of the input axes does
not matter.

If an input is exchanged channels last, all operators after it work channels last, not only convolutions. TVM's layout
pass starts at convolutions, so operators before the first one (pooling, a slice, a resizing) would keep the model's
order, between two transposes. Therefore an identity convolution represents the input while the pass runs. Operators
that the pass does not know (a separate padding, a choice by a mask, log-softmax) stay between transposes.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np
import tvm
from tvm import relax, te, topi

from edgetune.graph.axis_order import from_model, to_model
from edgetune.graph.fold_constant import fold_constants, permutation
from edgetune.graph.layer_names import pass_marks_on
from edgetune.graph.rewrite import View, constant, constant_of, rewrite
from edgetune.graph.te_call import call_fusable
from edgetune.graph.transposes_through_concatenation import through_pieces
from edgetune.graph.transposes_through_reshape import in_front_of_reshape

_CONVOLUTIONS = {3: relax.op.nn.conv1d, 4: relax.op.nn.conv2d, 5: relax.op.nn.conv3d}
_NAMES = tuple(f"relax.nn.conv{axes}d" for axes in (1, 2, 3))


def stand_for_inputs(module: tvm.IRModule, exchanged: Collection[int]) -> tvm.IRModule:
    """Inserts an identity convolution after the transpose of each input in `exchanged`, by number, of `main`."""
    inputs = {module["main"].params[number] for number in exchanged}

    def rule(call: relax.Call, _view: View, _builder: relax.BlockBuilder) -> relax.Expr | None:
        rank = len(call.ty.shape)
        if call.op.name != "relax.permute_dims" or call.args[0] not in inputs or rank not in _CONVOLUTIONS:
            return None
        if permutation(call) != to_model(rank, "channels_last"):
            return None
        inputs.remove(call.args[0])
        channels = int(call.ty.shape[1])
        ones = relax.const(np.ones((channels, *[1] * (rank - 1))), str(call.ty.dtype))
        return _CONVOLUTIONS[rank](relax.op.permute_dims(call.args[0], permutation(call)), ones, groups=channels)

    return rewrite(module, rule)


def remove_stand_ins(module: tvm.IRModule) -> tvm.IRModule:
    """Removes the convolutions of `stand_for_inputs`: depthwise, with one tap of weight 1 per channel."""

    def rule(call: relax.Call, view: View, _: relax.BlockBuilder) -> relax.Expr | None:
        if call.op.name not in _NAMES or view.call(call.args[0], "relax.permute_dims") is None:
            return None
        weights = constant(call.args[1])
        same = weights is not None and weights.size == int(call.attrs.groups) and bool((weights == 1).all())
        return call.args[0] if same and list(call.ty.shape) == list(call.args[0].ty.shape) else None

    return rewrite(module, rule)


_TO_CHANNELS_LAST = [0, 2, 3, 1]


def read_inputs_in_place(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrites conv2d(transpose(input)) to one kernel if the transposed input has no other reader."""
    inputs = set(module["main"].params)

    def rule(call: relax.Call, view: View, builder: relax.BlockBuilder) -> relax.Expr | None:
        if call.op.name != "relax.nn.conv2d" or call.attrs.data_layout != "NHWC":
            return None
        transposed = view.call(call.args[0], "relax.permute_dims")
        if transposed is None or not view.used_once(call.args[0]) or permutation(transposed) != _TO_CHANNELS_LAST:
            return None
        if transposed.args[0] not in inputs or constant(call.args[1]) is None:
            return None
        return call_fusable(builder, conv2d, transposed.args[0], call.args[1], call.attrs)

    return rewrite(module, rule)


def conv2d(data: te.Tensor, weights: te.Tensor, attrs: Any) -> te.Tensor:
    """Convolution of data (N, C, H, W) with weights (O, KH, KW, I) to (N, H, W, O)."""
    batch, channels, height, width = data.shape
    last = te.compute((batch, height, width, channels), lambda n, h, w, c: data[n, c, h, w], name="channels_last")
    strides, padding, dilation = ([int(v) for v in a] for a in (attrs.strides, attrs.padding, attrs.dilation))
    return topi.nn.conv(last, weights, strides, padding, dilation, int(attrs.groups), "NHWC", "OHWI", str(data.dtype))


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
        *("clip", "nn.leakyrelu"),  # TVM 0.27's layout pass leaves these in the model's order
    )
)


def channels_last(module: tvm.IRModule, exchanged: Collection[int] = ()) -> tvm.IRModule:
    """Converts convolutions and operators between them to channels last, then moves transposes towards the inputs."""
    module = stand_for_inputs(module, exchanged)
    # Without a convolution there is nothing to convert, and TVM 0.27's pass crashes on some operators of any rank.
    view, values = View(module["main"]), relax.analysis.get_var2val(module["main"]).values()
    if any(view.call(value, *CHANNELS_LAST) is not None for value in values):
        module = rewrite(relax.transform.ConvertLayout(CHANNELS_LAST)(module), _channels_first)
        module = pass_marks_on(module)
    module = fold_constants(module)
    if exchanged:
        module = remove_stand_ins(module)
    return through_pieces(rewrite(module, _raise_transpose), _raise_transpose, _ELEMENTWISE)


def _channels_first(call: relax.Call, _view: View, _builder: relax.BlockBuilder) -> relax.Expr | None:
    """A transposed convolution between transposes: TVM's layout pass converts it, but no kernel computes the result."""
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
