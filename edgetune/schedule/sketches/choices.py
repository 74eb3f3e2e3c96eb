"""Axes of choice: a short axis whose place decides between alternatives, as in `band == 0 ? a + b : a - b`.

Vectors over another axis would test the place again and again, and vectors over this one compute all alternatives to
keep one lane of each. With the axis unrolled inside of all others, each alternative is a statement of its own without
a test, and what they read is loaded once.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import ir, tirx
from tvm.s_tir import Schedule

from edgetune.graph.tvm_types import Expr, IterVar, LoopRV, SBlock
from edgetune.schedule.sketches.block_analysis import expressions, extent_of, mentions, stores

MOST_ALTERNATIVES = 8
_COMPARISONS = (tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE)


def axis_of_choice(block: SBlock) -> int | None:
    """The number of the axis whose place decides which value a stage takes; None if there is none.

    Comparisons with that place mention no other variable, so that unrolling the axis leaves none of them.
    """
    axes = block.iter_vars
    conditions = [
        node
        for store in stores(block.body)
        for value in expressions(store.value)
        if (condition := _condition(value)) is not None
        for node in expressions(condition)
        if isinstance(node, _COMPARISONS)
    ]
    for number, axis in enumerate(axes):
        about = [one for one in conditions if mentions(one, axis.var)]
        if 1 < extent_of(axis) <= MOST_ALTERNATIVES and about and all(_is_alone(one, axis, axes) for one in about):
            return number
    return None


def _condition(value: Expr) -> Expr | None:
    """The condition by which a value is chosen; None for any other value."""
    if isinstance(value, tirx.Select):
        return value.condition
    chooses = isinstance(value, ir.Call) and getattr(value.op, "name", "").endswith("if_then_else")
    return value.args[0] if chooses else None


def _is_alone(comparison: Expr, axis: IterVar, axes: Sequence[IterVar]) -> bool:
    """Whether a comparison depends on the place along one of the axes alone."""
    others = any(mentions(comparison, other.var) for other in axes if not other.same_as(axis))
    return not others and not any(isinstance(node, ir.TensorLoad) for node in expressions(comparison))
