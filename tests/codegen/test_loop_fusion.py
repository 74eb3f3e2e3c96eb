"""Loop fusion: which sums are computed in one pass over a tensor, and that each has the same value as alone."""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tvm
from hypothesis import given
from hypothesis import strategies as st
from tvm import te

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.codegen.parallel_kernel import Sharing, emit_shared_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.target.target import Target
from tests import codegen_samples as samples
from tests.codegen_run import SANITIZERS, compile_strictly, run_kernel, wide_target
from tests.examples import costly
from tests.sketch_samples import prim_func, random_arguments
from tests.threads_sample import WORKERS, backwards

Term = Callable[[Any, Any], Any]
TERMS: dict[str, Term] = {
    "sum": lambda x, _: x,
    "square": lambda x, _: x * x,
    "cube": lambda x, _: x * x * x,
    "weighted": lambda x, w: x * w,
    "weighted_square": lambda x, w: x * x * w,
}


def totals(x: Any, w: Any, number: int, term: Term) -> Any:
    """The sums of a term over the rows of each matrix."""
    batch, rows, columns = (int(extent) for extent in x.shape)
    k = te.reduce_axis((0, rows), f"k{number}")
    return te.compute((batch, columns), lambda b, c: te.sum(term(x[b, k, c], w[k]), axis=k), f"sum_{number}")


def statistics(terms: Sequence[str], rows: int, columns: int, batch: int = 1) -> Any:
    """The sums of several terms over the rows of each matrix, each by a factor of its own, added up."""
    x, w = te.placeholder((batch, rows, columns), name="x"), te.placeholder((rows,), name="w")
    sums = [totals(x, w, number, TERMS[name]) for number, name in enumerate(terms)]

    def joined(b: te.Var, c: te.Var) -> Any:
        return sum((one[b, c] * (number / rows) for number, one in enumerate(sums[1:], 2)), sums[0][b, c] * (1 / rows))

    return prim_func([x, w], te.compute((batch, columns), joined, "statistics"))


def expected(terms: Sequence[str], x: np.ndarray, w: np.ndarray) -> np.ndarray:
    wide, rows = x.astype(np.float64), x.shape[1]
    values = [TERMS[name](wide, w[None, :, None]).sum(1) * (number / rows) for number, name in enumerate(terms, 1)]
    return np.asarray(sum(values))


def default_module(function: Any, target: Target) -> tvm.IRModule:
    return apply_schedule(function, default_schedule(function, target, 0, FORMS)[0]).module


def passes(source: KernelSource, tensor: str = "x") -> int:
    """How many innermost loops read a tensor."""
    loops = source.definition.split("for (")[1:]
    return sum(f"{tensor}[" in loop.partition("}")[0] for loop in loops)


@pytest.mark.parametrize(
    ("terms", "rows", "columns", "batch"),
    [
        (["sum", "square"], 100, 64, 1),
        (["sum", "square"], 60, 127, 1),
        (["sum", "square"], 20, 500, 1),
        (["sum", "weighted", "weighted_square"], 40, 48, 1),
        (["sum", "square", "cube", "weighted"], 30, 16, 3),
        (["sum", "square"], 1 << 16, 16, 1),
    ],
)
@pytest.mark.parametrize(("bits", "cc"), [(512, "gcc"), (256, "clang-19")])
def test_sums_of_the_same_elements_take_one_pass(
    terms: list[str], rows: int, columns: int, batch: int, bits: int, cc: str, tmp_path: Path
) -> None:
    """Also in blocks of columns, in the parts of a long sum, and with the weights of rows beside the tensor."""
    function, target = statistics(terms, rows, columns, batch), wide_target(bits)
    source = emit_kernel(default_module(function, target), target, "k")
    assert passes(source) == 1, source.definition
    compile_strictly(source, target, tmp_path, cc)
    arrays = random_arguments(function)
    result = run_kernel(source, target, arrays, tmp_path, cc=cc, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, expected(terms, arrays[0], arrays[1]), rtol=1e-4, atol=1e-5)


@pytest.mark.long
@given(st.data())
@costly(15)
def test_random_sums_have_their_values(data: st.DataObject) -> None:
    terms = data.draw(st.lists(st.sampled_from(sorted(TERMS)), min_size=2, max_size=5))
    extents = [data.draw(st.integers(1, most)) for most in (70, 140, 3)]
    bits = data.draw(st.sampled_from((128, 256, 512)))
    few = {"vector_registers": data.draw(st.sampled_from((8, 16, 32)))}
    function, target = statistics(terms, *extents), wide_target(bits).model_copy(update=few)
    arrays = random_arguments(function)
    with tempfile.TemporaryDirectory() as folder:
        source = emit_kernel(default_module(function, target), target, "k")
        result = run_kernel(source, target, arrays, Path(folder), cc="gcc", extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, expected(terms, arrays[0], arrays[1]), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("shape", [(40, 48, 5), (400, 256, 1)])
def test_threads_share_what_is_in_one_pass(shape: tuple[int, int, int], tmp_path: Path) -> None:
    """A loop that threads share is never joined with another, as both are loops of other functions."""
    function, target = statistics(["sum", "square"], *shape), wide_target(256)
    module = default_module(function, target)
    arrays = random_arguments(function)
    several = emit_shared_kernel(module, target, "k", Sharing("test", WORKERS, 1))
    assert several.workers == WORKERS
    assert passes(several) == (1 if shape[2] > 1 else 2)
    result = run_kernel(backwards(several), target, arrays, tmp_path, extra=SANITIZERS)[-1]
    np.testing.assert_allclose(result, expected(["sum", "square"], *arrays[:2]), rtol=1e-4, atol=1e-4)


def test_registers_bound_the_sums_of_a_pass() -> None:
    function, target = statistics(["sum", "square"], 100, 64), wide_target(512)
    module = default_module(function, target)
    enough, few = (target.model_copy(update={"vector_registers": number}) for number in (8, 7))
    assert passes(emit_kernel(module, enough, "k")) == 1
    assert passes(emit_kernel(module, few, "k")) == 2


_SCRIPT = """# from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((64, 8), "float32"), y: T.Buffer((8,), "float32")):
    a = T.alloc_buffer((8,))
    b = T.alloc_buffer((8,))
    w = T.alloc_buffer((8,))
    for c in range(8):
        w[c] = x[1, c]
    for c in range(8):
        a[c] = T.float32(0)
    for i, c in T.grid(64, 8):
        a[c] = a[c] + x[i, c] * w[c]
    {between}
    for c in range(8):
        b[c] = {start}
    for i, c in T.grid({rows}, 8):
        {store}
    for c in range(8):
        y[c] = a[c] - b[c] * T.float32(2) + w[c]
"""
_FREE = {
    "between": "for c in range(8):\n        y[c] = a[c]",
    "start": "T.float32(1)",
    "rows": "64",
    "store": "b[c] = b[c] + x[i, c] * x[i, c]",
}


_BLOCKS = """# from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((64, 32), "float32"), y: T.Buffer((32,), "float32")):
    a = T.alloc_buffer((40,))
    s = T.alloc_buffer((8,))
    t = T.alloc_buffer((8,))
    for c in range(40):
        a[c] = T.float32(3)
    for o in range(4):
        for c in range(8):
            s[c] = T.float32(0)
        for i, c in T.grid(64, 8):
            s[c] = s[c] + x[i, o * 8 + c]
        for c in range(8):
            a[{write}] = s[c]
    for o in range(4):
        for c in range(8):
            t[c] = T.float32(0)
        for i, c in T.grid(64, 8):
            t[c] = t[c] + x[i, o * 8 + c] * x[i, o * 8 + c]
        for c in range(8):
            y[o * 8 + c] = t[c] - a[{read}]
"""


@pytest.mark.parametrize(
    ("write", "read", "joined"),
    [
        ("o * 8 + c", "o * 8 + c", True),
        ("o * 8 + c", "o * 8 + 7 - c", False),  # a form that is not understood
        ("o * 8 + c", "o * 8 + c + 1", False),  # the next block's first
        ("o * 8 + c", "o * 8 + c + 8", False),
        ("o * 8 + c", "o * 4 + c", False),
        ("o * 8 + c", "o + c", False),
        ("c", "o * 8 + c", False),
        ("c", "c", False),
    ],
)
def test_blocks_take_one_pass_where_each_reads_its_own_sums(
    write: str, read: str, joined: bool, tmp_path: Path
) -> None:
    module = samples.module(tvm.script.from_source(_BLOCKS.format(write=write, read=read)))
    assert_same_bits(module, (64, 32), "o < 4", joined, tmp_path)


@pytest.mark.parametrize(
    ("change", "joined"),
    [
        ({}, True),
        ({"start": "w[c]"}, True),  # what clears the sums moves along
        ({"store": "b[c] = T.max(b[c], x[i, c] * w[c])"}, True),
        ({"start": "a[c]"}, False),
        ({"store": "b[c] = b[c] + x[i, c] * a[c]"}, False),
        ({"store": "a[c] = a[c] + x[i, c] * x[i, c]"}, False),
        ({"store": "w[c] = w[c] + x[i, c]"}, False),
        ({"store": "y[c] = y[c] + x[i, c]"}, False),  # memory of the caller
        ({"between": "for c in range(8):\n        w[c] = a[c]", "start": "w[c]"}, False),
        ({"between": "for c in range(8):\n        w[c] = a[c]", "store": "b[c] = b[c] + x[i, c] * w[c]"}, False),
        ({"rows": "63"}, False),
        ({"store": "b[c] = b[c] + x[63 - i, c]"}, False),  # other elements in the same step
        ({"store": "b[c] = b[c] + T.exp(x[i, c])"}, False),  # a function needs registers of its own
    ],
)
def test_what_depends_on_the_first_sums_stays_behind_them(change: dict[str, str], joined: bool, tmp_path: Path) -> None:
    """`joined` or not, the C computes what it does without registers for a joint pass, to the bit."""
    module = samples.module(tvm.script.from_source(_SCRIPT.format(**_FREE | change)))
    assert_same_bits(module, (64, 8), "i < 6", joined, tmp_path)


_NESTS = """# from tvm.script import tirx as T
@T.prim_func(private=True, s_tir=True)
def main(x: T.Buffer((64, 32), "float32"), y: T.Buffer((32,), "float32")):
    a = T.alloc_buffer((32,))
    t = T.alloc_buffer((32,))
    for c in range(32):
        a[c] = T.float32(0)
        t[c] = T.float32(0)
    for o in range(4):
        for i, c in T.grid(64, 8):
            a[o * 8 + c] = a[o * 8 + c] + x[i, o * 8 + c]
    for o in range(4):
        for i, c in T.grid(64, 8):
            t[o * 8 + c] = t[o * 8 + c] + x[i, o * 8 + c] * a[o * 8 + c]
    for c in range(32):
        y[c] = t[c]
"""


def test_inner_loops_that_need_all_of_the_first_one_stay_behind_it(tmp_path: Path) -> None:
    """Each step of the outer loops needs only its own sums, but all of their terms."""
    module, target = samples.module(tvm.script.from_source(_NESTS)), wide_target(256)
    x = np.random.default_rng(2).standard_normal((64, 32)).astype("float32")
    result = run_kernel(emit_kernel(module, target, "k"), target, [x, np.zeros(32, "float32")], tmp_path)[-1]
    wide = x.astype(np.float64)
    np.testing.assert_allclose(result, (wide * wide.sum(0)).sum(0), rtol=1e-4, atol=1e-3)


def assert_same_bits(module: tvm.IRModule, shape: tuple[int, int], loop: str, joined: bool, folder: Path) -> None:
    """Two loops are one if they are to be `joined`, and results are those of a target that has no registers for it."""
    target = wide_target(256)
    alone = target.model_copy(update={"vector_registers": 0})
    random = np.random.default_rng(1)
    arrays = [random.standard_normal(shape).astype("float32"), np.zeros(shape[1], "float32")]
    results = []
    for number, one in enumerate((target, alone)):
        source = emit_kernel(module, one, "k")
        assert source.definition.count(loop) == (1 if joined and one is target else 2), source.definition
        (folder / str(number)).mkdir()
        results.append(run_kernel(source, target, arrays, folder / str(number), extra=["-ffp-contract=off"])[-1])
    assert results[0].tobytes() == results[1].tobytes()
