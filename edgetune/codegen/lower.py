"""Lowering: turns scheduled TIR into printable TIR (flat buffers, vector operations, unrolled tiles, 32-bit indices).

It runs the passes of TVM's own `s_tir` pipeline that concern a CPU, up to where calling conventions begin.

It also peels first iterations: if a reduction's initialisation is inside the loop as `if (k == 0)`, it moves before the
loop. Compilers do not see through that test in a nest of loops; without it they keep the sum in a register.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import tvm
import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import conjuncts, variables_in
from edgetune.codegen.collapse_loops import Shared, collapse
from edgetune.codegen.copied_borders import divide_borders
from edgetune.codegen.dot_products import products_of, reads_several, with_joined_products
from edgetune.codegen.horizontal_reduction import join_lanes
from edgetune.codegen.linear_indices import with_linear_indices
from edgetune.codegen.loop_fusion import in_one_pass
from edgetune.codegen.loop_names import with_loop_names
from edgetune.codegen.prefetch.inputs import prefetch_inputs
from edgetune.codegen.prefetch.outputs import prefetch_outputs
from edgetune.codegen.prefetch.weights_l1 import prefetch_weights_l1
from edgetune.codegen.prefetch.weights_l2 import prefetch_weights_l2
from edgetune.codegen.reduction_blocks import block_reductions
from edgetune.codegen.register_tiles import tile_shapes, with_shapes
from edgetune.codegen.traverse import children, expressions, map_loops
from edgetune.codegen.unrolling import extent_of, limit_unrolling, unroll_register_tiles, with_kind
from edgetune.errors import TVM_REFUSALS, KernelFailed
from edgetune.graph.flat_buffers import flatten_buffers
from edgetune.graph.tvm_errors import lowering_failed
from edgetune.tvm_types import Expr, For, Pass, PrimFunc, Stmt, TvmTarget, Var


def hoist_initialisation(node: Stmt) -> Stmt:
    """`node` with leading `if (loop variable is at its start)` statements moved before their loops."""
    return map_loops(node, _hoisted)


def _hoisted(node: Stmt) -> Stmt:
    body = hoist_initialisation(node.body)
    parts = list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]
    first = parts[0]
    serial = int(node.kind) in (int(tirx.ForKind.SERIAL), int(tirx.ForKind.UNROLLED))
    if len(parts) > 1 and serial and (extent_of(node) or 0) > 0:
        rest = _conditions_but_start(first, node)
        if rest is not None:
            loop = with_kind(node, int(node.kind), parts[1] if len(parts) == 2 else tirx.SeqStmt(parts[1:]))
            before = first.then_case if not rest else tirx.IfThenElse(_all(rest), first.then_case, None)
            return tirx.SeqStmt([before, loop])
    return with_kind(node, int(node.kind), body)


def _all(conditions: list[Expr]) -> Expr:
    joined = conditions[0]
    for condition in conditions[1:]:
        joined = tirx.And(joined, condition)
    return joined


def _conditions_but_start(statement: Stmt, loop: For) -> list[Expr] | None:
    """The other conditions of an `if` that requires the loop's first iteration; None for any other statement."""
    if not isinstance(statement, tirx.IfThenElse) or statement.else_case is not None:
        return None
    start: list[Expr] = []
    rest: list[Expr] = []
    for condition in conjuncts(statement.condition):
        (start if _is_start(condition, loop) else rest).append(condition)
    found: set[Var] = set()
    variables_in(rest, found)
    _variables(statement.then_case, found)
    return rest if start and loop.loop_var not in found else None


def _is_start(condition: Expr, loop: For) -> bool:
    if not isinstance(condition, tirx.EQ):
        return False
    for a, b in ((condition.a, condition.b), (condition.b, condition.a)):
        if isinstance(a, ir.Var) and a.same_as(loop.loop_var) and isinstance(b, tirx.IntImm):
            return isinstance(loop.min, tirx.IntImm) and int(loop.min.value) == int(b.value)
    return False


def _variables(node: Stmt, found: set[Var]) -> None:
    variables_in(expressions(node), found)
    if isinstance(node, tirx.BufferStore):
        variables_in(node.indices, found)
    for child in children(node):
        _variables(child, found)


# Operators that the printer writes as vectors; without this attribute TVM would split them into lanes.
for _name in ("tirx.nearbyint", "tirx.erf", "tirx.rsqrt", "tirx.isnan", "tirx.log1p"):
    if tvm.ir.Op.get(_name).get_attr("TVectorizable") is None:
        tvm.ir.register_op_attr(_name, "TVectorizable", True)


@cache
def to_compact() -> Pass:
    """The passes after which each buffer of a scheduled function is as large as what is kept in it at a time."""
    return tvm.transform.Sequential(
        [
            s_tir.transform.CanonicalizeLoop(),
            s_tir.transform.LowerInitBlock(),
            s_tir.transform.PlanAndUpdateBufferAllocationLocation(),
            s_tir.transform.ConvertBlocksToOpaque(),
            s_tir.transform.CompactBufferAllocation(),
        ]
    )


@cache
def _to_flat() -> Pass:
    return tvm.transform.Sequential(
        [
            s_tir.transform.LowerMatchBuffer(),
            s_tir.transform.StmtSimplify(),
            s_tir.transform.AnnotateIrregularLoop(),
            s_tir.transform.LowerOpaqueBlock(),
            flatten_buffers(),
            tirx.transform.NarrowDataType(32),
        ]
    )


@cache
def _to_vectors() -> Pass:
    return tvm.transform.Sequential([s_tir.transform.LoopPartition(), tirx.transform.VectorizeLoop(True)])


@cache
def _before_unrolling() -> Pass:
    return tvm.transform.Sequential([tirx.transform.StorageRewrite(), s_tir.transform.HoistIfThenElse()])


def _settled_selections() -> Pass:
    """A pass that settles selections between vectors by a constant, as unrolling leaves them, and adds no zeros.

    A test of a place is a vector of equal lanes inside a vectorised loop, and TVM folds only tests of one lane.
    """

    def settled(selection: Expr) -> Expr:
        condition = selection.condition
        if isinstance(condition, tirx.Broadcast) and isinstance(condition.value, tirx.IntImm):
            return selection.true_value if int(condition.value.value) else selection.false_value
        return selection

    def added(total: Expr) -> Expr:
        term = total.b.value if isinstance(total.b, tirx.Broadcast) else None
        return total.a if isinstance(term, tirx.FloatImm) and float(term.value) == 0.0 else total

    def change(function: PrimFunc, module: tvm.IRModule, context: object) -> PrimFunc:
        del module, context
        known = tvm_ffi.structural_map(function, (tirx.Select, settled))
        return known if known.same_as(function) else tvm_ffi.structural_map(known, (tirx.Add, added))

    return tirx.transform.prim_func_pass(change, opt_level=0, name="edgetune.SettledSelections")


def _joined_products() -> Pass:
    """A pass that makes one sum of the products that an instruction adds to a lane (see `dot_products.py`)."""

    def change(function: PrimFunc, module: tvm.IRModule, context: object) -> PrimFunc:
        del module, context
        body = with_joined_products(function.body, products_of(function))
        return function if body.same_as(function.body) else function.with_body(body)

    return tirx.transform.prim_func_pass(change, opt_level=0, name="edgetune.JoinedProducts")


@cache
def _after_unrolling() -> Pass:
    return tvm.transform.Sequential(
        [
            tirx.transform.UnrollLoop(),
            _joined_products(),
            s_tir.transform.RenormalizeSplitPattern(),
            tirx.transform.StmtSimplify(),
            _settled_selections(),
            tirx.transform.RemoveNoOp(),
            s_tir.transform.RewriteUnsafeSelect(),
            tirx.transform.CommonSubexprElim(),
        ]
    )


@cache
def _lowering_target() -> TvmTarget:
    # Passes only read the kind of machine from it; TVM generates no code for it.
    return tvm.target.Target({"kind": "llvm", "num-cores": 1})


def sole_function(mod: tvm.IRModule) -> tirx.PrimFunc:
    """The one PrimFunc of `mod`; KernelFailed if there is none or several."""
    functions = [f for f in mod.functions.values() if isinstance(f, tirx.PrimFunc)]
    if len(functions) != 1:
        raise KernelFailed(f"a kernel module must hold one function, this one holds {len(functions)}")
    return functions[0]


def lower(mod: tvm.IRModule, register_bytes: int) -> tirx.PrimFunc:
    """Lower a module of one scheduled PrimFunc (no weight-packing blocks) to statements that the printer supports.

    `register_bytes` are those of the target's vector registers. Raises KernelFailed if a pass rejects the schedule.
    """
    return lower_flat(flat(mod), register_bytes)


def flat(mod: tvm.IRModule) -> tirx.PrimFunc:
    """The first half of `lower`: no blocks any more, every buffer flat, vector loops still loops.

    Loops are named after axes. The function carries the shapes that its buffers had (see `register_tiles`).
    """
    named = with_loop_names(sole_function(mod))
    with _as_kernel_failed(), _lowering_target():
        compact = to_compact()(tvm.IRModule({"main": named}))
        shapes = tile_shapes(sole_function(compact))
        return with_shapes(with_linear_indices(sole_function(_to_flat()(compact))), shapes)


def lower_flat(function: tirx.PrimFunc, register_bytes: int, shared: Shared | None = None) -> tirx.PrimFunc:
    """The second half of `lower`; `shared` loops become one, and the code may use `begin` of its ranges.

    Raises KernelFailed if a pass rejects the schedule or removed a shared loop.
    """
    kept = () if shared is None else shared.loops
    with _as_kernel_failed(), _lowering_target():
        divided = divide_borders(function.body, kept)
        function = function if divided.same_as(function.body) else function.with_body(divided)
        function = sole_function(_to_vectors()(tvm.IRModule({"main": function})))
        first = hoist_initialisation(function.body)
        # Before sums that are computed one after the other get the same memory.
        joined = in_one_pass(first, register_bytes, kept, unrolled=False)
        function = function if joined is first else function.with_body(joined)
        function = sole_function(_before_unrolling()(tvm.IRModule({"main": function})))
        body = block_reductions(join_lanes(hoist_initialisation(function.body)))
        body = in_one_pass(
            limit_unrolling(unroll_register_tiles(body, several=reads_several(function)), products_of(function)),
            register_bytes,
            kept,
            unrolled=True,
        )
        body = prefetch_outputs(prefetch_weights_l2(prefetch_weights_l1(prefetch_inputs(body)), shared))
        body = body if shared is None else collapse(body, shared)
        return sole_function(_after_unrolling()(tvm.IRModule({"main": function.with_body(body)})))


@contextmanager
def _as_kernel_failed() -> Iterator[None]:
    try:
        yield
    except TVM_REFUSALS as error:
        raise KernelFailed(lowering_failed(error)) from error
