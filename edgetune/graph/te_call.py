"""Calls of tensor expressions: adds one to a Relax function as a kernel that fusion may extend, or must leave alone."""

from __future__ import annotations

from collections.abc import Callable

from tvm import relax, te

# TVM's operator pattern "out elementwise fusable": following elementwise operators may be fused.
_OUT_ELEMENTWISE_FUSABLE = 4
_OPAQUE = 8  # nothing may be fused


def call_fusable(
    builder: relax.BlockBuilder,
    compute: Callable[..., te.Tensor],
    *arguments: object,
    alone: bool = False,
    name: str = "",
) -> relax.Expr:
    """A variable bound to `compute(*arguments)`; Relax expressions among the arguments arrive there as TE tensors.

    The kernel is called `name`, by default as `compute`. `alone`: fusion adds no operator to this call.
    """
    call = builder.call_te(compute, *arguments, **({"primfunc_name_hint": name} if name else {}))
    function = call.args[0]
    pattern = _OPAQUE if alone else _OUT_ELEMENTWISE_FUSABLE
    builder.update_func(function, builder.get()[function].with_attr("op_pattern", pattern))
    return builder.emit(call)
