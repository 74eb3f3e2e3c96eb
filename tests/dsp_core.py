"""A core with the DSP extension whose kernels run in processes of this machine, under an emulator.

ARMv7-A has the instructions of a Cortex-M4's DSP extension, so the same C is compiled for Linux and run there.
"""

from __future__ import annotations

from edgetune.target.isa import INSTRUCTION_SETS
from edgetune.target.target import Target, load_target


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
