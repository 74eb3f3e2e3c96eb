"""Makes kernels of PrimFuncs: the plain function that schedules apply to, and what the rest of edgetune knows of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tvm import te, tirx, topi

from edgetune.graph.attention import least_scratch
from edgetune.graph.kernel_names import kernel_names, summary
from edgetune.graph.long_sums import in_parts
from edgetune.graph.macs import multiply_accumulates
from edgetune.graph.parameter_names import parameter_names, rename_parameters
from edgetune.graph.program import Kernel, Param, Role, Rows


def plain_function(function: tirx.PrimFunc, mask: Sequence[bool]) -> tirx.PrimFunc:
    """`function` as schedules and records know it; `mask` has, for each tensor that it reads, whether it is constant.

    Its parameters are called by what they are, weights have a free layout, and very long sums are taken in parts.
    """
    free = [i for i, fixed in enumerate(mask) if fixed and sum(int(e) > 1 for e in function.params[i].shape) > 1]
    plain = (
        function.with_attr("global_symbol", "main")
        .with_attr("tirx.noalias", True)
        .with_attr("layout_free_buffers", free)
    )
    for attribute in ("op_pattern", "operator_name"):
        if attribute in plain.attrs:
            plain = plain.without_attr(attribute)
    shapes = [tuple(int(e) for e in p.shape) for p in plain.params]
    names = parameter_names(shapes, _roles(mask, len(shapes)), multiply_accumulates(plain) > 0)
    return in_parts(rename_parameters(plain, names))


def kernel_of(
    sources: Sequence[str],
    workload: str,
    function: tirx.PrimFunc,
    mask: Sequence[bool],
    calls: int,
    rows: Mapping[int, Rows] | None = None,
) -> Kernel:
    """The kernel of a plain function with that workload hash, made of the operators `sources`.

    `mask` as above, `rows` by parameter index. Its name may be that of another: `named` sees to all of a program.
    """
    roles = _roles(mask, len(function.params))
    params = [
        Param(str(buffer.name), tuple(int(e) for e in buffer.shape), str(buffer.dtype), role, (rows or {}).get(number))
        for number, (buffer, role) in enumerate(zip(function.params, roles, strict=True))
    ]
    macs = multiply_accumulates(function)
    return Kernel(
        summary(sources), workload, function, tuple(params), tuple(sources), macs, calls, least_scratch(function)
    )


def named(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """The kernels of a program, each with a name of its own."""
    results = [next(param.shape for param in kernel.params if param.role == "output") for kernel in kernels]
    names = kernel_names([(kernel.sources, shape) for kernel, shape in zip(kernels, results, strict=True)])
    return tuple(replace(kernel, name=name) for kernel, name in zip(kernels, names, strict=True))


def copy_function(shape: tuple[int, ...], dtype: str) -> tirx.PrimFunc:
    """A function that copies a tensor."""
    source = te.placeholder(shape, dtype, name="source")
    return te.create_prim_func([source, topi.identity(source)])


def _roles(mask: Sequence[bool], count: int) -> list[Role]:
    reads: list[Role] = ["constant" if fixed else "input" for fixed in mask]
    return reads + ["output"] * (count - len(mask))
