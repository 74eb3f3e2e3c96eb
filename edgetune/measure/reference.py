"""Test vectors of a kernel: seeded random inputs, and the outputs of TVM's LLVM build of the unscheduled function.

That build shares nothing with the C printer, nor with the schedule of any candidate, and accumulates float sums in
double. It runs in a build worker, because a kernel that divides by zero ends its process. The scale of the random
inputs is chosen so that the outputs are meaningful.
"""

from __future__ import annotations

import faulthandler
import mmap
import os
import re
import sys
import traceback
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from edgetune.boards.protocol import PART, gap_fill
from edgetune.errors import KernelFailed
from edgetune.graph.accuracy import Tolerance
from edgetune.graph.program import Param
from edgetune.ipc.child_process import die_with_parent
from edgetune.measure.jobs import Case, ReferenceJob
from edgetune.schedule.kernel_spec import KernelSpec, function_of

if TYPE_CHECKING:
    from edgetune.graph.evaluate import ReferenceFunction
from math import sqrt

_WIDE_LIMIT = 1000  # limit of 32-bit integers, so that sums and products of a kernel do not overflow
_INDEX_LIMIT = 8
_ANYWHERE = 1 / 16


def random_input(
    param: Param, others: tuple[Param, ...], generator: np.random.Generator, *, positive: bool
) -> np.ndarray:
    """Return a random array for one input or constant.

    Floats are N(0, 1); constants with at least two axes are divided by the square root of their fan-in (elements per
    slice of the first axis), so that sums keep the scale of the inputs. int8, uint8, int16 and uint16 use their whole
    range, most values near its middle, so that quantised sums do not all saturate. 64-bit integers are treated as
    indices: 0 up to the smallest axis of the float and small integer `others`, 8 at most. `positive` requires values
    above 0.1 (1 for integers), for kernels that divide or take logarithms.
    """
    kind = np.dtype(param.dtype)
    if kind == np.bool_:
        return generator.integers(0, 2, param.shape).astype(np.bool_)
    if kind.kind in "iu":
        low, high = integer_range(param, others, positive=positive)
        if kind.itemsize <= 2:  # noqa: PLR2004  quantised values
            spread = (high - low) / 8
            near = np.rint(generator.normal((low + high) / 2, spread, param.shape)).clip(low, high)
            anywhere = generator.integers(low, high, param.shape, endpoint=True)
            return np.where(generator.random(param.shape) < _ANYWHERE, anywhere, near).astype(kind)
        return np.asarray(generator.integers(low, high, param.shape, endpoint=True)).astype(kind)
    values = np.asarray(generator.standard_normal(param.shape))
    if positive:
        values = np.abs(values) + 0.1
    if param.role == "constant" and len(param.shape) > 1:
        values = values / sqrt(max(1, prod(param.shape[1:])))
    return values.astype(kind)


def integer_range(param: Param, others: tuple[Param, ...], *, positive: bool) -> tuple[int, int]:
    """The smallest and the largest value of an input of integers; see `random_input`."""
    kind = np.dtype(param.dtype)
    limits = np.iinfo(kind)
    if kind.itemsize == 8:  # noqa: PLR2004  int64, uint64
        axes = [extent for other in others if other is not param and other.role != "output" for extent in other.shape]
        high = min([_INDEX_LIMIT, *axes]) - 1
        return (min(1, high) if positive else 0), max(high, 0)
    if kind.itemsize == 4:  # noqa: PLR2004  int32, uint32
        low, high = max(int(limits.min), -_WIDE_LIMIT), _WIDE_LIMIT
    else:
        low, high = int(limits.min), int(limits.max)
    return (1 if positive else low), high


_SMALL_INTEGERS = frozenset({"int8", "uint8", "int16", "uint16"})
_MOST_SPECIAL = 0.1
_MOST_OFF = 0.02  # of the elements may round to the adjacent step
_INTO_SMALL = re.compile(r'T\.Cast\("u?int8"|T\.u?int8\(|\.astype\("u?int8"\)')
_STEPS = 256


def make_case(spec: KernelSpec, folder: Path, job: ReferenceJob) -> Case:
    """Write `array_<i>.npy` for every parameter of the kernel into `folder`; raises KernelFailed on failure.

    `job.constants` replaces random weights. If the kernel traps, or more than a tenth of its outputs are not finite,
    new inputs are drawn, all positive.
    """
    from edgetune.graph.evaluate import ReferenceFunction

    function = function_of(spec)
    text = str(function.script())
    build = ReferenceFunction(function)
    folder.mkdir(parents=True, exist_ok=True)
    arrays = _draw(spec, job, positive=False)
    outputs = _compute_guarded(build, spec, arrays)
    if outputs is None or _mostly_special(spec.params, outputs):
        again = _draw(spec, job, positive=True)
        second = _compute_guarded(build, spec, again)
        if second is not None and (outputs is None or not _mostly_special(spec.params, second)):
            arrays, outputs = again, second
    if outputs is None:
        raise KernelFailed(f"the reference of kernel {spec.symbol} traps on random inputs, even positive ones")
    paths = []
    for index, param in enumerate(spec.params):
        paths.append(folder / f"array_{index}.npy")
        np.save(paths[-1], with_gaps(param, outputs[index]) if param.role == "output" else arrays[index])
    return Case(
        kernel_key=spec.key,
        arrays=tuple(paths),
        roles=tuple(PART if param.role == "output" and param.rows else param.role for param in spec.params),
        tolerances=tuple(
            of_whole(param, tolerance_of(param, text, own_elements(param, outputs[index])))
            if param.role == "output"
            else None
            for index, param in enumerate(spec.params)
        ),
    )


def tolerance_of(param: Param, script: str, expected: np.ndarray) -> Tolerance:
    """Return how far an output may be off, given the text of its function and the reference.

    Floats: relative to the largest value. Small integers rounded from floats: one step, for few elements. Floats that
    come from such integers (at most 256 distinct values): the same, where a step is the smallest gap between values.
    Everything else: exact.
    """
    usual = Tolerance.default(param.dtype)
    if usual.relative:
        if _INTO_SMALL.search(script):
            values = np.unique(expected[np.isfinite(expected)]).astype(np.float64)
            if 1 < values.size <= _STEPS:
                return replace(usual, absolute=1.01 * float(np.min(np.diff(values))), share=_MOST_OFF)
        return usual
    if param.dtype in _SMALL_INTEGERS and "float" in script:
        return Tolerance(absolute=1.0, share=_MOST_OFF)
    return usual


def _draw(spec: KernelSpec, job: ReferenceJob, *, positive: bool) -> dict[int, np.ndarray]:
    generator = np.random.default_rng(job.seed)
    arrays: dict[int, np.ndarray] = {}
    for index, param in enumerate(spec.params):
        if param.role == "output":
            continue
        # The gaps of this tensor hold data of another one, maybe NaN: a candidate must not compute with it.
        drawn = with_gaps(param, random_input(param, spec.params, generator, positive=positive))
        given = job.constants.get(index)
        arrays[index] = drawn if given is None else np.load(given).astype(param.dtype).reshape(param.shape)
    return arrays


def _compute_guarded(
    build: ReferenceFunction, spec: KernelSpec, arrays: dict[int, np.ndarray]
) -> dict[int, np.ndarray] | None:
    """Run the build in a forked process; return the outputs by parameter index, None if a signal ends it."""
    shared: dict[int, np.ndarray] = {}
    for index, param in enumerate(spec.params):
        if param.role == "output":
            count = prod(param.shape)
            room = mmap.mmap(-1, max(1, count * np.dtype(param.dtype).itemsize))
            shared[index] = np.frombuffer(room, param.dtype, count).reshape(param.shape)
    parent = os.getpid()
    child = os.fork()
    if child == 0:
        code = 1
        try:
            die_with_parent(parent)
            faulthandler.disable()  # a trap is an expected result here
            given = [arrays[index] for index in sorted(arrays)]
            results = build.run(given, [(view.shape, str(view.dtype)) for view in shared.values()])
            for view, result in zip(shared.values(), results, strict=True):
                view[...] = result
            code = 0
        finally:
            if code:
                traceback.print_exc()
                sys.stderr.flush()
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    if code > 0:
        raise KernelFailed(f"the reference of kernel {spec.symbol} cannot be computed: TVM refuses its arguments")
    return {index: view.copy() for index, view in shared.items()} if code == 0 else None


def own_elements(param: Param, array: np.ndarray) -> np.ndarray:
    """Return the elements of `array` that the kernel may touch."""
    return array.reshape(-1) if param.rows is None else array.reshape(-1)[param.elements]


def of_whole(param: Param, tolerance: Tolerance) -> Tolerance:
    """Convert `tolerance` of the own elements to one of the whole array, gaps included, with as many elements off."""
    if param.rows is None or tolerance.share >= 1:
        return tolerance
    return replace(tolerance, share=tolerance.share * param.rows.share)


def with_gaps(param: Param, output: np.ndarray) -> np.ndarray:
    """Return `output` with the gaps filled as every candidate finds them."""
    if param.rows is None:
        return output
    filled = np.frombuffer(bytes([gap_fill(param.dtype)]) * output.nbytes, output.dtype).copy()
    filled[param.elements] = own_elements(param, output)
    return filled.reshape(output.shape)


def _mostly_special(params: tuple[Param, ...], outputs: dict[int, np.ndarray]) -> bool:
    own = [own_elements(params[index], array) for index, array in outputs.items()]
    floats = [array for array in own if array.dtype.kind == "f" and array.size]
    return any(float(np.mean(~np.isfinite(array))) > _MOST_SPECIAL for array in floats)
