"""A hand-made program of three kernels, so that packages can be tested without a search or a printer."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
from tvm import te, tirx

from edgetune.codegen.kernel_source import CParam, KernelSource
from edgetune.graph.memory.plan import plan
from edgetune.graph.program import Buffer, Call, Kernel, Param, Program, StateSpec, TensorSpec
from edgetune.package import ctext
from edgetune.package.emit import OnEvent, PackageSummary, emit_package
from edgetune.package.flavours.cmake import CMAKE
from edgetune.package.flavours.make import MAKE
from edgetune.package.golden import Golden, GoldenCases, OutputTolerance
from edgetune.package.ident import kernel_symbol, package_prefix
from edgetune.package.inputs import CompiledModel, Device, PackageOptions
from edgetune.package.provenance import KernelProvenance
from edgetune.target.preferences import Io
from edgetune.target.target import Compiler, Target, load_target

SHA = "ab" * 32
FLAVOURS = (MAKE, CMAKE)
HOSTILE = 'in*/put "0"\n\\ ??/ %s'

NOTHING = tirx.PrimFunc([], tirx.Evaluate(0))
"""The function of kernels whose C is written here."""


def generic_x86() -> Target:
    """A target whose facts do not depend on the machine that runs the tests."""
    return Target(
        name="plain-x86",
        description="any 64-bit PC",
        isa="x86_64",
        triple="x86_64-linux-gnu",
        cpu="x86-64",
        vector_bits=128,
        vector_registers=16,
        cores=2,
        l1_bytes=32768,
        l2_bytes=262144,
        compiler=Compiler(cc="gcc", cxx="g++", cflags=("-O2", "-msse2")),
        reach="local",
        cpu_checks=("sse2",),
    )


def program(name: str = "tiny", width: int = 8, input_name: str = "x", output_name: str = "y") -> Program:
    """Scale-and-shift by a weight vector (called twice), then a sum with the input: 4 x width floats."""
    shape = (4, width)
    one, other = (te.placeholder(shape, "float32", name=word) for word in "ab")
    scale = Kernel(
        "scale_add",
        "11" * 32,
        NOTHING,
        (
            Param("a", shape, "float32", "input"),
            Param("w", (width,), "float32", "constant"),
            Param("out", shape, "float32", "output"),
        ),
        ("Mul */ one", "Add"),
        4 * width,
        2,
    )
    total = Kernel(
        "add",
        "22" * 32,
        te.create_prim_func([one, other, te.compute(shape, lambda *i: one(*i) + other(*i), name="out")]),
        (
            Param("a", shape, "float32", "input"),
            Param("b", shape, "float32", "input"),
            Param("out", shape, "float32", "output"),
        ),
        ("Add",),
        0,
        1,
    )
    weight = np.linspace(-1.5, 2.25, width, dtype=np.float32)
    return Program(
        name=name,
        inputs=(TensorSpec(input_name, shape, "float32"),),
        outputs=(TensorSpec(output_name, shape, "float32"),),
        buffers=(
            Buffer(0, input_name, shape, "float32", "input"),
            Buffer(1, "w0", (width,), "float32", "constant"),
            Buffer(2, "t0", shape, "float32", "intermediate"),
            Buffer(3, "w1", (width,), "float32", "constant"),
            Buffer(4, "t1", shape, "float32", "intermediate"),
            Buffer(5, output_name, shape, "float32", "output"),
        ),
        kernels=(scale, total),
        calls=(
            Call(0, (0, 1, 2), "Mul */ one + Add"),
            Call(0, (2, 3, 4), "second\nscale"),
            Call(1, (4, 0, 5), "Add"),
        ),
        constants={1: weight, 3: weight[::-1].copy()},
        model_sha256=SHA,
    )


def sources(prefix: str, width: int = 8, scratch: int = 0) -> list[KernelSource]:
    """C of the two kernels; with `scratch` the first one goes through its scratch memory."""
    scale, add = kernel_symbol(prefix, "scale_add"), kernel_symbol(prefix, "add")
    shape = (4, width)
    count = 4 * width
    more = ", unsigned char *restrict scratch" if scratch else ""
    head = f"void {scale}(const float *restrict a, const float *restrict w, float *restrict out{more})"
    body = f"out[i] = a[i] * w[i % {width}] + 0.5f;"
    if scratch:
        place = "((float *)(void *)scratch)[i % 4]"
        body = f"{place} = a[i] * w[i % {width}]; out[i] = {place} + 0.5f;"
    total = f"void {add}(const float *restrict a, const float *restrict b, float *restrict out)"

    def loop(text: str) -> str:
        return f"{{\n    for (int i = 0; i < {count}; i++) {{\n        {text}\n    }}\n}}\n"

    def param(name: str, extent: tuple[int, ...], writable: bool = False) -> CParam:
        return CParam(name, "float", extent, "float32", writable, 4)

    return [
        KernelSource(
            scale,
            head,
            f"{head}\n{loop(body)}",
            frozenset(),
            (param("a", shape), param("w", (width,)), param("out", shape, writable=True)),
            scratch,
            0,
            floats=True,
        ),
        KernelSource(
            add,
            total,
            f"{total}\n{loop('out[i] = a[i] + b[i];')}",
            frozenset(),
            (param("a", shape), param("b", shape), param("out", shape, writable=True)),
            0,
            0,
            floats=True,
        ),
    ]


def goldens(model: Program, cases: int = 3) -> list[Golden]:
    """Inputs from a fixed seed, outputs computed by numpy."""
    random = np.random.default_rng(7)
    made = []
    for _ in range(cases):
        x = random.standard_normal(model.inputs[0].shape).astype(np.float32)
        half = np.float32(0.5)
        y = (x * model.constants[1] + half) * model.constants[3] + half + x
        made.append(Golden({model.inputs[0].name: x}, {model.outputs[0].name: y}))
    return made


def provenance() -> list[KernelProvenance]:
    """One kernel from a record, one from the fixed schedule."""
    return [
        KernelProvenance(
            workload="11" * 32,
            origin="record",
            board="bench-1",
            record="17",
            trace_sha256="cd" * 32,
            median_us=1.25,
            low_us=1.2,
            high_us=1.3,
            samples=30,
            candidates=12,
            codegen_version=1,
            toolchain="gcc-12.2.0",
            schedule="vectorize(i, 8)",
            why="fastest median of 12 correct candidates",
        ),
        KernelProvenance(workload="22" * 32, origin="fixed", why="no record for this workload"),
    ]


def compiled(program: Program, made: list[KernelSource], origins: list[KernelProvenance], **more: Any) -> CompiledModel:
    """A hand-made program with its kernels; `more` are fields of `CompiledModel`."""
    return CompiledModel(program, made, origins, **{"plan": plan(program, {}), **more})


def write(
    model: CompiledModel,
    cases: list[Golden],
    out: Path,
    *,
    device: Device | None = None,
    reference: str = "",
    tolerances: Mapping[str, OutputTolerance] = MappingProxyType({}),
    on_event: OnEvent | None = None,
    **options: Any,
) -> PackageSummary:
    """Emit a package of a hand-made program; `options` are those of `PackageOptions`."""
    golden, device = GoldenCases(cases, reference, tolerances), device or Device(generic_x86())
    return emit_package(model, golden, device, PackageOptions(FLAVOURS, **options), out, on_event=on_event)


def emit(  # noqa: PLR0913  each is a fact of the sample
    out: Path,
    *,
    name: str = "tiny",
    width: int = 8,
    scratch: int = 0,
    target: Target | None = None,
    flash_limit: int | None = None,
    ends: tuple[str, str] = ("x", "y"),
    origins: list[KernelProvenance] | None = None,
    io: Io = "caller",
    **options: Any,
) -> PackageSummary:
    """Emit the sample as a package."""
    model = program(name, width, *ends).with_io(io)
    made = sources(package_prefix(name), width, scratch)
    layout = plan(model, {0: scratch} if scratch else {})
    device = Device(target or generic_x86(), flash=flash_limit)
    whole = compiled(model, made, origins or provenance(), plan=layout)
    return write(whole, goldens(model), out, device=device, **options)


def copies(
    tensors: list[tuple[str, tuple[int, ...]]], *, inputs: bool = True
) -> tuple[Program, list[KernelSource], list[Golden]]:
    """A program that copies one tensor per (dtype, shape) to an output, from an input or else from a constant."""
    random = np.random.default_rng(11)
    specs, buffers, kernels, calls, made = [], [], [], [], []
    constants: dict[int, np.ndarray] = {}
    for number, (dtype, shape) in enumerate(tensors):
        source, target = 2 * number, 2 * number + 1
        specs.append((TensorSpec(f"in {dtype}", shape, dtype), TensorSpec(f"out {dtype}", shape, dtype)))
        buffers.append(Buffer(source, f"in {dtype}", shape, dtype, "input" if inputs else "constant"))
        buffers.append(Buffer(target, f"out {dtype}", shape, dtype, "output"))
        if not inputs:
            constants[source] = _values(random, dtype, shape)
        params = (
            Param("a", shape, dtype, "input" if inputs else "constant"),
            Param("b", shape, dtype, "output"),
        )
        kernels.append(Kernel(f"copy_{number}", "33" * 32, NOTHING, params, ("Identity",), 0, 1))
        calls.append(Call(number, (source, target), "Identity"))
        c_type = {"float16": "_Float16"}.get(dtype, ctext.c_type(dtype))
        symbol = kernel_symbol("copies", f"copy_{number}")
        head = f"void {symbol}(const {c_type} *restrict a, {c_type} *restrict b)"
        body = f"{{\n    __builtin_memcpy(b, a, {specs[-1][0].nbytes});\n}}\n"
        item = np.dtype(dtype).itemsize
        ends = (CParam("a", c_type, shape, dtype, False, item), CParam("b", c_type, shape, dtype, True, item))
        floats = dtype.startswith("float")
        made.append(KernelSource(symbol, head, f"{head}\n{body}", frozenset(), ends, 0, 0, floats=floats))
    model = Program(
        name="copies",
        inputs=tuple(one for one, _ in specs) if inputs else (),
        outputs=tuple(other for _, other in specs),
        buffers=tuple(buffers),
        kernels=tuple(kernels),
        calls=tuple(calls),
        constants=constants,
        model_sha256=SHA,
    )
    cases = []
    for _ in range(3):
        arrays = constants.values() if not inputs else [_values(random, dtype, shape) for dtype, shape in tensors]
        given = {spec.name: array for (spec, _), array in zip(specs, arrays, strict=True)} if inputs else {}
        cases.append(Golden(given, {spec.name: array for (_, spec), array in zip(specs, arrays, strict=True)}))
    return model, made, cases


def _values(random: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    if dtype.startswith("float"):
        return np.asarray(random.standard_normal(shape)).astype(dtype)
    if dtype == "bool":
        return np.asarray(random.integers(0, 2, shape)).astype(dtype)
    info = np.iinfo(dtype)
    return np.asarray(random.integers(info.min, info.max, shape, dtype=dtype, endpoint=True))


def arm(name: str) -> Target:
    """A shipped ARM target."""
    return load_target(name)


def emit_copies(
    folder: Path, program: Program, made: list[KernelSource], goldens: list[Golden], *, measure: bool = True
) -> None:
    """Write the package of what `copies` made, for any x86-64."""
    origins = [KernelProvenance("33" * 32, "fixed")] * len(made)
    write(compiled(program, made, origins), goldens, folder, measure=measure)


def keeping(zero: int = 0) -> tuple[Program, list[Golden]]:
    """A program that keeps a state: y is x and the state, which becomes y scaled and shifted; and two sequences."""
    plain = program("keeping")
    shape = plain.inputs[0].shape
    model = replace(
        plain,
        buffers=(
            *plain.buffers[:2],
            Buffer(2, "h", shape, "float32", "state"),
            replace(plain.buffers[5], id=3),
        ),
        calls=(Call(1, (0, 2, 3), "Add"), Call(0, (3, 1, 2), "Scale")),
        constants={1: plain.constants[1]},
        states=(StateSpec("h", "h_next", shape, "float32", zero=zero, buffer=2),),
    )
    random = np.random.default_rng(7)
    cases: list[Golden] = []
    for number in range(5):
        goes_on = number not in {0, 3}
        h = cases[-1].outputs["h_next"] if goes_on else model.states[0].first
        x = random.standard_normal(shape).astype(np.float32)
        after = (x + h) * model.constants[1] + np.float32(0.5)
        cases.append(Golden({"x": x, "h": h}, {"y": x + h, "h_next": after}, goes_on))
    return model, cases


def emit_keeping(out: Path, zero: int = 0, io: Io = "caller", **options: Any) -> PackageSummary:
    """Emit the program with a state as a package."""
    model, cases = keeping(zero)
    return write(compiled(model.with_io(io), sources("keeping"), provenance()), cases, out, **options)
