"""Stage inlining: computes stages inside their readers, so that no intermediate tensor is stored."""

from __future__ import annotations

from collections.abc import Iterable

from tvm import ir
from tvm.s_tir import Schedule

from edgetune.affine.expressions import expressions
from edgetune.codegen.intrinsics import operator
from edgetune.codegen.powers import is_product
from edgetune.schedule.sketches.block_analysis import COMPUTED_ONCE, BlockAnalysis, BlockStage, stores
from edgetune.schedule.sketches.places import moves_in_parts
from edgetune.tvm_types import Expr

_COSTLY_WORDS = """
exp exp2 exp10 expm1 ldexp log log2 log10 log1p pow sqrt rsqrt erf sigmoid
sin cos tan asin acos atan atan2 sinh cosh tanh asinh acosh atanh isinf
"""
_COSTLY = frozenset(_COSTLY_WORDS.split())

_MOST_LOADS = 64
"""Loads of a reader that come of one inlined stage: a chain of stages of four loads each has 4^n."""


def inline_all(sch: Schedule, names: Iterable[str]) -> list[str]:
    """Inline the stages called `names` into their readers; returns those that TVM would not inline, or that grow."""
    left = []
    for name in names:
        if _loads_inlined(sch, name) > _MOST_LOADS:
            left.append(name)
            continue
        try:
            sch.compute_inline(sch.get_sblock(name))
        except RuntimeError:  # ScheduleError, or TVM's error for a case that it does not handle
            left.append(name)
    return left


def _loads_inlined(sch: Schedule, name: str) -> int:
    """The most loads that a reader of stage `name` would have of what that reads."""
    block = sch.get_sblock(name)
    stage = sch.get(block)
    own = sum(isinstance(node, ir.TensorLoad) for store in stores(stage.body) for node in expressions(store.value))
    readers = [sch.get(consumer) for consumer in sch.get_consumers(block)]
    reads = [
        sum(
            isinstance(node, ir.TensorLoad) and node.source.same_as(stage.writes[0].source)
            for store in stores(reader.body)
            for node in expressions(store.value)
        )
        for reader in readers
    ]
    return own * max(reads, default=0)


def cheap_to_repeat(analysis: BlockAnalysis, stage: BlockStage) -> bool:
    """Whether each reader may compute a stage again: it has one reader that runs once per element, or little work."""
    if stage.reduction or COMPUTED_ONCE in stage.block.annotations:
        return False
    readers = [other for other in analysis.stages if other is not stage and _reads(other, stage)]
    in_parts = bool(stage.spatial) and (stage.branches_along(stage.spatial[-1]) or moves_in_parts(stage))
    if in_parts and any(reader.reduction for reader in readers):
        return False  # lanes of the reduction would branch, or load, one by one
    once = len(readers) == 1 and readers[0].work <= stage.work
    return once or not any(is_costly(node) for store in stores(stage.block.body) for node in expressions(store.value))


def _reads(reader: BlockStage, stage: BlockStage) -> bool:
    return any(r.source.same_as(w.source) for r in reader.block.reads for w in stage.block.writes)


def is_costly(node: Expr) -> bool:
    """Whether a node calls a function of many instructions, or of a slow one; not a power that is a product."""
    if not isinstance(node, ir.Call) or operator(node) not in _COSTLY:
        return False
    return operator(node) != "pow" or not is_product(node)
