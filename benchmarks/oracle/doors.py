"""The three doors of an expression: as it is, as operators of ONNX, and as a registered operator.

What counts is whether they make the same kernels: as many, each with the same C apart from names.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import tvm_ffi
from tvm import s_tir

from benchmarks.oracle.c_text import normal_form
from benchmarks.oracle.corpus import corpus
from benchmarks.oracle.facts import KernelFacts, kernels_of, target_of
from edgetune.errors import EdgetuneError
from edgetune.graph.program import Kernel
from edgetune.pipeline.compile_input import program_for
from edgetune.pipeline.select import choose
from edgetune.schedule.algorithms.schedule_text import algorithm_of
from edgetune.tvm_types import PrimFunc

DOORS = {"expression": "{}", "onnx": "onnx_{}", "operator": "operator_{}"}
"""Each door, and how its subject in the corpus is called; the first one is what the others are compared with."""
FIRST, *OTHERS = DOORS
_PREFIX = "k"
_SHOWN = 4
_SAME = 1e-3


@dataclass(frozen=True)
class DoorKernel:
    """A kernel: what was made of it, its workload, how many stages that has, and the bytes of scratch it may use."""

    facts: KernelFacts
    workload: str
    stages: int
    scratch: int

    @property
    def text(self) -> str:
        """Its C without names, in the normal form."""
        return normal_form(self.facts.text)


@dataclass(frozen=True)
class Door:
    """The kernels that one door makes; none, and the sentence of an error, where it fails.

    `measured` are the workloads of those that a search measures in their place.
    """

    kernels: tuple[DoorKernel, ...] = ()
    failure: str = ""
    measured: tuple[tuple[str, ...], ...] = ()

    @property
    def cycles(self) -> float | None:
        """The predicted cycles of the kernels that have a prediction; None where none has."""
        known = [one.facts.cycles for one in self.kernels if one.facts.cycles is not None]
        return sum(known) if known else None

    @property
    def unknown(self) -> int:
        """How many kernels have no prediction: those without a reduction."""
        return sum(one.facts.cycles is None for one in self.kernels)


@dataclass(frozen=True)
class Doors:
    """The doors of an expression on a target, by name."""

    name: str
    width: int
    doors: Mapping[str, Door]

    def reason(self, door: str) -> str:
        """Why `door` makes other kernels than the expression; "" where they are the same."""
        return difference(self.doors[FIRST], self.doors[door], door)


def doors_of(shared: Path, name: str, width: int) -> Doors:
    """The doors of the expression `name`; `shared` is the folder with the shared models."""
    subjects = corpus(shared)
    target = target_of(width)
    found = {}
    for door, subject in DOORS.items():
        try:
            program = program_for(subjects[subject.format(name)].read(), target)
            facts = kernels_of(program, choose(program, target, None, lambda _: None), target, _PREFIX)
            measured = tuple(tuple(kernel.workload for kernel in one.kernels) for one in program.divisions)
            found[door] = Door(tuple(map(_door_kernel, program.kernels, facts)), measured=measured)
        except EdgetuneError as error:
            found[door] = Door(failure=error.message)
    return Doors(name, width, found)


def _door_kernel(kernel: Kernel, facts: KernelFacts) -> DoorKernel:
    return DoorKernel(facts, kernel.workload, _stages(kernel.function), kernel.scratch)


def _stages(function: PrimFunc) -> int:
    names: set[str] = set()
    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, lambda block: names.add(str(block.name_hint))))
    return len(names - {"root"})


def difference(first: Door, other: Door, name: str) -> str:
    """Why the door `name` makes other kernels than the first one; "" where only names differ."""
    if first.failure or other.failure:
        return f"the {name} fails: {other.failure}" if other.failure else f"the expression fails: {first.failure}"
    counts = [len(door.kernels) for door in (first, other)]
    if counts[0] < counts[1]:
        return f"partition of the {name} makes {counts[1]} kernels: {_names(other.kernels)}"
    if counts[0] > counts[1]:
        said = f"the expression is divided into {counts[0]} kernels: {_names(first.kernels)}"
        measured = tuple(one.workload for one in first.kernels) in other.measured
        return f"{said}; these are measured beside it, for they need more memory" if measured else said
    for one, two in zip(first.kernels, other.kernels, strict=True):
        if one.text != two.text:
            return f"{two.facts.name}: {_difference(one, two)}"
    return ""


def _names(kernels: Sequence[DoorKernel]) -> str:
    shown = [one.facts.name for one in kernels[:_SHOWN]]
    return ", ".join([*shown, *(["..."] if len(kernels) > _SHOWN else [])])


def _difference(one: DoorKernel, two: DoorKernel) -> str:
    """What differs between two kernels of other C, by the first of these questions that tells."""
    if one.workload == two.workload:
        return f"the same function, with at most {two.scratch:,} bytes of scratch instead of {one.scratch:,}"
    if one.stages != two.stages:
        return f"{two.stages} stages instead of {one.stages}"
    if one.scratch != two.scratch:
        return f"at most {two.scratch:,} bytes of scratch instead of {one.scratch:,}"
    forms = [algorithm_of(kernel.facts.trace) for kernel in (one, two)]
    if forms[0] != forms[1]:
        return f"the form {forms[1]} instead of {forms[0]}"
    return "as many stages with other loops or operands"


def lines(doors: Doors) -> Iterator[str]:
    """What an expression's doors make, one line for each."""
    yield f"{doors.name} at {doors.width} bits"
    for name, door in doors.doors.items():
        cycles = "?" if door.cycles is None else f"{door.cycles:,.0f}"
        more = f" and {door.unknown} without a prediction" if door.unknown and door.cycles is not None else ""
        count = len(door.kernels)
        said = f"  {name:<10} {count} kernel{'s' * (count != 1)}, {cycles} cycles{more}"
        reason = "" if name == FIRST else doors.reason(name) or "the same kernels"
        yield f"{said}{f'; {reason}' if reason else ''}"


def summary(found: Sequence[Doors]) -> Iterator[str]:
    """For each width: in how many expressions the doors make the same kernels, and what the others cost."""
    for width in sorted({one.width for one in found}):
        here = [one for one in found if one.width == width]
        same = {door: [one for one in here if not one.reason(door)] for door in OTHERS}
        every = sum(all(one in same[door] for door in OTHERS) for one in here)
        yield f"{width} bits: of {len(here)} expressions, the three doors make the same kernels of {every}"
        for door in OTHERS:
            yield f"  {door} as the expression: {len(same[door])}; {_costs(here, door)}"


def _costs(found: Sequence[Doors], door: str) -> str:
    """How many cost more or less than the expression, of those whose kernels all have a prediction."""
    known = []
    for one in found:
        first, other = (one.doors[name] for name in (FIRST, door))
        if first.cycles and other.cycles and not first.unknown and not other.unknown:
            known.append(other.cycles / first.cycles)
    more, less = (sum(map(worse, known)) for worse in (_is_more, _is_less))
    return f"of {len(known)} with a prediction, {more} cost more and {less} less"


def _is_more(ratio: float) -> bool:
    return ratio > 1 + _SAME


def _is_less(ratio: float) -> bool:
    return ratio < 1 - _SAME
