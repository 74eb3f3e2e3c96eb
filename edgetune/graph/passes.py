"""The graph pass pipeline: from an imported Relax module to one PrimFunc per fused kernel.

It also corrects the operator patterns of some legalised operators before TVM fuses them, where fusion would cost more
work than it saves. A slice that begins at 0 looks elementwise to TVM; its kernel would then compute the whole sliced
tensor. A concatenation absorbs operators that only move data, and then copies its other operands too, although their
kernels could write them in place (see `edgetune.graph.views`). A concatenation may still absorb them if a following
operator is fused with it: a separate kernel would need its result in memory.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from math import prod
from typing import Any, NamedTuple

import numpy as np
import tvm
from tvm import relax, tirx

from edgetune.graph.clamp_indices import bounded_index
from edgetune.graph.fold_constant import fold_constants
from edgetune.graph.fold_scale import fold_scale
from edgetune.graph.folded_transposes import fold_transposes
from edgetune.graph.fuse_attention import fuse_attention
from edgetune.graph.kernel_names import operators_of_functions
from edgetune.graph.layer_names import nodes_of_calls, pass_marks_on
from edgetune.graph.layout import channels_last, read_inputs_in_place
from edgetune.graph.quantised import integer_operators
from edgetune.graph.rewrite import View, constant, rewrite
from edgetune.graph.sink_activations import activations_first
from edgetune.graph.slices import slice_of_pick, slices_of_splits
from edgetune.graph.tvm_errors import tvm_refusals

_ELEMENTWISE, _BROADCAST, _INJECTIVE, _OPAQUE = 0, 1, 2, 8  # tvm::relay::OpPatternKind, as FuseOps reads it
_KERNEL, _CONCATENATION = "relax.call_tir", "concatenate"


def settle_patterns(module: tvm.IRModule) -> tvm.IRModule:
    """The legalised and annotated `module` with corrected patterns of these slices and concatenations."""
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
        """Whether the only reader of a call's result is a kernel that fusion would merge with the call."""
        result = self.view.variable(call)
        readers = [] if result is None else [self.view.call(reader, _KERNEL) for reader in self.view.readers(result)]
        return len(readers) == 1 and readers[0] is not None and self._pattern(readers[0]) <= _INJECTIVE

    def would_copy(self, concatenation: relax.Call) -> bool:
        """Whether a concatenation would absorb one operand while a separate kernel computes another one."""
        operands = _operands(concatenation)
        return any(map(self._taken_in, operands)) and any(map(self._of_kernel, operands))

    def _taken_in(self, operand: relax.Expr) -> bool:
        call = self.view.call(operand, _KERNEL)
        if call is None or not self.view.used_once(operand):
            return False
        return self._pattern(call) == _INJECTIVE or not self._of_kernel(operand)

    def _of_kernel(self, operand: relax.Expr) -> bool:
        """Whether the last operator before `operand` that is not elementwise is a kernel that cannot be absorbed."""
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
    """Whether the function reads one tensor and its result is smaller."""
    sizes = [prod(int(extent) for extent in param.shape) for param in function.params]
    return len(sizes) == 2 and sizes[1] < sizes[0]


_SHAPE_ONLY = frozenset({"relax.flatten", "relax.squeeze", "relax.expand_dims"})


class Fused(NamedTuple):
    """A module whose `main` calls PrimFuncs or reshapes, and what its names do not show.

    `nodes` has, for each call of a PrimFunc, the model's nodes that it computes, as far as they are known. `functions`
    has, by the name of each fused PrimFunc, the functions that it was fused from, in execution order.
    """

    module: tvm.IRModule
    nodes: list[list[int]]
    functions: dict[str, tuple[str, ...]]


def fuse(module: tvm.IRModule, exchanged: Collection[int] = ()) -> Fused:
    """Folds constants and scales, chooses the layout, recognises integer operators, legalises, fuses.

    Raises UnsupportedOperator if TVM imports an operator but does not legalise the variant at hand.
    """
    module = slices_of_splits(relax.transform.DecomposeOpsForInference()(module))
    module = pass_marks_on(activations_first(module))
    module = fold_scale(module)
    module = channels_last(module, exchanged)
    module = pass_marks_on(integer_operators(module))
    module = pass_marks_on(read_inputs_in_place(module))
    module = rewrite(module, _shape_only)
    module = rewrite(module, bounded_index)
    module = rewrite(module, slice_of_pick)
    module = pass_marks_on(fuse_attention(module))
    module = pass_marks_on(fold_transposes(module))
    module = fold_constants(module)
    before = settle_patterns(_legalised(module))
    fused = relax.transform.FuseOps()(before)
    final = tvm.transform.Sequential([relax.transform.FuseTIR(), relax.transform.DeadCodeElimination()])(fused)
    return Fused(final, nodes_of_calls(before, fused), operators_of_functions(fused))


def _legalised(module: tvm.IRModule) -> tvm.IRModule:
    passes = [
        relax.transform.CanonicalizeBindings(),
        relax.transform.LegalizeOps(skip_ops=["relax.reshape"]),
        relax.transform.AnnotateTIROpPattern(),
        relax.transform.FoldConstant(),
    ]
    with tvm_refusals():
        return tvm.transform.Sequential(passes)(module)


def _shape_only(call: relax.Call, view: View, _: relax.BlockBuilder) -> relax.Expr | None:
    """Operators that move no data become reshapes, nested reshapes become one, and x / constant becomes a product.

    The last applies where the bits stay the same, and in erf(x / c), where they hardly matter.
    """
    shape = [int(e) for e in call.ty.shape] if call.ty.shape is not None else None
    if call.op.name in _SHAPE_ONLY and shape is not None:
        return relax.op.reshape(call.args[0], shape)
    if call.op.name == "relax.reshape" and shape is not None:
        if view.computed(call.args[0]) and shape == [int(e) for e in call.args[0].ty.shape]:
            return call.args[0]  # remains of two transposes that cancel each other
        source = view.call(call.args[0], "relax.reshape")
        return None if source is None else relax.op.reshape(source.args[0], shape)
    if call.op.name == "relax.divide" and str(call.ty.dtype) == "float32":
        return _exact_reciprocal(call)
    if call.op.name == "relax.erf" and str(call.ty.dtype) == "float32":
        return _erf_of_product(call, view)
    return None


def _exact_reciprocal(call: relax.Call) -> relax.Expr | None:
    """Division by c as a product with 1 / c if c is a power of two: the same bits, without the division."""
    value = constant(call.args[1])
    if value is None or not value.all() or not np.all(np.frexp(np.abs(value))[0] == 0.5):
        return None
    return relax.op.multiply(call.args[0], relax.const((1.0 / value).astype("float32")))


def _erf_of_product(call: relax.Call, view: View) -> relax.Expr | None:
    """erf(x / c) as erf(x * (1 / c)), as in GELU: a division takes as long as a dozen products.

    The error of the argument is at most 1.5 units in the last place instead of 0.5. Because |z erf'(z)| < 0.49, this is
    0.49 * 2^-23 of the result's largest value, 1.
    """
    divided = view.call(call.args[0], "relax.divide")
    value = None if divided is None else constant(divided.args[1])
    if divided is None or value is None or not value.all():
        return None
    with np.errstate(over="ignore"):
        inverse = (1.0 / value.astype("float64")).astype("float32")
    if not np.all(np.isfinite(inverse) & (np.abs(inverse) >= np.finfo("float32").tiny)):
        return None  # 1 / c is subnormal, infinite or NaN: the result would be less accurate, or wrong
    return relax.op.erf(relax.op.multiply(divided.args[0], relax.const(inverse)))
