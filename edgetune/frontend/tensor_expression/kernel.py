"""Kernel from a tensor expression: prepares a custom operator written in Python for tuning, as a whole program."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count
from numbers import Integral
from typing import Any

import numpy as np
import tvm_ffi
from tvm import s_tir, te
from tvm.error import InternalError
from tvm.tirx import IntImm

from edgetune.errors import UnsupportedOperator, UsageError
from edgetune.graph.evaluate import evaluate
from edgetune.graph.kernels import with_free_layouts
from edgetune.graph.macs import multiply_accumulates
from edgetune.graph.program import Buffer, BufferKind, Call, Kernel, Param, Program, Role, Rows, TensorSpec, byte_size
from edgetune.graph.workload import workload_hash
from edgetune.rewrites.bounds import check_reads
from edgetune.rewrites.packing import may_be_packed
from edgetune.rewrites.parts import PartOfExpression, divisions_of
from edgetune.rewrites.passes import PASSES_OF_PARTS, rewritten
from edgetune.rewrites.stored_values import statements_in
from edgetune.schedule.sketches.block_analysis import extent_of, stage_of
from edgetune.target.core import WIDEST
from edgetune.tvm_types import PrimFunc, SBlock, TvmBuffer

_ROWS = 4
"""Rows of sums that are made at a time."""

_GROWTH = 2
"""Most bytes of a constant that is computed at build time, for each byte that it is computed from."""


def program_from_te(
    expression: Callable[..., Any],
    inputs: Mapping[str, tuple[Sequence[int], str]],
    constants: Mapping[str, np.ndarray],
    name: str,
) -> Program:
    """The program that calls `expression(*inputs, *constants)` once; raises what `kernel_from_te` raises.

    `inputs` gives shape and numpy dtype name by parameter name. Raises UsageError for another input or constant, or
    where `expression` returns no tensors.
    """
    places = [_input(key, given, name) for key, given in inputs.items()]
    fixed = [_constant(key, value, name) for key, value in constants.items()]
    try:
        computed = expression(*places, *fixed)
    except InternalError as error:
        reason = str(error).strip().splitlines()[0]
        raise UsageError(
            f"TVM refuses a stage of {name} ({reason}): give each operator the types that it has; for example, "
            "//, %, << and >> are for integers, and the remainder of floats is x - y * te.floor(x / y)"
        ) from error
    outputs = list(computed) if isinstance(computed, Sequence) else [computed]
    others = [type(one).__name__ for one in outputs if not isinstance(one, te.Tensor)]
    if others or not outputs:
        got = f"an object of type {others[0]}" if others else "an empty list"
        raise UsageError(f"the expression of {name} returns {got}: return a tensor of te.compute, or a list of them")
    tensors = [*places, *fixed, *outputs]
    params = _params(tensors, name, fixed)
    function = _function(tensors, name, params)
    by_role = {
        role: [one for one, param in zip(function.params, params, strict=True) if param.role == role]
        for role in ("constant", "output")
    }
    divisions = divisions_of(function, by_role["output"], by_role["constant"])
    first, *rest = (_program(name, function, params, parts, constants) for parts in divisions)
    return replace(first, divisions=tuple(rest))


def _program(
    name: str,
    function: PrimFunc,
    params: Sequence[Param],
    parts: Sequence[PartOfExpression],
    weights: Mapping[str, np.ndarray],
) -> Program:
    """The program of the parts of `function`; tensors between them are intermediate buffers.

    A part that reads weights alone, as the taps of all phases of a transposed convolution, is computed here: what it
    writes is a constant, unless that has more than `_GROWTH` times the bytes of what it reads.
    """
    kinds: dict[str, BufferKind] = {"input": "input", "constant": "constant", "output": "output"}
    known = list(zip(function.params, params, strict=True))
    buffers = [Buffer(i, p.name, p.shape, p.dtype, kinds[p.role]) for i, p in enumerate(params)]
    constants = {b.id: np.asarray(weights[b.name], order="C") for b in buffers if b.kind == "constant"}
    kernels: list[Kernel] = []
    calls: list[Call] = []
    for part in parts:
        numbers, own = [], []
        for place in (*part.reads, *part.writes):
            number = next((n for n, (one, _) in enumerate(known) if one.same_as(place)), len(known))
            if number == len(known):
                shape = tuple(int(extent) for extent in place.ty.shape)
                tensor = _unused(str(place.name), [buffer.name for buffer in buffers])
                known.append((place, Param(tensor, shape, str(place.ty.dtype), "input", _rows_written(part, place))))
                buffers.append(Buffer(number, tensor, shape, str(place.ty.dtype), "intermediate"))
            param = known[number][1]
            role: Role = "constant" if param.role == "constant" else "input"
            own.append(replace(param, role="output" if any(place.same_as(one) for one in part.writes) else role))
            numbers.append(number)
        read, written = numbers[: len(part.reads)], numbers[len(part.reads) :]
        if _is_constant([buffers[n] for n in read], [buffers[n] for n in written]):
            made = [(buffers[n].shape, buffers[n].dtype) for n in written]
            arrays = evaluate(part.function, [constants[n] for n in read], made)
            constants.update(zip(written, arrays, strict=True))
            for n in written:
                buffers[n] = replace(buffers[n], kind="constant")
                known[n] = (known[n][0], replace(known[n][1], role="constant"))
            continue
        title = f"{name}_{re.sub('[^A-Za-z0-9_]', '_', part.name)}" if part.name else name
        title = _unused(title, [kernel.name for kernel in kernels])
        calls.append(Call(len(kernels), tuple(numbers), title))
        kernels.append(_kernel(title, part.function, tuple(own), part.name or name))
    specs = {
        role: tuple(TensorSpec(p.name, p.shape, p.dtype) for p in params if p.role == role)
        for role in ("input", "output")
    }
    used = {number for call in calls for number in call.arguments}
    kept = [buffer for buffer in buffers if buffer.kind != "constant" or buffer.id in used]
    renumbered = {buffer.id: number for number, buffer in enumerate(kept)}
    return Program(
        name=name,
        inputs=specs["input"],
        outputs=specs["output"],
        buffers=tuple(replace(buffer, id=renumbered[buffer.id]) for buffer in kept),
        kernels=tuple(kernels),
        calls=tuple(replace(call, arguments=tuple(renumbered[n] for n in call.arguments)) for call in calls),
        constants={renumbered[n]: array for n, array in constants.items() if n in renumbered},
        model_sha256=workload_hash(function),
    )


def _is_constant(read: Sequence[Buffer], written: Sequence[Buffer]) -> bool:
    """Whether a kernel that reads and writes these buffers is computed at build time."""
    known = bool(read) and all(buffer.kind == "constant" for buffer in read)
    sizes = (sum(byte_size(buffer.shape, buffer.dtype) for buffer in group) for group in (read, written))
    before, after = sizes
    return known and all(buffer.kind == "intermediate" for buffer in written) and after <= _GROWTH * before


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


def _unused(name: str, used: Collection[str]) -> str:
    """`name`, with a number if it is among `used`."""
    numbered = (f"{name}_{number}" for number in count(1))
    return name if name not in used else next(one for one in numbered if one not in used)


def kernel_from_te(
    tensors: Sequence[te.Tensor], name: str = "custom", constants: Collection[te.Tensor] = (), weight: int = 1
) -> Kernel:
    """The kernel that computes the computed tensors among `tensors` from the placeholders among them.

    Placeholders come first, in the order of the C parameters. Those in `constants` are weights, whose layout tuning may
    change. Raises UsageError for a wrong name or order, or a shape that is not fixed, and UnsupportedOperator when TVM
    cannot make a function of it.
    """
    params = _params(tensors, name, constants)
    return replace(_kernel(name, _function(tensors, name, params), params, name), weight=weight)


def _params(tensors: Sequence[te.Tensor], name: str, constants: Collection[te.Tensor]) -> tuple[Param, ...]:
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise UsageError(f"{name!r} cannot name a kernel: use letters, digits and _, a letter first")
    params = tuple(_param(tensor, any(tensor.op.same_as(known.op) for known in constants), name) for tensor in tensors)
    roles = ["output" if param.role == "output" else "input" for param in params]
    if roles != sorted(roles) or "output" not in roles:
        raise UsageError(f"the tensors of {name} must be placeholders first, then at least one computed tensor")
    names = [param.name for param in params]
    twice = next((one for one in names if names.count(one) > 1), None)
    if twice is not None:
        raise UsageError(f"two tensors of {name} are called '{twice}': name one of them otherwise")
    return params


def _function(tensors: Sequence[te.Tensor], name: str, params: Sequence[Param]) -> PrimFunc:
    """The unscheduled function of an expression, in normal form."""
    try:
        function = te.create_prim_func(list(tensors))
    except (RuntimeError, ValueError, TypeError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[-1] if lines else type(error).__name__
        raise UnsupportedOperator(f"TVM cannot make a function of {name} ({reason}): rewrite its expression") from error
    if any(stage_of(statement) is None for statement in statements_in(function)):
        raise UnsupportedOperator(
            f"a stage of {name} is no loop nest that computes one value, as those of TVM's cumsum and sort: "
            "write it with te.compute, one for each result"
        )
    check_reads(function, name)
    if not _has_fixed_extents(function):
        raise UnsupportedOperator(
            f"an axis of {name} has an extent that depends on the element, as in an adaptive pooling: "
            "use the largest extent, and mask the rest with te.if_then_else"
        )
    function = with_free_layouts(function, [])  # TVM's own convolutions take all weights for constants
    return rewritten(function, [index for index, param in enumerate(params) if param.role == "constant"])


def _has_fixed_extents(function: PrimFunc) -> bool:
    """Whether the extents of all axes are constants; in an adaptive pooling they may depend on the element."""
    extents: list[Any] = []

    def look(block: SBlock) -> None:
        extents.extend(axis.dom.extent for axis in block.iter_vars)

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, look))
    return all(isinstance(extent, IntImm) for extent in extents)


def _kernel(name: str, function: PrimFunc, params: tuple[Param, ...], source: str) -> Kernel:
    weights = [index for index, param in enumerate(params) if param.role == "constant"]
    function = rewritten(function, weights, PASSES_OF_PARTS)
    packed = [index for index in weights if len(params[index].shape) > 1 and may_be_packed(function, index)]
    function = with_free_layouts(function, packed)
    return Kernel(
        name=name,
        workload=workload_hash(function),
        function=function,
        params=params,
        sources=(source,),
        macs=multiply_accumulates(function),
        weight=1,
        scratch=_scratch(function, params),
    )


def _input(key: str, given: object, kernel: str) -> te.Tensor:
    """The placeholder of an input that is given as its shape and the name of its numpy dtype."""
    match given:
        case (Sequence() as shape, str() as dtype) if all(isinstance(extent, Integral) for extent in shape):
            return _placeholder(key, tuple(map(int, shape)), dtype, kernel)
    raise UsageError(f"input '{key}' of {kernel} must be a shape and a numpy dtype name, as ((1, 64), \"float32\")")


def _constant(key: str, value: object, kernel: str) -> te.Tensor:
    if not isinstance(value, np.ndarray | np.generic):
        raise UsageError(f"constant '{key}' of {kernel} is a {type(value).__name__}: give an array of numpy")
    return _placeholder(key, value.shape, value.dtype.name, kernel)


def _placeholder(key: str, shape: tuple[int, ...], dtype: str, kernel: str) -> te.Tensor:
    try:
        np.dtype(dtype)
        return te.placeholder(shape, dtype, name=key)
    except (TypeError, ValueError) as error:
        raise UsageError(f"'{key}' of {kernel} has the dtype {dtype!r}: use one such as float32 or int8") from error


def _scratch(function: PrimFunc, params: Sequence[Param]) -> int:
    """Bytes that a schedule may need: the largest input, which may be packed, or all tensors between the stages.

    Rows of these count as whole vectors, of which the last one may overlap the one before: the sums of such rows are
    made in rows of their own.
    """
    outputs = (_in_whole_vectors(param.shape) for param in params if param.role == "output")
    rows = max(byte_size(shape[-1:], "float32") for shape in outputs) * _ROWS
    inputs = [byte_size(param.shape, param.dtype) for param in params if param.role == "input"]
    between = [
        byte_size(_in_whole_vectors([int(extent) for extent in buffer.ty.shape]), str(buffer.ty.dtype))
        for buffer in function.body.block.alloc_buffers
    ]
    return max([*inputs, sum(between) + rows])


def _in_whole_vectors(shape: Sequence[int]) -> tuple[int, ...]:
    *outer, row = shape or [1]
    return (*outer, -(-row // WIDEST.lanes) * WIDEST.lanes if row >= WIDEST.lanes else row)


def _param(tensor: te.Tensor, constant: bool, kernel: str) -> Param:
    if not all(isinstance(extent, int | IntImm) for extent in tensor.shape):
        raise UsageError(f"{tensor.op.name} of {kernel} has a dimension that is not a number: fix its shape")
    shape = tuple(int(extent) for extent in tensor.shape)
    if any(extent < 1 for extent in shape):
        raise UsageError(f"{tensor.op.name} of {kernel} has the shape {shape}: every extent must be at least 1")
    role: Role = "output"
    if isinstance(tensor.op, te.PlaceholderOp):
        role = "constant" if constant else "input"
    name = f"{tensor.op.name}_{tensor.value_index}" if tensor.op.num_outputs > 1 else tensor.op.name
    return Param(name, shape, str(tensor.dtype), role)


def normal_values(inputs: Sequence[TensorSpec], count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """`count` feeds by input name: normally distributed floats, integers of 0 to 7."""
    generators = [np.random.default_rng([seed, case]) for case in range(count)]
    return [{spec.name: _values(generator, spec) for spec in inputs} for generator in generators]


def _values(generator: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    if np.dtype(spec.dtype).kind == "f":
        return np.asarray(generator.standard_normal(spec.shape)).astype(spec.dtype)
    return np.asarray(generator.integers(0, 2 if spec.dtype == "bool" else 8, spec.shape)).astype(spec.dtype)
