"""Einsum, which names the axes of its operands: time stays where its name is in the result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain

import onnx

from edgetune.frontend.onnx.streaming.rules.attributes import Rule, attributes_of, one_row
from edgetune.frontend.onnx.streaming.step_graph import StepGraph

_REST = "..."


def _einsum(step: StepGraph, node: onnx.NodeProto) -> None:
    """A sum along time, or products of unequal frames, read the window."""
    terms, result = _axes(attributes_of(node)["equation"], [len(step.shape(name)) for name in node.input])
    operands = list(zip(node.input, terms, strict=True))
    times = {axes[step.frames[name].axis] for name, axes in operands if name in step.frames}
    time = next(iter(times))
    is_repeated = any(axes.count(time) > 1 for axes in terms)
    if len(times) > 1 or time not in result or is_repeated:
        step.whole(node)
        return
    inputs = {
        name: one_row(step, name, axes.index(time), step.frames[step.timed(node)[0]].count)
        for name, axes in operands
        if name not in step.frames and time in axes and step.shape(name)[axes.index(time)] != 1
    }
    step.through(node, result.index(time), inputs)


def _axes(equation: str, ranks: Sequence[int]) -> tuple[list[list[str]], list[str]]:
    """The names of the axes of operands and result; axes behind "..." are counted from the last one."""
    left, arrow, right = equation.replace(" ", "").partition("->")
    terms = [_named(term, rank) for term, rank in zip(left.split(","), ranks, strict=True)]
    rest = max(([name for name in axes if name.startswith(_REST)] for axes in terms), key=len)
    if not arrow:
        known = list(chain.from_iterable(terms))
        right = _REST + "".join(sorted(name for name in {*known} - {*rest} if known.count(name) == 1))
    before, dots, after = right.partition(_REST)
    return terms, [*before, *(rest if dots else ()), *after]


def _named(term: str, rank: int) -> list[str]:
    before, dots, after = term.partition(_REST)
    count = rank - len(before) - len(after) if dots else 0
    return [*before, *(f"{_REST}{number}" for number in range(count, 0, -1)), *after]


EINSUM: Mapping[str, Rule] = {"Einsum": _einsum}
