"""AArch64 (64-bit ARM) with Advanced SIMD, on a host also with the dot products and float16 of ARMv8.2."""

from __future__ import annotations

from collections.abc import Callable

from edgetune.target.costs import Costs
from edgetune.target.dot_product import DotProduct
from edgetune.target.isa.advanced_simd import AdvancedSimd
from edgetune.target.isa.cpu_features import HwcapBit
from edgetune.target.isa.cpuinfo import arm_parts, listed_features
from edgetune.target.isa.instruction_set import HostCpu, InstructionSet, OffsetReach
from edgetune.target.isa.vector_instructions import Instruction, VectorInstructions

# Bits of the Linux ABI.
_HWCAP = {
    "fp": 0, "asimd": 1, "aes": 3, "pmull": 4, "sha1": 5, "sha2": 6, "crc32": 7, "atomics": 8, "fphp": 9, "asimdhp": 10,
    "asimdrdm": 12, "jscvt": 13, "fcma": 14, "lrcpc": 15, "asimddp": 20, "sve": 22, "asimdfhm": 23,
}  # fmt: skip
_HWCAP2 = {"sve2": 1, "i8mm": 13, "bf16": 14}
# As in the target files, which explain why. GCC only: clang warns about flags of GCC's scheduler.
_GCC_KERNELS = ("-fno-schedule-insns",)


def _extremes(mnemonic: str) -> dict[int, tuple[Instruction]]:
    """FMAX or FMAXNM, and those of the minimum, which compilers use only where NaN may be ignored."""
    text = '__asm__("f{{word}}{0} %0.{1}s, %1.{1}s, %2.{1}s" : "=w"(*a) : "w"(*a), "w"(*b));'
    return {lanes: (Instruction("__aarch64__", text.format(mnemonic, lanes)),) for lanes in (2, 4)}


def _dot(mnemonic: str, feature: str) -> dict[int, tuple[Instruction]]:
    """SDOT or UDOT of ARMv8.2, or SUDOT of ARMv8.6, by element: what the lanes share needs no copy in each of them."""
    text = f'__asm__("{mnemonic} %0.4s, %2.16b, %1.4b[0]" : "+w"(*sums) : "w"({{some}}), "w"({{own}}));'
    return {4: (Instruction(feature, text),)}


_SHARED = AdvancedSimd(
    macro="__aarch64__",
    builtins={
        "multiply_add": "__builtin_aarch64_smlalv4hi",
        "product": "__builtin_aarch64_intrinsic_vec_smult_lo_v8qi",
        "added_product": "__builtin_aarch64_smlalv8qi",
        "added_pairs": "__builtin_aarch64_sadalpv8hi",
    },
    widen=("ldr %s0, [%1]", "{letter}xtl %0.8h, %0.8b", "{letter}xtl %0.4s, %0.4h"),
    high_product="sqrdmulh %0.4s, %1.4s, %2.4s",
    shift="srshl %0.4s, %1.4s, %2.4s",
    product="smull %0.8h, %1.8b, %2.8b",
    added_product="smlal %0.8h, %1.8b, %2.8b",
    added_pairs="sadalp %0.4s, %1.8h",
    wide_add="saddw %0.4s, %0.4s, %1.4h",
    wide_add_high="saddw2 %0.4s, %0.4s, %1.8h",
    narrow="sqxtn %0.4h, %1.4s\\n\\tsqxtn2 %0.8h, %2.4s",
    narrow_low="sqxtn %0.4h, %1.4s",
    add="sqadd %0.8h, %1.8h, %2.8h",
    narrow_bytes="sqxt{u}n %0.8b, %1.8h\\n\\tsqxt{u}n2 %0.16b, %2.8h",
    narrow_low_bytes="sqxt{u}n %0.8b, %1.8h",
)


_HALVES = "typedef short halves __attribute__((vector_size(8), aligned(2), may_alias));\n    "
_VECTORS = VectorInstructions(
    dot={
        "dot_i8_i8_4": _dot("sdot", "__ARM_FEATURE_DOTPROD"),
        "dot_u8_u8_4": _dot("udot", "__ARM_FEATURE_DOTPROD"),
        "dot_u8_i8_4": _dot("sudot", "__ARM_FEATURE_MATMUL_INT8"),
    },
    bounded=_extremes(""),
    running=_extremes("nm"),
    square_root={4: (Instruction("__aarch64__", '__asm__("fsqrt %0.4s, %1.4s" : "=w"(*v) : "w"(x));'),)},
    rounding={4: (Instruction("__aarch64__", '__asm__("frint{letter} %0.4s, %1.4s" : "=w"(*v) : "w"(x));'),)},
    clang_rounds="__aarch64__",
    nearest={4: (Instruction("__aarch64__", '__asm__("fcvtns %0.4s, %1.4s" : "=w"(*r) : "w"(*v));'),)},
    from_half={
        4: (
            Instruction(
                "__aarch64__",
                f'{_HALVES}__asm__("fcvtl %0.4s, %1.4h" : "=w"(*r) : "w"(*(const halves *)p));',
                compiler="gcc",
            ),
        )
    },
    to_half={
        4: (
            Instruction(
                "__aarch64__",
                f'{_HALVES}halves low;\n    __asm__("fcvtn %0.4h, %1.4s" : "=w"(low) : "w"(*v));\n    '
                "*(halves *)p = low;",
                compiler="gcc",
            ),
        )
    },
    float_registers=dict.fromkeys((4, 8, 16), (("defined(__aarch64__)", "w"),)),
)


def describe_host(cpuinfo: str, cc: str, _native: Callable[[str], str | None]) -> HostCpu:
    """Describe the CPU of `cpuinfo`; 8.2 extensions are used only where all cores list them."""
    listed = listed_features(cpuinfo, "Features")
    modern = {"asimddp", "asimdhp", "fphp", "atomics", "crc32"} <= listed
    return HostCpu(
        cpu="generic",
        vector_bits=128,
        vector_registers=32,
        machine_flags=("-march=armv8.2-a+fp16+dotprod" if modern else "-march=armv8-a",),
        has_float16=True,
        cpu_checks=("asimd", "asimddp", "asimdhp", "fphp", "atomics") if modern else ("asimd",),
        llvm_features=("+v8.2a", "+fullfp16", "+dotprod") if modern else (),
        kernel_cflags=() if "clang" in cc else _GCC_KERNELS,
        cpu_part=arm_parts(cpuinfo),
        dot=DotProduct(elements=4) if modern else None,
    )


AARCH64 = InstructionSet(
    name="aarch64",
    strided_loops=1.0,  # LD2, LD3 and LD4
    offset_reach=OffsetReach(any=255, scaled=65520),
    machines=("aarch64", "arm64"),
    bits=64,
    features={
        **{name: HwcapBit(bit) for name, bit in _HWCAP.items()},
        **{name: HwcapBit(bit, word=2) for name, bit in _HWCAP2.items()},
    },
    host_triple="aarch64-linux-gnu",
    describe_host=describe_host,
    libc_packages={"aarch64-linux-gnu": "libc6-dev-arm64-cross"},
    tvm_wheels=True,
    dot=DotProduct(elements=2, bits=8),
    costs=Costs(instruction=0.5),
    vectors=_SHARED.shared(_VECTORS),
)
