"""Copies that run ahead of the sums, in two or three stages: results, seeded faults, limits and choices."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import islice
from pathlib import Path

import numpy as np
import pytest
from tvm.s_tir import Schedule

from edgetune.codegen.cuda.copies_ahead import STAGES
from edgetune.codegen.cuda.emit import emit_cuda_kernel
from edgetune.codegen.packing import split_packing
from edgetune.errors import KernelFailed
from edgetune.graph.precision import ALLOWED
from edgetune.schedule.algorithms.schedule_text import trace_text
from edgetune.schedule.gpu.block_tile import BlockTile
from edgetune.schedule.gpu.copy_stages import waits
from edgetune.schedule.gpu.design import first_choice, propose, sizes_of
from edgetune.schedule.gpu.neighbours import design_of, neighbours
from edgetune.schedule.gpu.spaces import gpu_designs, scheduled
from edgetune.schedule.sketches.spaces import module_of
from edgetune.schedule.summary import summary
from edgetune.search.candidate import DesignSpace
from edgetune.target.cuda_toolkit import find_nvcc
from edgetune.target.gpu import GpuTarget
from edgetune.target.ptxas import Cubin, compile_text
from tests.cuda.batch import Batch, BatchError, compile_batch
from tests.cuda.copies_ahead_samples import NAMES, designs_of, drawn, h200, kernel_called, samples
from tests.cuda.cpu_check import BARRIER, Checked, checked, gpu, unit
from tests.cuda.tensor_core_samples import design_for, layer

CONVOLUTION, POINTWISE, TENSOR, PRODUCT = NAMES
_ORDERING = re.compile(r" *(?:check__(?:wait_for|commit)_copies\(\d?\)|__syncthreads\(\));\n(?! *check__tile_store)")


def first(name: str, stages: int) -> Checked:
    """The sample of the first design of a kernel."""
    return samples()[name, designs_of(name)[0].name, stages]


def allowed(name: str) -> float:
    """The largest error, as a share of the largest element."""
    return 1e-4 if name in (CONVOLUTION, POINTWISE) else ALLOWED["fp16"] / 10


def compiled(variants: list[Checked], folder: Path) -> Batch:
    return compile_batch([one.case(f"k{number}") for number, one in enumerate(variants)], folder)


@pytest.mark.long
def test_kernels_give_what_the_reference_gives(tmp_path: Path) -> None:
    """Every design that copies in steps, float and 16 bits, with and without padding."""
    variants = [check.renamed(f"k{number}") for number, check in enumerate(samples().values())]
    assert len(variants) >= 10
    batch = compiled(variants, tmp_path)
    for number, ((name, design, stages), check) in enumerate(zip(samples(), variants, strict=True)):
        assert check.error(batch.run(number, check.buffers)) < allowed(name), (name, design, stages)


def without_each(check: Checked) -> list[Checked]:
    """The kernel without each of its waits, of its barriers and of the statements that close groups, in turn."""
    text = check.source.definition
    return [check.with_text(text[: m.start()] + text[m.end() :]) for m in _ORDERING.finditer(text)]


@pytest.mark.long
@pytest.mark.parametrize(("name", "stages"), [(CONVOLUTION, 2), (POINTWISE, 3), (TENSOR, 2), (PRODUCT, 3)])
def test_without_any_one_wait_or_barrier_a_kernel_is_stopped(name: str, stages: int, tmp_path: Path) -> None:
    """But those between stores of tiles, which stand there without copies that run ahead as well.

    Copies into the wrong stage, sums of the wrong one, and waits for too few groups are noticed as well.
    """
    whole = first(name, stages)
    text = whole.source.definition
    faults = without_each(whole)
    assert len(faults) >= stages + 2  # a wait, a barrier, and groups before the loop and in it
    late = f"wait_for_copies({stages - 2});", f"wait_for_copies({stages - 1});"
    loop = re.search(r"for \(int32_t (\w+) = 0; [^\n]*\n *check__wait_for_copies", text)
    assert loop is not None
    own = f"{loop[1]} % {stages}"
    swaps = [late, (own, f"({loop[1]} + 1) % {stages}"), (f"({loop[1]} + {stages - 1}) % {stages}", own)]
    for old, new in swaps:
        assert old in text, (old, text)
        faults.append(whole.with_text(text.replace(old, new)))
    variants = [one.renamed(f"k{number}") for number, one in enumerate([*faults, whole])]
    batch = compiled(variants, tmp_path)
    assert variants[-1].error(batch.run(len(faults), variants[-1].buffers)) < allowed(name)
    missed = []
    for number, variant in enumerate(variants[:-1]):
        try:
            error = variant.error(batch.run(number, variant.buffers))
        except BatchError:
            continue
        if error < allowed(name):
            missed.append(variant.source.definition)
    assert missed == []


@pytest.mark.long
def test_pieces_that_are_smaller_than_a_copy_are_stored_at_once(tmp_path: Path) -> None:
    """Rows of 16 bits at a place that is not known to be aligned keep tensor cores and stages."""
    kernel = replace(layer("3x3 of 14x14 images"), unaligned=(0,))
    design = design_for(kernel, h200())
    sch = scheduled(kernel.function, design, drawn(design, 3))
    assert sch is not None
    check = checked(kernel, trace=trace_text(sch.trace), target=h200()).renamed("k0")
    assert "tile_multiply" in check.source.definition
    assert "wait_for_copies(1)" in check.source.definition
    assert check.error(compiled([check], tmp_path).run(0, check.buffers)) < allowed(TENSOR)


@pytest.mark.long
def test_a_sum_of_one_step_is_no_loop() -> None:
    """An annotation of its loop would keep it, and barriers in it."""
    kernel = layer("1x1 of 7x7 images")
    texts = []
    for target in (h200(), gpu()):
        design = design_for(kernel, target)
        sizes = first_choice(design)
        assert sizes is not None
        assert sizes["sums"][0] == 1
        sch = scheduled(kernel.function, design, sizes)
        assert sch is not None
        texts.append(checked(kernel, trace=trace_text(sch.trace), target=target).source.definition)
    assert "< 1;" not in texts[0]
    assert texts[0].count(BARRIER) == texts[1].count(BARRIER)


@pytest.mark.long
@pytest.mark.parametrize("name", NAMES)
def test_steps_of_a_sum_have_one_barrier(name: str) -> None:
    """Without copies that run ahead there are two: before the next copies, and before the sums."""
    plain = samples()[name, designs_of(name)[0].name, 2]
    body = plain.source.definition.partition("wait_for_copies(")[2]
    assert body.startswith(f"0);\n        {BARRIER}\n")
    assert body.partition("\n    }")[0].count(BARRIER) == 1


@pytest.mark.long
def test_shared_memory_of_all_stages_is_counted_before_a_replay() -> None:
    """And neither more stages than steps, nor more memory than a block has, are proposed."""
    for name in NAMES:
        for design in designs_of(name):
            for seed, stages in enumerate((2, 3, 2, 3)):
                sizes = drawn(design, stages, seed)
                sch = scheduled(kernel_called(name).function, design, sizes)
                assert sch is not None
                module, _ = split_packing(sch.mod)
                (launch,) = emit_cuda_kernel(module, h200(), "kernel").launches
                assert launch.shared_bytes + launch.dynamic_bytes <= np.sum(design._shared_bytes(sizes))
            once = {key: (1, *size[1:]) if key.startswith("sum") else size for key, size in sizes.items()}
            assert "stages are more than the sum has steps" in str(design.fault(once))
    small = h200().model_copy(update={"shared_bytes_per_block": 4096, "dynamic_shared_bytes_per_block": None})
    (tight, *_) = gpu_designs(kernel_called(POINTWISE).function, small)
    sizes = {"row": (5, 5, 1), "pixel": (1, 5, 1), "channel": (4, 16, 1)}
    sums = {"sum0": (1, 1), "sum1": (1, 1), "sum2": (4, 16)}
    assert tight.fault({**sizes, **sums, "stages": (1,)}) is None
    assert "bytes of shared memory are more" in str(tight.fault({**sizes, **sums, "stages": (2,)}))


def stages_offered(kernel_name: str, target: GpuTarget) -> set[str]:
    """Names of the designs that have stages."""
    designs = gpu_designs(kernel_called(kernel_name).function, target)
    return {design.name for design in designs if any(choice.name == "stages" for choice in design.choices)}


def test_stages_are_offered_where_a_target_copies_asynchronously_what_is_copied_in_steps() -> None:
    assert stages_offered(POINTWISE, gpu()) == set()
    assert stages_offered(POINTWISE, gpu().model_copy(update={"compute_capability": 80})) == {
        "tiles of blocks: input and weights through shared memory",
        "tiles of blocks: the whole input, and weights step by step, in shared memory",
        "tiles of blocks: weights through shared memory",
    }


def test_rows_of_an_odd_number_of_halves_are_not_copied_asynchronously() -> None:
    """One element has two bytes, and the least that is copied is four."""
    assert "stages" not in [choice.name for choice in design_for(layer("product of two inputs"), h200()).choices]
    assert "stages" in [choice.name for choice in design_for(layer("odd channels"), h200()).choices]


def test_the_formula_lets_copies_run_ahead_where_sums_of_other_steps_hide_them() -> None:
    """A copy takes 600 cycles here: two stages hide it behind 600 cycles of sums, three behind 300."""
    assert waits(600, 5, 1, 100) == 5 * 600
    assert waits(600, 5, 2, 100) == 600 + 4 * 500
    assert waits(600, 5, 2, 600) == waits(600, 5, 3, 300) == 600
    chosen = first_choice(design_for(layer("3x3 of 14x14 images"), h200()))
    assert chosen is not None
    assert chosen["stages"] > (1,)
    short = first_choice(design_for(layer("1x1 of 7x7 images"), h200()))
    assert short is not None
    assert (short["sums"][0], short["stages"]) == (1, (1,))


@pytest.mark.long
def test_a_neighbour_may_differ_in_its_stages() -> None:
    function, (design, *_) = kernel_called(POINTWISE).function, designs_of(POINTWISE)
    sch = scheduled(function, design, drawn(design, 2))
    assert sch is not None
    text = trace_text(sch.trace)
    known = design_of(function, h200(), text)
    assert known is not None
    assert known[1] == drawn(design, 2)
    assert sizes_of(design, DesignSpace(sch.trace).decisions(sch.trace)) == known[1]
    random = np.random.default_rng(0)
    found = [design_of(function, h200(), near) for near in islice(neighbours(function, h200(), [text], random), 20)]
    assert {one[1]["stages"] for one in found if one is not None} > {(2,)}


def test_decisions_of_another_kind_are_none_of_a_design() -> None:
    (design, *_) = designs_of(POINTWISE)
    sizes = [list(size) for size in drawn(design, 2).values()]
    with pytest.raises(TypeError, match="the decision about stages is"):
        sizes_of(design, sizes)
    with pytest.raises(TypeError, match="the decision about row is 1"):
        sizes_of(design, [1, *sizes[1:]])


def test_the_comment_of_a_kernel_tells_how_far_copies_run_ahead() -> None:
    (design, *_) = designs_of(POINTWISE)
    function = kernel_called(POINTWISE).function
    said = []
    for stages in (1, 2, 3):
        sch = scheduled(function, design, {**drawn(design, 3), "stages": (stages,)})
        assert sch is not None
        said.append(summary(trace_text(sch.trace), function))
    assert "ahead" not in said[0]
    assert "; copy 1 step ahead" in said[1]
    assert "; copy 2 steps ahead" in said[2]


def test_a_loop_that_does_not_copy_is_refused() -> None:
    """An annotation of a trace may stand anywhere."""
    kernel = kernel_called(POINTWISE)
    design = next(d for d in gpu_designs(kernel.function, gpu()) if d.name.endswith("sums in registers"))
    assert isinstance(design, BlockTile)
    sizes = propose(design, np.random.default_rng(0))
    sch = Schedule(module_of(kernel.function))
    design.apply(sch, {**(sizes or {}), "sum2": (8, 8)})
    loop = next(
        loop for loop in sch.get_loops(sch.get_sblock(f"{design.tile.anchor.name}_update")) if sch.get(loop).extent == 8
    )
    sch.annotate(loop, STAGES, 2)
    with pytest.raises(KernelFailed, match="copies can only run ahead in a loop that copies, waits"):
        emit_cuda_kernel(sch.mod, h200(), "kernel")


def test_a_kernel_is_written_as_the_golden_file_says(golden: Callable[[str, str], None]) -> None:
    """Zeroes of padding are copies that read nothing; what is never zero has no condition."""
    text = unit(first(CONVOLUTION, 2))
    golden("codegen/copies_ahead.cu", text)
    assert max(map(len, text.splitlines())) <= 120
    assert not re.search(r"asm|reindex|cse|v\d_o", text)


@cache
def registers(name: str, stages: int, arch: int) -> int:
    """Registers of a thread, of a kernel that nvcc compiles without a word and ptxas without a spill."""
    nvcc = find_nvcc()
    assert nvcc is not None
    text = f"#include <math.h>\n#include <stdint.h>\n{unit(first(name, stages))}"
    target = h200().model_copy(update={"compute_capability": arch})
    flags = (*target.compiler.nvccflags, "-Werror", "all-warnings")
    target = target.model_copy(update={"compiler": target.compiler.model_copy(update={"nvccflags": flags})})
    found = compile_text(text, target, nvcc)
    assert isinstance(found, Cubin), found
    assert found.slow_bytes == 0
    return found.kernels[0].registers


@pytest.mark.long
@pytest.mark.nvcc
@pytest.mark.parametrize("arch", [75, 80, 87, 90])
@pytest.mark.parametrize(("name", "stages"), [(CONVOLUTION, 2), (TENSOR, 3)])
def test_nvcc_compiles_a_kernel_without_a_warning_and_ptxas_spills_nothing(name: str, stages: int, arch: int) -> None:
    """Also for an older architecture, for which CUDA's functions copy at once."""
    assert registers(name, stages, arch) <= 255
