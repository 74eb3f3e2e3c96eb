"""ARMv7-A (32-bit ARM) with NEON and VFPv4, in its hard-float ABI."""

from __future__ import annotations

from collections.abc import Callable

from edgetune.errors import EdgetuneError
from edgetune.target.dot_product import DotProduct
from edgetune.target.isa.advanced_simd import AdvancedSimd
from edgetune.target.isa.cpu_features import HwcapBit
from edgetune.target.isa.cpuinfo import arm_parts, listed_features
from edgetune.target.isa.instruction_set import HostCpu, InstructionSet, OffsetReach
from edgetune.target.isa.vector_instructions import VectorInstructions

# Bits of the Linux ABI.
_HWCAP = {
    "half": 1, "thumb": 2, "vfp": 6, "edsp": 7, "neon": 12, "vfpv3": 13, "vfpv4": 16, "idiva": 17, "idivt": 18,
    "fphp": 22, "asimdhp": 23, "asimddp": 24, "asimdfhm": 25, "i8mm": 27,
}  # fmt: skip
# As in the target files, which explain why. GCC only: clang warns about flags of GCC's scheduler.
_KERNELS = ("-funsafe-math-optimizations", "-fno-associative-math", "-fno-reciprocal-math", "-fsigned-zeros")
_GCC_KERNELS = ("-fno-schedule-insns", "-fno-move-loop-invariants")

_NEON = (("(defined(__arm__) && defined(__ARM_NEON))", "w"),)
_SHARED = AdvancedSimd(
    macro="__ARM_NEON",
    builtins={
        "multiply_add": "__builtin_neon_vmlalsv4hi",
        "product": "__builtin_neon_vmullsv8qi",
        "added_product": "__builtin_neon_vmlalsv8qi",
        "added_pairs": "__builtin_neon_vpadalsv8hi",
    },
    widen=("vld1.32 {{%e0[0]}}, [%1]", "vmovl.{letter}8 %q0, %e0", "vmovl.{letter}16 %q0, %e0"),
    high_product="vqrdmulh.s32 %q0, %q1, %q2",
    shift="vrshl.s32 %q0, %q1, %q2",
    product="vmull.s8 %q0, %P1, %P2",
    added_product="vmlal.s8 %q0, %P1, %P2",
    added_pairs="vpadal.s16 %q0, %q1",
    wide_add="vaddw.s16 %q0, %q0, %e1",
    wide_add_high="vaddw.s16 %q0, %q0, %f1",
    narrow="vqmovn.s32 %e0, %q1\\n\\tvqmovn.s32 %f0, %q2",
    narrow_low="vqmovn.s32 %e0, %q1",
    add="vqadd.s16 %q0, %q1, %q2",
    narrow_bytes="vqmov{u}n.s16 %e0, %q1\\n\\tvqmov{u}n.s16 %f0, %q2",
    narrow_low_bytes="vqmov{u}n.s16 %e0, %q1",
)
_VECTORS = VectorInstructions(
    float_registers={
        4: (("defined(__arm__) && defined(__ARM_FP)", "t"), ("defined(__arm__)", "r")),
        8: _NEON,
        16: _NEON,
    },
)


def describe_host(cpuinfo: str, cc: str, _native: Callable[[str], str | None]) -> HostCpu:
    """Describe the CPU of `cpuinfo`, also a 64-bit one with a 32-bit userland; raises EdgetuneError without NEON."""
    if not {"neon", "vfpv4"} <= listed_features(cpuinfo, "Features"):
        msg = "this ARM machine lacks NEON with VFPv4, which edgetune needs: use a board with a Cortex-A7 or later"
        raise EdgetuneError(msg)
    return HostCpu(
        cpu="cortex-a7",
        vector_bits=128,
        vector_registers=16,
        machine_flags=("-march=armv7-a", "-mfpu=neon-vfpv4", "-mfloat-abi=hard"),
        has_float16=False,
        cpu_checks=("neon", "vfpv4"),
        llvm_features=("+neon", "+vfp4"),
        kernel_cflags=_KERNELS if "clang" in cc else (*_KERNELS, *_GCC_KERNELS),
        cpu_part=arm_parts(cpuinfo),
    )


ARMV7 = InstructionSet(
    name="armv7",
    strided_loops=1.0,  # VLD2, VLD3 and VLD4
    offset_reach=OffsetReach(any=0, scaled=1020),  # of VLDR; VLD1 has none
    machines=("armv7l", "armv7", "armv8l"),
    bits=32,
    wider_machines=("aarch64", "arm64"),
    features={name: HwcapBit(bit) for name, bit in _HWCAP.items()},
    host_triple="armv7l-linux-gnueabihf",
    describe_host=describe_host,
    libc_packages={
        "arm-linux-gnueabihf": "libc6-dev-armhf-cross",
        "arm-linux-gnueabi": "libc6-dev-armel-cross",
    },
    machine_flags_are_abi=True,
    dot=DotProduct(elements=2, bits=8),
    vectors=_SHARED.shared(_VECTORS),
    tile_rows=2,  # vector loads have no offset, and 13 general registers hold few addresses
)
