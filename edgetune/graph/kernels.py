"""Kernel construction from PrimFuncs: the plain function that schedules apply to, and its name, parameters and work.

Kernel parameters are named by their role, so that equal kernels of different models are equal C text, and readable.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace

import tvm
import tvm_ffi
from tvm import ir, s_tir, te, tirx, topi

from edgetune.affine.expressions import is_among
from edgetune.graph.attention import least_scratch
from edgetune.graph.collapsed_axes import collapse_axes
from edgetune.graph.fixed_point_calls import SCALING
from edgetune.graph.kernel_names import kernel_names, summary
from edgetune.graph.long_sums import scratch_of_parts, split_long_sums
from edgetune.graph.macs import multiply_accumulates
from edgetune.graph.program import Kernel, Param, Role, Rows, byte_size
from edgetune.graph.round_trips import without_round_trips
from edgetune.graph.separable_windows import scratch_of_lines, separate_windows
from edgetune.graph.small_stages import with_small_stages_inlined
from edgetune.graph.whole_factors import with_whole_factors
from edgetune.graph.written_loops import is_written, own_memory
from edgetune.tvm_types import PrimFunc

FREE_LAYOUTS = "layout_free_buffers"
"""TVM's attribute of a function: the numbers of the parameters whose layout a schedule may choose."""

SYMMETRIC_BYTES = "edgetune.symmetric_bytes"
"""Attribute of a function whose constants of type int8 all lie from -127 to 127.

What is made of them when a package is built moves them, or sums them in wider types.
"""

SCALES_SHIFT = "edgetune.scales_shift"
"""Attribute of a function: its parameters that are constant scales (see `edgetune.graph.fixed_point`), all of which
shift by 2 bits or more."""

SCALES_SHIFT_LITTLE = "edgetune.scales_shift_little"
"""Attribute of a function: those of them that shift by 12 bits or less."""

STORED_PARTS = "edgetune.stored_parts"
"""Attribute of a function that is not yet plain: for each parameter, which part of stored integers it is, or "".

Parts are read as they lie: a schedule may not choose their layout.
"""
ROWS_AT = "edgetune.rows_at"
"""Attribute of a function that is not yet plain, and puts rows into a tensor at an index: the axis of the rows, and
whether the index is circular, modulo its extent. -1: the index has a number for each of the first axes."""
SCALES, ZERO_POINTS, PACKED = "scales", "zero_points", "packed"
"""These parts; packed are integers of which two share a byte."""

_COLUMNS = 128
_MOST_SCRATCH = 1 << 14


def parameter_names(
    shapes: Sequence[tuple[int, ...]], roles: Sequence[Role], accumulates: bool, parts: Sequence[str] = ()
) -> list[str]:
    """One name per parameter: input, weights, bias, constant or output, numbered from the second of its kind on.

    `parts` says which parameters are parts of stored integers (see `STORED_PARTS`): scales and zero points are that.
    """
    taken: Counter[str] = Counter()
    names = []
    for shape, role, part in zip(shapes, roles, parts or [""] * len(roles), strict=True):
        name: str = role
        if part in {SCALES, ZERO_POINTS}:
            name = part
        elif role == "constant" and accumulates:
            name = "weights" if sum(extent > 1 for extent in shape) > 1 else "bias"
        taken[name] += 1
        names.append(name if taken[name] == 1 else f"{name}_{taken[name]}")
    return names


def rename_parameters(function: PrimFunc, names: Sequence[str]) -> PrimFunc:
    """`function` with its parameters called `names`; nothing else changes."""
    renamed = {old: tvm.ir.Var(name, old.ty) for old, name in zip(function.params, names, strict=True)}
    return tvm_ffi.structural_map(function, (tvm.ir.Var, lambda variable: renamed.get(variable, variable)))


def plain_function(function: PrimFunc, mask: Sequence[bool]) -> PrimFunc:
    """`function` in the standard form for schedules and records; `mask` says for each tensor read if it is constant.

    Parameters are named by their role, the layout of weights is free, and very long sums are computed in parts.
    """
    free = _packable(function, mask)
    plain = function.with_attr("global_symbol", "main").with_attr("tirx.noalias", True).with_attr(FREE_LAYOUTS, free)
    for attribute in ("op_pattern", "operator_name", STORED_PARTS, ROWS_AT, SCALING):
        if attribute in plain.attrs:
            plain = plain.without_attr(attribute)
    shapes = [tuple(int(e) for e in p.shape) for p in plain.params]
    names = parameter_names(shapes, _roles(mask, len(shapes)), multiply_accumulates(plain) > 0, _parts(function))
    fixed = [number for number, constant in enumerate(mask) if constant]
    collapsed = collapse_axes(
        rename_parameters(without_round_trips(with_whole_factors(with_small_stages_inlined(plain))), names), fixed
    )
    return split_long_sums(separate_windows(collapsed))


def _parts(function: PrimFunc) -> list[str]:
    """Which part of stored integers each parameter of a function is."""
    return [str(part) for part in (function.attrs or {}).get(STORED_PARTS, [""] * len(function.params))]


def with_scales_of(function: PrimFunc, part: PrimFunc) -> PrimFunc:
    """`part`, whose attributes are those of `function`, with its own numbers of the scales that they name.

    Its parameters are buffers of `function`, some of which are parameters of that.
    """
    for attribute in (SCALES_SHIFT, SCALES_SHIFT_LITTLE):
        scales = [function.params[int(number)] for number in (function.attrs or {}).get(attribute, [])]
        own = [number for number, one in enumerate(part.params) if is_among(one, scales)]
        if own:
            part = part.with_attr(attribute, own)
        elif scales:
            part = part.without_attr(attribute)
    return part


def with_free_layouts(function: PrimFunc, numbers: Sequence[int]) -> PrimFunc:
    """`function` with the layout of the parameters `numbers` free, and of no other."""
    if numbers:
        return function.with_attr(FREE_LAYOUTS, list(numbers))
    return function.without_attr(FREE_LAYOUTS) if FREE_LAYOUTS in (function.attrs or {}) else function


def _packable(function: PrimFunc, mask: Sequence[bool]) -> list[int]:
    """The constants of two axes and more whose layout a schedule may choose.

    A constant that is read at several places for one result, and is no factor of a sum, keeps its layout: the one that
    TVM suggests for it joins elements that differ. Written loops read all constants as they are.
    """
    if is_written(function):
        return []
    constants = [i for i, (fixed, part) in enumerate(zip(mask, _parts(function), strict=False)) if fixed and not part]
    many = [i for i in constants if sum(int(e) > 1 for e in function.params[i].shape) > 1]
    if not many or multiply_accumulates(function):
        return many
    reads: Counter[str] = Counter()

    def count(store: tirx.BufferStore) -> None:
        tvm_ffi.structural_walk(store.value, (ir.TensorLoad, lambda load: reads.update([load.source.name])))

    tvm_ffi.structural_walk(function.body, (tirx.BufferStore, count))
    return [i for i in many if reads[function.params[i].name] < 2]


def kernel_of(
    sources: Sequence[str],
    workload: str,
    function: PrimFunc,
    mask: Sequence[bool],
    calls: int,
    rows: Mapping[int, Rows] | None = None,
) -> Kernel:
    """The kernel of a plain function with that workload hash, made of the operators `sources`.

    `mask` is as in `plain_function`; `rows` is by parameter index. The name may not be unique: `named` makes the names
    of a program unique.
    """
    roles = _roles(mask, len(function.params))
    params = [
        Param(str(buffer.name), tuple(int(e) for e in buffer.shape), str(buffer.dtype), role, (rows or {}).get(number))
        for number, (buffer, role) in enumerate(zip(function.params, roles, strict=True))
    ]
    macs, scratch = multiply_accumulates(function), scratch_of(function)
    return Kernel(summary(sources), workload, function, tuple(params), tuple(sources), macs, calls, scratch)


def scratch_of(function: PrimFunc) -> int:
    """Bytes of scratch that a kernel of a model may always use: it saves the arena as much."""
    own = (least_scratch, scratch_of_parts, scratch_of_lines, scratch_of_columns, own_memory)
    return max(bytes_of(function) for bytes_of in own)


def scratch_of_columns(function: PrimFunc) -> int:
    """Bytes of the tensors between stages for a block of columns; 0 where they have other columns than the result.

    Plain loops keep these tensors whole; so a block saves memory, however small the arena is.
    """
    root, result = function.body, function.params[-1]
    buffers = root.block.alloc_buffers if isinstance(root, s_tir.SBlockRealize) else []
    if not buffers or not result.shape or any(not buffer.shape for buffer in buffers):
        return 0
    width = int(result.shape[-1])
    if any(int(buffer.shape[-1]) != width for buffer in buffers):
        return 0
    shapes = [[*(int(extent) for extent in buffer.shape[:-1]), min(width, _COLUMNS)] for buffer in buffers]
    sizes = (byte_size(tuple(shape), str(buffer.dtype)) for shape, buffer in zip(shapes, buffers, strict=True))
    return min(sum(sizes), _MOST_SCRATCH)


def named(kernels: Sequence[Kernel]) -> tuple[Kernel, ...]:
    """The kernels of a program, with unique names."""
    results = [next(param.shape for param in kernel.params if param.role == "output") for kernel in kernels]
    names = kernel_names([(kernel.sources, shape) for kernel, shape in zip(kernels, results, strict=True)])
    return tuple(replace(kernel, name=name) for kernel, name in zip(kernels, names, strict=True))


def copy_function(shape: tuple[int, ...], dtype: str) -> PrimFunc:
    """A function that copies a tensor."""
    source = te.placeholder(shape, dtype, name="source")
    return te.create_prim_func([source, topi.identity(source)])


def _roles(mask: Sequence[bool], count: int) -> list[Role]:
    reads: list[Role] = ["constant" if fixed else "input" for fixed in mask]
    return reads + ["output"] * (count - len(mask))
