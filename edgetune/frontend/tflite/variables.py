"""Resource variables: what each holds at a point of the translation, and which of them a call leaves to the next one.

A variable has the container and the shared name of its handles, whichever subgraphs these are in. The subgraph of
CALL_ONCE gives it its first value, before the first call. A variable that a call reads before it assigns it, and that
it assigns, is a state; one that no call assigns is a constant, and any other is a tensor of a single call.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from edgetune.frontend.tflite.content import Quantisation, Tensor

Key: TypeAlias = tuple[str, str]
"""Container and shared name."""


@dataclass(frozen=True, eq=False)
class FirstValue:
    """What a variable holds before the first call: elements as they are stored, and what their integers stand for."""

    elements: np.ndarray
    type: str
    quantisation: Quantisation | None


@dataclass(frozen=True, eq=False)
class VariableState:
    """A variable that is a state: input and output of the translated model, and its value before the first call.

    `before` and `after` are the tensors of the file, by number, that have its value before and after a call.
    """

    name_in: str
    name_out: str
    first: FirstValue
    before: int
    after: int


@dataclass(eq=False)
class ResourceVariable:
    """A variable at a point of the translation, which `value` is the name of: "" before anything reads or assigns it.

    `holds` is its shape and type; a file may leave the shape out, as (). The other fields are those of `VariableState`,
    as far as they are known.
    """

    label: str
    first: FirstValue | None = None
    holds: tuple[tuple[int, ...], str] | None = None
    value: str = ""
    name_in: str = ""
    name_out: str = ""
    before: int = -1
    after: int = -1

    def begin(self, first: FirstValue) -> None:
        """Gives it its first value."""
        self.first, self.holds = first, (first.elements.shape, first.type)

    def assign(self, tensor: Tensor) -> None:
        """Makes it hold a tensor of the file, which is no `misfit`."""
        self.value, self.after = tensor.name, tensor.index
        if self.holds is None or not self.holds[0]:
            self.holds = tensor.shape, tensor.type

    def misfit(self, tensor: Tensor) -> str:
        """Why it cannot hold `tensor`, or be read as that; "" where it can."""
        if self.holds is None:
            return ""
        shape, kind = self.holds
        if kind == tensor.type and (shape == tensor.shape or () in {shape, tensor.shape}):
            return ""
        return f"{_shown(tensor.shape, tensor.type)}, and it holds {_shown(shape, kind)}"

    @property
    def state(self) -> VariableState | None:
        """The variable as a state; None where it is none."""
        if self.first is None or not self.name_in or self.after < 0:
            return None
        return VariableState(self.name_in, self.name_out, self.first, self.before, self.after)


class Variables:
    """All variables of a translation, and the tensors of the file that are their handles.

    With `misses_values`, first values are not known, because a subgraph that gives them is refused.
    """

    def __init__(self) -> None:
        self.misses_values = False
        self._all: dict[Key, ResourceVariable] = {}
        self._handles: dict[int, Key] = {}
        self._begun: set[int] = set()

    def __iter__(self) -> Iterator[tuple[Key, ResourceVariable]]:
        return iter(self._all.items())

    def add_handle(self, tensor: int, key: Key) -> None:
        """Makes a tensor, by number, a handle of the variable `key`."""
        self._handles[tensor] = key
        self._variable(key)

    def of(self, tensor: int) -> ResourceVariable | None:
        """The variable of a handle; None where the tensor is none."""
        key = self._handles.get(tensor)
        return None if key is None else self._all[key]

    def begin(self, subgraph: int, values: Mapping[Key, FirstValue]) -> str:
        """Gives first values, once for each subgraph; the name of a variable that was used before, or ""."""
        if subgraph in self._begun:
            return ""
        self._begun.add(subgraph)
        for key, first in values.items():
            variable = self._variable(key)
            if variable.value:
                return variable.label
            variable.begin(first)
        return ""

    def constants(self) -> Mapping[str, np.ndarray]:
        """The values of variables that are read and never assigned, by the names of the tensors that have them."""
        found = (one for one in self._all.values() if one.name_in and one.after < 0)
        return {one.name_in: one.first.elements for one in found if one.first is not None}

    def states(self) -> list[tuple[VariableState, str]]:
        """The states, each with the name of the tensor that it is after a call."""
        return [(one.state, one.value) for one in self._all.values() if one.state is not None]

    def _variable(self, key: Key) -> ResourceVariable:
        return self._all.setdefault(key, ResourceVariable(key[1] or "variable"))


def _shown(shape: tuple[int, ...], kind: str) -> str:
    return f"{','.join(map(str, shape)) or 'a scalar'} {kind}"
