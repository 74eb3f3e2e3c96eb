"""Products of matrices: time may be an axis of rows or columns of the result. A product along time reads the window."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import onnx

from edgetune.frontend.onnx.streaming.rules.attention import scores
from edgetune.frontend.onnx.streaming.rules.attributes import Rule, attributes_of
from edgetune.frontend.onnx.streaming.step_graph import StepGraph


def _product(right: int, numbers: Sequence[int]) -> Rule:
    """The rule of a product whose factors are the inputs 0 and `right`; the inputs `numbers` have one element each."""

    def rule(step: StepGraph, node: onnx.NodeProto) -> None:
        factors = (node.input[0], node.input[right])
        names = step.timed(node)
        given = [node.input[place] for place in numbers if place < len(node.input) and node.input[place]]
        places = {_place(step, name, is_left=name == factors[0]) for name in names}
        axis = places.pop() if len(places) == 1 else None
        is_plain = {*names} <= {*factors} and factors[0] != factors[1]
        is_plain = is_plain and all(step.shape(name) in {(), (1,)} for name in given)
        out = len(step.shape(node.output[0]))
        others = [factor for factor in factors if factor not in names]
        if axis is None or not is_plain or (len(names) == 2 and axis >= -2):
            step.whole(node)
            return
        batches = [step.shape(name) for name in others if axis < -2]
        if any(len(shape) >= -axis and shape[axis] != 1 for shape in batches):
            step.whole(node)
            return
        step.through(node, out + axis)

    return rule


def _place(step: StepGraph, name: str, *, is_left: bool) -> int | None:
    """Where the time axis of a factor is in the result, counted from its end; None where the product runs along it."""
    rank = len(step.shape(name))
    axis = step.frames[name].axis - rank
    if rank < 2:
        return None
    return None if axis == (-1 if is_left else -2) else axis


def _general(step: StepGraph, node: onnx.NodeProto) -> None:
    """Gemm."""
    left, right = node.input[:2]
    attributes, names = attributes_of(node), step.timed(node)
    added = step.shape(node.input[2]) if len(node.input) > 2 and node.input[2] else ()
    if names == [left]:
        inner, place = (0 if attributes.get("transA") else 1), 0
    elif names == [right]:
        inner, place = (1 if attributes.get("transB") else 0), 1
    else:
        step.whole(node)
        return
    is_along = step.frames[names[0]].axis == inner
    if is_along or (len(added) >= 2 - place and added[place - 2] != 1):
        step.whole(node)
        return
    step.through(node, place)


_PLAIN = _product(1, ())


def _matrices(step: StepGraph, node: onnx.NodeProto) -> None:
    """MatMul: scores of attention, or any other product."""
    if not scores(step, node):
        _PLAIN(step, node)


PRODUCTS: Mapping[str, Rule] = {
    "Gemm": _general,
    "MatMul": _matrices,
    "MatMulInteger": _product(1, (2,)),
    "QLinearMatMul": _product(3, (1, 2, 6, 7)),
}
