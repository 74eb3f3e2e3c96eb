"""Arithmetic operations of a kernel as its definition has them, and bytes of its tensors: the two sides of a roofline.

A multiply-add is two operations. A function such as `exp` counts as the operations of our polynomial for it.
"""

from __future__ import annotations

import re
from functools import cache
from math import prod

import tvm_ffi
from tvm import ir, s_tir, tirx

from edgetune.affine.expressions import operands
from edgetune.codegen.dtypes import element_and_lanes
from edgetune.codegen.polynomials import BODIES, NEEDS
from edgetune.codegen.powers import exponent_of
from edgetune.codegen.traverse import children, expressions
from edgetune.tvm_types import Expr, PrimFunc, Stmt, TvmBuffer

_COUNTED = (tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Max, tirx.Min, tirx.FloorDiv, tirx.FloorMod)
_BRANCH = "if_then_else"


@cache
def polynomial_operations(name: str) -> int:
    """Operations of our polynomial for the function `name` where its result is a normal number; 1 for any other."""
    text = BODIES.get("exp_in_range" if name == "exp" else name)
    if text is None:
        return polynomial_operations("exp") + polynomial_operations("log") + 1 if name == "pow" else 1
    own = len(re.findall(r" [-+*/] ", text)) + text.count("SCALE(")
    return own + (polynomial_operations(NEEDS[name].removesuffix("_in_range")) if name in NEEDS else 0)


def operations(function: PrimFunc, stage: str = "") -> int:
    """Operations of one call of an unscheduled function, without those of indices and conditions.

    With `stage`, only those of the block of that name.
    """
    root = function.body.block.body if stage and isinstance(function.body, s_tir.SBlockRealize) else function.body
    return _of_statement(root, 1, stage)


def tensor_bytes(function: PrimFunc) -> int:
    """Bytes of the function's tensors, each once; of a tensor that is read at computed places, what its readers write.

    Such a place depends on the value of another tensor, as in a lookup table.
    """
    sizes = [_size(buffer) for buffer in function.params]
    stored: dict[int, int] = {}

    def visit(block: s_tir.SBlock) -> None:
        written = max((_size(region.source) for region in block.writes), default=0)

        def look(load: ir.TensorLoad) -> None:
            if not any(_loads(index) for index in load.indices):
                return
            for number, buffer in enumerate(function.params):
                if buffer.same_as(load.source):
                    stored[number] = stored.get(number, 0) + written

        tvm_ffi.structural_walk(block.body, (ir.TensorLoad, look))

    tvm_ffi.structural_walk(function.body, (s_tir.SBlock, visit))
    return sum(min(size, stored.get(number, size)) for number, size in enumerate(sizes))


def _of_statement(node: Stmt, times: int, stage: str) -> int:
    if isinstance(node, s_tir.SBlockRealize):
        return 0 if stage and node.block.name_hint != stage else _of_statement(node.block.body, times, "")
    if isinstance(node, tirx.For):
        inside = times * int(node.extent) if isinstance(node.extent, tirx.IntImm) else times
        return _of_statement(node.body, inside, stage)
    if isinstance(node, tirx.IfThenElse):
        return max(_of_statement(child, times, stage) for child in children(node))
    if isinstance(node, (tirx.BufferStore, tirx.Bind)):
        return times * sum(_of_value(value) for value in expressions(node))
    return sum(_of_statement(child, times, stage) for child in children(node))


def _of_value(node: Expr) -> int:
    """Operations of a value; of a choice, those of its longer branch."""
    if isinstance(node, ir.TensorLoad):
        return 0
    if isinstance(node, tirx.Select):
        return max(_of_value(node.true_value), _of_value(node.false_value))
    own = int(isinstance(node, _COUNTED))
    if isinstance(node, ir.Call):
        name = str(getattr(node.op, "name", "")).rpartition(".")[2]
        if name == _BRANCH:
            return max(_of_value(branch) for branch in node.args[1:])
        own = 1 if name == "pow" and exponent_of(node) is not None else polynomial_operations(name)
    return own + sum(_of_value(operand) for operand in operands(node))


def _loads(node: Expr) -> bool:
    return isinstance(node, ir.TensorLoad) or any(_loads(operand) for operand in operands(node))


def _size(buffer: TvmBuffer) -> int:
    return prod(int(extent) for extent in buffer.shape) * element_and_lanes(buffer.ty.dtype)[0].bytes
