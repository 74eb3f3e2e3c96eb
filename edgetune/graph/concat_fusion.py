"""Operator fusion around concatenations and slices: which kernel computes what, so that they can be zero-copy views.

The operator patterns of some legalised operators are corrected, where fusion would cost more work than it saves. A
slice that begins at 0 looks elementwise to TVM; its kernel would then compute the whole sliced tensor. A concatenation
absorbs operators that only move data, and then copies its other operands too, although their kernels could write them
in place. A concatenation may still absorb them if a following operator is fused with it: a separate kernel would need
its result in memory.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from math import prod

import numpy as np
import tvm
from tvm import relax, tirx
from tvm.ir import GenericConst, GlobalVar

from edgetune.graph.rewrite import DefUse, rewrite
from edgetune.graph.widened_integers import Value, Widened, moved
from edgetune.tvm_types import PrimFunc

_ELEMENTWISE, _BROADCAST, _INJECTIVE, _OPAQUE = 0, 1, 2, 8  # tvm::relay::OpPatternKind, as FuseOps reads it
_KERNEL, _RESHAPE, _CONCATENATION = "relax.call_tir", "relax.reshape", "concatenate"


def settle_patterns(module: tvm.IRModule) -> tvm.IRModule:
    """The legalised and annotated `module` with corrected operator patterns.

    Slices are injective instead of elementwise. A concatenation is opaque if kernels can write its operands in place.
    """
    changed: dict[GlobalVar, int] = {}
    for name, function in module.functions.items():
        if isinstance(function, tirx.PrimFunc) and _pattern(function) == _ELEMENTWISE and _is_slice(function):
            changed[name] = _INJECTIVE
    calls = _Calls(module, changed)
    concatenations = [call for call in calls if _is_concatenation(call)]
    fused = {call.args[0] for call in concatenations if calls.is_fused_with_reader(call)}
    changed |= {
        call.args[0]: _OPAQUE
        for call in concatenations
        if calls.is_nested(call) or (call.args[0] not in fused and calls.would_copy(call))
    }
    settled = tvm.IRModule(dict(module.functions), attrs=module.attrs, global_infos=module.global_infos)
    for name, pattern in changed.items():
        settled[name] = module[name].with_attr("op_pattern", pattern)
    return settled


def constants_apart(module: tvm.IRModule, inputs: int | None) -> tvm.IRModule:
    """The annotated `module` whose kernels of constants alone are fused with no other, where that takes no more memory.

    The parameters of `main` after the first `inputs` are constants that no pass may fold. What moves or widens them is
    known to be constant when the module is cut into kernels, because no kernel of other operands absorbs it. A kernel
    whose result is larger than what it reads is left to its reader, as one that repeats constants is.
    """
    known: dict[relax.Var, Value] = {}
    opaque: dict[GlobalVar, GlobalVar] = {}
    apart: set[relax.Call] = set()
    for param in () if inputs is None else module["main"].params[inputs:]:
        known[param] = _like(param.ty)
    if not known:
        return module
    for block in module["main"].body.blocks:
        for binding in block.bindings:
            value = binding.value
            made = _made_of_constants(module, value, known)
            if made is None:
                continue
            if isinstance(value, relax.Call):
                apart.add(value)
            if len(made) == 1:
                known[binding.var] = made[0]

    def rule(call: relax.Call, _: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
        if call.op.name != _KERNEL or call not in apart:
            return None
        name = call.args[0]
        if name not in opaque:
            opaque[name] = builder.add_func(module[name].with_attr("op_pattern", _OPAQUE), name.name_hint)
        return relax.Call(call.op, [opaque[name], *call.args[1:]], call.attrs, call.ty_args, call.span)

    return rewrite(module, rule)


def _made_of_constants(
    module: tvm.IRModule, value: relax.Expr, known: Mapping[relax.Var, Value]
) -> Sequence[Value] | None:
    """What a variable, a reshape or a kernel of one or more results makes of `known` variables, perhaps with others.

    None if it reads anything that is not constant, or makes more bytes than it reads. Only the shapes and types of
    arrays are known, and which integers they widen.
    """
    if isinstance(value, relax.Var):
        return [known[value]] if value in known else None
    if not isinstance(value, relax.Call) or getattr(value.op, "name", "") not in {_KERNEL, _RESHAPE}:
        return None
    operands = _operands(value) if value.op.name == _KERNEL else [value.args[0]]
    if not any(one in known for one in operands):
        return None
    if not all(one in known or isinstance(one, GenericConst) for one in operands):
        return None
    read = [one.value.numpy() if isinstance(one, GenericConst) else known[one] for one in operands]
    if value.op.name == _RESHAPE:
        return [read[0].reshape(_like(value.ty).shape)]
    integers = moved(module[value.args[0]], read)
    types = list(value.ty.fields) if isinstance(value.ty, relax.TupleType) else [value.ty]
    made = [_like(one) for one in types] if integers is None else [integers]
    return made if sum(map(_bytes, made)) <= sum(map(_bytes, read)) else None


def _like(ty: relax.TensorType) -> np.ndarray:
    """An array of a type, of which only shape and element type say something."""
    return np.broadcast_to(np.zeros((), str(ty.dtype)), [int(extent) for extent in ty.shape])


def _bytes(value: Value) -> int:
    return value.integers.nbytes if isinstance(value, Widened) else value.nbytes


class _Calls:
    """The kernel calls of `main`, with the operator patterns of their functions as `changed` so far."""

    def __init__(self, module: tvm.IRModule, changed: dict[GlobalVar, int]) -> None:
        self.module, self.changed, self.chains = module, changed, DefUse(module["main"])

    def __iter__(self) -> Iterator[relax.Call]:
        for block in self.module["main"].body.blocks:
            for binding in block.bindings:
                call = self.chains.call(binding.value, _KERNEL)
                if call is not None:
                    yield call

    def is_fused_with_reader(self, call: relax.Call) -> bool:
        """Whether the only reader of a call's result is a kernel that fusion would merge with the call."""
        result = self.chains.variable(call)
        readers = (
            [] if result is None else [self.chains.call(reader, _KERNEL) for reader in self.chains.readers(result)]
        )
        return len(readers) == 1 and readers[0] is not None and self._pattern(readers[0]) <= _INJECTIVE

    def is_nested(self, concatenation: relax.Call) -> bool:
        """Whether a concatenation of tensors that kernels compute is an operand of another concatenation."""
        result = self.chains.variable(concatenation)
        readers = [] if result is None else [self.chains.call(one, _KERNEL) for one in self.chains.readers(result)]
        return any(reader is not None and _is_concatenation(reader) for reader in readers) and any(
            map(self._needs_kernel, _operands(concatenation))
        )

    def would_copy(self, concatenation: relax.Call) -> bool:
        """Whether a concatenation would absorb one operand while a separate kernel computes another one."""
        operands = _operands(concatenation)
        return any(map(self._is_absorbed, operands)) and any(map(self._needs_kernel, operands))

    def _is_absorbed(self, operand: relax.Expr) -> bool:
        call = self.chains.call(operand, _KERNEL)
        if call is None or not self.chains.used_once(operand):
            return False
        return self._pattern(call) == _INJECTIVE or not self._needs_kernel(operand)

    def _needs_kernel(self, operand: relax.Expr) -> bool:
        """Whether the last operator before `operand` that is not elementwise is a kernel that cannot be absorbed."""
        call = self.chains.call(operand, _KERNEL, _RESHAPE)
        if call is None:
            return False
        if call.op.name == _RESHAPE:  # fusion stops here
            return self.chains.computed(call.args[0])
        pattern = self._pattern(call)
        if pattern <= _BROADCAST or _is_concatenation(call):
            return any(map(self._needs_kernel, _operands(call)))
        return pattern > _INJECTIVE

    def _pattern(self, call: relax.Call) -> int:
        return self.changed.get(call.args[0], _pattern(self.module[call.args[0]]))


def _pattern(function: PrimFunc) -> int:
    return int(function.attrs.get("op_pattern", _OPAQUE)) if function.attrs else _OPAQUE


def _operands(call: relax.Call) -> list[relax.Expr]:
    read = call.args[1]
    return list(read.fields) if isinstance(read, relax.Tuple) else [read]


def _is_concatenation(call: relax.Call) -> bool:
    return bool(call.args[0].name_hint.rstrip("0123456789") == _CONCATENATION)


def _is_slice(function: PrimFunc) -> bool:
    """Whether the function reads one tensor and its result is smaller."""
    sizes = [prod(int(extent) for extent in param.shape) for param in function.params]
    return len(sizes) == 2 and sizes[1] < sizes[0]
