"""Forms of operators as independent branches of one `.tflite` file, all of one type, with feeds for their inputs."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

from tests.frontend.tflite.writer import Quantised, Writer

LIMITS: Mapping[str, tuple[int, int]] = {"INT8": (-128, 127), "UINT8": (0, 255), "INT16": (-32768, 32767)}
"""Types of quantised branches; those of FLOAT32 are not quantised."""

Range: TypeAlias = tuple[float, float]
Result: TypeAlias = Range | int | str | Quantised
"""What an output is: of the branches' type and a range, like another tensor, of another type, of a quantisation."""


@dataclass(frozen=True)
class Form:
    """One operator with its options, and the names of what it makes; `exact` where not one step may differ."""

    operator: str
    options: str
    outputs: tuple[str, ...]
    exact: bool


@dataclass
class Branches:
    """A file in the making, in which every output of an operator is one of the file."""

    type: str
    writer: Writer = field(default_factory=Writer)
    feeds: dict[str, np.ndarray] = field(default_factory=dict)
    forms: list[Form] = field(default_factory=list)
    random: np.random.Generator = field(default_factory=lambda: np.random.default_rng(11))

    @property
    def is_float(self) -> bool:
        """Whether nothing is quantised."""
        return self.type == "FLOAT32"

    @property
    def is_narrow(self) -> bool:
        """Whether activations have 8 bits."""
        return self.type in {"INT8", "UINT8"}

    def quantised(self, low: float, high: float) -> Quantised | None:
        """The quantisation of reals from `low` to `high` and 0: with a zero point in 8 bits, without one in 16."""
        if self.is_float:
            return None
        least, most = LIMITS[self.type]
        low, high = min(low, 0.0), max(high, 0.0)
        if self.type == "INT16":
            return Quantised([max(abs(low), abs(high)) / most], [0])
        scale = (high - low) / (most - least)
        return Quantised([scale], [int(np.clip(round(least - low / scale), least, most))])

    def x(self, *shape: int, low: float = -4.0, high: float = 4.0) -> int:
        """An input of reals from `low` to `high`."""
        if self.is_float:
            return self.fed(self.random.uniform(low, high, shape), "FLOAT32")
        return self.fed(self._integers(shape, low, high), self.type, self.quantised(low, high))

    def _integers(self, shape: tuple[int, ...], low: float, high: float) -> np.ndarray:
        """Integers that stand for reals from `low` to `high`."""
        found, (least, most) = self.quantised(low, high), LIMITS[self.type]
        assert found is not None
        ends = (found.zero_point[0] + round(end / found.scale[0]) for end in (low, high))
        first, last = (min(max(end, least), most) for end in ends)
        return self.random.integers(first, last + 1, shape)

    def fed(self, value: Any, type_: str, quantised: Quantised | None = None) -> int:
        """An input that is fed `value`."""
        array = np.asarray(value).astype(np.bool_ if type_ == "BOOL" else type_.lower())
        number = self.writer.input(array.shape, type_, quantised, f"x{len(self.feeds)}")
        self.feeds[self.writer.tensors[number].name] = array
        return number

    def like(self, number: int, *shape: int) -> int:
        """An input with the quantisation of another tensor."""
        if self.is_float:
            return self.x(*shape)
        least, most = LIMITS[self.type]
        found = self.writer.tensors[number].quantised
        return self.fed(self.random.integers(least, most + 1, shape), self.type, found)

    def constant(self, *shape: int, low: float = -4.0, high: float = 4.0) -> int:
        """A constant of reals from `low` to `high`."""
        if self.is_float:
            return self.writer.constant(self.random.uniform(low, high, shape), "FLOAT32")
        return self.writer.constant(self._integers(shape, low, high), self.type, self.quantised(low, high))

    def weights(self, *shape: int, axis: int | None = None) -> int:
        """Constant weights: of 8 bits where the branches are quantised, with a scale for each place along `axis`."""
        if self.is_float:
            return self.writer.constant(self.random.uniform(-1, 1, shape), "FLOAT32")
        if self.type == "UINT8":
            return self.writer.constant(self.random.integers(0, 256, shape), "UINT8", Quantised([0.008], [131]))
        count = 1 if axis is None else shape[axis]
        found = Quantised(self.random.uniform(0.003, 0.012, count).tolist(), [0] * count, axis or 0)
        return self.writer.constant(self.random.integers(-127, 128, shape), "INT8", found)

    def bias(self, x: int, weights: int, count: int) -> int:
        """A constant bias, whose scales are those of products."""
        if self.is_float:
            return self.writer.constant(self.random.uniform(-2, 2, count), "FLOAT32")
        left, right = self.writer.tensors[x].quantised, self.writer.tensors[weights].quantised
        assert left is not None
        assert right is not None
        scale = np.float32(left.scale[0]) * np.asarray(right.scale, np.float32)
        value = np.rint(self.random.uniform(-2, 2, count) / scale)
        type_ = "INT64" if self.type == "INT16" else "INT32"
        return self.writer.constant(value, type_, Quantised(scale.tolist(), [0] * scale.size, 0))

    def ints(self, value: Any) -> int:
        """A constant of extents, axes or places."""
        return self.writer.constant(np.asarray(value), "INT32")

    def make(
        self,
        operator: str,
        inputs: Sequence[int],
        *results: Result,
        kind: str = "",
        exact: bool = False,
        **options: Any,
    ) -> list[int]:
        """An operator, whose outputs become outputs of the file."""
        made = []
        for position, result in enumerate(results):
            name = f"{operator}.{len(self.forms)}.{position}"
            type_, quantised = self._described(result)
            made.append(self.writer.tensor((), type_, quantised, name))
        self.writer.operator(operator, inputs, made, kind, **options)
        self.writer.outputs += made
        names = tuple(self.writer.tensors[number].name for number in made)
        self.forms.append(Form(operator, str(options), names, exact))
        return made

    def _described(self, result: Result) -> tuple[str, Quantised | None]:
        if isinstance(result, str):
            return result, None
        if isinstance(result, Quantised):
            return self.type, None if self.is_float else result
        if isinstance(result, int):
            return self.writer.tensors[result].type, self.writer.tensors[result].quantised
        return self.type, self.quantised(*result)


Cases: TypeAlias = Callable[[Branches], None]
"""Adds all forms of an operator that LiteRT's reference kernels take in the type of the branches."""
