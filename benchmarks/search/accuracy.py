"""How exact are sums of very many terms, in the default schedule and in candidates of a search?

python -m benchmarks.search.accuracy [--terms 1048576,16777216] [--samples N]

The error is the difference to double precision, as a share of the sum of the terms' absolute values; of a norm and a
mean, of the result. Terms of sums are uniform between 0 and 1, all others normally distributed. Equal terms are the
worst case, for all roundings have one direction. The C is that of packages for this machine, and runs in this process.
"""

from __future__ import annotations

import argparse
import ctypes
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path

import numpy as np
from tvm import te

from benchmarks.kernel_call import aligned
from edgetune.errors import CompileFailed, EdgetuneError
from edgetune.frontend.tensor_expression.kernel import kernel_from_te
from edgetune.graph.program import Kernel
from edgetune.measure.compiler import build_library, toolchain_of
from edgetune.pipeline.boards import load_board
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.schedule.guessed_schedule import default_schedule
from edgetune.schedule.kernel_spec import kernel_spec
from edgetune.schedule.source import make_source
from edgetune.search.cost_model import CostModel
from edgetune.search.search import AlgorithmsSearch
from edgetune.search.task import TuneTask
from edgetune.search.wiring import other_spaces, space_of
from edgetune.target.target import Target, with_cpu

PROMISED = 1e-5
COLUMNS = (2, 3, 4, 7)
"""Results of sums over an outer axis; vectors of four divide one of them."""

MANY_COLUMNS = 65
_EQUAL = np.float32(0.1)


@dataclass(frozen=True)
class LongSum:
    """A kernel of one long reduction, its inputs, its result in double, and what errors are a share of."""

    name: str
    kernel: Kernel
    inputs: tuple[np.ndarray, ...]
    exact: np.ndarray
    scale: np.ndarray

    def error(self, answer: np.ndarray) -> float:
        """The largest error of `answer`."""
        return float(np.max(np.abs(answer.astype(np.float64) - self.exact) / self.scale))


def long_sums(terms: int) -> Iterator[LongSum]:
    """Sum, mean, 2-norm and dot product of so many terms, sums of columns with so many rows, and of a prime number.

    The prime number is the next smaller one for a row, the next larger one for columns.
    """
    random = np.random.default_rng(0)
    uniform = random.random((1, terms), dtype=np.float32)
    normal = random.standard_normal((1, terms), dtype=np.float32)
    total = uniform.astype(np.float64).sum(axis=1)
    yield _over_rows("sum", [uniform], lambda x: x, total, total)
    yield _over_rows("mean", [uniform], lambda x: x, total / terms, total / terms, lambda y: y / float(terms))
    squares = np.square(normal, dtype=np.float64).sum(axis=1)
    yield _over_rows("sum of squares", [normal], lambda x: x * x, squares, squares)
    yield _over_rows("2-norm", [normal], lambda x: x * x, np.sqrt(squares), np.sqrt(squares), te.sqrt)
    products = uniform.astype(np.float64) * normal
    exact, scale = products.sum(axis=1), np.abs(products).sum(axis=1)
    yield _over_rows("dot product", [uniform, normal], lambda x, y: x * y, exact, scale)
    prime = next(number for number in range(terms, 1, -1) if _is_prime(number))
    yield _over_rows(
        "sum, prime number of terms", [uniform[:, :prime]], lambda x: x, *2 * (_total(uniform[0, :prime]),)
    )
    equal = np.full((1, terms), _EQUAL)
    yield _over_rows("sum, equal terms", [equal], lambda x: x, *2 * (_total(equal[0]),))
    for columns in COLUMNS:
        yield _of_columns(f"sums of {columns} columns", random.random((terms, columns), dtype=np.float32))
    more = next(number for number in range(terms, 2 * terms) if _is_prime(number))
    yield _of_columns(f"sums of {COLUMNS[0]} columns, prime number of equal terms", np.full((more, COLUMNS[0]), _EQUAL))
    yield _of_columns(f"sums of {COLUMNS[1]} columns, equal terms", np.full((terms, COLUMNS[1]), _EQUAL))
    factors = [random.random((terms, COLUMNS[-1]), dtype=np.float32) for _ in range(2)]
    yield _of_matrices(f"products of {COLUMNS[-1]} and {COLUMNS[-1]} columns", *factors)
    yield _of_products(f"sums of {MANY_COLUMNS} columns", uniform[0], random.random(MANY_COLUMNS, dtype=np.float32))


def _total(values: np.ndarray) -> np.ndarray:
    return np.array([values.sum(dtype=np.float64)])


def _is_prime(number: int) -> bool:
    return all(number % divisor for divisor in range(2, isqrt(number) + 1))


def _of_columns(name: str, rows: np.ndarray) -> LongSum:
    """The sum of all rows."""
    terms, columns = rows.shape
    x, k = te.placeholder(rows.shape, name="x"), te.reduce_axis((0, terms), name="k")
    y = te.compute((columns,), lambda i: te.sum(x[k, i], axis=k), name="y")
    exact = rows.sum(axis=0, dtype=np.float64)
    return LongSum(name, kernel_from_te([x, y], "columns"), (rows,), exact, exact)


def _of_matrices(name: str, x: np.ndarray, y: np.ndarray) -> LongSum:
    """The product of the transposed first matrix with the second one."""
    a, b = te.placeholder(x.shape, name="x"), te.placeholder(y.shape, name="y")
    k = te.reduce_axis((0, len(x)), name="k")
    z = te.compute((x.shape[1], y.shape[1]), lambda i, j: te.sum(a[k, i] * b[k, j], axis=k), name="z")
    exact = x.T.astype(np.float64) @ y.astype(np.float64)
    return LongSum(name, kernel_from_te([a, b, z], "matrices"), (x, y), exact, exact)


def _of_products(name: str, factors: np.ndarray, columns: np.ndarray) -> LongSum:
    """The sum of rows that are `columns` times a factor: so many columns would not fit the memory."""
    x, w = te.placeholder(factors.shape, name="x"), te.placeholder(columns.shape, name="w")
    k = te.reduce_axis((0, len(factors)), name="k")
    y = te.compute(columns.shape, lambda i: te.sum(x[k] * w[i], axis=k), name="y")
    exact = columns * factors.sum(dtype=np.float64)
    return LongSum(name, kernel_from_te([x, w, y], "products"), (factors, columns), exact, exact)


def _over_rows(
    name: str,
    inputs: Sequence[np.ndarray],
    term: Callable[..., te.Tensor],
    exact: np.ndarray,
    scale: np.ndarray,
    last: Callable[[te.Tensor], te.Tensor] | None = None,
) -> LongSum:
    """The sum of `term` over rows, and `last` of it."""
    places = [te.placeholder(array.shape, name=f"x{number}") for number, array in enumerate(inputs)]
    k = te.reduce_axis((0, inputs[0].shape[1]), name="k")
    y = te.compute((1,), lambda i: te.sum(term(*(x[i, k] for x in places)), axis=k), name="total")
    if last is not None:
        total, finish = y, last
        y = te.compute((1,), lambda i: finish(total[i]), name="result")
    return LongSum(name, kernel_from_te([*places, y], "long"), tuple(inputs), exact, scale)


def errors(case: LongSum, samples: int, target: Target) -> list[float]:
    """Errors of the default schedule, then of `samples` random candidates. Raises KernelFailed and CompileFailed."""
    task = TuneTask(case.kernel, forms=frozenset(FORMS))
    texts = [default_schedule(case.kernel.function, target, task.scratch_limit, FORMS)[0]]
    spaces = [space_of(task, target), *other_spaces(task, target)]
    texts += AlgorithmsSearch(task.workload, spaces, CostModel(0), 0).propose(samples, 1, ())
    return [case.error(_answer(case, text, target)) for text in texts]


def _answer(case: LongSum, text: str, target: Target) -> np.ndarray:
    """The result of one candidate on this machine."""
    source = make_source(kernel_spec(case.kernel, 0), text, target)
    answer = np.zeros(case.exact.shape, np.float32)
    with tempfile.TemporaryDirectory(prefix="edgetune-accuracy-") as name:
        folder = Path(name)
        (folder / "unit.c").write_text(source.unit, encoding="utf-8")
        (folder / "shim.c").write_text(source.shim, encoding="utf-8")
        library = folder / "candidate.so"
        built = build_library(toolchain_of(target), folder / "unit.c", folder / "shim.c", library)
        if built.reason:
            raise CompileFailed(f"a candidate of {case.name} does not compile: {built.reason}")
        arrays = [aligned(array) for array in (*case.inputs, answer, np.zeros(source.scratch_bytes, np.uint8))]
        pointers = (ctypes.c_void_p * len(arrays))(*(array.ctypes.data for array in arrays))
        ctypes.CDLL(str(library)).edgetune_call(pointers)
    return arrays[len(case.inputs)]


def main(arguments: Sequence[str] | None = None) -> int:
    """Print a table for each number of terms; 1 where an error is larger than promised."""
    parser = argparse.ArgumentParser(prog="benchmarks.search.accuracy", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--terms", default=f"{1 << 20},{1 << 24}", help="numbers of terms, with commas")
    parser.add_argument("--samples", type=int, default=6, help="candidates of each sum beside the default schedule")
    options = parser.parse_args(arguments)
    target = with_cpu(load_board("host").target)
    failed = False
    print("| terms | sum | default schedule | worst candidate |\n| ---: | --- | ---: | ---: |")
    try:
        for terms in map(int, options.terms.split(",")):
            for case in long_sums(terms):
                default, *others = errors(case, options.samples, target)
                worst = max(others, default=default)
                failed |= max(default, worst) > PROMISED
                print(f"| {terms} | {case.name} | {default:.1e} | {worst:.1e} |", flush=True)
    except EdgetuneError as error:
        print(f"accuracy: {error}", file=sys.stderr)
        return error.exit_code
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
