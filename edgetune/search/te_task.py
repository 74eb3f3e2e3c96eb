"""Kernel from a tensor expression: prepares a custom operator written in Python for tuning."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from tvm import te
from tvm.tirx import IntImm

from edgetune.errors import UnsupportedOperator, UsageError
from edgetune.graph.long_sums import split_long_sums
from edgetune.graph.macs import multiply_accumulates
from edgetune.graph.program import Kernel, Param, Role
from edgetune.graph.workload import workload_hash


def kernel_from_te(
    tensors: Sequence[te.Tensor], name: str = "custom", constants: Collection[te.Tensor] = (), weight: int = 1
) -> Kernel:
    """The kernel that computes the computed tensors among `tensors` from the placeholders among them.

    Placeholders come first, in the order of the C parameters. Those in `constants` are weights, whose layout tuning may
    change. Raises UsageError for a wrong name or order, or a shape that is not fixed, and UnsupportedOperator when TVM
    cannot make a function of it.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise UsageError(f"{name!r} cannot name a kernel: use letters, digits and _, a letter first")
    params = tuple(_param(tensor, any(tensor.op.same_as(known.op) for known in constants), name) for tensor in tensors)
    roles = ["output" if param.role == "output" else "input" for param in params]
    if roles != sorted(roles) or "output" not in roles:
        raise UsageError(f"the tensors of {name} must be placeholders first, then at least one computed tensor")
    try:
        function = te.create_prim_func(list(tensors))
    except (RuntimeError, ValueError, TypeError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[-1] if lines else type(error).__name__
        raise UnsupportedOperator(f"TVM cannot make a function of {name} ({reason}): rewrite its expression") from error
    function = split_long_sums(function)
    free = [index for index, param in enumerate(params) if param.role == "constant" and len(param.shape) > 1]
    if free:
        function = function.with_attr("layout_free_buffers", free)
    return Kernel(
        name=name,
        workload=workload_hash(function),
        function=function,
        params=params,
        sources=(name,),
        macs=multiply_accumulates(function),
        weight=weight,
    )


def _param(tensor: te.Tensor, constant: bool, kernel: str) -> Param:
    if not all(isinstance(extent, int | IntImm) for extent in tensor.shape):
        raise UsageError(f"{tensor.op.name} of {kernel} has a dimension that is not a number: fix its shape")
    role: Role = "output"
    if isinstance(tensor.op, te.PlaceholderOp):
        role = "constant" if constant else "input"
    return Param(tensor.op.name, tuple(int(extent) for extent in tensor.shape), str(tensor.dtype), role)
