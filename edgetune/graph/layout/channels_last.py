"""Layout conversion to channels last: convolutions read unit-stride vectors of channels; transposes vanish or move.

Transposes move towards the border of the model (`transpose_motion`), or become a part of the kernel that reads or
writes what they transpose (`fold_transposes`).

If an input is exchanged channels last, all operators after it work channels last, not only convolutions. TVM's layout
pass starts at convolutions, so operators before the first one (pooling, a slice, a resizing) would keep the model's
order, between two transposes. Therefore an identity convolution represents the input while the pass runs. Operators
that the pass does not know (a separate padding, a choice by a mask, log-softmax) stay between transposes.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.fold_constant import fold_constants, permutation
from edgetune.graph.layer_names import pass_marks_on
from edgetune.graph.layout.axis_order import from_model, to_model
from edgetune.graph.layout.transpose_motion import merged, move_transposes
from edgetune.graph.rewrite import DefUse, constant, rewrite, with_attributes

_LAYOUTS = {
    "relax.nn.conv1d": ["NWC", "OWI"],
    "relax.nn.conv2d": ["NHWC", "OHWI"],
    "relax.nn.conv3d": ["NDHWC", "ODHWI"],
}
_CONVOLUTIONS = {3: relax.op.nn.conv1d, 4: relax.op.nn.conv2d, 5: relax.op.nn.conv3d}
_NORMALISATIONS = frozenset({"relax.nn.layer_norm", "relax.nn.rms_norm"})
_TRANSPOSED_CONVOLUTIONS = {
    "relax.nn.conv1d_transpose": (relax.op.nn.conv1d_transpose, "NCW"),
    "relax.nn.conv2d_transpose": (relax.op.nn.conv2d_transpose, "NCHW"),
    "relax.nn.conv3d_transpose": (relax.op.nn.conv3d_transpose, "NCDHW"),
}


def channels_last(module: tvm.IRModule, exchanged: Collection[int] = ()) -> tvm.IRModule:
    """Converts convolutions and operators between them to channels last, then moves transposes towards the inputs.

    `exchanged` are the inputs, by number, that are exchanged channels last and transposed by the module.
    """
    module = _insert_identities(module, exchanged)
    # Without a convolution there is nothing to convert, and TVM 0.27's pass crashes on some operators of any rank.
    chains, values = DefUse(module["main"]), relax.analysis.get_var2val(module["main"]).values()
    if any(chains.call(value, *_LAYOUTS) is not None for value in values):
        module = relax.transform.ConvertLayout(_LAYOUTS)(module)
        module = rewrite(rewrite(module, _transposed_convolution), _axes_in_order)
        module = pass_marks_on(module)
    module = fold_constants(module)
    if exchanged:
        module = _remove_identities(module)
    return merged(move_transposes(module))


def _insert_identities(module: tvm.IRModule, exchanged: Collection[int]) -> tvm.IRModule:
    """Inserts an identity convolution after the transpose of each input in `exchanged`, by number, of `main`."""
    inputs = {module["main"].params[number] for number in exchanged}

    def rule(call: relax.Call, _chains: DefUse, _builder: relax.BlockBuilder) -> relax.Expr | None:
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


def _remove_identities(module: tvm.IRModule) -> tvm.IRModule:
    """Removes these convolutions: depthwise, with one tap of weight 1 per channel."""

    def rule(call: relax.Call, chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
        if call.op.name not in _LAYOUTS or chains.call(call.args[0], "relax.permute_dims") is None:
            return None
        weights = constant(call.args[1])
        identity = weights is not None and weights.size == int(call.attrs.groups) and bool((weights == 1).all())
        return call.args[0] if identity and list(call.ty.shape) == list(call.args[0].ty.shape) else None

    return rewrite(module, rule)


def _axes_in_order(call: relax.Call, _chains: DefUse, _builder: relax.BlockBuilder) -> relax.Expr | None:
    """A normalisation whose axes ascend: TVM's layout pass leaves them, and scale and shift, in the model's order.

    The kernel takes scale and shift in the order of the data.
    """
    if call.op.name not in _NORMALISATIONS:
        return None
    axes = [int(axis) for axis in call.attrs.axes]
    order = [int(place) for place in np.argsort(axes)]
    if order == list(range(len(axes))):
        return None
    turned = [relax.op.permute_dims(operand, order) for operand in call.args[1:]]
    return with_attributes(call, {"axes": sorted(axes)}, [call.args[0], *turned])


def _transposed_convolution(call: relax.Call, _chains: DefUse, _builder: relax.BlockBuilder) -> relax.Expr | None:
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
