"""Puts a tensor expression of our own into a Relax function as a kernel, which fusion may extend or not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, te

# TVM's operator pattern "out elementwise fusable": whatever is elementwise behind it may be fused.
_OUT_ELEMENTWISE_FUSABLE = 4
_OPAQUE = 8  # nothing may be fused


def call_fusable(
    builder: relax.BlockBuilder, compute: Callable[..., te.Tensor], *arguments: Any, alone: bool = False
) -> relax.Expr:
    """A variable bound to `compute(*arguments)`; Relax expressions among the arguments arrive there as TE tensors.

    `alone`: fusion leaves this one as it is.
    """
    call = builder.call_te(compute, *arguments)
    name = call.args[0]
    pattern = _OPAQUE if alone else _OUT_ELEMENTWISE_FUSABLE
    builder.update_func(name, builder.get()[name].with_attr("op_pattern", pattern))
    return builder.emit(call)
