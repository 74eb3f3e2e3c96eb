"""The graph pass pipeline: from an imported Relax module to one PrimFunc per fused kernel.

Rules that look at one or two operators are here too: axes count from the start, operators that move no data become
reshapes, some divisions become products, and run-time indices are clamped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from functools import partial
from typing import NamedTuple, TypeAlias

import numpy as np
import tvm
from tvm import relax, te, tirx
from tvm.relax.expr_functor import PyExprMutator, mutator

from edgetune.graph.concat_fusion import constants_apart, settle_patterns
from edgetune.graph.constant_channels import ConstantChannels, without_constant_channels
from edgetune.graph.dequantised import Known
from edgetune.graph.element_type import is_floating
from edgetune.graph.fold_constant import fold_constants
from edgetune.graph.fold_scale import fold_scale
from edgetune.graph.fuse_attention import fuse_attention
from edgetune.graph.kernel_names import operators_of_functions
from edgetune.graph.layer_names import nodes_of_calls, pass_marks_on
from edgetune.graph.layout.channels_last import channels_last
from edgetune.graph.layout.fold_transposes import fold_input_transposes, fold_transposes
from edgetune.graph.nan_operands import keeping_nan
from edgetune.graph.quantised import integer_operators, integer_sums, joined_terms
from edgetune.graph.resampling import resize_by_tables
from edgetune.graph.rewrite import DefUse, attributes, constant, constant_of, rewrite, with_attributes
from edgetune.graph.sink_activations import sink_activations
from edgetune.graph.tvm_errors import Step, passed
from edgetune.graph.views.lower_splits import pick_to_slice, splits_to_slices
from edgetune.graph.ways import USUAL, Ways

Axes: TypeAlias = int | Sequence[int] | None

_OF_THE_RESULT = frozenset({"relax.expand_dims", "relax.stack", "relax.one_hot"})
"""Operators whose axes are those of their result; those of others are axes of their first operand."""
_ALONG_AXIS = frozenset({"relax.gather_elements", "relax.scatter_elements"})
_BY_COORDINATES = frozenset({"relax.gather_nd", "relax.scatter_nd"})
_UNCHANGED = frozenset({"relax.astype", "relax.broadcast_to"})
"""Operators that return their operand where it has their type already."""
_SHAPE_ONLY = frozenset({"relax.flatten", "relax.squeeze", "relax.expand_dims"})


class Fused(NamedTuple):
    """A module whose `main` calls PrimFuncs or reshapes, and what its names do not show.

    `nodes` has, for each call of a PrimFunc, the model's nodes that it computes, as far as they are known. `functions`
    has, by the name of each fused PrimFunc, the functions that it was fused from, in execution order. `constant` are
    the layers that were made without constant channels.
    """

    module: tvm.IRModule
    nodes: list[list[int]]
    functions: dict[str, tuple[str, ...]]
    constant: tuple[ConstantChannels, ...] = ()


def fuse(
    module: tvm.IRModule,
    exchanged: Collection[int] = (),
    ways: Ways = USUAL,
    *,
    places: Sequence[str] = (),
    inputs: int | None = None,
    known: Known = None,
) -> Fused:
    """Folds constants and scales, chooses the layout, recognises integer operators, legalises, fuses.

    Parameters of `main` after the first `inputs` are constants. `known` are the values of such parameters, by number.
    Raises UnsupportedOperator if TVM refuses a node: `places` says where each is (see `Imported`).
    """
    constant_channels: list[ConstantChannels] = []
    for step in _steps(exchanged, ways, inputs, known, constant_channels):
        module = passed(module, step, places)
    fused = passed(module, relax.transform.FuseOps(), places)
    finish = tvm.transform.Sequential([relax.transform.FuseTIR(), relax.transform.DeadCodeElimination()])
    nodes, functions = nodes_of_calls(module, fused), operators_of_functions(fused)
    return Fused(passed(fused, finish, places), nodes, functions, tuple(constant_channels))


def _steps(
    exchanged: Collection[int], ways: Ways, inputs: int | None, known: Known, constant_channels: list[ConstantChannels]
) -> Iterator[Step]:
    """The passes before fusion, in their order; one adds to `constant_channels` what it found."""
    yield positive_axes
    yield pass_marks_on
    yield relax.transform.DecomposeOpsForInference()
    yield splits_to_slices
    yield sink_activations
    yield pass_marks_on
    yield fold_scale
    yield partial(channels_last, exchanged=exchanged)
    yield partial(integer_sums, known=known)
    if not ways.keeps_channels:
        yield partial(without_constant_channels, known=known, found=constant_channels)
        yield pass_marks_on
    yield partial(integer_operators, known=known)
    yield pass_marks_on
    yield fold_input_transposes
    yield pass_marks_on
    for rule in (_simplify, _clamp_indices, pick_to_slice, resize_by_tables):
        yield partial(rewrite, rule=rule)
    if ways.joins_attention:
        yield fuse_attention
        yield pass_marks_on
    yield fold_transposes
    yield partial(joined_terms, known=known)
    yield pass_marks_on
    yield fold_constants
    yield relax.transform.CanonicalizeBindings()
    yield relax.transform.LegalizeOps(keeping_nan(), skip_ops=["relax.reshape"])
    yield relax.transform.AnnotateTIROpPattern()
    yield relax.transform.FoldConstant()
    yield settle_patterns
    yield partial(constants_apart, inputs=inputs)


def _simplify(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    """Operators that move no data become reshapes, nested reshapes become one, and x / constant becomes a product.

    The last applies where the bits stay the same, and in erf(x / c), where they hardly matter. log(1 + x) is computed
    without the rounded sum.
    """
    shape = [int(e) for e in call.ty.shape] if call.ty.shape is not None else None
    if call.op.name in _SHAPE_ONLY and shape is not None:
        return relax.op.reshape(call.args[0], shape)
    if call.op.name == "relax.reshape" and shape is not None:
        if chains.computed(call.args[0]) and shape == [int(e) for e in call.args[0].ty.shape]:
            return call.args[0]  # remains of two transposes that cancel each other
        source = chains.call(call.args[0], "relax.reshape")
        return None if source is None else relax.op.reshape(source.args[0], shape)
    if call.op.name in _UNCHANGED and chains.computed(call.args[0]) and _type(call) == _type(call.args[0]):
        return call.args[0]
    if call.op.name == "relax.divide" and is_floating(call):
        return _exact_reciprocal(call)
    if call.op.name == "relax.log" and is_floating(call):
        return _log1p(call, chains, builder)
    if call.op.name == "relax.erf" and is_floating(call):
        return _erf_of_product(call, chains)
    return None


def _type(value: relax.Expr) -> tuple[list[int], str]:
    return [int(extent) for extent in value.ty.shape], str(value.ty.dtype)


def _exact_reciprocal(call: relax.Call) -> relax.Expr | None:
    """Division by c as a product with 1 / c if c is a power of two: the same bits, without the division."""
    value = constant(call.args[1])
    if value is None or not value.all() or not np.all(np.frexp(np.abs(value))[0] == 0.5):
        return None
    with np.errstate(over="ignore"):
        inverse = (1.0 / value).astype(value.dtype)
    if not np.all(np.isfinite(inverse)):
        return None  # c is subnormal: 0 / c would be 0 times infinity
    return relax.op.multiply(call.args[0], constant_of(inverse))


def _erf_of_product(call: relax.Call, chains: DefUse) -> relax.Expr | None:
    """erf(x / c) as erf(x * (1 / c)), as in GELU: a division takes as long as a dozen products.

    The error of the argument is at most 1.5 units in the last place instead of 0.5. Because |z erf'(z)| < 0.49, this is
    0.49 * 2^-23 (in double 2^-52) of the result's largest value, 1.
    """
    divided = chains.call(call.args[0], "relax.divide")
    value = None if divided is None else constant(divided.args[1])
    if divided is None or value is None or not value.all():
        return None
    with np.errstate(over="ignore"):
        inverse = (1.0 / value.astype("float64")).astype(value.dtype)
    if not np.all(np.isfinite(inverse) & (np.abs(inverse) >= np.finfo(value.dtype).tiny)):
        return None  # 1 / c is subnormal, infinite or NaN: the result would be less accurate, or wrong
    return relax.op.erf(relax.op.multiply(divided.args[0], constant_of(inverse)))


def _log1p(call: relax.Call, chains: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    """log(1 + x) as one function: the rounded sum has nothing of an x that is small beside 1, as in Softplus."""
    total = chains.call(call.args[0], "relax.add")
    if total is None or not chains.used_once(call.args[0]):
        return None
    for one, other in (total.args, reversed(total.args)):
        value = constant(one)
        if value is not None and value.size == 1 and value.item() == 1 and len(one.ty.shape) <= len(other.ty.shape):
            return builder.call_te(_logarithms, other, primfunc_name_hint="log1p")
    return None


def _logarithms(x: te.Tensor) -> te.Tensor:
    return te.compute(x.shape, lambda *i: tirx.log1p(x(*i)), name="log1p")


def _clamp_indices(call: relax.Call, chains: DefUse, _: relax.BlockBuilder) -> relax.Expr | None:
    """Run-time indices are clamped to their axis, so a wrong index never causes a wild read or write.

    A wrong index gives a wrong element. ONNX leaves an index out of range undefined (Gather, GatherElements, GatherND,
    ScatterElements, ScatterND: "an error"). A library without an error path inside kernels can only be safe. The
    importer has already normalised negative indices. `take` clamps its own in mode "clip".
    """
    name = call.op.name
    if name == "relax.take":
        if call.attrs.mode != "fast":
            return None
        axis = None if call.attrs.axis is None else int(call.attrs.axis)
        return relax.op.take(call.args[0], call.args[1], axis, mode="clip")
    if name not in _ALONG_AXIS | _BY_COORDINATES or constant(call.args[1]) is not None:
        return None
    shape = [int(extent) for extent in call.args[0].ty.shape]
    if name in _ALONG_AXIS:
        largest = np.array(shape[int(call.attrs.axis)] - 1)
    else:
        first = int(getattr(call.attrs, "batch_dims", 0)) if name == "relax.gather_nd" else 0
        count = int(call.args[1].ty.shape[-1])
        largest = np.array(shape[first : first + count]) - 1
    dtype = str(call.args[1].ty.dtype)
    if _is_clamped(call.args[1], largest, chains):
        return None
    zero = relax.const(np.zeros((), dtype), dtype)
    clamped = relax.op.minimum(relax.op.maximum(call.args[1], zero), relax.const(largest.astype(dtype), dtype))
    return relax.Call(call.op, [call.args[0], clamped, *call.args[2:]], call.attrs)


def _is_clamped(indices: relax.Expr, largest: np.ndarray, chains: DefUse) -> bool:
    upper = chains.call(indices, "relax.minimum")
    bound = None if upper is None else constant(upper.args[1])
    return bound is not None and bound.shape == largest.shape and bool(np.all(bound == largest))


def positive_axes(module: tvm.IRModule) -> tvm.IRModule:
    """Returns `module`, in whose `main` no attribute that names axes is negative.

    TVM 0.27 takes negative axes in most operators, but not all of its passes do: ConvertLayout reads outside of a
    layout for the axis of a Squeeze, and ends in `std::bad_alloc`. So no pass of TVM sees one.
    """
    mutated = _CountFromTheStart(module)
    functions = dict(module.functions)
    functions[module.get_global_var("main")] = mutated.visit_expr(module["main"])
    return tvm.IRModule(functions, attrs=module.attrs, global_infos=module.global_infos)


@mutator
class _CountFromTheStart(PyExprMutator):
    def visit_call_(self, call: relax.Call) -> relax.Expr:
        visited = super().visit_call_(call)
        rank = _rank(call)
        if rank is None or visited.attrs is None:
            return visited
        negative = {
            name: _positive(value, rank)
            for name, value in attributes(visited).items()
            if _names_axes(name) and _is_negative(value)
        }
        return with_attributes(visited, negative) if negative else visited


def _rank(call: relax.Call) -> int | None:
    """Returns the number of axes that the attributes of an operator count, where it is known."""
    if not isinstance(call.op, tvm.ir.Op) or not call.args:
        return None
    counted = call if call.op.name in _OF_THE_RESULT else call.args[0]
    while isinstance(counted, relax.Tuple):
        counted = counted.fields[0]
    of = counted.ty
    while isinstance(of, relax.TupleType) and of.fields:
        of = of.fields[0]
    return int(of.ndim) if isinstance(of, relax.TensorType) and int(of.ndim) > 0 else None


def _names_axes(attribute: str) -> bool:
    return attribute in {"axis", "axes"} or attribute.endswith("_axis")


def _is_negative(axes: Axes) -> bool:
    if axes is None:
        return False
    return axes < 0 if isinstance(axes, int) else any(int(axis) < 0 for axis in axes)


def _positive(axes: Axes, rank: int) -> Axes:
    if axes is None:
        return None
    return axes % rank if isinstance(axes, int) else [int(axis) % rank for axis in axes]
