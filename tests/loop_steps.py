"""How often the statements and comparisons of a function of written loops run, counted while it runs."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import tvm_ffi
from tvm import tirx

from edgetune.graph.evaluate import evaluate
from edgetune.tvm_types import Expr, Node, PrimFunc, Stmt

_COMPARISONS = (tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.EQ, tirx.NE)


def stores_to(name: str) -> Callable[[Stmt], int]:
    """A weight: 1 for each store to the parameter of that name."""
    return lambda statement: int(isinstance(statement, tirx.BufferStore) and str(statement.buffer.name) == name)


def comparisons(statement: Stmt) -> int:
    """A weight: the comparisons of data, which is not int32, in a statement, without those in the statements in it."""
    found: list[Node] = []

    def compared(node: Expr) -> None:
        if str(node.a.ty.dtype) != "int32":
            found.append(node)

    own = statement.condition if isinstance(statement, tirx.IfThenElse) else getattr(statement, "value", None)
    if own is not None:
        tvm_ffi.structural_walk(own, (_COMPARISONS, compared))
    return len(found)


def counted(function: PrimFunc, weight: Callable[[Stmt], int], arguments: Sequence[np.ndarray]) -> int:
    """The sum of `weight` over all statements that run for `arguments`."""
    total = tirx.decl_buffer([tirx.IntImm("int32", 1)], "int64", "total")
    zero = [tirx.IntImm("int32", 0)]

    def count(statement: Stmt) -> Stmt:
        step = weight(statement)
        if not step:
            return statement
        more = tirx.BufferStore(total, tirx.BufferLoad(total, zero) + tirx.IntImm("int64", step), zero)
        return tirx.SeqStmt([more, statement])

    kinds = (tirx.BufferStore, tirx.IfThenElse, tirx.Bind)
    body = tvm_ffi.structural_map(function.body, [(kind, count) for kind in kinds], order="post")
    made = tirx.PrimFunc([*function.params, total], body, function.ret_type, function.attrs)
    outputs = [
        (tuple(int(extent) for extent in param.shape), str(param.dtype)) for param in made.params[len(arguments) :]
    ]
    return int(evaluate(made, arguments, outputs)[-1][0])
