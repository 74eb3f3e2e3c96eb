"""Vector operations of the preamble: each instruction set adds its own instructions, and nothing else."""

from __future__ import annotations

import pytest

from edgetune.codegen import render_preamble
from edgetune.target.isa import INSTRUCTION_SETS, InstructionSet
from edgetune.target.isa.vector_instructions import Instruction, VectorInstructions
from edgetune.target.target import load_target

NAMES = ("widen:i8x4", "narrow:i8x16", "mac:i32x8", "nearbyint:f32x4", "vmax:f32x4", "exp:f32x8")


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
