"""Joined calls: two elementwise calls as one kernel with both results, where the second reads what the first writes.

Fusion keeps them apart where others read that as well: the memory of an LSTM's cell is the next step's state, and its
output is made of it. In a loop each call counts, so there they are joined.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.graph.kernel_names import summary
from edgetune.graph.kernels import kernel_of, named, plain_function
from edgetune.graph.layer_names import joined_label
from edgetune.graph.memory.in_place import is_read_elementwise
from edgetune.graph.program import Call, Kernel, Program
from edgetune.graph.reduction_stage import with_fields
from edgetune.graph.workload import workload_hash
from edgetune.tvm_types import PrimFunc, SBlock


def with_joined_calls(program: Program) -> Program:
    """`program`, which has no loops, with such calls joined; the second one decides the place of both."""
    kernels = {kernel.workload: kernel for kernel in program.kernels}
    calls = [(program.kernels[call.kernel].workload, call) for call in program.calls]
    later = 1
    while later < len(calls):
        earlier = next((n for n in range(later) if _may_join(calls, kernels, n, later)), None)
        if earlier is None:
            later += 1
            continue
        kernel, call = _joined(*((kernels[key], one) for key, one in (calls[earlier], calls[later])))
        kernels.setdefault(kernel.workload, kernel)
        calls[later] = (kernel.workload, call)
        del calls[earlier]
    used = list(dict.fromkeys(key for key, _ in calls))
    counted = [replace(kernels[key], weight=sum(other == key for other, _ in calls)) for key in used]
    return replace(
        program,
        kernels=named(counted),
        calls=tuple(replace(call, kernel=used.index(key)) for key, call in calls),
    )


def _may_join(calls: Sequence[tuple[str, Call]], kernels: Mapping[str, Kernel], earlier: int, later: int) -> bool:
    (first, before), (second, after) = ((kernels[key], call) for key, call in (calls[earlier], calls[later]))
    made = before.arguments[-1]
    if made not in _read(second, after) or len(before.parts) + len(after.parts):
        return False
    if any(made in call.arguments for _, call in calls[earlier + 1 : later]):
        return False
    results = [kernel.params[-1] for kernel in (first, second)]
    if results[0].shape != results[1].shape or not all(map(_is_elementwise, (first, second))):
        return False
    numbers = [n for n, buffer in enumerate(after.arguments[:-1]) if buffer == made]
    return all(
        second.params[n].shape == results[0].shape and is_read_elementwise(second.function, second.function.params[n])
        for n in numbers
    )


def _is_elementwise(kernel: Kernel) -> bool:
    """Whether a kernel has one result, and no stage sums or has other elements than the result."""
    outputs = [param for param in kernel.params if param.role == "output"]
    found: list[bool] = []

    def visit(block: SBlock) -> None:
        axes = [int(axis.dom.extent) for axis in block.iter_vars]
        summed = any(axis.iter_type == tirx.IterVar.CommReduce for axis in block.iter_vars)
        found.append(not summed and tuple(axes) == outputs[0].shape)

    tvm_ffi.structural_walk(kernel.function.body, (s_tir.SBlock, visit))
    inner = found[:-1]  # the root has no axes, and is visited last
    return len(outputs) == 1 and bool(inner) and all(inner)


def _read(kernel: Kernel, call: Call) -> list[int]:
    return [a for a, param in zip(call.arguments, kernel.params, strict=True) if param.role != "output"]


def _joined(one: tuple[Kernel, Call], other: tuple[Kernel, Call]) -> tuple[Kernel, Call]:
    """The kernel that does both, and its call."""
    (first, before), (second, after) = one, other
    made = before.arguments[-1]
    read = list(dict.fromkeys([*_read(first, before), *(a for a in _read(second, after) if a != made)]))
    # Calls of one kernel share its function, and no variable may be defined twice.
    functions = [first.function, s_tir.renew_defs(second.function)]
    params: dict[int, ir.Var] = {}
    for own, call in zip(functions, (before, after), strict=True):
        for buffer, param in zip(call.arguments, own.params, strict=True):
            params.setdefault(buffer, param)
    bodies = [
        _with_params(own, [params[a] for a in call.arguments]).body.block
        for own, call in zip(functions, (before, after), strict=True)
    ]
    function = _in_sequence([params[a] for a in (*read, made, after.arguments[-1])], bodies, first.function)
    roles = {a: p.role for k, c in (one, other) for a, p in zip(c.arguments, k.params, strict=True)}
    mask = tuple(roles[a] == "constant" for a in read)
    plain = plain_function(function, mask)
    sources = (*first.sources, *second.sources)
    kernel = kernel_of(sources, workload_hash(plain), plain, mask, 0)
    label = joined_label(before.label, summary(sources))
    return kernel, Call(0, (*read, made, after.arguments[-1]), label)


def _with_params(function: PrimFunc, params: Sequence[ir.Var]) -> PrimFunc:
    renamed = dict(zip(function.params, params, strict=True))
    return tvm_ffi.structural_map(function, (ir.Var, lambda variable: renamed.get(variable, variable)))


def _in_sequence(params: Sequence[ir.Var], roots: Iterable[SBlock], like: PrimFunc) -> PrimFunc:
    """A function of `params` that does what is in `roots`, whose stages get different names."""
    taken: set[str] = set()

    def with_own_name(block: SBlock) -> SBlock:
        names = chain([block.name_hint], (f"{block.name_hint}_{number}" for number in count(1)))
        name = next(name for name in names if name not in taken)
        taken.add(name)
        if name == block.name_hint:
            return block
        return with_fields(block, name_hint=name)

    statements, allocated = [], []
    for root in roots:
        body = tvm_ffi.structural_map(root.body, (s_tir.SBlock, with_own_name))
        statements += list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
        allocated += list(root.alloc_buffers)
    block = s_tir.SBlock([], [], [], "root", tirx.SeqStmt(statements), None, allocated)
    realize = s_tir.SBlockRealize([], True, block)
    return s_tir.renew_defs(tirx.PrimFunc(list(params), realize, like.ret_type, like.attrs))
