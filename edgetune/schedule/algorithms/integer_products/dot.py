"""Dot products: the sum runs in steps of several products, which one instruction adds to a lane.

The terms of one axis, which lie side by side in the data, are taken two or four at a time: these are the last reduction
axis of the new function. Terms that fill the last step have weights of zero.
"""

from __future__ import annotations

from edgetune.graph.element_type import type_of
from edgetune.schedule.algorithms.algorithm import Algorithm
from edgetune.schedule.algorithms.integer_products.function import product_of
from edgetune.schedule.algorithms.integer_products.operand import steps_of, windows_of
from edgetune.schedule.algorithms.integer_products.steps import summed_in_steps
from edgetune.target.dot_product import order_of_factors
from edgetune.tvm_types import PrimFunc


def dot_product_algorithm(function: PrimFunc, name: str) -> Algorithm | None:
    """The algorithm called `name` of an unscheduled PrimFunc: "dot", the type of the data, and the products of a step.

    It is called "im2col" where a copy has all terms of each result side by side. None if the function does not sum
    products of 8-bit integers with constant weights, if lanes do not share the data, or if that type does not hold it.
    """
    kind, dtype, products = name.split("_")
    matched = product_of(function)
    if matched is None:
        return None
    analysis, found = matched
    fits = dtype in ("int16", type_of(found.data.source)) and found.shares_data
    order = order_of_factors(dtype, int(products))
    whole = kind == "im2col"
    steps = None
    if fits:
        steps = windows_of(found, dtype, order) if whole else steps_of(found, analysis, dtype, order)
    return None if steps is None else summed_in_steps(name, analysis, found, steps, order)
