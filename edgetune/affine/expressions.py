"""Parts of index expressions: walks, substitution, conditions."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping

import tvm_ffi
from tvm import ir, tirx

from edgetune.tvm_types import BufferLoad, Expr, Node, TvmBuffer, Var

_BINARY = (
    tirx.Add, tirx.Sub, tirx.Mul, tirx.Div, tirx.Mod, tirx.FloorDiv, tirx.FloorMod, tirx.Min, tirx.Max,
    tirx.EQ, tirx.NE, tirx.LT, tirx.LE, tirx.GT, tirx.GE, tirx.And, tirx.Or,
    tirx.LShift, tirx.RShift, tirx.BitwiseAnd, tirx.BitwiseOr, tirx.BitwiseXor,
)  # fmt: skip
_FIELDS: dict[type, tuple[str, ...]] = dict.fromkeys(_BINARY, ("a", "b")) | {
    tirx.Not: ("a",),
    tirx.BitwiseNot: ("a",),
    tirx.Cast: ("value",),
    tirx.Select: ("condition", "true_value", "false_value"),
    tirx.Ramp: ("base", "stride"),
    tirx.Broadcast: ("value",),
    tirx.Let: ("value", "body"),
}

SLACKS: Mapping[type, Callable[[Expr], Expr]] = {
    tirx.LE: lambda node: node.b - node.a,
    tirx.LT: lambda node: node.b - node.a - 1,
    tirx.GE: lambda node: node.a - node.b,
    tirx.GT: lambda node: node.a - node.b - 1,
}
"""The slack of a comparison of integers: a number that is at least 0 where the comparison holds, and only there."""


def operands(node: Expr) -> list[Expr]:
    """Expressions directly under an expression; those of a load are its indices."""
    kind = type(node)
    fields = _FIELDS.get(kind)
    if fields is not None:
        return [getattr(node, field) for field in fields]
    if kind is ir.Call:
        return list(node.args)
    if kind is ir.TensorLoad:
        return list(node.indices)
    if kind is tirx.Shuffle:
        return [*node.vectors, *node.indices]
    return []


def expressions(value: Expr) -> Iterator[Expr]:
    """`value` and every expression in it, each before its operands."""
    yield value
    for one in operands(value):
        yield from expressions(one)


def loads_in(values: Iterable[Expr]) -> list[BufferLoad]:
    """Every load in some expressions, each before the loads in its indices."""
    return [one for value in values for one in expressions(value) if isinstance(one, ir.TensorLoad)]


def variables_in(values: Iterable[Expr], found: set[Var]) -> None:
    """Add every variable that occurs in some expressions to `found`."""
    found.update(one for value in values for one in expressions(value) if isinstance(one, ir.Var))


def mentions(node: Node, variable: Var) -> bool:
    """Whether `variable` is in `node`, which may be any part of a function."""
    if isinstance(node, ir.Var | tirx.IntImm):  # most indices are one of these, and a walk takes long
        return bool(node.same_as(variable))
    found: list[bool] = []
    tvm_ffi.structural_walk(node, (ir.Var, lambda one: found.append(bool(one.same_as(variable)))))
    return any(found)


def with_places(node: Node, places: Mapping[Var, Expr]) -> Node:
    """`node` with expressions instead of variables."""

    def changed(one: Var) -> Expr:
        return next((new for old, new in places.items() if one.same_as(old)), one)

    return tvm_ffi.structural_map(node, [(ir.Var, changed)])


def is_among(buffer: TvmBuffer, buffers: Collection[TvmBuffer]) -> bool:
    """Whether a buffer is one of `buffers`."""
    return any(buffer.same_as(one) for one in buffers)


def joined_by(kind: type[Node], value: Expr) -> Iterator[Expr]:
    """What nested nodes of a kind join, as the terms of a sum by `tirx.Add`; the value itself if it is none."""
    if isinstance(value, kind):
        yield from joined_by(kind, value.a)
        yield from joined_by(kind, value.b)
    else:
        yield value


def conjuncts(condition: Expr) -> Iterator[Expr]:
    """The conditions that must hold together."""
    return joined_by(tirx.And, condition)


def is_branch(node: Expr) -> bool:
    """Whether a value is the one that a branch, `if_then_else`, chooses."""
    return isinstance(node, ir.Call) and str(getattr(node.op, "name", "")).endswith("if_then_else")


def unconverted(value: Expr) -> Expr:
    """What a cast converts, or the value itself."""
    return value.value if isinstance(value, tirx.Cast) else value


def is_moved(value: Expr) -> bool:
    """Whether a value is an element or a constant, chosen by branches if at all: it is converted at most."""
    value = unconverted(value)
    if is_branch(value):
        return all(map(is_moved, value.args[1:]))
    return isinstance(value, (ir.TensorLoad, tirx.IntImm, tirx.FloatImm))


def is_choice(node: Expr) -> bool:
    """Whether a value is chosen by a branch or by a selection, which computes both sides."""
    return isinstance(node, tirx.Select) or is_branch(node)


def is_zero(value: Expr) -> bool:
    """Whether `value` is the integer 0."""
    return isinstance(value, tirx.IntImm) and int(value.value) == 0


def is_one(value: Expr) -> bool:
    """Whether `value` is the integer 1 (or true)."""
    return isinstance(value, tirx.IntImm) and int(value.value) == 1
