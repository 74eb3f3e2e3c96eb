"""Kernels of written loops in C: strict compilers and sanitizers are content, and threads change no bit."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from edgetune.codegen import emit_kernel
from edgetune.codegen.parallel_kernel import Sharing, emit_shared_kernel
from edgetune.frontend.onnx.converters.box_selection import non_max_suppression
from edgetune.frontend.onnx.converters.scattering import scatter_elements, scatter_nd
from edgetune.frontend.onnx.converters.sorting import top_k
from edgetune.graph.evaluate import ReferenceFunction
from edgetune.graph.kernels import kernel_of, plain_function
from edgetune.schedule.default_schedule import WRITTEN_NOTE, default_guess
from edgetune.schedule.sketches.spaces import untouched
from edgetune.tvm_types import PrimFunc
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.threads_sample import WORKERS, backwards

KERNELS: dict[str, Callable[[], PrimFunc]] = {
    "top": lambda: top_k((5, 70, 3), "float32", 9, largest=True),
    "sorted": lambda: top_k((6, 40, 1), "float64", 40, largest=False),
    "distributed": lambda: top_k((5, 520, 2), "float32", 520, largest=True),
    "all": lambda: top_k((6, 520, 1), "int8", 520, largest=False),
    "half": lambda: top_k((6, 40, 1), "float16", 4, largest=True),
    "boxes": lambda: non_max_suppression((2, 3, 40), 7, has_limit=False),
    "centers": lambda: non_max_suppression((3, 2, 40), 50, by_center=True),
    "elements": lambda: scatter_elements((6, 50, 4), (5, 30, 4), 1, ("float32", "int64"), "add"),
    "slices": lambda: scatter_nd((9, 8, 20), (30, 2), ("float32", "int64"), "none", distinct=False),
}
"""Functions whose rows, or slices, are independent."""


def reads_of(function: PrimFunc) -> list[bool]:
    """The mask of the parameters that a kernel reads: none is constant."""
    names = [str(param.name) for param in function.params]
    return [False] * next(number for number, name in enumerate(names) if name in {"values", "result"})


def plain(kernel: str) -> PrimFunc:
    """A kernel with the names of parameters that the printer knows."""
    made = KERNELS[kernel]()
    return plain_function(made, reads_of(made))


def arrays_of(function: PrimFunc) -> list[np.ndarray]:
    """Inputs with many ties; of indices some are out of range; a single number is 0."""
    numbers = np.random.default_rng(0)
    found = []
    for param in function.params:
        shape, dtype = [int(extent) for extent in param.shape], str(param.dtype)
        written = str(param.name).startswith("output")
        low, high = (-60, 60) if dtype.startswith("int") else (-9, 9)
        found.append(
            np.zeros(shape, dtype) if written or shape == [1] else numbers.integers(low, high, shape).astype(dtype)
        )
    return found


@pytest.mark.long
@pytest.mark.parametrize("kernel", KERNELS)
def test_threads_in_another_order_give_the_same_bits_and_touch_no_other_memory(kernel: str, tmp_path: Path) -> None:
    board = wide_target(256)
    function = plain(kernel)
    arrays = arrays_of(function)
    given = [a for a, p in zip(arrays, function.params, strict=True) if not str(p.name).startswith("output")]
    outputs = [(a.shape, str(a.dtype)) for a in arrays[len(given) :]]
    wanted = ReferenceFunction(function).run(given, outputs)
    source = emit_shared_kernel(untouched(function).mod, board, "shared", Sharing("test", WORKERS, 1))
    assert source.workers == WORKERS
    for folder, text in (("one", emit_kernel(untouched(function).mod, board, "one")), ("all", backwards(source))):
        (tmp_path / folder).mkdir()
        found = run_kernel(text, board, arrays, tmp_path / folder, extra=SANITIZERS)
        for a, b in zip(found[len(given) :], wanted, strict=True):
            np.testing.assert_array_equal(a, b)


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
@pytest.mark.parametrize("kernel", KERNELS)
def test_compilers_have_nothing_to_say(kernel: str, compiler: str, tmp_path: Path) -> None:
    board = wide_target()
    compile_strictly(emit_kernel(untouched(KERNELS[kernel]()).mod, board, "kernel"), board, tmp_path, compiler)


def test_the_default_schedule_says_that_loops_run_as_they_are_written() -> None:
    guess = default_guess(plain("top"), wide_target(256))
    assert guess.note == WRITTEN_NOTE
    assert guess.share is None  # so that no report advises to search for a faster one


def test_places_are_counted_as_indices_and_sums_of_data_wrap() -> None:
    text = emit_kernel(untouched(KERNELS["top"]()).mod, wide_target(256), "top").definition
    assert re.search(r"const int32_t first_\d = place \* 4 \+ 1;", text)


@pytest.mark.parametrize("kernel", KERNELS)
def test_a_search_allows_the_memory_that_loops_need(kernel: str) -> None:
    """A record said that the one schedule needs more scratch than there may be."""
    function = plain(kernel)
    made = kernel_of(["written"], "", function, reads_of(KERNELS[kernel]()), 1)
    needed = emit_kernel(untouched(function).mod, wide_target(256), "kernel").scratch_bytes
    assert needed <= made.scratch <= needed + 1024
