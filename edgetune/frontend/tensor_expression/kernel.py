"""Kernel from a tensor expression: prepares a custom operator written in Python for tuning, as a whole program."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
import tvm_ffi
from tvm import s_tir, te
from tvm.error import InternalError
from tvm.tirx import IntImm

from edgetune.errors import UnsupportedOperator, UsageError
from edgetune.graph.kernels import with_free_layouts
from edgetune.graph.macs import multiply_accumulates
from edgetune.graph.program import Buffer, BufferKind, Call, Kernel, Param, Program, Role, TensorSpec
from edgetune.graph.workload import workload_hash
from edgetune.rewrites.bounds import check_reads
from edgetune.rewrites.kernel_forms import finished, weights_among
from edgetune.rewrites.passes import rewritten
from edgetune.rewrites.scratch import scratch_of_expression
from edgetune.rewrites.stored_values import statements_in
from edgetune.schedule.sketches.block_analysis import stage_of
from edgetune.tvm_types import PrimFunc, SBlock


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
    kernel = kernel_from_te([*places, *fixed, *outputs], name, fixed)
    kinds: dict[str, BufferKind] = {"input": "input", "constant": "constant", "output": "output"}
    specs = {
        role: tuple(TensorSpec(p.name, p.shape, p.dtype) for p in kernel.params if p.role == role)
        for role in ("input", "output")
    }
    buffers = [Buffer(i, p.name, p.shape, p.dtype, kinds[p.role]) for i, p in enumerate(kernel.params)]
    return Program(
        name=name,
        inputs=specs["input"],
        outputs=specs["output"],
        buffers=tuple(buffers),
        kernels=(kernel,),
        calls=(Call(0, tuple(range(len(buffers))), name),),
        constants={b.id: np.asarray(constants[b.name], order="C") for b in buffers if b.kind == "constant"},
        model_sha256=workload_hash(kernel.function),
    )


def kernel_from_te(
    tensors: Sequence[te.Tensor], name: str = "custom", constants: Collection[te.Tensor] = (), weight: int = 1
) -> Kernel:
    """The kernel that computes the computed tensors among `tensors` from the placeholders among them.

    Placeholders come first, in the order of the C parameters. Those in `constants` are weights, whose layout tuning may
    change. Raises UsageError for a wrong name or order, or a shape that is not fixed, and UnsupportedOperator when TVM
    cannot make a function of it.
    """
    params = _params(tensors, name, constants)
    definition = _definition(tensors, name)
    weights = weights_among(params)
    function = finished(rewritten(definition, weights), params, weights)
    return Kernel(
        name=name,
        workload=workload_hash(function),
        function=function,
        params=params,
        sources=(name,),
        macs=multiply_accumulates(function),
        weight=weight,
        scratch=scratch_of_expression(function, params),
        definition=definition,
    )


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


def _definition(tensors: Sequence[te.Tensor], name: str) -> PrimFunc:
    """The unscheduled function of an expression."""
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
    return with_free_layouts(function, [])  # TVM's own convolutions take all weights for constants


def _has_fixed_extents(function: PrimFunc) -> bool:
    """Whether the extents of all axes are constants; in an adaptive pooling they may depend on the element."""
    extents: list[Any] = []

    def look(block: SBlock) -> None:
        extents.extend(axis.dom.extent for axis in block.iter_vars)

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, look))
    return all(isinstance(extent, IntImm) for extent in extents)


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
