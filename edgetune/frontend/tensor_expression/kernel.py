"""Kernel from a tensor expression: prepares a custom operator written in Python for tuning, as a whole program."""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import numpy as np
from tvm import te
from tvm.tirx import IntImm

from edgetune.errors import UnsupportedOperator, UsageError
from edgetune.frontend.tensor_expression.normal_form import normal_form
from edgetune.graph.long_sums import split_long_sums
from edgetune.graph.macs import multiply_accumulates
from edgetune.graph.program import Buffer, BufferKind, Call, Kernel, Param, Program, Role, TensorSpec, byte_size
from edgetune.graph.workload import workload_hash


def program_from_te(
    expression: Callable[..., Any],
    inputs: Mapping[str, tuple[Sequence[int], str]],
    constants: Mapping[str, np.ndarray],
    name: str,
) -> Program:
    """The program that calls `expression(*inputs, *constants)` once; raises what `kernel_from_te` raises.

    `inputs` gives shape and numpy dtype name by parameter name.
    """
    places = [te.placeholder(tuple(shape), dtype, name=key) for key, (shape, dtype) in inputs.items()]
    fixed = [te.placeholder(value.shape, value.dtype.name, name=key) for key, value in constants.items()]
    computed = expression(*places, *fixed)
    outputs = list(computed) if isinstance(computed, list | tuple) else [computed]
    return _program(kernel_from_te([*places, *fixed, *outputs], name, constants=fixed), constants)


def _program(kernel: Kernel, weights: Mapping[str, np.ndarray]) -> Program:
    kinds: dict[str, BufferKind] = {"input": "input", "constant": "constant", "output": "output"}
    buffers = tuple(Buffer(i, p.name, p.shape, p.dtype, kinds[p.role]) for i, p in enumerate(kernel.params))
    specs = {
        role: tuple(TensorSpec(p.name, p.shape, p.dtype) for p in kernel.params if p.role == role)
        for role in ("input", "output")
    }
    return Program(
        name=kernel.name,
        inputs=specs["input"],
        outputs=specs["output"],
        buffers=buffers,
        kernels=(kernel,),
        calls=(Call(0, tuple(range(len(buffers))), kernel.name),),
        constants={b.id: np.ascontiguousarray(weights[b.name]) for b in buffers if b.kind == "constant"},
        model_sha256=kernel.workload,
    )


def kernel_from_te(
    tensors: Sequence[te.Tensor], name: str = "custom", constants: Collection[te.Tensor] = (), weight: int = 1
) -> Kernel:
    """The kernel that computes the computed tensors among `tensors` from the placeholders among them.

    Placeholders come first, in the order of the C parameters. Those in `constants` are weights, whose layout tuning may
    change. Raises UsageError for a wrong name or order, or a shape that is not fixed, and UnsupportedOperator when TVM
    cannot make a function of it.
    """
    if not re.fullmatch(r"[A-Za-z][A-Za-z0-9_]*", name):
        raise UsageError(f"{name!r} cannot name a kernel: use letters, digits and _, a letter first")
    params = tuple(_param(tensor, any(tensor.op.same_as(known.op) for known in constants), name) for tensor in tensors)
    roles = ["output" if param.role == "output" else "input" for param in params]
    if roles != sorted(roles) or "output" not in roles:
        raise UsageError(f"the tensors of {name} must be placeholders first, then at least one computed tensor")
    try:
        function = te.create_prim_func(list(tensors))
    except (RuntimeError, ValueError, TypeError) as error:
        lines = str(error).strip().splitlines()
        reason = lines[-1] if lines else type(error).__name__
        raise UnsupportedOperator(f"TVM cannot make a function of {name} ({reason}): rewrite its expression") from error
    weights = [index for index, param in enumerate(params) if param.role == "constant"]
    function = split_long_sums(normal_form(function, weights))
    free = [index for index in weights if len(params[index].shape) > 1]
    if free:
        function = function.with_attr("layout_free_buffers", free)
    return Kernel(
        name=name,
        workload=workload_hash(function),
        function=function,
        params=params,
        sources=(name,),
        macs=multiply_accumulates(function),
        weight=weight,
        scratch=max((byte_size(param.shape, param.dtype) for param in params if param.role == "input"), default=0),
    )


def _param(tensor: te.Tensor, constant: bool, kernel: str) -> Param:
    if not all(isinstance(extent, int | IntImm) for extent in tensor.shape):
        raise UsageError(f"{tensor.op.name} of {kernel} has a dimension that is not a number: fix its shape")
    role: Role = "output"
    if isinstance(tensor.op, te.PlaceholderOp):
        role = "constant" if constant else "input"
    return Param(tensor.op.name, tuple(int(extent) for extent in tensor.shape), str(tensor.dtype), role)


def normal_values(inputs: Sequence[TensorSpec], count: int, seed: int) -> list[dict[str, np.ndarray]]:
    """`count` feeds by input name: normally distributed floats, integers of 0 to 7."""
    generators = [np.random.default_rng([seed, case]) for case in range(count)]
    return [{spec.name: _values(generator, spec) for spec in inputs} for generator in generators]


def _values(generator: np.random.Generator, spec: TensorSpec) -> np.ndarray:
    if np.dtype(spec.dtype).kind == "f":
        return np.asarray(generator.standard_normal(spec.shape)).astype(spec.dtype)
    return np.asarray(generator.integers(0, 2 if spec.dtype == "bool" else 8, spec.shape)).astype(spec.dtype)
