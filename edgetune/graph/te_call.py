"""Puts a tensor expression of our own into a Relax function as a kernel that fusion may extend."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tvm import relax, te

# TVM's operator pattern "out elementwise fusable": whatever is elementwise behind it may be fused.
_OUT_ELEMENTWISE_FUSABLE = 4


def call_fusable(builder: relax.BlockBuilder, compute: Callable[..., te.Tensor], *arguments: Any) -> relax.Expr:
    """A variable bound to `compute(*arguments)`; Relax expressions among the arguments arrive there as TE tensors."""
    call = builder.call_te(compute, *arguments)
    name = call.args[0]
    builder.update_func(name, builder.get()[name].with_attr("op_pattern", _OUT_ELEMENTWISE_FUSABLE))
    return builder.emit(call)
