"""Arguments of calls as C expressions: tensors of the interface, weights, states, and places in the workspace.

An argument that moves with a loop is an expression of the loop's variable.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

import numpy as np

from edgetune.codegen.kernel_source import CParam
from edgetune.errors import KernelFailed
from edgetune.graph.memory.plan import MemoryPlan
from edgetune.graph.parts import BufferPart, Movement
from edgetune.package import ctext
from edgetune.package.constants import Weights
from edgetune.package.interface import Interface


def loop_variable(loop: int) -> str:
    """The variable of a loop, by the loop's number."""
    return f"step_{loop}" if loop else "step"


@dataclass(frozen=True)
class Arguments:
    """What arguments are made of: where tensors lie."""

    plan: MemoryPlan
    weights: Weights
    api: Interface

    def text(self, call: int, position: int, place: BufferPart, param: CParam) -> str:
        """The argument `position` of a call, both by number; raises KernelFailed where call and plan contradict."""
        weight = self.weights.uses.get((call, position))
        return self._text(call, place, param, weight)

    def _text(self, call: int, place: BufferPart, param: CParam, weight: int | None) -> str:
        for movement in place.part.movements:
            if movement.first is not None:
                rest = [replace(m, first=None) if m is movement else m for m in place.part.movements]
                usual = BufferPart(place.buffer, replace(place.part, movements=tuple(rest)))
                first = self._text(call, movement.first, param, self.weights.firsts.get(movement.first.buffer))
                return f"{loop_variable(movement.loop)} == 0u ? {first} : {self._text(call, usual, param, weight)}"
        for side, tensors in (("inputs", self.api.inputs), ("outputs", self.api.outputs)):
            for tensor in tensors:
                if tensor.buffer == place.buffer and tensor.offset is None:
                    untyped = "(const void *)" if side == "inputs" else "(void *)"
                    cast = "" if _element(param) == tensor.c_type else untyped
                    return _typed(f"{side}->{tensor.field}", place, cast)
        if weight is not None:
            item = self.weights.items[weight]
            _check_weight(call, item.array, param, place)
            if self.weights.placement == "text":
                cast = "" if _element(param) == item.c_type else "(const void *)"
                return _typed(f"{self.api.prefix}__w{item.index}", place, cast)
            return f"WEIGHT({item.index}{self._terms(place, param)})"
        for state in self.api.states:
            if state.buffer == place.buffer:
                return f"STATE({state.macro}{self._terms(place, param)})"
        if place.buffer not in self.plan.offsets:
            raise KernelFailed(f"the memory plan has no place for tensor {place.buffer} of call {call}")
        return self._in_arena(place.buffer, self._terms(place, param))

    def _in_arena(self, buffer: int, terms: str) -> str:
        return self.api.arena(self.plan.regions.get(buffer, 0), f"AT_{buffer}{terms}")

    def _terms(self, place: BufferPart, param: CParam) -> str:
        """What is added to where a tensor begins, in bytes."""
        terms, row = _terms(place, param.element_bytes), place.part.row
        if row is None:
            return terms
        number = self._number(row.buffer)
        return f"{terms} + {self.api.prefix}__row({number}, {row.rows}u) * {row.elements * param.element_bytes}u"

    def _number(self, buffer: int) -> str:
        """Where the number of a row lies, for an argument of the macro STATE, which has no other STATE in it."""
        kept = next((state.macro for state in self.api.states if state.buffer == buffer), None)
        inputs = [tensor for tensor in self.api.inputs if tensor.buffer == buffer]
        field = next((tensor.field for tensor in inputs if tensor.offset is None), None)
        if kept is not None:
            return f"POSITION({kept})"
        return self._in_arena(buffer, "") if field is None else f"inputs->{field}"


def _element(param: CParam) -> str:
    return param.c_type.replace("const", "").replace("restrict", "").replace("*", "").strip()


def _typed(pointer: str, place: BufferPart, cast: str) -> str:
    terms = _terms(place, 1, "")
    return f"{cast}({pointer}{terms})" if cast and terms else f"{cast}{pointer}{terms}"


def _terms(place: BufferPart, scale: int, suffix: str = "u") -> str:
    """What is added to where a tensor begins, in units of which an element has `scale`."""
    offset = place.part.offset * scale
    fixed = f" {'+' if offset > 0 else '-'} {abs(offset)}{suffix}" if offset else ""
    return fixed + "".join(_moved(movement, scale) for movement in place.part.movements)


def _moved(movement: Movement, scale: int) -> str:
    step, elements = loop_variable(movement.loop), movement.elements * scale
    if movement.ahead:
        step = f"({step} {'+' if movement.ahead > 0 else '-'} {abs(movement.ahead)}u)"
    if movement.rows:
        step = f"{step} % {movement.rows}u"
    sign = "+" if elements > 0 else "-"
    return f" {sign} {step}" + (f" * {abs(elements)}u" if abs(elements) != 1 else "")


def _check_weight(call: int, array: np.ndarray, param: CParam, place: BufferPart) -> None:
    is_part = bool(place.part.movements or place.part.offset)
    fits = array.size >= prod(param.shape) if is_part else array.size == prod(param.shape)
    if not fits or str(array.dtype) != param.dtype:
        wanted = f"{ctext.shape(param.shape)} {param.dtype}"
        got = f"{ctext.shape(array.shape)} {array.dtype}"
        raise KernelFailed(
            f"constant {param.name} of call {call} is {got}, the kernel needs {wanted}: report this model"
        )
