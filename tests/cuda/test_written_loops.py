"""Kernels of written loops in CUDA: a thread for each row, whose steps keep their order."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetune.graph.kernels import kernel_of, plain_function
from edgetune.graph.program import Kernel
from edgetune.tvm_types import PrimFunc
from tests.codegen.test_written_loops import KERNELS, reads_of
from tests.cuda.batch import compile_batch
from tests.cuda.cpu_check import checked

LAUNCHES = {"elements": 2, "slices": 2, "boxes": 3, "centers": 3}
ROWS = {
    "boxes": 42,
    "centers": 240,
    "top": 15,
    "sorted": 6,
    "distributed": 10,
    "all": 6,
    "half": 6,
    "elements": 20,
    "slices": 20,
}


def kernel(function: PrimFunc) -> Kernel:
    mask = reads_of(function)
    return kernel_of(["written"], "", plain_function(function, mask), mask, 1)


@pytest.mark.long
def test_threads_give_what_the_reference_gives(tmp_path: Path) -> None:
    kernels = [kernel(KERNELS[name]()) for name in KERNELS]
    checks = [checked(one, prefix=f"k{number}") for number, one in enumerate(kernels)]
    for name, check in zip(KERNELS, checks, strict=True):
        launches = check.source.launches
        assert len(launches) == LAUNCHES.get(name, 1)
        threads = launches[-1].grid[0] * launches[-1].block[0]
        assert ROWS[name] <= threads < ROWS[name] + 32
    batch = compile_batch([check.case(f"k{number}") for number, check in enumerate(checks)], tmp_path)
    for number, check in enumerate(checks):
        assert check.error(batch.run(number, check.buffers)[: len(check.arrays)]) == 0
