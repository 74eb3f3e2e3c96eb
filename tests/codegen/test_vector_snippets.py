"""Vector operations of the preamble: each instruction set adds its own instructions, and nothing else."""

from __future__ import annotations

from itertools import pairwise

import pytest

from edgetune.codegen import render_preamble
from edgetune.target.isa import INSTRUCTION_SETS, InstructionSet
from edgetune.target.isa.vector_instructions import Instruction, VectorInstructions
from edgetune.target.target import load_target

NAMES = ("widen:i8x4", "narrow:i8x16", "mac:i32x8", "nearbyint:f32x4", "vmax:f32x4", "exp:f32x8")

_KINDS = """
min:i32 max:f32 div:i32 mod:u8 floordiv:i32 floormod:i32 shl:u8 shr:i32 pow:i32 abs:i32 popcount:u32 clz:i32 f32_to:i8
f64_to:u64 reinterpret:f32_i32 q_multiply_shift:i32 prefetch:all sigmoid:f64 exp:f32 from_f16:f32 to_f16:f32
from_bf16:f32 to_bf16:f32 vmin:f32x8 vmax:f32x8 sqrt:f32x8 nearbyint:f32x8 floor:f32x8 ceil:f32x8 trunc:f32x8 exp:f32x8
log:f32x8 tanh:f32x8 sigmoid:f32x8 erf:f32x8 exp_each:f32x8x2 every_second:f32x8 pairs:f32x8 backwards:f32x8
every_third:f32x8 take_turns:f32x8x2 take_turns:f32x8x3 transpose:f32x8 split_rows:f32x8 join_rows:f32x8
every_fourth:f32x8 take_turns:f32x8x4 sin:f32x8 cos:f32x8 transpose_runs:f32x8
split_quads:f32x8 join_quads:f32x8 columns:f32x8 halves:f32x8 turn:f32x8 widen:u8x16 narrow:i8x8 whole:f32x8
saturated_u8:f32x8 saturated_i32:f32x8 lanes_sum:f32x8 lanes_largest:f32x8 lanes_smallest_each:f32x8x4
"""


def preamble() -> str:
    """The text of all operations."""
    return render_preamble(NAMES, load_target("generic-aarch64"), "sample")


def add(monkeypatch: pytest.MonkeyPatch, vectors: VectorInstructions) -> None:
    """Make one more instruction set, "bare", known."""
    monkeypatch.setitem(INSTRUCTION_SETS, "bare", InstructionSet("bare", (), 32, vectors=vectors))


def test_an_instruction_set_without_instructions_changes_no_text(monkeypatch: pytest.MonkeyPatch) -> None:
    before = preamble()
    add(monkeypatch, VectorInstructions())
    assert preamble() == before


def test_an_instruction_comes_after_those_of_other_instruction_sets(monkeypatch: pytest.MonkeyPatch) -> None:
    row = Instruction("__BARE__", "*v = {name}(x);", "__builtin_bare_round", "gcc")
    before = preamble()
    add(monkeypatch, VectorInstructions(rounding={4: (row,)}))
    condition = "defined(__BARE__) && !defined(__clang__) && __has_builtin(__builtin_bare_round)"
    text = f"#elif {condition}\n    *v = __builtin_bare_round(x);\n"
    assert preamble().replace(text, "") == before
    assert preamble().index("frintn") < preamble().index(text)


def test_a_barrier_prefers_the_registers_of_floats(monkeypatch: pytest.MonkeyPatch) -> None:
    best, general = ("defined(__BARE_FLOATS__)", "q"), ("defined(__BARE__)", "r")
    add(monkeypatch, VectorInstructions(float_registers={4: (best, general)}))
    text = render_preamble(["keep:f32"], load_target("generic-aarch64"), "sample")
    rows = [line for line in text.splitlines() if line.startswith("#elif")]
    assert rows[-2:] == [
        "#elif defined(__BARE_FLOATS__)",
        "#elif defined(__arm__) || defined(__riscv) || defined(__BARE__)",
    ]


def test_every_function_has_a_comment() -> None:
    lines = render_preamble(_KINDS.split(), load_target("generic-aarch64"), "sample").splitlines()
    bare = [line for before, line in pairwise(lines) if line.startswith("static inline") and not before.endswith("*/")]
    assert bare == []
    assert len([line for line in lines if line.startswith("static inline")]) >= len(_KINDS.split())
