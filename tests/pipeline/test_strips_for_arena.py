"""Strips for the arena: default schedules have them where they make the arena smaller for few instructions."""

from __future__ import annotations

import json
from dataclasses import replace
from functools import cache
from pathlib import Path

import pytest

from edgetune.graph.kernels import kernel_of
from edgetune.graph.program import Buffer, Call, Kernel, Program
from edgetune.pipeline.link import Choice, arena_bytes
from edgetune.pipeline.select import choose
from edgetune.pipeline.strips_for_arena import strips_for_arena
from edgetune.schedule.algorithms.schedule_text import FORMS
from edgetune.target.costs import MARGINS
from edgetune.target.target import Target, load_target
from tests.distribution_sample import edgetune
from tests.dsp_core import DEPTHWISE, SHARED, dsp_core
from tests.integer_samples import Quantised

LARGE = Path(__file__).parents[3] / "shared" / "models" / "mlperf_tiny" / "resnet_large_int8.tflite"
WIDE = replace(SHARED, shape=(40, 32, 40), out=40)
"""Its tensors take 102,400 bytes, and the copy of three rows 8,192 more."""

USUAL = 102_400 * 9 // 8
"""Bytes that tensors and scratch may take where memory is scarce."""

HIGHER = replace(DEPTHWISE, shape=(64, 64, 16), out=16, groups=16)
"""Its tensors take 131,072 bytes."""


@cache
def _kernel(sample: Quantised, number: int) -> Kernel:
    mask = [False, True, True, True, False]
    return kernel_of(["conv"], f"{number:064x}", sample.function(), mask, 1)


def _program(*samples: Quantised) -> Program:
    """One call of each, all of whose tensors lie in the arena."""
    kernels = tuple(_kernel(sample, number) for number, sample in enumerate(samples))
    buffers: list[Buffer] = []
    calls = []
    for number, kernel in enumerate(kernels):
        first = len(buffers)
        for param in kernel.params:
            kind = "constant" if param.role == "constant" else "intermediate"
            buffers.append(Buffer(len(buffers), f"t{len(buffers)}", param.shape, param.dtype, kind))  # type: ignore[arg-type]
        calls.append(Call(number, (*range(first, len(buffers)),), f"k{number}"))
    return Program("p", (), (), tuple(buffers), kernels, tuple(calls), {}, "0" * 64)


def _chosen(program: Program, target: Target, arena: int | None = None) -> list[Choice]:
    return choose(program, target, None, lambda _: None, forms=FORMS, arena=arena)


def _notes(choices: list[Choice]) -> list[str]:
    return [choice.provenance.why for choice in choices]


def test_copies_have_strips_where_these_save_much_of_the_arena() -> None:
    target, program = load_target("mps2-an386"), _program(WIDE)
    usual, found = _chosen(program, target, USUAL), _chosen(program, target)
    assert "strips" not in _notes(usual)[0]
    assert "strips of 16 pixels" in _notes(found)[0]
    assert arena_bytes(program, found, target) < 0.98 * arena_bytes(program, usual, target)
    assert found == _chosen(program, target)


def test_a_copy_that_sets_no_size_of_the_arena_keeps_whole_rows() -> None:
    target = load_target("mps2-an386")
    assert not any("strips" in note for note in _notes(_chosen(_program(WIDE, HIGHER), target)))


def test_a_target_that_has_memory_enough_keeps_whole_rows() -> None:
    target, scarce, program = dsp_core(), load_target("mps2-an386"), _program(WIDE)
    (usual,), (found,) = _chosen(program, target), _chosen(program, scarce, USUAL)
    assert not target.memory_is_scarce
    assert usual.trace == found.trace  # the very schedule that has strips where memory is scarce


def test_kernels_that_were_measured_keep_their_schedules() -> None:
    target, program = load_target("mps2-an386"), _program(WIDE)
    texts = [choice.trace for choice in _chosen(program, target, USUAL)]
    assert strips_for_arena(program, target, 1, texts, {0}).keys() == {0}
    assert not strips_for_arena(program, target, 1, texts, ())


def test_strips_that_take_more_instructions_than_they_save_memory_are_not_chosen(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    target, program = load_target("mps2-an386"), _program(WIDE)
    assert "strips" in _notes(_chosen(program, target))[0]
    assert "strips" in _notes(_chosen(program, load_target("mps3-an547")))[0]
    dear = replace(MARGINS, arena_of_strips=1000.0)
    monkeypatch.setattr("edgetune.pipeline.strips_for_arena.MARGINS", dear)
    assert "strips" not in _notes(_chosen(program, target))[0]


@pytest.mark.long
def test_a_large_model_takes_strips_where_memory_is_scarce(tmp_path: Path) -> None:
    """Its tensors take 81,920 bytes; copies of whole rows take 8,640 more."""
    notes = {}
    for board, most in (("mps2-an386", 85_700), ("mps3-an547", 86_700)):
        done = edgetune(["build", str(LARGE), "--board", board, "-o", board], cwd=tmp_path, timeout_s=600)
        assert done.returncode == 0, done.stderr
        manifest = json.loads((tmp_path / board / "MANIFEST.json").read_text())
        assert manifest["memory"]["arena_bytes"] <= most
        notes[board] = [kernel["provenance"]["why"] for kernel in manifest["kernels"]]
    assert sum("strips" in note for note in notes["mps2-an386"]) == 3  # those of the largest tensors alone
    assert any("strips" in note for note in notes["mps3-an547"])
