"""Programs in other forms: each kernel in the form of least estimated instructions, for the target at hand.

A form is chosen where its estimate is well below that of the first one (`Margins.gain_of_estimate`): an estimate is no
measurement. The first forms, where they are others, and those that come next are divisions of the program, which a
search measures beside it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from itertools import count
from re import sub

from edgetune.graph.evaluate import evaluate
from edgetune.graph.macs import multiply_accumulates
from edgetune.graph.memory.live_ranges import live_bytes
from edgetune.graph.program import Buffer, Call, Kernel, Program
from edgetune.graph.workload import workload_hash
from edgetune.rewrites.kernel_forms import Form, KernelPart, forms_of, whole_part
from edgetune.rewrites.parts import DIVISIONS, Division
from edgetune.rewrites.scratch import scratch_of_expression, scratch_of_model
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import estimated_instructions, formula_schedule
from edgetune.schedule.sketches.spaces import core_of
from edgetune.target.core import Core
from edgetune.target.costs import MARGINS
from edgetune.target.target import Target

_CALL = 32.0
"""Instructions of a call of a kernel."""

_MOST_FORMS = 2
"""Forms of a kernel that are measured, and the first one."""


def decided(program: Program, ways: Sequence[Division] = DIVISIONS) -> Program:
    """`program` with each kernel in its first form; the second ones are a division of it. `ways` divide kernels."""
    return _with_divisions(program, [_forms(program, number, (), ways) for number in range(len(program.kernels))])


def for_target(program: Program, target: Target) -> Program:
    """`program` with each kernel in the form that needs fewest instructions on a target, by an estimate.

    Forms that need more memory for the tensors that live at one time are only measured, and not even that where the
    target says how much memory it has.
    """
    cores = ([core_of(kernel.function, target)] for kernel in program.kernels)
    of_kernels = (_forms(program, number, own) for number, own in enumerate(cores))
    forms = [_ranked(kernel, own, target) for kernel, own in zip(program.kernels, of_kernels, strict=True)]
    scarce = target.memory_is_scarce
    return _with_divisions(program, [by_memory(program, n, one, scarce=scarce) for n, one in enumerate(forms)])


def _forms(program: Program, number: int, cores: Sequence[Core], ways: Sequence[Division] = DIVISIONS) -> list[Form]:
    """The forms of the kernel with that number; as one kernel, where a call overwrites what it reads."""
    kernel = program.kernels[number]
    found = forms_of(kernel, cores, ways)
    if any(_overwrites(call, kernel) for call in program.calls if call.kernel == number):
        return [form for form in found if len(form.parts) == 1]
    return found


def _overwrites(call: Call, kernel: Kernel) -> bool:
    """Whether some buffer is read and written by a call: the parts of a kernel would read what another has written."""
    places: dict[bool, set[int]] = {False: set(), True: set()}
    for number, place in call.places:
        places[kernel.params[number].role == "output"].add(place.buffer)
    return bool(places[False] & places[True])


def by_memory(program: Program, number: int, ranked: Sequence[Form], *, scarce: bool) -> list[Form]:
    """The forms of the kernel with that number, those last that need more memory between kernels than the program has.

    These are left out where memory is `scarce`. As one kernel, an expression has the same tensors in its scratch
    memory.
    """
    kernel = program.kernels[number]
    if kernel.definition is not None or all(len(form.parts) == 1 for form in ranked):
        return list(ranked)
    plain = [Form((whole_part(one),)) for one in program.kernels]
    most = max(live_bytes(program), default=0)

    def grows(form: Form) -> bool:
        made = in_forms(program, [*plain[:number], form, *plain[number + 1 :]])
        return max(live_bytes(made), default=0) > most

    large = [len(form.parts) > 1 and grows(form) for form in ranked]
    kept = [form for form, grown in zip(ranked, large, strict=True) if not grown] or [plain[number]]
    return kept if scarce else [*kept, *(form for form, grown in zip(ranked, large, strict=True) if grown)]


def _ranked(kernel: Kernel, forms: Sequence[Form], target: Target) -> list[Form]:
    """The forms of a kernel that are worth a measurement, the chosen one first."""
    first, *others = forms
    if not others:
        return [first]

    def cost(form: Form) -> float:
        return sum(_instructions(kernel, part, target) for part in form.parts if not part.built)

    costs = {number: cost(form) for number, form in enumerate((first, *others))}
    costs[0] *= MARGINS.gain_of_estimate
    order = sorted(costs, key=lambda number: costs[number])
    most = MARGINS.worth_measuring * costs[order[0]]
    kept = [number for number in order if costs[number] <= most][:_MOST_FORMS]
    kept += [] if 0 in kept else [0]
    return [(first, *others)[number] for number in kept]


def _instructions(kernel: Kernel, part: KernelPart, target: Target) -> float:
    """Those of a call of a part under the formula's schedule; infinite where that cannot be printed."""
    scratch = _kernel_of(kernel, part, ()).scratch
    guess = formula_schedule(part.function, target, scratch, FORMS)
    return _CALL + estimated_instructions(part.function, guess.trace, target)


def _with_divisions(program: Program, forms: Sequence[Sequence[Form]]) -> Program:
    """`program` with the first of the forms of each kernel; the others, in turn, are its divisions."""
    turns = range(max((len(ranked) for ranked in forms), default=1))
    made = [in_forms(program, [ranked[turn if turn < len(ranked) else 0] for ranked in forms]) for turn in turns]
    return replace(made[0], divisions=tuple(made[1:]))


def in_forms(program: Program, forms: Sequence[Form]) -> Program:
    """`program` with each kernel in one form."""
    same = [_is_whole(form, kernel) for form, kernel in zip(forms, program.kernels, strict=True)]
    return program if all(same) else _Rebuilding(program, forms).made()


def _is_whole(form: Form, kernel: Kernel) -> bool:
    return form.workloads == (kernel.workload,)


class _Rebuilding:
    """Makes a program of kernels in other forms: the calls of each follow one another where one call stood."""

    def __init__(self, program: Program, forms: Sequence[Form]) -> None:
        self.program, self.forms = program, forms
        self.kernels: list[Kernel] = []
        self.buffers = list(program.buffers)
        self.constants = dict(program.constants)
        self.calls: list[Call] = []
        self.numbers = [[self._kernel(kernel, part) for part in form.parts] for kernel, form in self._pairs()]

    def made(self) -> Program:
        """The program."""
        starts = []
        for call in self.program.calls:
            starts.append(len(self.calls))
            self._add(call)
        starts.append(len(self.calls))
        loops = tuple(replace(one, start=starts[one.start], stop=starts[one.stop]) for one in self.program.loops)
        whole = replace(
            self.program,
            kernels=tuple(self.kernels),
            buffers=tuple(self.buffers),
            calls=tuple(self.calls),
            constants=self.constants,
            loops=loops,
        )
        return _without_unused_constants(whole)

    def _pairs(self) -> Iterator[tuple[Kernel, Form]]:
        yield from zip(self.program.kernels, self.forms, strict=True)

    def _kernel(self, kernel: Kernel, part: KernelPart) -> int:
        """The number of the kernel of a part; -1 where it is computed when the package is built."""
        if part.built:
            return -1
        self.kernels.append(_kernel_of(kernel, part, [one.name for one in self.kernels]))
        return len(self.kernels) - 1

    def _add(self, call: Call) -> None:
        """Adds the calls of the parts of a kernel that is called."""
        kernel, form = self.program.kernels[call.kernel], self.forms[call.kernel]
        places = list(call.arguments)
        for tensor in form.between:
            name = _unused(tensor.name, [buffer.name for buffer in self.buffers])
            places.append(len(self.buffers))
            self.buffers.append(Buffer(len(self.buffers), name, tensor.shape, tensor.dtype, "intermediate"))
        for number, part in zip(self.numbers[call.kernel], form.parts, strict=True):
            if part.built:
                self._build(part, [places[place] for place in part.places])
                continue
            arguments = tuple(places[place] for place in part.places)
            parts = {n: call.parts[place] for n, place in enumerate(part.places) if place in call.parts}
            label = call.label if kernel.definition is None else self.kernels[number].name
            self.calls.append(Call(number, arguments, label, parts))

    def _build(self, part: KernelPart, arguments: Sequence[int]) -> None:
        """Computes what a part writes of the constants that it reads."""
        pairs = list(zip(arguments, part.params, strict=True))
        read = [self.constants[number] for number, param in pairs if param.role != "output"]
        written = [(number, param) for number, param in pairs if param.role == "output"]
        arrays = evaluate(part.function, read, [(param.shape, param.dtype) for _, param in written])
        for (number, _), array in zip(written, arrays, strict=True):
            self.constants[number] = array
            self.buffers[number] = replace(self.buffers[number], kind="constant")


def _kernel_of(kernel: Kernel, part: KernelPart, taken: Collection[str]) -> Kernel:
    """The kernel of a part of another one."""
    expression = kernel.definition is not None
    words = f"{kernel.name}_{sub('[^A-Za-z0-9_]', '_', part.name)}" if part.name else kernel.name
    scratch = scratch_of_expression(part.function, part.params) if expression else scratch_of_model(part.function)
    return Kernel(
        name=_unused(words, taken),
        workload=workload_hash(part.function),
        function=part.function,
        params=part.params,
        sources=(part.name or kernel.name,) if expression else kernel.sources,
        macs=multiply_accumulates(part.function),
        weight=kernel.weight,
        scratch=scratch if part.name or expression else max(scratch, kernel.scratch),
        unaligned=tuple(number for number, place in enumerate(part.places) if place in kernel.unaligned),
        slices={number: kernel.slices[place] for number, place in enumerate(part.places) if place in kernel.slices},
    )


def _without_unused_constants(program: Program) -> Program:
    """`program` without the constants that only a part reads which is computed already."""
    used = {number for call in program.calls for number in call.buffers}
    kept = [buffer for buffer in program.buffers if buffer.kind != "constant" or buffer.id in used]
    numbers = {buffer.id: number for number, buffer in enumerate(kept)}
    return replace(
        program,
        buffers=tuple(replace(buffer, id=numbers[buffer.id]) for buffer in kept),
        calls=tuple(call.in_buffers(numbers) for call in program.calls),
        constants={numbers[number]: array for number, array in program.constants.items() if number in numbers},
        states=tuple(replace(state, buffer=numbers[state.buffer]) for state in program.states),
    )


def _unused(name: str, used: Collection[str]) -> str:
    """`name`, with a number if it is among `used`."""
    numbered = (f"{name}_{number}" for number in count(1))
    return name if name not in used else next(one for one in numbered if one not in used)
