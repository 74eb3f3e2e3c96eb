"""Forms of a kernel: the ways to compute the same that are worth a comparison, each as one kernel or as several.

The first form is what a build without an estimate has: a model's kernel as the partition made it, and of a tensor
expression what the formulas decide for the widest core. The others are the kernel after all passes, and what these
divide it into for the core at hand.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import tvm_ffi
from tvm import s_tir

from edgetune.graph.attention import is_attention
from edgetune.graph.kernels import FREE_LAYOUTS, with_free_layouts
from edgetune.graph.program import Kernel, Param, Role, Rows, byte_size
from edgetune.graph.workload import workload_hash
from edgetune.graph.written_loops import is_written
from edgetune.rewrites.packing import may_be_packed
from edgetune.rewrites.parts import DIVISIONS, Division, PartOfExpression, divisions_of
from edgetune.rewrites.passes import PASSES_OF_PARTS, rewritten
from edgetune.schedule.sketches.block_analysis import analyse_blocks, extent_of, widest_element_bytes
from edgetune.target.core import WIDEST, Core
from edgetune.target.costs import GENEROUS
from edgetune.tvm_types import PrimFunc, SBlock, TvmBuffer

_GROWTH = 2
"""Most bytes of a constant that is computed at build time, for each byte that it is computed from."""


@dataclass(frozen=True)
class KernelPart:
    """A kernel of a form, with the tensors that it is called with.

    `places` are numbers: those of parameters of the kernel that is divided, and then those of the tensors between the
    parts. Where it is `built`, it reads weights alone, and what it writes is computed when a package is built.
    """

    name: str
    function: PrimFunc
    params: tuple[Param, ...]
    places: tuple[int, ...]
    built: bool = False


@dataclass(frozen=True)
class Form:
    """Kernels that compute what one does, in the order of their calls, and the tensors between them."""

    parts: tuple[KernelPart, ...]
    between: tuple[Param, ...] = ()

    @property
    def workloads(self) -> tuple[str, ...]:
        """The hashes of the functions: forms of a kernel with the same ones are the same."""
        return tuple(workload_hash(part.function) for part in self.parts)


def forms_of(kernel: Kernel, cores: Sequence[Core] = (), ways: Sequence[Division] = DIVISIONS) -> list[Form]:
    """The forms of a kernel, each once; `cores` are those that it is divided for beside the widest one.

    `ways` are those of dividing it.
    """
    found: dict[tuple[str, ...], Form] = {}
    for form in _all_forms(kernel, cores, ways):
        found.setdefault(form.workloads, form)
    return list(found.values())


def _all_forms(kernel: Kernel, cores: Sequence[Core], ways: Sequence[Division]) -> Iterator[Form]:
    plain = Form((whole_part(kernel),))
    divisible = not is_attention(kernel.function) and analyse_blocks(kernel.function) is not None
    if kernel.definition is None or not divisible:
        yield plain
    if not divisible:
        return  # attention has an algorithm of its own; no pass knows loops that are written out
    function = rewritten(kernel.definition or kernel.function, weights_among(kernel.params))
    outputs, constants = (
        [place for place, param in zip(function.params, kernel.params, strict=True) if param.role == role]
        for role in ("output", "constant")
    )
    own = [core for core in cores if core.lanes > 1]  # without vectors, nothing is gained by another order
    for core in (WIDEST.holding(widest_element_bytes(function)), *own):
        for parts in divisions_of(function, outputs, constants, core, ways):
            yield _form(kernel, function, parts)
    yield plain
    for core in own:
        for way in ways:
            for parts in divisions_of(function, outputs, constants, replace(core, margins=GENEROUS), [way]):
                yield _form(kernel, function, parts)


def whole_part(kernel: Kernel) -> KernelPart:
    """A kernel as the only part of a form."""
    return KernelPart("", kernel.function, kernel.params, tuple(range(len(kernel.params))))


def weights_among(params: Sequence[Param]) -> list[int]:
    """The numbers of the parameters that are constants."""
    return [number for number, param in enumerate(params) if param.role == "constant"]


def finished(function: PrimFunc, params: Sequence[Param], free: Sequence[int]) -> PrimFunc:
    """A function after the passes of parts; schedules choose the layouts of those weights that can be packed.

    `free` are the numbers of the parameters among which these are.
    """
    if is_written(function):
        return function
    function = rewritten(function, weights_among(params), PASSES_OF_PARTS)
    packed = [number for number in free if len(params[number].shape) > 1 and may_be_packed(function, number)]
    if FREE_LAYOUTS in (function.attrs or {}):  # in models it is always there
        return function.with_attr(FREE_LAYOUTS, packed)
    return with_free_layouts(function, packed)


def _form(kernel: Kernel, function: PrimFunc, parts: Sequence[PartOfExpression]) -> Form:
    """The form of a kernel whose function, after the passes, has these parts."""
    own = len(kernel.params)
    places: list[TvmBuffer] = list(function.params)
    tensors = list(kernel.params)
    free = _free(kernel)
    made: list[KernelPart] = []
    for part in parts:
        numbers = []
        for place in (*part.reads, *part.writes):
            number = next((number for number, one in enumerate(places) if one.same_as(place)), len(places))
            if number == len(places):
                shape = tuple(int(extent) for extent in place.ty.shape)
                rows = _rows_written(part, place)
                places.append(place)
                tensors.append(Param(str(place.name), shape, str(place.ty.dtype), "input", rows))
            numbers.append(number)
        read, written = numbers[: len(part.reads)], numbers[len(part.reads) :]
        if built := min(written) >= own and _is_constant([tensors[n] for n in read], [tensors[n] for n in written]):
            tensors = [replace(one, role="constant") if n in written else one for n, one in enumerate(tensors)]
            free |= set(written)
        params = tuple(_in_part(tensors[number], number in written) for number in numbers)
        packed = [n for n, number in enumerate(numbers) if number in free and params[n].role == "constant"]
        done = part.function if built else finished(part.function, params, packed)
        made.append(KernelPart(part.name, done, params, tuple(numbers), built))
    if sum(not part.built for part in made) == 1:
        made = [part if part.built else replace(part, name="") for part in made]
    return Form(tuple(made), tuple(tensors[own:]))


def _free(kernel: Kernel) -> set[int]:
    """The parameters whose layout a schedule may choose: of an expression, all weights."""
    if kernel.definition is not None:
        return set(weights_among(kernel.params))
    return {int(number) for number in (kernel.function.attrs or {}).get(FREE_LAYOUTS) or ()}


def _in_part(tensor: Param, written: bool) -> Param:
    """A tensor as a parameter of a part."""
    role: Role = "output" if written else "constant" if tensor.role == "constant" else "input"
    return replace(tensor, role=role)


def _is_constant(read: Sequence[Param], written: Sequence[Param]) -> bool:
    """Whether a kernel that reads and writes these tensors is computed at build time: it reads weights alone.

    What it writes may have `_GROWTH` times the bytes of what it reads, as the taps of all phases of a transposed
    convolution.
    """
    before, after = (sum(byte_size(one.shape, one.dtype) for one in group) for group in (read, written))
    return bool(read) and all(one.role == "constant" for one in read) and after <= _GROWTH * before


def _rows_written(part: PartOfExpression, place: TvmBuffer) -> Rows | None:
    """The rows of a tensor that `part` writes, where they do not fill it: rows of a copy may end in gaps."""
    number = next((number for number, one in enumerate(part.writes) if one.same_as(place)), None)
    if number is None or not place.ty.shape:
        return None
    written = part.function.params[len(part.reads) + number]
    lengths: set[int] = set()

    def look(block: SBlock) -> None:
        for region in block.writes:
            last = region.region[-1].min if region.source.same_as(written) and region.region else None
            lengths.update(extent_of(axis) for axis in block.iter_vars if axis.var.same_as(last))

    tvm_ffi.structural_walk(part.function.body, (s_tir.SBlock, look))
    pitch = int(place.ty.shape[-1])
    return Rows(max(lengths), pitch) if lengths and max(lengths) < pitch else None
