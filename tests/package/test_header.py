"""What the header of a package promises: extents by axis, outputs after an error, the floating-point environment."""

from __future__ import annotations

import json
import re
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.graph.program import LinearQuantisation
from edgetune.target.preferences import Layout
from tests import package_sample as sample
from tests.package.test_build import make

PROMISES = """
    #include "tiny.h"
    #include <fenv.h>
    #include <string.h>
    static tiny_ctx ctx;
    static _Alignas(64) unsigned char workspace[TINY_WORKSPACE_BYTES];
    static float x[TINY_INPUT_X_DIM0 * TINY_INPUT_X_DIM1 + 1];
    static float y[TINY_OUTPUT_Y_ELEMENTS], before[TINY_OUTPUT_Y_ELEMENTS];

    static int holds(const tiny_inputs *i, const tiny_outputs *o, tiny_status expected)
    {
        memset(y, 0x5A, sizeof y);
        memcpy(before, y, sizeof y);
        return tiny_run(&ctx, i, o) == expected && memcmp(y, before, sizeof y) == 0;
    }

    int main(void)
    {
        static const int modes[] = { FE_TONEAREST, FE_UPWARD, FE_DOWNWARD, FE_TOWARDZERO };
        const tiny_inputs i = { .x = x }, none = { .x = NULL };
        const tiny_inputs odd = { .x = (const float *)(const void *)((const char *)x + 1) };
        const tiny_inputs inside = { .x = (const float *)(const void *)workspace };
        const tiny_outputs o = { .y = y };

        if (!holds(&i, &o, TINY_ERR_NOT_READY))
            return 1;
        for (int n = 0; n < 4; n++) {
            fesetround(modes[n]);
    #ifdef __SSE__
            const unsigned mode = __builtin_ia32_stmxcsr() | 0x8040u; /* denormals are flushed, and taken for zero */
            __builtin_ia32_ldmxcsr(mode);
    #endif
            if (tiny_init(&ctx, workspace, sizeof workspace) != TINY_OK)
                return 2;
            if (!holds(&none, &o, TINY_ERR_NULL) || !holds(&odd, &o, TINY_ERR_TENSOR_ALIGN) ||
                !holds(&inside, &o, TINY_ERR_TENSOR_OVERLAP))
                return 3;
            feraiseexcept(FE_DIVBYZERO);
            if (tiny_run(&ctx, &i, &o) != TINY_OK)
                return 4;
            if (fegetround() != modes[n] || fetestexcept(FE_DIVBYZERO) == 0)
                return 5;
    #ifdef __SSE__
            if (((__builtin_ia32_stmxcsr() ^ mode) & ~0x3Fu) != 0)
                return 6;
    #endif
        }
        return 0;
    }
"""


@pytest.mark.parametrize("compiler", ["gcc", "clang-19"])
def test_errors_leave_outputs_and_runs_leave_the_floating_point_environment(tmp_path: Path, compiler: str) -> None:
    sample.emit(tmp_path / "p", measure=False)
    make(tmp_path / "p", "lib", f"CC={compiler}")
    (tmp_path / "main.c").write_text(PROMISES, encoding="ascii")
    command = [compiler, "-std=gnu11", "-DTINY_NO_ATTRIBUTES", "-Ip/include", "main.c", "p/lib/libtiny.a", "-lm"]
    subprocess.run([*command, "-o", "app"], cwd=tmp_path, check=True)
    assert subprocess.run([str(tmp_path / "app")], check=False).returncode == 0


def test_the_header_states_what_it_promises(tmp_path: Path) -> None:
    sample.emit(tmp_path / "p", measure=False)
    header = (tmp_path / "p/include/tiny.h").read_text(encoding="ascii")
    told = " ".join(header.replace("\n *", " ").split())
    assert "Indices: indices that are data (Gather, Scatter and their kin) are clamped to their axis" in told
    assert "the outputs hold what they held before" in told
    assert "The library changes neither rounding mode nor flushing of denormals" in told
    assert "TINY_NO_PROFILER leaves out" in told


def test_header_and_readme_say_which_output_has_rows_of_minus_one(tmp_path: Path) -> None:
    model, made, goldens = sample.copies([("int64", (6, 3)), ("float32", (5,))])
    chosen, other = model.outputs
    model = replace(model, outputs=(replace(chosen, selection=True), other))
    sample.emit_copies(tmp_path / "p", model, made, goldens, measure=False)
    for file in ("include/copies.h", "README.md"):
        told = (tmp_path / "p" / file).read_text(encoding="utf-8").splitlines()
        (line,) = [line for line in told if "-1 in all rows after the selected ones" in line]
        assert chosen.name in line


@pytest.mark.parametrize(
    ("shape", "layout", "image", "axes"),
    [
        ((2, 8, 6, 5), "model", True, "N C H W"),
        ((2, 6, 5, 8), "channels_last", True, "N H W C"),
        ((2, 8, 6), "model", True, "N C W"),
        ((2, 8, 4, 6, 5), "model", True, "N C D H W"),
        ((2, 8, 6, 5), "model", False, "DIM0 DIM1 DIM2 DIM3"),
        ((7,), "model", False, "DIM0"),
        ((), "model", False, ""),
    ],
)
def test_every_axis_has_a_macro(tmp_path: Path, shape: tuple[int, ...], layout: Layout, image: bool, axes: str) -> None:
    model, made, goldens = sample.copies([("float32", shape)])
    model = replace(model, inputs=tuple(replace(spec, layout=layout, image=image) for spec in model.inputs))
    sample.emit_copies(tmp_path / "p", model, made, goldens, measure=False)
    header = (tmp_path / "p/include/copies.h").read_text(encoding="ascii")
    found = re.findall(r"#define COPIES_INPUT_IN_FLOAT32_(\w+) (\d+)u", header)
    named = [(name, int(value)) for name, value in found if name not in {"BYTES", "ELEMENTS"}]
    assert named == list(zip(axes.split(), shape, strict=True))
    subprocess.run(
        ["gcc", "-fsyntax-only", "-Wall", "-Werror", "-x", "c", "p/include/copies.h"], cwd=tmp_path, check=True
    )


def test_quantised_tensors_have_their_scale_and_zero_point(tmp_path: Path) -> None:
    """In macros, in words, in the manifest, and in the fingerprint; a tensor that is not quantised has none."""
    model, made, goldens = sample.copies([("int8", (2, 3)), ("uint8", (4,)), ("float32", (5,))])
    known = {"in int8": LinearQuantisation(0.5847029, 83), "out uint8": LinearQuantisation(2.0**-8, 0)}
    folders = {name: tmp_path / name for name in ("plain", "quantised", "other")}
    sample.emit_copies(folders["plain"], model, made, goldens, measure=False)
    sample.emit_copies(folders["quantised"], model.with_quantisation(known), made, goldens, measure=False)
    other = {name: replace(one, zero_point=-one.zero_point) for name, one in known.items()}
    sample.emit_copies(folders["other"], model.with_quantisation(other), made, goldens, measure=False)
    header = (folders["quantised"] / "include" / "copies.h").read_text()
    found = dict(re.findall(r"#define (COPIES_\w+_(?:SCALE|ZERO_POINT)) (.*)", header))
    assert found == {
        "COPIES_INPUT_IN_INT8_SCALE": "0.5847029f",
        "COPIES_INPUT_IN_INT8_ZERO_POINT": "83",
        "COPIES_OUTPUT_OUT_UINT8_SCALE": "0.00390625f",
        "COPIES_OUTPUT_OUT_UINT8_ZERO_POINT": "0",
    }
    assert "signed integer q that stands for (q - 83) * 0.5847029" in header
    assert "ZERO_POINT (-83)" in (folders["other"] / "include" / "copies.h").read_text()
    assert "_SCALE" not in (folders["plain"] / "include" / "copies.h").read_text()
    prints = {json.loads((folder / "MANIFEST.json").read_text())["abi"] for folder in folders.values()}
    assert len(prints) == len(folders)
    manifest = json.loads((folders["quantised"] / "MANIFEST.json").read_text())
    assert [tensor.get("zero_point") for tensor in manifest["inputs"]] == [83, None, None]
