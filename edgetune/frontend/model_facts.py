"""Facts of a model that are found without building it: `edgetune inspect` shows them, whatever the format.

Formats fill in what their files state; a format that does not gets the facts of the model's program.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Literal, NamedTuple

if TYPE_CHECKING:
    from edgetune.graph.program import Program

RamSource = Literal["memory plan", "largest live set"]

_STATE_WORDS = frozenset(
    {"in", "input", "out", "output", "new", "next", "last", "prev", "previous", "past", "present", "init", "initial"}
    | {"curr", "current", "values", "value"}
)
_WORDS = re.compile(r"[A-Z]?[a-z]+|[A-Z]+(?![a-z])|\d+")


@dataclass(frozen=True)
class TensorQuantisation:
    """real = scale * (stored - zero point), of a whole tensor or of each slice along `axis`."""

    scales: tuple[float, ...]
    zero_points: tuple[int, ...]
    axis: int | None = None


@dataclass(frozen=True)
class InterfaceTensor:
    """An input or output; an open dimension of `shape` is its name in the file, or "?". `dtype` is a numpy dtype name.

    `shape` is None where the file does not state one.
    `quantisation` is that of the integers it holds, or of the integers that a float is made into, or from, at once.
    """

    name: str
    shape: tuple[int | str, ...] | None
    dtype: str
    quantisation: TensorQuantisation | None = None


@dataclass(frozen=True)
class UnsupportedNode:
    """A node that cannot be imported, and why; operator and node are "" where the reason alone names them."""

    operator: str
    node: str
    reason: str


class ModelCosts(NamedTuple):
    """What an import finds; the fields are those of `ModelFacts`."""

    unsupported: tuple[UnsupportedNode, ...] = ()
    macs: int | None = None
    ram_bytes: int | None = None
    shared_ram_bytes: int | None = None
    ram_source: RamSource = "largest live set"


@dataclass(frozen=True)
class ModelFacts:
    """What a model is. `version` is that of its format, `producer` the program that wrote it, as far as known.

    `operators` are those of the file, with counts. `states` are pairs of an input and an output that look like the
    state of a recurrent model, `kept` the states that the model has by itself. `macs` are multiply-adds of a run,
    `ram_bytes` the least memory of its inner tensors, as `ram_source` finds it, and `shared_ram_bytes` that of all
    tensors, where inputs and outputs lie among the inner ones; all are None where sizes are open, or
    where what surrounds unsupported nodes is unknown, and are those of the other nodes where some are unsupported.
    `weights` are bytes by type, as the file stores them. `remarks` are sentences: what was assumed, and what is to be
    stated.
    """

    format: str
    version: str
    producer: str
    inputs: tuple[InterfaceTensor, ...]
    outputs: tuple[InterfaceTensor, ...]
    operators: Mapping[str, int]
    unsupported: tuple[UnsupportedNode, ...]
    weights: Mapping[str, int]
    macs: int | None = None
    ram_bytes: int | None = None
    shared_ram_bytes: int | None = None
    ram_source: RamSource = "largest live set"
    remarks: tuple[str, ...] = field(default=())
    kept: tuple[InterfaceTensor, ...] = ()

    def with_costs(self, costs: ModelCosts) -> ModelFacts:
        """These facts with what an import found."""
        return replace(self, **costs._asdict())

    def with_remarks(self, *remarks: str) -> ModelFacts:
        """These facts with more remarks."""
        return replace(self, remarks=(*self.remarks, *remarks))

    @property
    def states(self) -> tuple[tuple[str, str], ...]:
        """Names of inputs and outputs that look like the state of a recurrent model."""
        return state_pairs(self.inputs, self.outputs)


def state_pairs(inputs: Sequence[InterfaceTensor], outputs: Sequence[InterfaceTensor]) -> tuple[tuple[str, str], ...]:
    """Pairs of an input and an output of equal shape and type whose names differ only as a state's do.

    Such are `state` and `stateN`, `h0` and `hn`, `cache_in` and `cache_out`, `past.0.key` and `present.0.key`.
    """
    pairs: list[tuple[str, str]] = []
    free = list(outputs)
    for one in inputs:
        keys = _state_keys(one.name)
        for other in free:
            if one.dtype == other.dtype and alike(one.shape, other.shape) and keys & _state_keys(other.name):
                pairs.append((one.name, other.name))
                free.remove(other)
                break
    return tuple(pairs)


def alike(one: Sequence[int | str] | None, other: Sequence[int | str] | None) -> bool:
    """Whether two shapes can be equal, as far as they are stated: an axis that has a name may be of any size."""
    if one is None or other is None:
        return True
    return len(one) == len(other) and all(
        a == b or isinstance(a, str) or isinstance(b, str) for a, b in zip(one, other, strict=True)
    )


def _state_keys(name: str) -> frozenset[tuple[str, ...]]:
    """What is left of a name without the words that tell old from new; "0", "n" and the like at its end may go too."""
    words = [word.lower() for word in _WORDS.findall(name.replace("past_key_values", "past"))]
    core = tuple(word for word in words if word not in _STATE_WORDS)
    keys = {core}
    if core and core[-1] in {"0", "n", "1", "t"}:
        keys.add(core[:-1])
    elif core and len(core[-1]) > 1 and core[-1].endswith("n"):
        keys.add((*core[:-1], core[-1][:-1]))
    return frozenset(key for key in keys if key)


def facts_of_program(program: Program) -> ModelFacts:
    """The facts of a program, whose operators are those of its kernels, counted by call."""
    from edgetune.graph.loops import times_called
    from edgetune.graph.memory.plan import plan

    kernels = [program.kernels[call.kernel] for call in program.calls]
    times = [times_called(program, number) for number in range(len(program.calls))]
    operators = Counter(source for kernel in kernels for source in kernel.sources)
    weights: Counter[str] = Counter()
    for array in program.constants.values():
        weights[array.dtype.name] += array.nbytes
    return ModelFacts(
        format="",
        version="",
        producer="",
        inputs=tuple(InterfaceTensor(one.name, one.of_model().shape, one.dtype) for one in program.inputs),
        outputs=tuple(InterfaceTensor(one.name, one.of_model().shape, one.dtype) for one in program.outputs),
        operators=dict(operators.most_common()),
        unsupported=(),
        weights=dict(weights.most_common()),
        macs=sum(kernel.macs * count for kernel, count in zip(kernels, times, strict=True)),
        ram_bytes=plan(program, {}).arena_bytes,
        shared_ram_bytes=plan(program.with_io("arena"), {}).arena_bytes,
        ram_source="memory plan",
    )
