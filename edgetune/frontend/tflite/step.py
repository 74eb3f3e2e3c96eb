"""One operator of a file, as its translator sees it: what it reads, and the ways to make what it computes."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np
from onnx import TensorProto, helper

from edgetune.frontend.onnx.fixed_point import DOMAIN, ONCE, TWICE, fixed_point_scales
from edgetune.frontend.tflite.content import Operator, Quantisation, Tensor
from edgetune.frontend.tflite.translation import MisfitError, Translation
from edgetune.frontend.tflite.variables import FirstValue, Key, Variables

_RELU = 1
_MOST_LEFT = 22
"""Bits by which 8-bit integers may be shifted to the left, so that the results fit 32 bits."""
_FUSED = {0: "", 1: "RELU", 2: "RELU_N1_TO_1", 3: "RELU6", 4: "TANH"}

_RANGES: Mapping[str, tuple[float, float]] = {
    "": (-np.inf, np.inf),
    "RELU": (0.0, np.inf),
    "RELU_0_TO_1": (0.0, 1.0),
    "RELU_N1_TO_1": (-1.0, 1.0),
    "RELU6": (0.0, 6.0),
}
"""Between which real numbers an activation keeps a result."""


def away_from_zero(value: float) -> int:
    """`value` rounded, ties away from 0, within 32 bits."""
    limit = float(np.iinfo(np.int32).max)
    clipped = min(max(float(value), -limit), limit)
    return int(np.copysign(np.floor(abs(clipped) + 0.5), clipped))


class OperatorStep:
    """One operator of the file, as its translator sees it: tensors by their position among its inputs and outputs."""

    def __init__(self, translation: Translation, operator: Operator) -> None:
        self._translation = translation
        self._operator = operator
        self._name = self.output(0).name if operator.outputs else operator.name

    @property
    def variables(self) -> Variables:
        """The variables of the file, as the operators before this one have left them."""
        return self._translation.variables

    def first_values(self, subgraph: int) -> Mapping[Key, FirstValue]:
        """What a subgraph assigns to variables, by its number; raises MisfitError where it is not translated."""
        return self._translation.first_values(subgraph)

    def fresh(self, name: str) -> str:
        """A name that no tensor has yet."""
        return self._translation.fresh(name)

    @property
    def inputs(self) -> int:
        """How many inputs the operator has, those left out at its end not counted."""
        given = [position for position, number in enumerate(self._operator.inputs) if number >= 0]
        return given[-1] + 1 if given else 0

    @property
    def outputs(self) -> int:
        """How many outputs the operator has."""
        return len(self._operator.outputs)

    def option(self, name: str, default: Any) -> Any:
        """A field of the operator's options by its name in the schema; `default` where the file has no options."""
        return self._operator.options.get(name, default)

    def has(self, position: int) -> bool:
        """Whether an input is there."""
        return position < len(self._operator.inputs) and self._operator.inputs[position] >= 0

    def input(self, position: int) -> Tensor:
        """An input."""
        if not self.has(position):
            raise MisfitError(f"lacks its input {position}")
        return self._translation.content.tensors[self._operator.inputs[position]]

    def output(self, position: int = 0) -> Tensor:
        """An output."""
        if position >= len(self._operator.outputs):
            raise MisfitError(f"lacks its output {position}")
        return self._translation.content.tensors[self._operator.outputs[position]]

    def real(self, position: int = 0) -> str:
        """An input as real numbers."""
        return self._translation.real(self.input(position).index)

    def raw(self, position: int = 0) -> str:
        """An input as it is stored: integers where it is quantised."""
        return self.input(position).name

    def rank(self, position: int = 0) -> int:
        """The number of axes of an input."""
        return len(self.input(position).shape)

    def value(self, position: int, what: str) -> np.ndarray:
        """The elements of a constant input; raises MisfitError, which calls it `what`, where it is computed."""
        found = self.input(position).value
        if found is None:
            raise MisfitError(f"computes its {what} at run time, which must be constant")
        return found

    def numbers(self, position: int) -> str:
        """An input that holds extents, axes or places, as int64."""
        tensor = self.input(position)
        if tensor.value is not None:
            return self.constant(tensor.value, np.int64)
        return self.op("Cast", tensor.name, to=TensorProto.INT64)

    def turned(self, position: int, order: Sequence[int], scale: np.ndarray | None = None) -> str:
        """An input as real numbers with its axes in another `order`; of a constant, the integers are turned.

        They may stand for numbers of another `scale` than their own.
        """
        tensor = self.input(position)
        found = tensor.quantisation
        if found is not None and scale is not None:
            found = Quantisation(
                np.broadcast_to(scale, found.scale.shape).astype(np.float32), found.zero_point, found.axis
            )
        if tensor.value is None or found is None:
            return self.op("Transpose", self.real(position), perm=list(order))
        name = self._translation.constant(np.transpose(tensor.value, order), tensor.value.dtype, tensor.name)
        return self._translation.dequantised(tensor, found, name, list(order).index(found.axis))

    def constant(self, value: Any, dtype: Any = np.float32) -> str:
        """A new constant."""
        return self._translation.constant(value, dtype, f"{self._name}/constant")

    def narrowed(self, integers: np.ndarray) -> str:
        """int32 constants, stored in 16 bits where they fit."""
        limits = np.iinfo(np.int16)
        if integers.size and limits.min <= integers.min() and integers.max() <= limits.max:
            return self.op("Cast", self.constant(integers, np.int16), to=TensorProto.INT32)
        return self.constant(integers, np.int32)

    def op(self, operator: str, *operands: str, **attributes: Any) -> str:
        """The output of a new node."""
        return self.ops(operator, 1, *operands, **attributes)[0]

    def ops(self, operator: str, count: int, *operands: str, **attributes: Any) -> list[str]:
        """All outputs of a new node."""
        name = self._translation.fresh(f"{self._name}/{operator}")
        results = [name] + [self._translation.fresh(f"{name}_{number}") for number in range(1, count)]
        self._translation.nodes.append(helper.make_node(operator, list(operands), results, name=name, **attributes))
        return results

    def same_quantisation(self, position: int = 0, output: int = 0) -> bool:
        """Whether input and output have equal real values where their integers are equal."""
        return self.input(position).quantisation == self.output(output).quantisation

    def give(self, value: str, output: int = 0) -> None:
        """Makes an output of its real numbers, after the activation that the operator has with it."""
        activation = self.option("FusedActivationFunction", 0)
        if activation not in _FUSED:
            raise MisfitError(f"has the fused activation {activation}")
        tensor = self.output(output)
        if _FUSED[activation]:
            if tensor.quantisation is None and tensor.dtype.kind in "iu" and activation != _RELU:
                raise MisfitError(f"has the fused activation {_FUSED[activation]} on integers without a scale")
            value = self.activated(value, _FUSED[activation], tensor.quantisation)
        if tensor.quantisation is not None:
            self._translation.quantised(tensor, tensor.quantisation, value)
        else:
            self.give_raw(value, output)

    def give_raw(self, value: str, output: int = 0) -> None:
        """Makes an output of elements as it stores them."""
        name, nodes = self.output(output).name, self._translation.nodes
        if nodes and value in nodes[-1].output and value != name:
            nodes[-1].output[list(nodes[-1].output).index(value)] = name
            return
        nodes.append(helper.make_node("Identity", [value], [name], name=self._translation.fresh(f"{name}/Identity")))

    def scaled(self, value: str, factors: np.ndarray, *, once: bool = False) -> str:
        """int32 times real `factors`, one or one for each element of the last axis, in TensorFlow Lite's fixed point.

        It rounds twice, or `once`.
        """
        scales, left = fixed_point_scales(factors)
        if np.any(left > _MOST_LEFT):
            raise MisfitError(f"scales integers by 2^{int(np.max(left))}")
        if np.any(left):
            value = self.op("Mul", value, self.constant(np.left_shift(1, left), np.int32))
        return self.op(ONCE if once else TWICE, value, self.constant(scales, np.uint32), domain=DOMAIN)

    def scaled_in_two(self, value: str, fraction: float, exponent: int) -> str:
        """int32 times a fraction below 1, and then times a power of 2, rounded each time."""
        if exponent >= 0:
            return self.scaled(value, np.asarray(fraction * 2.0**exponent), once=True)
        return self.halved(self.scaled(value, np.asarray(fraction), once=True), -exponent)

    def halved(self, value: str, times: int) -> str:
        """int32 by a power of 2, ties away from 0 (`RoundingDivideByPOT`)."""
        if not times:
            return value
        return self.scaled(self.op("Mul", value, self.constant(2, np.int32)), np.asarray(2.0 ** (-times - 1)))

    def rounded(self, value: str) -> str:
        """Floats as whole numbers, ties away from 0."""
        size = self.op("Floor", self.op("Add", self.op("Abs", value), self.constant(0.5)))
        return self.op("Mul", size, self.op("Sign", value))

    def divided(self, value: str, divisor: int, dtype: Any = np.int32) -> str:
        """Integers by a positive number, rounded, ties away from 0."""
        half = self.op("Mul", self.op("Sign", value), self.constant(divisor // 2, dtype))
        return self.op("Div", self.op("Add", value, half), self.constant(divisor, dtype))

    def give_integers(self, value: str, *, centred: bool = True, activation: str = "") -> None:
        """Makes the quantised output of int32, within the limits of its fused activation, or of another one.

        They are `centred` where they lack its zero point.
        """
        tensor = self.output()
        found = tensor.quantisation
        if found is None or found.scale.size != 1:
            raise MisfitError(f"makes {tensor.name!r}, which has not one scale")
        zero, scale = int(found.zero_point[0]), found.scale[0]
        if zero and centred:
            value = self.op("Add", value, self.constant(zero, np.int32))
        activation = activation or _FUSED.get(self.option("FusedActivationFunction", 0), "?")
        if activation not in _RANGES:
            raise MisfitError(f"has the fused activation {activation}")
        low, high = (zero + away_from_zero(limit / scale) for limit in _RANGES[activation])
        limits = np.iinfo(tensor.dtype)
        ends = [self.constant(end, np.int32) for end in (max(limits.min, low), min(limits.max, high))]
        value = self.op("Min", self.op("Max", value, ends[0]), ends[1])
        self.give_raw(self.op("Cast", value, to=int(helper.np_dtype_to_tensor_dtype(tensor.dtype))))

    def zero_point(self, position: int) -> str:
        """The zero point of a quantised input, as a number."""
        tensor = self.input(position)
        found = tensor.quantisation
        zero = 0 if found is None else found.zero_point.reshape(-1)[0]
        return self.constant(zero, np.int8 if tensor.type == "INT4" else tensor.dtype)

    def centred(self, position: int) -> str:
        """A quantised input as int32 without its zero point."""
        found = self.input(position).quantisation
        value = self.op("Cast", self.raw(position), to=TensorProto.INT32)
        if found is None or not np.any(found.zero_point):
            return value
        return self.op("Sub", value, self.constant(found.zero_point.reshape(-1)[0], np.int32))

    def is_quantised(self, *positions: int, types: Collection[str] = ("INT8", "UINT8", "INT16")) -> bool:
        """Whether those inputs and output 0 are integers of some `types` with one scale each."""
        tensors = [*(self.input(position) for position in positions), self.output()]
        return all(
            tensor.type in types and tensor.quantisation is not None and tensor.quantisation.scale.size == 1
            for tensor in tensors
        )

    def is_narrow(self, *positions: int) -> bool:
        """Whether those inputs and output 0 are integers of 8 bits with one scale each."""
        return self.is_quantised(*positions, types=("INT8", "UINT8"))

    def scale(self, position: int) -> np.ndarray:
        """The scales of a quantised input, in double."""
        found = self.input(position).quantisation
        if found is None:
            raise MisfitError(f"reads {self.input(position).name!r}, which is not quantised")
        return found.scale.astype(np.float64)

    @property
    def output_scale(self) -> float:
        """The scale of a quantised output 0."""
        found = self.output().quantisation
        if found is None:
            raise MisfitError(f"makes {self.output().name!r}, which is not quantised")
        return float(found.scale[0])

    def move(self, made: Callable[[str], str], output: int = 0) -> None:
        """Makes an output of the elements of input 0, which `made` only moves: their integers where that is right."""
        if self.same_quantisation(0, output):
            self.give_raw(made(self.raw(0)), output)
        else:
            self.give(made(self.real(0)), output)

    def activated(self, value: str, activation: str, quantised: Quantisation | None = None) -> str:
        """`value` after an activation without parameters, by its name in the schema.

        Where the result is `quantised`, its limits are numbers that integers stand for.
        """
        if activation in _RANGES and np.isfinite(_RANGES[activation][1]):
            low, high = _RANGES[activation]
            if quantised is not None:
                step = quantised.scale[0]
                low, high = (away_from_zero(limit / step) * float(step) for limit in (low, high))
            return self.op("Clip", value, self.constant(low), self.constant(high))
        return self.op({"RELU": "Relu", "TANH": "Tanh"}[activation], value)

    def to_channels_first(self, value: str, rank: int = 4) -> str:
        """(N, ..., C) as (N, C, ...)."""
        return self.op("Transpose", value, perm=[0, rank - 1, *range(1, rank - 1)])

    def to_channels_last(self, value: str, rank: int = 4) -> str:
        """(N, C, ...) as (N, ..., C)."""
        return self.op("Transpose", value, perm=[0, *range(2, rank), 1])


Translator: TypeAlias = Callable[[OperatorStep], None]
"""Emits the nodes of an operator; raises MisfitError for a form that it does not translate."""
