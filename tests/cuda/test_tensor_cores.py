"""Products on tensor cores: fragments computed by warp on the CPU, against a reference with double sums."""

from __future__ import annotations

import re
from collections.abc import Callable
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from edgetune.graph.precision import ALLOWED
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.gpu.design import first_choice, propose
from edgetune.schedule.gpu.neighbours import design_of, neighbours
from edgetune.schedule.gpu.spaces import first_schedules, gpu_designs, scheduled
from edgetune.schedule.gpu.tensor_tile import TensorTile
from edgetune.schedule.summary import summary
from edgetune.target.cuda_toolkit import find_nvcc
from edgetune.target.tool_process import run_tool
from tests.cuda.batch import BatchError, compile_batch
from tests.cuda.cpu_check import BARRIER, Checked, barriers, checked, gpu, unit
from tests.cuda.tensor_core_samples import LAYERS, design_for, layer, tensor_gpu

SEVERAL = 3  # decisions of each layer: the formula's choice, and random ones
PADDED = "3x3 of 14x14 images"


@cache
def traces(name: str) -> tuple[str, ...]:
    """The formula's choice of tensor cores for a layer, then random decisions."""
    kernel = layer(name)
    design = design_for(kernel)
    random = np.random.default_rng(0)
    drawn = [first_choice(design), *(propose(design, random) for _ in range(SEVERAL - 1))]
    found = [scheduled(kernel.function, design, sizes) for sizes in drawn if sizes is not None]
    assert len(found) == SEVERAL
    return tuple(trace_text(sch.trace) for sch in found if sch is not None)


def kernel_of(name: str, prefix: str = "check", place: int = 0) -> Checked:
    return checked(layer(name), trace=traces(name)[place], prefix=prefix)


@pytest.mark.long
def test_layers_give_what_the_reference_gives(tmp_path: Path) -> None:
    """Rows, columns and sums that 16 does not divide, padding and strides, weights and run-time operands."""
    checks = [kernel_of(name, f"k{n}_{place}", place) for n, name in enumerate(LAYERS) for place in range(SEVERAL)]
    cases = [check.case(re.sub("__.*", "", check.source.symbol)) for check in checks]
    batch = compile_batch(cases, tmp_path)
    errors = [check.error(batch.run(number, check.buffers)) for number, check in enumerate(checks)]
    assert max(errors) < ALLOWED["fp16"] / 10


@pytest.mark.long
def test_bf16_is_multiplied_as_well(tmp_path: Path) -> None:
    kernel, target = layer(PADDED, "bf16"), tensor_gpu("bf16")
    design = design_for(kernel, target)
    sch = scheduled(kernel.function, design, first_choice(design))
    assert sch is not None
    check = checked(kernel, trace=trace_text(sch.trace))
    assert "tile_right_bf16 weights_tile[" in check.source.definition
    batch = compile_batch([check.case("check")], tmp_path)
    assert check.error(batch.run(0, check.buffers)) < ALLOWED["bf16"]


def test_only_types_that_the_tensor_cores_multiply_have_the_design() -> None:
    target = tensor_gpu("fp16").model_copy(update={"tensor_cores": ()})
    kernel = layer(PADDED)
    assert any(isinstance(design, TensorTile) for design in gpu_designs(kernel.function, gpu()))
    assert not any(isinstance(design, TensorTile) for design in gpu_designs(kernel.function, target))
    assert not any(isinstance(design, TensorTile) for design in gpu_designs(layer(PADDED, "bf16").function, gpu()))


@pytest.mark.long
def test_proposals_of_tensor_cores_have_the_memory_that_they_say() -> None:
    """What the decision test counts before a replay is what the kernel needs."""
    kernel = layer(PADDED)
    design, random = design_for(kernel), np.random.default_rng(3)
    for _ in range(6):
        sizes = propose(design, random)
        assert sizes is not None
        sch = scheduled(kernel.function, design, sizes)
        assert sch is not None
        (launch,) = checked(kernel, trace=trace_text(sch.trace)).source.launches
        assert launch.shared_bytes + launch.dynamic_bytes == sum(design._shared_bytes(sizes))
        assert launch.block == (32, sizes["columns"][1], sizes["rows"][1])


_FAULTS = [
    ("tile_load(input_tile[0], &input_shared[", "tile_load(input_tile[0], &input_shared[16 + ", "wrong"),
    (
        "tile_load(weights_tile[0], &weights_shared[",
        "tile_load(weights_tile[0], &weights_shared[8 + ",
        "multiple of 32",
    ),
    ("], 72);", "], 64);", "wrong"),  # the pitch of rows
    ("], 72);", "], 68);", "multiple of 16 bytes"),
    ("acc[0], input_tile[0], weights_tile[0]", "acc[0], input_tile[0], other", "wrong"),  # never loaded: NaN
    ("thread_z * 1152", "thread_x * 1152", "different tiles"),
    ("&sums_shared[sums_at]", "&sums_shared[sums_at / 1000 * 16]", "without a barrier"),  # all warps store one tile
    ("thread_x / 4 < 196 &&", "thread_x / 4 < 296 &&", "outside of its buffer"),  # rows after the last are written
]


@pytest.mark.long
def test_each_barrier_of_another_kernel_is_needed(tmp_path: Path) -> None:
    """Of a product of two inputs; the kernel with all faults is a convolution."""
    whole = kernel_of("product of two inputs")
    count = len(barriers(whole.source))
    assert count == whole.source.definition.count(BARRIER) > 0
    variants = [kernel_of("product of two inputs", f"k{number}") for number in range(count + 1)]
    variants[:count] = [variants[number].without_barrier(number) for number in range(count)]
    batch = compile_batch([one.case(f"k{number}") for number, one in enumerate(variants)], tmp_path)
    assert variants[count].error(batch.run(count, variants[count].buffers)) < ALLOWED["fp16"] / 10
    for number in range(count):
        with pytest.raises(BatchError, match="without a barrier"):
            batch.run(number, variants[number].buffers)


@pytest.mark.long
def test_each_fault_is_noticed(tmp_path: Path) -> None:
    """Each barrier left out, and wrong tiles, pitches, bounds."""
    whole = kernel_of(PADDED)
    count = len(barriers(whole.source))
    assert count == whole.source.definition.count(BARRIER) == 3
    texts = [(whole.without_barrier(number).source.definition, "without a barrier") for number in range(count)]
    for old, new, fault in _FAULTS:
        assert old in whole.source.definition, old
        text = whole.source.definition.replace(old, new)
        if "other" in new:
            text = text.replace("check__tile_right_f16", "check__tile_right_f16 other;\n    check__tile_right_f16")
        texts.append((text, fault))
    variants = [
        kernel_of(PADDED, f"k{number}").with_text(text.replace("check__", f"k{number}__"))
        for number, (text, _) in enumerate(texts)
    ]
    batch = compile_batch([one.case(f"k{number}") for number, one in enumerate(variants)], tmp_path)
    for number, (one, (_, fault)) in enumerate(zip(variants, texts, strict=True)):
        if fault == "wrong":
            assert one.error(batch.run(number, one.buffers)) > ALLOWED["fp16"], texts[number]
            continue
        with pytest.raises(BatchError, match=fault):
            batch.run(number, one.buffers)


@pytest.mark.long
def test_a_kernel_is_written_as_the_golden_file_says(golden: Callable[[str, str], None]) -> None:
    text = unit(kernel_of(PADDED))
    golden("codegen/tensor_cores.cu", text)
    assert max(map(len, text.splitlines())) <= 120
    assert not re.search(r"reindex|wmma\.|cse|v\d_o", text)


def test_adjacent_channels_are_copied_as_vectors_though_rows_of_a_window_end_between_them() -> None:
    """Three pixels of 24 channels are a row of the window: 8 divides it, 16 does not."""
    text = kernel_of("3x3 of 24 channels").source.definition
    assert "? *(const uint4 *)&input[" in text
    assert "__float2half(0.0f)" not in text


def test_the_formula_prefers_tensor_cores_where_they_take_fewer_cycles() -> None:
    """Not for a few channels of a small image: a step of 16 would mostly add zeroes."""
    names = {name: next(first_schedules(layer(name).function, gpu()))[1] for name in (PADDED, "three channels")}
    assert names[PADDED] == design_for(layer(PADDED)).name
    assert names["three channels"] != names[PADDED]
    said = summary(traces(PADDED)[0], layer(PADDED).function)
    assert said.startswith("tile row 7x2x1x16, column 2x2x1x16, k 5x4x16;")
    assert said.endswith("multiply tiles on tensor cores")


@pytest.mark.long
def test_a_neighbour_of_tensor_cores_differs_in_one_decision() -> None:
    function, fastest = layer(PADDED).function, traces(PADDED)[0]
    known = design_of(function, gpu(), fastest)
    assert known is not None
    several = [*islice(neighbours(function, gpu(), [fastest], np.random.default_rng(1)), 4)]
    assert len(several) == 4
    for text in several:
        found = design_of(function, gpu(), text)
        assert found is not None
        assert found[0] == known[0]
        assert sum(found[1][name] != known[1][name] for name in known[1]) == 1


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch", [75, 90])
def test_nvcc_compiles_tensor_cores_without_a_warning_and_ptxas_spills_nothing(arch: int, tmp_path: Path) -> None:
    nvcc = find_nvcc()
    assert nvcc is not None
    (tmp_path / "kernel.cu").write_text("#include <math.h>\n#include <stdint.h>\n" + unit(kernel_of(PADDED)))
    flags = ["-cubin", "-std=c++17", "-O3", "-Xptxas", "-v", "kernel.cu", "-o", "kernel.cubin"]
    done = run_tool([str(nvcc), f"-arch=sm_{arch}", *flags], timeout_s=300, folder=tmp_path)
    assert done.returncode == 0, done.stderr
    said = done.stdout + done.stderr
    assert "warning" not in said
    assert set(re.findall(r"(\d+) bytes spill", said)) == {"0"}
