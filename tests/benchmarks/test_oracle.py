"""The oracle: what it freezes of a subject, and what it says of two frozen folders."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.oracle.__main__ import main
from benchmarks.oracle.c_text import normal_form
from benchmarks.oracle.comparison import compare, report
from benchmarks.oracle.corpus import corpus, selected
from benchmarks.oracle.facts import WIDTHS, Facts, KernelFacts, target_of
from edgetune.errors import UsageError

SHARED = Path(__file__).parents[3] / "shared" / "models"
TEXT = (
    "static void k(const float *x, float *y)\n{\n    for (int i = 0; i < 8; i++) /* rows */\n        y[i] = x[i];\n}\n"
)
RENAMED = TEXT.replace("x", "a").replace("y", "b").replace("/* rows */", "// rows").replace("// rows", "/* lines */")
BEFORE = Facts("s", 128, (KernelFacts("k", TEXT, "[]", 100.0),), 1000, 1e-7)


def with_text(text: str, **more: object) -> Facts:
    return replace(BEFORE, kernels=(replace(BEFORE.kernels[0], text=text),), **more)  # type: ignore[arg-type]


def with_functions(functions: str) -> Facts:
    """Of a kernel that calls other functions of the preamble under the same names."""
    return replace(BEFORE, kernels=(replace(BEFORE.kernels[0], functions=functions),))


@pytest.mark.parametrize(
    ("after", "verdict", "ratio"),
    [
        (BEFORE, "equal", 1.0),
        (with_functions("other"), "same cost", 1.0),
        (replace(with_functions("other"), instructions=900), "faster", 0.9),
        (with_text(RENAMED), "names only", 1.0),
        (with_text(TEXT.replace("i < 8", "i < 9")), "same cost", 1.0),
        (with_text(TEXT.replace("8", "9"), instructions=900), "faster", 0.9),
        (with_text(TEXT.replace("8", "9"), instructions=1100), "slower", 1.1),
        (with_text(TEXT.replace("8", "9"), instructions=900, error=1e-4), "other accuracy", 0.9),
        (replace(BEFORE, failure="no kernel"), "failed", None),
    ],
)
def test_verdicts(after: Facts, verdict: str, ratio: float | None) -> None:
    found = compare(BEFORE, after)
    assert (found.verdict, found.ratio) == (verdict, ratio)


def test_without_instructions_predicted_cycles_decide() -> None:
    before = replace(BEFORE, instructions=None, width=512)
    after = replace(before, kernels=(replace(before.kernels[0], text="other", cycles=120.0),))
    found = compare(before, after)
    assert (found.verdict, found.ratio, found.unit) == ("slower", 1.2, "predicted cycles")
    unknown = replace(before, kernels=(replace(before.kernels[0], text="other", cycles=None),))
    assert compare(before, unknown).ratio is None


@pytest.mark.parametrize(
    ("one", "other", "equal"),
    [
        ("a = b + a;", "x = y + x;", True),
        ("a = b + a;", "x = y + y;", False),
        ("a = b + c;", "x = y + y;", False),
        ("a = 1.0f;", "b = 1.5f;", False),
        ("a = 0x1p3f;", "b = 0x1p3f;", True),
        ("a = 0x1p3f-b;", "b = 0x1p3f - c;", True),
        ("a = 1e-3f;", "b = 1e-3f;", True),
        ("a  =\n b; /* c */", "x = y;", True),
        ("a = vaddq_f32(b, c);", "a = vsubq_f32(b, c);", False),
        ("a = one__exp_f32(b);", "x = two__exp_f32(y);", True),
        ("a = one__exp_f32(b);", "x = two__log_f32(y);", False),
        ("const f32x4 a = b;", "const f32x8 a = b;", False),
        ("int32_t a = b;", "int64_t a = b;", False),
        ("a = INFINITY;", "a = NAN;", False),
        ("void one__f(float *x)\n{\n}", "void two__g(float *y)\n{\n}", True),
        ("void f(int a)\n{\n    g(a);\n}\nvoid g(int a) {}", "void h(int a)\n{\n    g(a);\n}\nvoid k(int a) {}", False),
    ],
)
def test_texts_that_are_equal_but_for_names(one: str, other: str, *, equal: bool) -> None:
    assert (normal_form(one) == normal_form(other)) is equal


def test_a_normal_form_has_numbers_for_names_alone() -> None:
    text = "void p__k(const f32x4u *restrict x) /* all */\n{\n    y = p__exp_f32(x[i + 1], NAN) - 0x1p-3f;\n}\n"
    wanted = "void n0 ( const f32x4u * restrict n1 ) { n2 = exp_f32 ( n1 [ n3 + 1 ] , NAN ) - 0x1p-3f ; }"
    assert normal_form(text) == wanted


def test_a_report_names_what_is_worse() -> None:
    worse = compare(BEFORE, with_text(TEXT.replace("8", "9"), instructions=1500))
    lines = list(report([worse, compare(BEFORE, BEFORE)], shown=1))
    assert lines[0] == "128 bits: 2 subjects: 1 slower, 1 equal"
    assert lines[1].startswith("  instructions: geometric mean 1.2247 of before, worst 1.500")
    assert lines[2] == "  slower: s 1.500 of the instructions"


def test_the_corpus_has_expressions_and_files() -> None:
    subjects = corpus(SHARED)
    assert len(subjects) >= 280
    assert {"model_resnet8", "tflite_kws_int8", "nchw_64"} <= subjects.keys()
    assert [one.name for one in selected(subjects, "nchw_64,model_vww")] == ["nchw_64", "model_vww"]
    with pytest.raises(UsageError, match="the corpus has no 'nchw_46'"):
        selected(subjects, "nchw_46")


@pytest.mark.parametrize("width", WIDTHS)
def test_targets(width: int) -> None:
    target = target_of(width)
    assert target.vector_bits == width
    assert bool(target.emulator) == (width < 512)


@pytest.mark.long
def test_freeze_twice(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same C, predictions and instructions to the last one."""
    for folder in ("before", "after"):
        assert main(["freeze", str(tmp_path / folder), "--subjects", "odd_long", "--jobs", "1"]) == 0
    capsys.readouterr()
    for width in WIDTHS:
        one, other = (Facts.read(tmp_path / folder / str(width) / "odd_long.json") for folder in ("before", "after"))
        assert one == other
        assert not one.failure
        assert (one.instructions is not None) == (width < 512)
    assert main(["compare", str(tmp_path / "before"), str(tmp_path / "after")]) == 0
    assert "512 bits: 1 subjects: 1 equal" in capsys.readouterr().out


@pytest.mark.long
def test_kernels_that_are_known_are_not_run_again(tmp_path: Path) -> None:
    chosen = ["--subjects", "odd_long", "--widths", "128,512", "--jobs", "1"]
    assert main(["freeze", str(tmp_path / "before"), *chosen]) == 0
    known = {}
    for width in (128, 512):  # what stands there is copied, or counted anew where the kernels are others
        path = tmp_path / "before" / str(width) / "odd_long.json"
        known[width] = replace(Facts.read(path), error=0.5)
        if width == 512:
            known[width] = replace(known[width], kernels=())
        known[width].write(path)
    assert main(["freeze", str(tmp_path / "after"), "--like", str(tmp_path / "before"), *chosen]) == 0
    assert Facts.read(tmp_path / "after" / "128" / "odd_long.json") == known[128]
    assert Facts.read(tmp_path / "after" / "512" / "odd_long.json").error is None
