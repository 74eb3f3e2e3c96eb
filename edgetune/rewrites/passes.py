"""The passes over an unscheduled kernel, in their order: one list for the kernels of models and of expressions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from edgetune.graph.collapsed_axes import collapse_axes
from edgetune.graph.long_sums import split_long_sums
from edgetune.graph.running_reductions import shorten_running_reductions
from edgetune.graph.separable_windows import separate_windows
from edgetune.graph.whole_factors import with_whole_factors
from edgetune.rewrites.bordered_operands import with_bordered_operands
from edgetune.rewrites.bounds import with_branches
from edgetune.rewrites.conditional_terms import with_bounded_terms
from edgetune.rewrites.divided_axes import with_divided_axes
from edgetune.rewrites.normal_form import normal_form
from edgetune.rewrites.reciprocals import with_reciprocals
from edgetune.rewrites.repeated_values import with_repeated_values
from edgetune.rewrites.row_divisors import with_row_divisors
from edgetune.rewrites.shared_values import with_shared_values
from edgetune.rewrites.short_sums import with_sums_for_short_rows, with_sums_of_columns
from edgetune.rewrites.stored_indices import with_stored_indices
from edgetune.rewrites.turned_operands import with_turned_operands
from edgetune.rewrites.window_values import with_window_values
from edgetune.tvm_types import PrimFunc

Apply = Callable[[PrimFunc, Sequence[int]], PrimFunc]
"""A function, and the numbers of its parameters that are weights, to the same function in another form."""


@dataclass(frozen=True)
class Rewrite:
    """A pass: what `apply` does, and why."""

    name: str
    reason: str
    apply: Apply


def _of_function(apply: Callable[[PrimFunc], PrimFunc]) -> Apply:
    """A pass that treats weights like other parameters."""
    return lambda function, _: apply(function)


PASSES = (
    Rewrite("branches", "A selection computes both sides, and one may read outside.", _of_function(with_branches)),
    Rewrite("whole factors", "Schedules divide no floats in an index.", _of_function(with_whole_factors)),
    Rewrite("bounded terms", "Terms that a condition leaves out need no time.", _of_function(with_bounded_terms)),
    Rewrite("divided axes", "A quotient and a remainder of an axis are two axes.", with_divided_axes),
    Rewrite("normal form", "Later passes and sketches know one form of each sum.", normal_form),
    Rewrite("collapsed axes", "Axes that all stages walk as one are one loop.", collapse_axes),
    Rewrite("stored indices", "A stored index is loaded in vectors.", _of_function(with_stored_indices)),
    Rewrite("short rows", "A sum for each of a few results has no lanes.", _of_function(with_sums_for_short_rows)),
    Rewrite("columns", "Terms some elements apart are columns of vectors.", _of_function(with_sums_of_columns)),
    Rewrite("shared values", "A function of the same value is called once.", _of_function(with_shared_values)),
    Rewrite("reciprocals", "A product is faster than a quotient.", _of_function(with_reciprocals)),
    Rewrite("row divisors", "A row that is divided by one number is multiplied.", _of_function(with_row_divisors)),
    Rewrite("repeated values", "A value without the last axes is stored once.", _of_function(with_repeated_values)),
    Rewrite("window values", "A value that neighbouring windows share is stored.", _of_function(with_window_values)),
    Rewrite("bordered operands", "A row with its border needs no clamp.", with_bordered_operands),
    Rewrite("turned operands", "A transposed operand is turned in registers.", with_turned_operands),
)
"""Before a kernel is divided into several."""

PASSES_OF_PARTS = (
    Rewrite("separable windows", "A window of k x k is k rows of k.", _of_function(separate_windows)),
    Rewrite("running reductions", "Windows share a triangle of terms.", _of_function(shorten_running_reductions)),
    Rewrite("long sums", "Sums in parts are more accurate.", _of_function(split_long_sums)),
)
"""For each part of a divided kernel, or for a whole one."""


def rewritten(function: PrimFunc, weights: Sequence[int], passes: Sequence[Rewrite] = PASSES) -> PrimFunc:
    """An unscheduled function after some passes; `weights` are the numbers of the parameters that are constants."""
    for one in passes:
        function = one.apply(function, weights)
    return function
