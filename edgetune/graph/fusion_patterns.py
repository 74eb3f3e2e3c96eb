"""Corrects what TVM takes legalised operators for before it fuses them, where fused they would be more work than apart.

A slice that begins at 0 looks elementwise, so that the whole of what it is sliced from would be computed in its kernel.
And a concatenation takes in what only moves data; then it copies its other operands too, which kernels could write into
place (see `edgetune.graph.in_parts`). Where something is computed from it in the same pass it still may: apart, that
would need the result in memory.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod
from typing import Any

import tvm
from tvm import relax, tirx

from edgetune.graph.rewrite import View

_ELEMENTWISE, _BROADCAST, _INJECTIVE, _OPAQUE = 0, 1, 2, 8  # tvm::relay::OpPatternKind, as FuseOps reads it
_KERNEL, _CONCATENATION = "relax.call_tir", "concatenate"


def settle_patterns(module: tvm.IRModule) -> tvm.IRModule:
    """`module`, legalised and annotated, with the patterns of these slices and concatenations set right."""
    changed: dict[Any, int] = {}
    for name, function in module.functions.items():
        if isinstance(function, tirx.PrimFunc) and _pattern(function) == _ELEMENTWISE and _is_slice(function):
            changed[name] = _INJECTIVE
    calls = _Calls(module, changed)
    joining = [call for call in calls if call.args[0].name_hint.rstrip("0123456789") == _CONCATENATION]
    fusable = {call.args[0] for call in joining if calls.is_taken_in_behind(call)}
    changed |= {call.args[0]: _OPAQUE for call in joining if call.args[0] not in fusable and calls.would_copy(call)}
    settled = tvm.IRModule(dict(module.functions), attrs=module.attrs, global_infos=module.global_infos)
    for name, pattern in changed.items():
        settled[name] = module[name].with_attr("op_pattern", pattern)
    return settled


class _Calls:
    def __init__(self, module: tvm.IRModule, changed: dict[Any, int]) -> None:
        self.module, self.changed, self.view = module, changed, View(module["main"])

    def __iter__(self) -> Iterator[relax.Call]:
        for block in self.module["main"].body.blocks:
            for binding in block.bindings:
                call = self.view.call(binding.value, _KERNEL)
                if call is not None:
                    yield call

    def is_taken_in_behind(self, call: relax.Call) -> bool:
        """Whether what a call computes is read by one kernel alone, which would be computed in the same pass."""
        result = self.view.variable(call)
        readers = [] if result is None else [self.view.call(reader, _KERNEL) for reader in self.view.readers(result)]
        return len(readers) == 1 and readers[0] is not None and self._pattern(readers[0]) <= _INJECTIVE

    def would_copy(self, concatenation: relax.Call) -> bool:
        """Whether a concatenation would take in one operand, and another one is computed by a kernel of its own."""
        operands = _operands(concatenation)
        return any(map(self._taken_in, operands)) and any(map(self._of_kernel, operands))

    def _taken_in(self, operand: relax.Expr) -> bool:
        call = self.view.call(operand, _KERNEL)
        if call is None or not self.view.used_once(operand):
            return False
        return self._pattern(call) == _INJECTIVE or not self._of_kernel(operand)

    def _of_kernel(self, operand: relax.Expr) -> bool:
        """Whether the last that is not elementwise on the way to `operand` is a kernel that nothing can take in."""
        call = self.view.call(operand, _KERNEL)
        if call is None:
            return False
        pattern = self._pattern(call)
        if pattern <= _BROADCAST or call.args[0].name_hint.rstrip("0123456789") == _CONCATENATION:
            return any(map(self._of_kernel, _operands(call)))
        return pattern > _INJECTIVE

    def _pattern(self, call: relax.Call) -> int:
        return self.changed.get(call.args[0], _pattern(self.module[call.args[0]]))


def _pattern(function: tirx.PrimFunc) -> int:
    return int(function.attrs.get("op_pattern", _OPAQUE)) if function.attrs else _OPAQUE


def _operands(call: relax.Call) -> list[relax.Expr]:
    read = call.args[1]
    return list(read.fields) if isinstance(read, relax.Tuple) else [read]


def _is_slice(function: tirx.PrimFunc) -> bool:
    """Whether the result is smaller than the only tensor that is read."""
    sizes = [prod(int(extent) for extent in param.shape) for param in function.params]
    return len(sizes) == 2 and sizes[1] < sizes[0]
