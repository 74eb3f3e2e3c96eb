"""Kernels for the DSP extension: quantised convolutions, and a core on which they run in processes of this machine.

ARMv7-A has the instructions of a Cortex-M4's DSP extension, so the same C is compiled for Linux and run there.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.schedule.algorithms.apply import apply_schedule
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.schedule_text import schedule_text, trace_text
from edgetune.schedule.default_schedule import guesses
from edgetune.schedule.default_sizes import strip_sizes, tile_sizes
from edgetune.schedule.sketches.decisions import Chosen
from edgetune.schedule.sketches.spaces import postprocs, tile_of, tiled
from edgetune.schedule.sketches.variants import variants_of
from edgetune.target.isa import INSTRUCTION_SETS
from edgetune.target.target import Target, load_target
from tests.integer_samples import Quantised
from tests.sketch_samples import Array

SHARED = Quantised(zeros=(0, 0), border=5, shape=(6, 10, 16), out=12)
DEPTHWISE = Quantised(zeros=(0, 0), border=5, shape=(9, 7, 8), out=8, groups=8)
KINDS = {
    "1x1": (replace(SHARED, kernel=(1, 1), pad=(0, 0, 0, 0)), "dot_int16_4"),
    "3x3": (SHARED, "dot_int16_4"),
    "stride 2": (replace(SHARED, stride=2, pad=(0, 0, 1, 1)), "dot_int16_4"),
    "odd channels": (replace(SHARED, shape=(5, 5, 7), out=5, kernel=(1, 1), pad=(0, 0, 0, 0)), "dot_int16_4"),
    "one channel": (replace(SHARED, shape=(9, 10, 1), kernel=(5, 4)), "dot_int16_4"),
    "three channels": (replace(SHARED, shape=(8, 8, 3), out=8), "dot_int16_4"),
    "one pixel": (replace(SHARED, shape=(1, 1, 24), out=22, kernel=(1, 1), pad=(0, 0, 0, 0)), "dot_int16_4"),
    "depthwise": (DEPTHWISE, "lanes_4_int16"),
    "depthwise, bytes": (DEPTHWISE, "lanes_4_int8"),
    "depthwise 5x5": (replace(DEPTHWISE, kernel=(5, 5), pad=(2, 2, 2, 2)), "lanes_4_int16"),
    "depthwise, stride 2": (replace(DEPTHWISE, stride=2, pad=(0, 0, 1, 1)), "lanes_4_int16"),
}


def extreme(sample: Quantised, seed: int = 0) -> list[Array]:
    """Arguments, more than half of which are at the ends of their range."""
    arrays, generator = sample.arrays(seed), np.random.default_rng(seed)
    for array in arrays[:2]:
        array[generator.random(array.shape) < 0.6] = generator.choice([-128, 127])
    return arrays


def printed(sample: Quantised, target: Target, name: str, arrays: list[Array]) -> tuple[KernelSource, list[Array]]:
    """The kernel by the formula's best schedule of an algorithm, and its arguments."""
    guess = next(guesses(algorithm_named(sample.function(), name).function, target, 1 << 16))
    return printed_as(sample, target, schedule_text(name, guess.trace), arrays)


def printed_as(sample: Quantised, target: Target, text: str, arrays: list[Array]) -> tuple[KernelSource, list[Array]]:
    """The kernel by a schedule's text, and its arguments."""
    scheduled = apply_schedule(sample.function(), text)
    source = emit_kernel(scheduled.module, target, "k")
    constants = scheduled.constants_of(source)
    return source, [constants[n].apply(a) if n in constants else a for n, a in enumerate(arrays)]


def in_strips(sample: Quantised, target: Target, name: str = "dot_int16_4") -> dict[int, str]:
    """The schedules' texts of an algorithm whose copy has strips, by the tiles in a strip; the longest strips first.

    All other sizes are those of the formula.
    """
    function = algorithm_named(sample.function(), name).function
    found = tile_of(function, target)
    assert found is not None
    analysis, tile = found
    variant = next(one for one in variants_of(tile) if "strip" in one.order)
    texts = {}
    for sizes in strip_sizes(tile, variant, tile_sizes(analysis, tile, variant, target)):
        sch = tiled(function, tile, variant, Chosen(sizes), target)
        sch.enter_postproc()
        assert all(post.apply(sch) for post in postprocs(target))
        texts[sizes["strip"]] = schedule_text(name, trace_text(sch.trace))
    return texts


def dsp_core(*cflags: str) -> Target:
    """The target of such a core; `cflags` come last on the compiler's command line."""
    linux, board = load_target("qemu-armv7"), load_target("mps2-an386")
    flags = (*(flag for flag in linux.compiler.cflags if not flag.startswith("-m")), "-march=armv7-a", "-mthumb")
    compiler = linux.compiler.model_copy(update={"cflags": (*flags, "-mfpu=vfpv3-d16", *cflags), "kernel_cflags": ()})
    core = {
        "isa": board.isa,
        "vector_bits": board.vector_bits,
        "vector_registers": board.vector_registers,
        "costs": INSTRUCTION_SETS[board.isa].costs,
        "compiler": compiler,
    }
    return linux.model_copy(update=core)
