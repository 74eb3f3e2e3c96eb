"""Python, the agent and the self-test of a package agree on every output: the same arrays, the same verdict."""

from __future__ import annotations

import ctypes
import subprocess
from pathlib import Path
from typing import NamedTuple

import ml_dtypes
import numpy as np
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from edgetune.boards.agent.build import agent_folder
from edgetune.boards.agent.messages import DTYPES
from edgetune.graph.accuracy import Tolerance, compare
from edgetune.graph.memory.plan import plan
from edgetune.package.emit import emit_package
from edgetune.package.golden import GoldenCases
from edgetune.package.inputs import CompiledModel, Device, PackageOptions
from edgetune.package.program_image import ProgramImage, Real
from edgetune.verify.verify import _LINE, difference
from tests import package_sample

WARNINGS = ("-std=gnu11", "-Wall", "-Wextra", "-Wconversion", "-Wdouble-promotion", "-Wshadow", "-Werror")
SELFTEST = """
#include <stdarg.h>
#include <stdio.h>

static char line[1024];
static int used;

static int __attribute__((format(printf, 1, 2))) note(const char *format, ...)
{
    va_list list;
    va_start(list, format);
    used += vsnprintf(line + used, sizeof line - (size_t)used, format, list);
    va_end(list);
    return used;
}

#define printf note
#define main selftest
#include "tiny_selftest.c"

int verdict(int type, const void *output, const void *reference, size_t elements, struct tolerance tolerance);
const char *report(void);

int verdict(int type, const void *output, const void *reference, size_t elements, struct tolerance tolerance)
{
    const tensor t = {"y", elements, (enum element_type)type, tolerance};

    used = 0;
    return near_enough(&t, output, reference, 0, 0);
}

const char *report(void)
{
    return line;
}
"""


class Doubles(ctypes.Structure):
    _fields_ = [(name, ctypes.c_double) for name in ("relative", "absolute", "share")]


class Floats(ctypes.Structure):
    _fields_ = [(name, ctypes.c_float) for name in ("relative", "absolute", "share")]


class Found(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_double) for name in ("absolute", "relative", "bound")),
        ("allowed", ctypes.c_bool),
    ]


class Compiled(NamedTuple):
    """The rule in C, as the agent has it, and the self-tests that compare in double and in float."""

    agent: ctypes.CDLL
    double: ctypes.CDLL
    float: ctypes.CDLL


def library(compiler: str, folder: Path, *words: str) -> ctypes.CDLL:
    command = [compiler, *WARNINGS, "-O2", "-fPIC", "-shared", "-o", "rule.so", *words]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return ctypes.CDLL(str(folder / "rule.so"))


def selftest(compiler: str, folder: Path, real: Real) -> ctypes.CDLL:
    program = package_sample.program()
    made, origins = package_sample.sources("tiny"), package_sample.provenance()
    image = ProgramImage(programs=("selftest",), real=real)
    model = CompiledModel(program, made, origins, plan(program, {}), {}, "", image=image)
    options = PackageOptions(package_sample.FLAVOURS, measure=False)
    golden = GoldenCases(package_sample.goldens(program))
    emit_package(model, golden, Device(package_sample.generic_x86()), options, folder)
    (folder / "verdict.c").write_text(SELFTEST)
    paths = [f"-I{name}" for name in ("include", "src", "test")]
    sources = sorted(str(path) for path in (folder / "src").glob("*.c"))
    found = library(compiler, folder, *paths, "verdict.c", *sources, "-lm")
    tolerance = Doubles if real == "double" else Floats
    found.verdict.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, tolerance]
    found.report.restype = ctypes.c_char_p
    return found


@pytest.fixture(scope="module", params=["gcc", "clang-19"])
def compiled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Compiled:
    folder = tmp_path_factory.mktemp("rule")
    agent = library(request.param, folder, str(agent_folder() / "compare.c"))
    agent.compare.restype = Found
    agent.compare.argtypes = [ctypes.c_int, ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t, Doubles]
    flavours = (selftest(request.param, folder / real, real) for real in ("double", "float"))
    return Compiled(agent, *flavours)


ELEMENTS = {name: np.dtype(getattr(ml_dtypes, name, name)) for name in DTYPES}
SIZES = st.sampled_from([0.0, 1e-6, 1e-3, 0.5, 2.0])
TOLERANCES = st.builds(Tolerance, SIZES, SIZES, st.sampled_from([1.0, 0.5, 0.1, 0.0]))


@st.composite
def outputs(draw: st.DrawFn) -> tuple[np.ndarray, np.ndarray]:
    """An output and its reference: equal, near, or unrelated in places."""
    dtype = ELEMENTS[draw(st.sampled_from(sorted(ELEMENTS)))]
    drawn = np.dtype(np.uint16) if dtype == ml_dtypes.bfloat16 else dtype
    shape = draw(array_shapes(max_dims=2, max_side=6, min_side=0))
    reference = np.zeros(shape, dtype) if draw(st.booleans()) else draw(arrays(drawn, shape)).view(dtype)
    output = reference.copy()
    elements = output.reshape(-1)
    for _ in range(draw(st.integers(0, 3)) if output.size else 0):
        index = draw(st.integers(0, output.size - 1))
        if draw(st.booleans()):
            elements[index] = draw(arrays(drawn, 1)).view(dtype)[0]
        else:  # an adjacent value, or any byte of a bool
            elements.view(f"u{dtype.itemsize}")[index] ^= draw(st.sampled_from([1, 2, 3]))
    if dtype.kind not in "biu" and draw(st.booleans()):
        with np.errstate(over="ignore", invalid="ignore"):
            output = (output * dtype.type(1.001)).astype(dtype)
    return output, reference


def pair(dtype: str, output: list[float], reference: list[float]) -> tuple[np.ndarray, np.ndarray]:
    return np.array(output, ELEMENTS[dtype]), np.array(reference, ELEMENTS[dtype])


HUGE = pair("int64", [2**53 + 1, -(2**63)], [2**53, 2**63 - 1])
NEIGHBOURS = pair("uint64", [2**64 - 1, 2**53 + 1], [2**64 - 2, 2**53])
SPECIAL = pair("float32", [np.nan, np.inf, -np.inf], [np.nan, np.inf, -np.inf])
SIGNALLING, QUIET = (np.array([bits], np.uint16).view(ml_dtypes.bfloat16) for bits in (0x7F81, 0x7FC0))
OPPOSITE = pair("float64", [np.inf, 1.7e308], [-np.inf, -1.7e308])


@pytest.mark.long
@given(outputs(), TOLERANCES)
@example(HUGE, Tolerance())
@example(NEIGHBOURS, Tolerance(absolute=1.0))
@example(SPECIAL, Tolerance())
@example(pair("float32", [1.0, np.nan], [1.0, 2.0]), Tolerance(relative=0.5))
@example(pair("float32", [1.0, 2.0], [1.0, np.nan]), Tolerance(relative=0.5))
@example(pair("int8", [1, 2, 3], [1, 2, 4]), Tolerance(absolute=1.0, share=0.0))
@example(pair("int8", [1, 3, 3], [1, 2, 4]), Tolerance(absolute=1.0, share=0.5))
@example((SIGNALLING, QUIET), Tolerance())
@example(OPPOSITE, Tolerance(relative=2.0))
@example(pair("float32", [1e-5, 0.0], [0.0, -0.0]), Tolerance(relative=1e-4, share=0.0))
def test_the_verdict_is_the_same_everywhere(
    compiled: Compiled, arrays: tuple[np.ndarray, np.ndarray], tolerance: Tolerance
) -> None:
    output, reference = arrays
    wanted = compare(output, reference, tolerance)
    allowed = (tolerance.relative, tolerance.absolute, tolerance.share)
    kind, places = DTYPES[reference.dtype.name], (output.ctypes.data, reference.ctypes.data)

    found = compiled.agent.compare(kind, *places, reference.nbytes, Doubles(*allowed))
    assert (found.allowed, found.absolute, found.relative) == (wanted.allowed, wanted.absolute, wanted.relative)

    assert compiled.double.verdict(kind, *places, reference.size, Doubles(*allowed)) == wanted.allowed
    line = _LINE.match(compiled.double.report().decode())
    expected = difference(output, reference, tolerance)
    assert line is not None
    assert [float(line[name]) for name in ("abs", "rel", "ulp", "bound")] == pytest.approx(
        [wanted.absolute, wanted.relative, expected.ulp, wanted.bound], rel=1e-8
    )
    assert float(line["share"]) == pytest.approx(expected.differing, abs=1e-6)


@pytest.mark.long
@given(outputs(), TOLERANCES)
@example(HUGE, Tolerance())
@example(NEIGHBOURS, Tolerance())
@example(SPECIAL, Tolerance())
@example(pair("float32", [1.0, np.nan], [1.0, 2.0]), Tolerance(relative=0.5))
@example(pair("float32", [1.0, 2.0], [1.0, np.nan]), Tolerance(relative=0.5))
@example(pair("int8", [1, 2, 3], [1, 2, 4]), Tolerance(absolute=1.0, share=0.0))
@example(pair("int8", [1, 3, 3], [1, 2, 4]), Tolerance(absolute=1.0, share=0.5))
@example(pair("float32", [3e38], [-3e38]), Tolerance(relative=0.5))
def test_float_suffices_for_the_verdict(
    compiled: Compiled, arrays: tuple[np.ndarray, np.ndarray], tolerance: Tolerance
) -> None:
    """Within its rounding, and as long as neither a bound nor the largest value leaves the range of float."""
    output, reference = arrays
    values = np.abs(reference.astype(np.float64))
    largest = float(np.max(values, initial=0.0, where=np.isfinite(values)))
    assume(reference.dtype != np.float64 and tolerance.relative < 1 and (largest == 0 or largest > 1e-30))
    strict, lenient = (
        Tolerance(tolerance.relative * factor, tolerance.absolute * factor, min(1.0, tolerance.share * factor))
        for factor in (1 - 1e-6, 1 + 1e-6)
    )
    allowed = Floats(tolerance.relative, tolerance.absolute, tolerance.share)
    places = (output.ctypes.data, reference.ctypes.data)
    found = bool(compiled.float.verdict(DTYPES[reference.dtype.name], *places, reference.size, allowed))
    assert compare(output, reference, strict).allowed <= found <= compare(output, reference, lenient).allowed


@pytest.mark.long
def test_halves_are_read_exactly(compiled: Compiled) -> None:
    for dtype in ("float16", "bfloat16"):
        every = np.arange(1 << 16, dtype=np.uint16).view(ELEMENTS[dtype])
        zero = np.zeros(1, every.dtype)
        with np.errstate(invalid="ignore"):
            finite = every[np.isfinite(every)]
        for half in finite:
            output = np.array([half])
            places = (output.ctypes.data, zero.ctypes.data)
            found = compiled.agent.compare(DTYPES[dtype], *places, 2, Doubles(0, 0, 1))
            assert found.absolute == abs(float(half))
