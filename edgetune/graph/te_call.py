"""Adds a tensor expression of this project to a Relax function as a kernel; a flag says if fusion may extend it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, te

# TVM's operator pattern "out elementwise fusable": following elementwise operators may be fused.
_OUT_ELEMENTWISE_FUSABLE = 4
_OPAQUE = 8  # nothing may be fused


def call_fusable(
    builder: relax.BlockBuilder, compute: Callable[..., te.Tensor], *arguments: Any, alone: bool = False
) -> relax.Expr:
    """A variable bound to `compute(*arguments)`; Relax expressions among the arguments arrive there as TE tensors.

    `alone`: fusion adds no operator to this call.
    """
    call = builder.call_te(compute, *arguments)
    name = call.args[0]
    pattern = _OPAQUE if alone else _OUT_ELEMENTWISE_FUSABLE
    builder.update_func(name, builder.get()[name].with_attr("op_pattern", pattern))
    return builder.emit(call)
