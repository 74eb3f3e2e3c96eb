"""Lets what is behind an input that is exchanged channels last work channels last, not convolutions alone.

TVM's layout pass starts at convolutions, and what stands before the first one keeps the model's order: a pooling, a
slice or a resizing between two transposes. A convolution that changes nothing stands for the input while it runs. What
the pass does not know (a padding of its own, a choice by a mask, a logarithm of a softmax) stays between transposes.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.axis_order import to_model
from edgetune.graph.fold_constant import permutation
from edgetune.graph.rewrite import View, constant, rewrite

_CONVOLUTIONS = {3: relax.op.nn.conv1d, 4: relax.op.nn.conv2d, 5: relax.op.nn.conv3d}
_NAMES = tuple(f"relax.nn.conv{axes}d" for axes in (1, 2, 3))


def stand_for_inputs(module: tvm.IRModule, exchanged: Collection[int]) -> tvm.IRModule:
    """Puts a convolution behind the transpose of each of the inputs `exchanged` of `main`, by number."""
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
    """Takes the convolutions of `stand_for_inputs` out again: those of one pixel by 1, each channel for itself."""

    def rule(call: relax.Call, view: View, _: relax.BlockBuilder) -> relax.Expr | None:
        if call.op.name not in _NAMES or view.call(call.args[0], "relax.permute_dims") is None:
            return None
        weights = constant(call.args[1])
        same = weights is not None and weights.size == int(call.attrs.groups) and bool((weights == 1).all())
        return call.args[0] if same and list(call.ty.shape) == list(call.args[0].ty.shape) else None

    return rewrite(module, rule)
