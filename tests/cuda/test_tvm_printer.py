"""Our CUDA text beside that of TVM's printer for the same schedules: equal results, and not many more registers."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace
from functools import cache
from pathlib import Path

import numpy as np
import pytest
import tvm

from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.packing import split_packing
from edgetune.graph.program import Kernel
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.algorithms.apply import replay_plainly
from edgetune.schedule.gpu_defaults import default_gpu_schedule
from edgetune.target.cuda_toolkit import require_nvcc
from edgetune.target.ptxas import Cubin, compile_text
from tests.cuda.batch import FLAGS, compile_batch
from tests.cuda.cpu_check import checked, gpu, unit

MODEL = Path(__file__).parents[2] / "examples/models/ds_cnn.onnx"
CONVOLUTIONS = range(3)
"""Kernels whose text by TVM runs here: for the other ones it has shuffles that our stand-in for CUDA has no use for."""
MOST = 1.1
FREE = 32
"""Registers of a thread that every GPU has for as many threads as it holds (CUDA C++ Programming Guide, table 27)."""

_KERNEL = re.compile(r'extern "C" (__global__ void) (__launch_bounds__\(\d+\)) main_kernel\(([^)]*)\) \{')


_MAXIMUM = "static float max(float a, float b)\n{\n    return a > b ? a : b;\n}\n"


@cache
def kernels() -> tuple[Kernel, ...]:
    return tuple(read_model(MODEL).program().kernels)


@cache
def tvm_text(number: int) -> str:
    """What TVM prints for the default schedule of a kernel, from its one `__global__` function on."""
    function = kernels()[number].function
    module, _ = split_packing(replay_plainly(function, default_gpu_schedule(function, gpu())[0]))
    facts = {"arch": gpu().arch, "max_threads_per_block": 1024, "thread_warp_size": 32}
    facts |= {"max_shared_memory_per_block": gpu().shared_bytes_per_block}
    target = tvm.target.Target({"kind": "cuda", **facts}, host={"kind": "llvm"})
    text = str(tvm.compile(module, target).mod.imports[0].inspect_source("cuda"))
    found = _KERNEL.search(text)
    assert found is not None, text
    return text[found.start() :]


def as_tvm_prints(source: KernelSource, number: int) -> KernelSource:
    """The kernel of `source` with TVM's text, whose parameters have other names and another order."""
    text, (launch,) = tvm_text(number), source.launches
    found = _KERNEL.search(text)
    assert found is not None
    names = [name.removesuffix("_ptr").removesuffix("_global") for name in re.findall(r"(\w+)(?:,|$)", found[3])]
    places = [[param.name for param in source.params].index(name) for name in names]
    operands = [next(operand for operand in launch.operands if operand.param == place) for place in places]
    definition = f"{found[1]} {found[2]}\n{launch.kernel}({found[3]})\n{{{text[found.end() :]}"
    definition = definition.replace("alignas(64)", "__align__(16)")
    free = replace(launch, operands=tuple(replace(operand, writable=True) for operand in operands))
    return replace(source, definition=definition, launches=(free,))


@pytest.fixture(scope="module")
def outputs(tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, list[list[bytes]]]:
    """What all kernels wrote, by printer."""
    ours, theirs = (
        [checked(kernels()[number], prefix=f"{side}{number}") for number in CONVOLUTIONS] for side in ("ours", "theirs")
    )
    theirs = [replace(one, source=as_tvm_prints(one.source, number)) for number, one in enumerate(theirs)]
    cases = [one.case(f"ours{number}") for number, one in enumerate(ours)]
    cases += [one.case(f"theirs{number}") for number, one in enumerate(theirs)]
    cases[len(ours)] = replace(cases[len(ours)], preamble=_MAXIMUM)
    folder = tmp_path_factory.mktemp("printers")
    batch = compile_batch(cases, folder, [flag for flag in FLAGS if flag not in {"-Wall", "-Wextra", "-Wshadow"}])
    found = [batch.run(number, (*ours, *theirs)[number].buffers) for number in range(len(cases))]
    return {"ours": found[: len(ours)], "theirs": found[len(ours) :]}


@pytest.mark.long
@pytest.mark.parametrize("number", CONVOLUTIONS)
def test_both_texts_compute_the_same(number: int, outputs: Mapping[str, list[list[bytes]]]) -> None:
    (wanted,) = checked(kernels()[number]).outputs
    ours, theirs = (np.frombuffer(outputs[side][number][-1], np.float32) for side in ("ours", "theirs"))
    # The parts of a sum over several threads meet in another order.
    assert np.max(np.abs(ours - theirs)) <= 1e-6 * np.max(np.abs(wanted))


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("number", range(6))
def test_our_text_needs_at_most_a_tenth_more_registers(number: int) -> None:
    ours, theirs = (
        registers(text) for text in (f"#include <stdint.h>\n{unit(checked(kernels()[number]))}", tvm_text(number))
    )
    assert ours <= max(FREE, MOST * theirs)


def registers(text: str) -> int:
    """Registers of a thread of the one kernel in a text."""
    found = compile_text(f"#include <math.h>\n{text}", gpu(), require_nvcc(gpu()))
    assert isinstance(found, Cubin), found
    (kernel,) = found.kernels
    return kernel.registers
