"""Lets the first convolution read a channels-first input as it comes, instead of transposing it first.

A register tile reads its input one number at a time and broadcasts it: the order of the input axes is all the same.
"""

from __future__ import annotations

from typing import Any

import tvm
from tvm import relax, te, topi

from edgetune.graph.fold_constant import permutation
from edgetune.graph.rewrite import View, constant, rewrite
from edgetune.graph.te_call import call_fusable

_TO_CHANNELS_LAST = [0, 2, 3, 1]


def read_inputs_in_place(module: tvm.IRModule) -> tvm.IRModule:
    """Rewrites conv2d(transpose(input)) to one kernel where nothing else reads the transposed input."""
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
