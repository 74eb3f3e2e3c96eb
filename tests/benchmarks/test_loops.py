"""Innermost loops are found in disassembled kernels of each instruction set, with what is in them."""

from __future__ import annotations

from dataclasses import astuple
from pathlib import Path

import pytest

from benchmarks.disassembly import Loop, loops_of
from benchmarks.loops import KernelLoops, kernel_loops, main, table
from benchmarks.natural_loops import innermost_loops
from edgetune.errors import ToolchainMissing, UsageError
from tests.package_sample import arm, emit

# A loop of 4 multiply-adds around which another one runs, with the frame kept outside; its end lies behind the return.
NESTED = {
    "x86_64": """
0000000000000000 <kernel>:
       0:\tpush   %rbx
       1:\tmov    $0x0,%eax
       6:\tvmovups (%rsi),%zmm1
       c:\tvfmadd231ps (%rsi){1to16},%zmm1,%zmm0
      12:\tvfmadd231ps %zmm1,%zmm3,%zmm2
      18:\tvfnmadd213ps 0x40(%rdx,%rax,4),%zmm3,%zmm4
      20:\tvfmadd132ps %ymm1,%ymm3,%ymm2
      24:\tvfmadd231ss %xmm1,%xmm3,%xmm2
      28:\tlea    0x8(%rsp),%r8
      2c:\tcmp    %rax,0x8(%rdi)
      30:\tje     40 <kernel+0x40>
      32:\tcmp    %rax,%rcx
      36:\tjne    6 <kernel+0x6>
      38:\tadd    $0x1,%rbx
      3c:\tjmp    1 <kernel+0x1>
      40:\tpop    %rbx
      41:\tret
""",
    "aarch64": """
0000000000000000 <kernel>:
   0:\tstp\tx29, x30, [sp, #-16]!
   4:\tmov\tx5, #0x0
   8:\tldr\tq1, [x1], #16
   c:\tld1r\t{v2.4s}, [x2]
  10:\tfmla\tv0.4s, v1.4s, v2.s[0]
  14:\tfmls\tv3.4s, v1.4s, v2.4s
  18:\tfmla\tv4.2s, v1.2s, v2.2s
  1c:\tfmla\tv5.4s, v1.4s, v2.s[3]
  20:\tfmadd\ts6, s1, s2, s6
  24:\tadd\tx7, sp, #0x10
  28:\tldr\ts9, [x3, x5, lsl #2]
  2c:\tcbz\tx6, 3c <kernel+0x3c>
  30:\tb.ne\t8 <kernel+0x8>  // b.any
  34:\tsub\tx4, x4, #0x1
  38:\tb\t4 <kernel+0x4>
  3c:\tldp\tx29, x30, [sp], #16
  40:\tret
""",
    "armv7": """
00000000 <kernel>:
   0:\tpush\t{r4, lr}
   2:\tmovs\tr3, #0
   4:\tvld1.32\t{d16-d17}, [r1]!
   8:\tvdup.32\tq1, r4
   c:\tvfma.f32\tq0, q8, q1
  10:\tvfms.f32\tq2, q8, q1
  14:\tvfma.f32\td6, d16, d2
  18:\tvmla.i32\tq4, q8, q1
  1c:\tvfma.f32\ts0, s1, s2
  20:\tldr.w\tr4, [r2, #4]
  24:\tadd\tr5, sp, #16
  28:\tvldr\td3, [r2, #8]
  2c:\tcbz\tr6, 38 <kernel+0x38>
  2e:\tbne.n\t4 <kernel+0x4>
  30:\tsubs\tr0, #1
  34:\tb.n\t2 <kernel+0x2>
  38:\tpop\t{r4, pc}
  3c:\t.word\t0x3f800000
""",
}
# The accumulator goes to the stack and comes back: by the stack pointer, and by the frame pointer where one is made.
SPILLING = {
    "x86_64": """
0000000000000000 <kernel>:
       0:\tpush   %rbp
       1:\tmov    %rsp,%rbp
       6:\tvfmadd231ps 0x40(%rsp),%zmm1,%zmm0
       c:\tvmovaps %zmm0,-0x50(%rbp)
      12:\tcall   99 <exp>
      18:\tvmovups (%rbx),%zmm3
      36:\tjne    6 <kernel+0x6>
      41:\tret
""",
    "aarch64": """
0000000000000000 <kernel>:
   0:\tmov\tx29, sp
   8:\tfmla\tv0.4s, v1.4s, v2.4s
   c:\tstp\tq17, q8, [sp, #64]
  10:\tstr\tq0, [x29, #32]
  18:\tldr\tq0, [sp, #32]
  1c:\tldr\tq3, [x2, #32]
  30:\tb.ne\t8 <kernel+0x8>
  40:\tret
""",
    "armv7": """
00000000 <kernel>:
   0:\tadd\tr7, sp, #0
   4:\tvfma.f32\tq0, q8, q1
   8:\tvst1.64\t{d12-d13}, [sp :64]
   c:\tstr\tr6, [sp, #32]
  10:\tvldr\td3, [r7, #8]
  14:\tvldr\td5, [r2, #8]
  2e:\tbne.n\t4 <kernel+0x4>
  38:\tbx\tlr
""",
}
COPYING = {
    "x86_64": """
0000000000000000 <kernel>:
       6:\tvmovups (%rsi,%rax,1),%zmm1
       a:\tvmulps %zmm1,%zmm2,%zmm3
       c:\tvmovups %zmm3,(%rdi,%rax,1)
      36:\tjne    6 <kernel+0x6>
      41:\tret
""",
    "aarch64": """
0000000000000000 <kernel>:
   8:\tldr\tq0, [x1], #16
   9:\tfmul\tv0.4s, v0.4s, v1.4s
   c:\tstr\tq0, [x0], #16
  30:\tb.ne\t8 <kernel+0x8>
  40:\tret
""",
    "armv7": """
00000000 <kernel>:
   4:\tvld1.32\t{d16-d17}, [r1]!
   6:\tvmul.f32\tq8, q8, q9
   8:\tvst1.32\t{d16-d17}, [r0]!
  2e:\tbne.n\t4 <kernel+0x4>
  38:\tbx\tlr
""",
}
ISAS = sorted(NESTED)


def sole(listing: str, isa: str) -> Loop:
    """The only loop of the only function."""
    ((loop,),) = loops_of(listing, isa).values()
    return loop


@pytest.mark.parametrize("isa", ISAS)
def test_the_inner_of_two_loops_is_found_with_its_vector_multiply_adds(isa: str) -> None:
    loop = sole(NESTED[isa], isa)
    assert (loop.function, loop.multiply_adds, loop.stack) == ("kernel", 4, ())
    assert loop.loads == {"x86_64": 4, "aarch64": 3, "armv7": 3}[isa]
    assert loop.offset == {"x86_64": 6, "aarch64": 8, "armv7": 4}[isa]
    assert KernelLoops("kernel", 1, (loop,)).fault == ""


@pytest.mark.parametrize("isa", ISAS)
def test_a_tile_on_the_stack_is_a_fault(isa: str) -> None:
    loop = sole(SPILLING[isa], isa)
    assert (loop.multiply_adds, len(loop.stack)) == (1, 3)
    assert "3 stack accesses" in KernelLoops("kernel", 1, (loop,)).fault
    assert KernelLoops("kernel", 0, (loop,)).fault == ""


@pytest.mark.parametrize("isa", ISAS)
def test_a_product_without_vector_multiply_adds_is_a_fault_and_a_copy_is_not(isa: str) -> None:
    loop = sole(COPYING[isa], isa)
    assert (loop.multiply_adds, loop.loads) == (0, 1)
    assert "no vector multiply-add" in KernelLoops("kernel", 7, (loop,)).fault
    assert KernelLoops("kernel", 0, (loop,)).fault == ""


def test_a_part_of_a_round_behind_the_return_belongs_to_the_loop() -> None:
    listing = """
0000000000000000 <first>:
   0:\tret
0000000000000004 <kernel>:
   4:\tfmla\tv0.4s, v1.4s, v2.4s
   8:\ttbnz\tw3, #4, 18 <kernel+0x14>
   c:\tsubs\tx4, x4, #0x1
  10:\tb.ne\t4 <kernel>
  14:\tret
  18:\tfmla\tv0.4s, v3.4s, v2.4s
  1c:\tstr\tq0, [sp]
  20:\tb\tc <kernel+0x8>
"""
    found = loops_of(listing, "aarch64")
    assert found["first"] == ()
    (loop,) = found["kernel"]
    assert astuple(loop)[:2] == ("kernel", 0)
    assert (loop.multiply_adds, loop.stack) == (2, ("str\tq0, [sp]",))


@pytest.mark.parametrize(
    ("successors", "loops"),
    [
        ([[1], [2], []], []),
        ([[1], [1, 2], []], [{1}]),
        ([[1], [2], [1, 3], [0, 4], []], [{1, 2}]),  # nested
        ([[1], [2, 3], [1], [1, 4], []], [{1, 2, 3}]),  # one loop whose rounds end in two places
        ([[1], [1, 2], [1, 3], []], [{1}]),  # two loops of one head
        ([[1, 2], [2, 3], [1, 3], []], []),  # entered in two places: no natural loop
        ([[1, 3], [1, 2], [3], [3, 0, 4], [], [5]], [{1}, {3}]),  # side by side; block 5 is never reached
    ],
)
def test_innermost_natural_loops(successors: list[list[int]], loops: list[set[int]]) -> None:
    assert [set(loop) for loop in innermost_loops(successors)] == loops


@pytest.mark.long
def test_packages_are_judged_by_what_their_own_compiler_makes(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "tiny"
    emit(package, target=arm("generic-aarch64"), width=512)  # a loop of 32 would be unrolled whole
    scale, add = kernel_loops(package)
    assert (scale.macs > 0, add.macs, bool(add.loops)) == (True, 0, True)
    status = 1 if scale.fault else 0
    assert main([str(package)]) == status
    said = capsys.readouterr()
    assert said.out == table("tiny", (scale, add)) + "\n"
    assert (f"scale_add: {scale.fault}" in said.err) == bool(scale.fault)


def test_unknown_instructions_and_missing_tools_are_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    package = tmp_path / "tiny"
    emit(package, target=arm("generic-riscv64"))
    with pytest.raises(UsageError, match="riscv64"):
        kernel_loops(package)
    assert main([str(package)]) == UsageError.exit_code
    assert "riscv64" in capsys.readouterr().err
    monkeypatch.setattr("benchmarks.loops.INSTRUCTION_SETS", {"riscv64": None})
    monkeypatch.setattr("benchmarks.loops.which", lambda _: None)
    with pytest.raises(ToolchainMissing, match="objdump"):
        kernel_loops(package)


@pytest.mark.parametrize(
    ("isa", "floats", "integers"),
    [
        ("x86_64", "vfmadd231ps %zmm1,%zmm3,%zmm2", "vpmaddwd %ymm1,%ymm3,%ymm2"),
        ("x86_64", "vfmadd231ps %zmm1,%zmm3,%zmm2", "{vex} vpdpbusd %ymm1,%ymm3,%ymm2"),
        ("aarch64", "fmla\tv0.4s, v1.4s, v2.s[0]", "smlal2\tv0.4s, v1.8h, v2.h[0]"),
        ("aarch64", "fmla\tv0.4s, v1.4s, v2.s[0]", "mla\tv0.4s, v1.4s, v2.s[0]"),
        ("armv7", "vfma.f32\tq0, q8, q1", "vmlal.s16\tq0, d16, d2[0]"),
    ],
)
def test_multiply_adds_of_integers_are_told_from_those_of_floats(isa: str, floats: str, integers: str) -> None:
    copy = COPYING[isa]
    at = copy.index("\n", copy.index("mul")) + 1

    def kernel(*texts: str) -> KernelLoops:
        lines = "".join(f"   {address:x}:\t{text}\n" for address, text in enumerate(texts, 0xA))
        return KernelLoops("kernel", 1, (sole(copy[:at] + lines + copy[at:], isa),))

    assert [kernel(floats).integer, kernel(integers).integer, kernel(floats, integers).integer] == [False, True, True]
    assert not KernelLoops("kernel", 1, (sole(copy, isa),)).integer
