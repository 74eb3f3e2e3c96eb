"""Names decide nothing: renamed stages and tensors change the names in a kernel's C, and nothing else."""

from __future__ import annotations

import re
from random import Random
from typing import Any

import pytest
import tvm_ffi
from tvm import ir, s_tir, te

from benchmarks.oracle.c_text import normal_form
from benchmarks.oracle.corpus import LISTS
from benchmarks.oracle.facts import target_of
from benchmarks.search.cases import expression_named, names_of
from benchmarks.search.expression import Expression
from edgetune.frontend.tensor_expression import kernel as front
from edgetune.graph.reduction_stage import with_fields
from edgetune.pipeline.link import print_kernels
from edgetune.pipeline.select import choose
from edgetune.tvm_types import PrimFunc, SBlock, TvmBuffer

QUICK = ("new_nine_points", "odd_wide", "new_squash", "new_sobel")
EVERY = tuple(dict.fromkeys(name for one in LISTS for name in names_of(one)))
ENDS = ("parts", "lines", "columns", "rows", "copy", "lanes", "wide", "rest", "scales", "cse_v1", "terms", "sqrt")
"""Words that some pass or other ends a name with."""

CLEARED = re.compile(r"(?:\w+\s=\s+)+(?:\(\w+\)\{0\}|0\.0f?);")


def renamed(function: PrimFunc, random: Random) -> PrimFunc:
    """An unscheduled function with new names for its stages and tensors: a word that is no other's, and an ending."""
    numbers = iter(random.sample(range(10_000), 2_000))

    def new() -> str:
        return f"t{next(numbers)}q_{random.choice(ENDS)}"

    root = function.body.block
    tensors = [*function.params, *root.alloc_buffers]
    names: dict[TvmBuffer, TvmBuffer] = {old: ir.Var(new(), old.ty) for old in tensors}

    def stage(block: SBlock) -> SBlock:
        return with_fields(block, name_hint=new()) if len(block.iter_vars) or block.name_hint != "root" else block

    changes = [(ir.Var, lambda one: names.get(one, one)), (s_tir.SBlock, stage)]
    return tvm_ffi.structural_map(function, changes, order="post")


def in_c(case: Expression, width: int) -> list[str]:
    """The kernels of an expression for vectors of `width` bits."""
    target = target_of(width)
    inputs = {name: (shape, "float32") for name, shape in case.inputs.items()}
    program = front.program_from_te(case.compute, inputs, case.values(case.constants), case.name)
    choices = choose(program, target, None, lambda _: None)
    printed = print_kernels(program, choices, target, "names", lambda _: None).kernels
    return [CLEARED.sub(one_by_one, kernel.source.definition) for kernel in printed]


def one_by_one(chain: re.Match[str]) -> str:
    """`a = 0; b = 0;` for `a = b = 0;`: how many registers a line clears depends on the lengths of their names."""
    *names, zero = re.split(r"\s=\s+", chain[0].strip().removesuffix(";"))
    return " ".join(f"{name} = {zero};" for name in names)


@pytest.mark.parametrize("width", [0, 128, 512])
@pytest.mark.parametrize(
    "name", [*QUICK, *(pytest.param(name, marks=pytest.mark.long) for name in EVERY if name not in QUICK)]
)
def test_other_names_change_names_alone(name: str, width: int, monkeypatch: pytest.MonkeyPatch) -> None:
    case = expression_named(name)
    plain = in_c(case, width)
    create, random = te.create_prim_func, Random(f"{name} {width}")  # noqa: S311 - no secret

    def create_renamed(tensors: Any) -> PrimFunc:
        return renamed(create(tensors), random)

    monkeypatch.setattr(te, "create_prim_func", create_renamed)
    other = in_c(case, width)
    assert plain != other, "the names are not in the text, so that nothing was tested"
    assert len(plain) == len(other)
    assert [*map(normal_form, plain)] == [*map(normal_form, other)]
