"""What a rule is, and attributes and constant inputs of nodes, as the rules read them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from edgetune.errors import UnsupportedOperator
from edgetune.frontend.onnx.streaming.step_graph import StepGraph

Rule: TypeAlias = Callable[[StepGraph, onnx.NodeProto], None]
"""Writes the step of a node that reads a value with a time axis."""


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """The attributes of a node by name; text as text."""
    values = {attribute.name: helper.get_attribute_value(attribute) for attribute in node.attribute}
    return {name: value.decode() if isinstance(value, bytes) else value for name, value in values.items()}


def constant_input(step: StepGraph, node: onnx.NodeProto, place: int) -> np.ndarray | None:
    """The constant at an input, None where the node has none; raises UnsupportedOperator where it is no constant."""
    if place >= len(node.input) or not node.input[place]:
        return None
    value = step.constants.get(node.input[place])
    if value is None:
        raise UnsupportedOperator(f"has the input {node.input[place]!r}, which a step needs as a constant; make it one")
    return value


def integers(step: StepGraph, node: onnx.NodeProto, place: int, attribute: str) -> list[int] | None:
    """The integers at an input, or of an attribute, as older opsets have it; None where there are neither."""
    value = constant_input(step, node, place)
    if value is not None:
        return [int(one) for one in value.ravel()]
    found = attributes_of(node).get(attribute)
    return None if found is None else [int(one) for one in found]


def one_row(step: StepGraph, name: str, axis: int, count: int = 1) -> str:
    """An operand without a time axis of its own, with `count` rows along `axis` instead of those for the window.

    Raises UnsupportedOperator where these rows differ.
    """
    value = step.constants.get(name)
    if value is None:
        raise UnsupportedOperator(
            f"reads {name!r}, which has its own values for each frame of the window and is made of inputs that are no "
            "streams; make streams of these as well"
        )
    if (value != value.take([0], axis)).any():
        raise UnsupportedOperator(
            f"reads {name!r}, which is not the same for all frames of the window; leave out what depends on the place "
            "of a frame"
        )
    return step.constant(np.repeat(value.take([0], axis), count, axis))
