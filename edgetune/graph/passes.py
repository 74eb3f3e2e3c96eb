"""The order of graph passes: from an imported Relax module to one PrimFunc per fused kernel."""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

import numpy as np
import tvm
from tvm import relax

from edgetune.graph.before_concatenation import activations_first
from edgetune.graph.border import read_inputs_in_place
from edgetune.graph.bounded_index import bounded_index
from edgetune.graph.fold_constant import fold_constants
from edgetune.graph.fold_scale import fold_scale
from edgetune.graph.folded_transposes import fold_transposes
from edgetune.graph.fuse_attention import fuse_attention
from edgetune.graph.fusion_patterns import settle_patterns
from edgetune.graph.kernel_names import operators_of_functions
from edgetune.graph.layer_names import nodes_of_calls, pass_marks_on
from edgetune.graph.layout import channels_last
from edgetune.graph.quantised import integer_operators
from edgetune.graph.refusals import tvm_refusals
from edgetune.graph.rewrite import View, constant, rewrite
from edgetune.graph.slices import slice_of_pick, slices_of_splits

_SHAPE_ONLY = frozenset({"relax.flatten", "relax.squeeze", "relax.expand_dims"})


class Fused(NamedTuple):
    """A module whose `main` calls PrimFuncs or reshapes, and what its names do not tell.

    `nodes` has, for each call of a PrimFunc, the nodes of the model that are in it, as far as they are known;
    `functions`, by the name of each fused PrimFunc, the functions it was fused from, in the order of their work.
    """

    module: tvm.IRModule
    nodes: list[list[int]]
    functions: dict[str, tuple[str, ...]]


def fuse(module: tvm.IRModule, exchanged: Collection[int] = ()) -> Fused:
    """Folds, lays out, recognises integer operators, legalises, fuses.

    Raises UnsupportedOperator for a form of an operator that TVM imports but does not legalise.
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
    """Operators that move no data become reshapes, a reshape of a reshape one reshape, and x / constant a product.

    The latter where the bits stay the same, and in erf(x / c), where they hardly matter.
    """
    shape = [int(e) for e in call.ty.shape] if call.ty.shape is not None else None
    if call.op.name in _SHAPE_ONLY and shape is not None:
        return relax.op.reshape(call.args[0], shape)
    if call.op.name == "relax.reshape" and shape is not None:
        if view.computed(call.args[0]) and shape == [int(e) for e in call.args[0].ty.shape]:
            return call.args[0]  # what remains of two transposes that undid each other
        source = view.call(call.args[0], "relax.reshape")
        return None if source is None else relax.op.reshape(source.args[0], shape)
    if call.op.name == "relax.divide" and str(call.ty.dtype) == "float32":
        return _exact_reciprocal(call)
    if call.op.name == "relax.erf" and str(call.ty.dtype) == "float32":
        return _erf_of_product(call, view)
    return None


def _exact_reciprocal(call: relax.Call) -> relax.Expr | None:
    """Division by c as a product with 1 / c where c is a power of two: the same bits, without the division."""
    value = constant(call.args[1])
    if value is None or not value.all() or not np.all(np.frexp(np.abs(value))[0] == 0.5):
        return None
    return relax.op.multiply(call.args[0], relax.const((1.0 / value).astype("float32")))


def _erf_of_product(call: relax.Call, view: View) -> relax.Expr | None:
    """erf(x / c) as erf(x * (1 / c)), as GELU has it: a division takes as long as a dozen products.

    The argument is off by 1.5 units in the last place at most instead of 0.5; |z erf'(z)| < 0.49 makes that
    0.49 * 2^-23 of the result's largest value, 1.
    """
    divided = view.call(call.args[0], "relax.divide")
    value = None if divided is None else constant(divided.args[1])
    if divided is None or value is None or not value.all():
        return None
    with np.errstate(over="ignore"):
        inverse = (1.0 / value.astype("float64")).astype("float32")
    if not np.all(np.isfinite(inverse) & (np.abs(inverse) >= np.finfo("float32").tiny)):
        return None  # no normal number: it would not be that near, or not a number at all
    return relax.op.erf(relax.op.multiply(divided.args[0], relax.const(inverse)))
