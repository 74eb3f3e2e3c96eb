"""Dot products: sums of products of neighbouring narrow integers become calls of one instruction, and mean the same."""

from __future__ import annotations

import re
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tvm import te
from tvm.s_tir import Schedule

from edgetune.codegen import KernelSource, emit_kernel
from edgetune.target.target import Target, load_target
from edgetune.tvm_types import PrimFunc
from tests.codegen_run import SANITIZERS, compile_strictly, plain_core, run_kernel, wide_target
from tests.sketch_samples import prim_func, run_plain

ROWS, GROUPS, RESULTS = 6, 5, 32


def product(x_type: str, w_type: str, count: int, *, turned: bool = False, as_type: str = "") -> PrimFunc:
    """A matrix product whose weights lie [group][result][number in the group]; `turned`: their numbers backwards.

    `as_type`: the bits of x are taken as numbers of that type.
    """
    x = te.placeholder((ROWS, count * GROUPS), x_type, "x")
    w = te.placeholder((GROUPS, RESULTS, count), w_type, "w")
    k = te.reduce_axis((0, GROUPS), "k")

    def term(i: te.Var, o: te.Var, n: int) -> Any:
        own = count - 1 - n if turned else n
        number = x[i, k * count + n]
        number = number.astype(as_type) if as_type else number
        return number.astype("int32") * w[k, o, own].astype("int32")

    def sums(i: te.Var, o: te.Var) -> Any:
        return te.sum(reduce(lambda a, b: a + b, (term(i, o, n) for n in range(count))), axis=k)

    return prim_func([x, w], te.compute((ROWS, RESULTS), sums, "y"))


def printed(function: PrimFunc, target: Target, lanes: int) -> KernelSource:
    """With three rows and all results of them in registers."""
    sch = Schedule(function)
    block = sch.get_sblock("y")
    sums = sch.cache_write(block, 0, "local")
    i, o, k = sch.get_loops(block)
    outer, rows = sch.split(i, [None, 3])
    vectors, lane = sch.split(o, [None, lanes])
    sch.reorder(outer, k, rows, vectors, lane)
    sch.reverse_compute_at(sums, outer)
    for loop in (rows, vectors):
        sch.unroll(loop)
    sch.vectorize(lane)
    sch.decompose_reduction(block, k)
    *_, last = sch.get_loops(sums)
    sch.vectorize(sch.split(last, [None, lanes])[-1])
    for loop in sch.get_loops(sums)[1:-1]:
        sch.unroll(loop)
    return emit_kernel(sch.mod, target, "k")


def extremes(function: PrimFunc, seed: int = 1) -> list[np.ndarray]:
    """Numbers of all their range, many of them the least or the greatest."""
    generator, arrays = np.random.default_rng(seed), []
    for param in function.params:
        shape, dtype = tuple(int(e) for e in param.ty.shape), np.dtype(str(param.ty.dtype))
        ends = np.iinfo(dtype)
        drawn = generator.integers(ends.min, ends.max, shape, dtype, endpoint=True)
        extreme = generator.choice([ends.min, ends.max], shape).astype(dtype)
        arrays.append(np.where(generator.random(shape) < 0.3, extreme, drawn))
    return arrays


CASES = [
    ("generic-x86_64", 128, "int16", "int16", 2),
    ("host", 256, "int16", "int16", 2),
    ("host", 256, "uint8", "int8", 4),
    ("host", 512, "uint8", "int8", 4),
    ("rpi5", 128, "int8", "int8", 4),
    ("rpi5", 128, "uint8", "uint8", 4),
    ("rpi4", 128, "int8", "int8", 4),
    ("rpi4", 128, "int8", "int8", 2),
    ("qemu-armv7", 128, "int8", "int8", 2),
    ("armv8.6", 128, "uint8", "int8", 4),
    ("host", 128, "int16", "int8", 2),
    ("host", 256, "int16", "int8", 2),
    ("host", 512, "int16", "int8", 2),
]


def armv8_6() -> Target:
    """An emulated core with products of bytes of which one has no sign."""
    board = load_target("rpi5")
    flags = tuple(flag for flag in board.compiler.cflags if not flag.startswith("-mcpu"))
    compiler = board.compiler.model_copy(update={"cflags": (*flags, "-march=armv8.2-a+dotprod+i8mm")})
    emulator = tuple("max" if word == "cortex-a76" else word for word in board.emulator)
    return board.model_copy(update={"compiler": compiler, "emulator": emulator})


@pytest.mark.parametrize(("name", "bits", "x", "w", "count"), CASES)
def test_sums_are_exact_whether_the_core_has_the_instruction_or_not(
    name: str, bits: int, x: str, w: str, count: int, tmp_path: Path
) -> None:
    target = {"host": lambda: wide_target(bits), "armv8.6": armv8_6}.get(name, lambda: load_target(name))()
    function = product(x, w, count)
    source = printed(function, target, bits // 32)
    assert source.definition.count("@dot_") == 3 * RESULTS // (bits // 32)
    arrays = extremes(function)
    found = run_kernel(source, target, arrays, tmp_path, extra=() if target.emulator else SANITIZERS)[-1]
    np.testing.assert_array_equal(found, run_plain(function, arrays))


@pytest.mark.parametrize(
    ("flag", "bits", "types", "mnemonic"),
    [
        ("-mavx512vnni -mavx512vl -mavx512bw", 512, ("uint8", "int8", 4), "vpdpbusd"),
        ("-mavxvnni", 256, ("uint8", "int8", 4), "vpdpbusd"),
        ("-mavx2", 256, ("int16", "int16", 2), "vpmaddwd"),
        ("-mavx2", 256, ("int16", "int8", 2), "vpmaddwd"),
        ("-mavx512bw -mavx512vl", 512, ("int16", "int8", 2), "vpmaddwd"),
        ("-mavx512vnni -mavx512vl -mavx512bw", 256, ("int16", "int8", 2), "vpdpwssd"),
        ("-mavx512vnni -mavx512vl -mavx512bw", 512, ("int16", "int8", 2), "vpdpwssd"),
    ],
)
@pytest.mark.parametrize("cc", ["gcc", "clang-19"])
def test_compilers_make_one_instruction_of_each(
    flag: str, bits: int, types: tuple[str, str, int], mnemonic: str, cc: str, tmp_path: Path
) -> None:
    target = plain_core(bits)
    assembly = compile_strictly(printed(product(*types), target, bits // 32), target, tmp_path, cc, flag.split())
    assert len(re.findall(rf"\b{mnemonic}\t", assembly)) >= 3 * RESULTS // (bits // 32)


@pytest.mark.parametrize(
    "function",
    [
        product("uint8", "int8", 4, turned=True),
        product("int8", "uint8", 4),
        product("int8", "int8", 4, as_type="uint8"),
    ],
    ids=["another order", "signs that no instruction has", "another sign"],
)
def test_other_sums_stay(function: PrimFunc) -> None:
    for target, lanes in ((wide_target(256), 8), (load_target("rpi5"), 4)):
        assert "@dot_" not in printed(function, target, lanes).definition
