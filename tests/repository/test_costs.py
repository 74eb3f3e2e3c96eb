"""The one table of costs: `edgetune/target/costs.py` holds every number that a formula of graph, schedule or frontend
uses, or it is listed here with its reason.

The test reads the code. An estimate is a name, an attribute or a function whose name says so, what is assigned from
one, and what a function returns that returns one. A number is a literal other than 0 and 1, or the name of one.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2] / "edgetune"
ROOMS = ("graph", "rewrites", "schedule", "frontend")
ELSEWHERE = ("schedule/gpu/", "schedule/gpu_defaults.py")
"""A GPU has other costs, which its designs hold: none is a cost of a core."""

SAYS = frozenset({"cost", "costs", "cycles", "work", "use", "uses", "share", "gain", "price", "prices"})
"""Words of the names of estimates."""

NEUTRAL = frozenset({0, 1})
REDUCTIONS = frozenset({"sum", "min", "max", "prod", "abs", "float", "int", "round", "ceil", "floor", "sqrt", "log2"})
"""Functions whose result is an estimate where an argument is one."""

_REWRITES = "rewrites"
ALLOWED: Mapping[tuple[str, str, str], str] = {
    (f"{_REWRITES}/member_lanes.py", "_share_of_terms", "0.5"): "a triangle has half of the terms of its square",
    (f"{_REWRITES}/copy_layouts.py", "_fetched", "MAX_TILE"): "results of a register tile along an axis, at most",
    (
        "graph/resampling.py",
        "_keys",
        "2",
    ): "arithmetic of a model: cubic interpolation at distance 2 - x",
    ("schedule/default_sizes.py", "cost", "1000.0"): "more than any cost: what does not fit the registers comes last",
    ("schedule/rules/factored_reduction.py", "_join_cycles", "2"): "instructions for each halving, as printed",
    ("schedule/rules/factored_reduction.py", "_join_cycles", "9"): "instructions that join four vectors, as printed",
    (
        "schedule/rules/row_placement.py",
        "move_inwards",
        "_ROUNDING",
    ): "rounding of work whose extents are means",
    ("schedule/sketches/transposition.py", "reads_columns", "2"): "shuffles for each column, as printed",
    ("schedule/sketches/transposition.py", "reads_columns", "COLUMN_LANES"): "lanes of the vectors that are printed",
    ("schedule/tile_costs.py", "cycles", "LINE"): "bytes of a line of the cache",
    ("schedule/tile_costs.py", "ideal_cycles", "64"): "bits of the least register that a load fills",
    ("schedule/tile_costs.py", "ideal_cycles", "8"): "bits of a byte",
}
"""Numbers that are no costs, by file, function and number, each with its reason."""

MOST = 14
"""Numbers on the list: it may only become shorter."""

NUMERIC = re.compile(r"(tuple\[)*(int|float)\b")
"""Annotations of functions that return a number, or one first of all."""


@dataclass(frozen=True)
class Number:
    """A number beside an estimate, in the function `inside` of a file."""

    file: str
    inside: str
    text: str


class Rooms:
    """The files of the rooms by their paths, their numeric constants, and the functions that return estimates."""

    def __init__(self, sources: Mapping[str, str]) -> None:
        """Read the source of each file."""
        self.trees = {file: ast.parse(text) for file, text in sources.items()}
        own = {file: set(_constants(tree)) for file, tree in self.trees.items()}
        every = set[str]().union(*own.values())
        self.constants = {file: own[file] | _imported(tree, every) for file, tree in self.trees.items()}
        self.returning: set[str] = set()
        while True:
            found = {f.name for tree in self.trees.values() for f in _functions(tree) if self._returns_estimate(f)}
            if found <= self.returning:
                break
            self.returning |= found

    def numbers(self) -> set[Number]:
        """All numbers beside estimates."""
        return {
            Number(file, function.name, text)
            for file, tree in self.trees.items()
            for function in _functions(tree)
            for text in self._beside(function, self.constants[file])
        }

    def _returns_estimate(self, function: ast.FunctionDef) -> bool:
        if not NUMERIC.match(_annotation(function)):
            return False
        known = self._known(function)
        return _says(function.name) or any(self._is_estimate(value, known) for value in _returned(function))

    def _known(self, function: ast.FunctionDef) -> set[str]:
        """The local names that are assigned from estimates."""
        known: set[str] = set()
        while True:
            found = {name for name, part in _locals(function) if self._is_estimate(part, known)}
            if found <= known:
                return known
            known |= found

    def _is_estimate(self, node: ast.expr, known: set[str]) -> bool:
        match node:
            case ast.Name(id=name):
                return name in known or (_says(name) and not name.lstrip("_").isupper())
            case ast.Attribute(attr=name):
                return _says(name)
            case ast.Call():
                name = _called(node)
                inside = name in REDUCTIONS and any(self._is_estimate(one, known) for one in node.args)
                return inside or name in self.returning or _says(name)
            case _:
                return any(self._is_estimate(part, known) for part in _parts(node))

    def _beside(self, function: ast.FunctionDef, constants: set[str]) -> Iterator[str]:
        """The numbers that a function compares with estimates, or adds, or multiplies."""
        known = self._known(function)
        named = constants | _defaults(function)
        values: dict[str, list[ast.expr]] = {}
        for name, part in _locals(function):
            values.setdefault(name, []).append(part)

        def numbers(node: ast.expr) -> Iterator[str]:
            return _numbers(node, named, values, set())

        for node in _nodes(function):
            match node:
                case ast.Compare(left=left, comparators=others):
                    sides = [left, *others]
                case ast.BinOp(left=left, right=right):
                    sides = [left, right]
                case ast.AugAssign(target=target, value=value):
                    sides = [target, value]
                case ast.Call(args=args) if _called(node) in {"min", "max"}:
                    sides = args
                case ast.keyword(arg=str() as name, value=value) if _says(name):
                    yield from numbers(value)
                    continue
                case _:
                    continue
            if any(self._is_estimate(side, known) for side in sides):
                for side in sides:
                    yield from numbers(side)
        for name, part in _locals(function):
            if _says(name):
                yield from numbers(part)
        if _says(function.name) and self._returns_estimate(function):
            for value in _returned(function):
                yield from numbers(value)


def _says(name: str) -> bool:
    return bool(SAYS & set(name.lower().split("_")))


def _called(call: ast.Call) -> str:
    return getattr(call.func, "id", getattr(call.func, "attr", ""))


def _parts(node: ast.expr) -> list[ast.expr]:
    """The parts whose value the value of an expression is made of: no conditions, no indices, no other arguments."""
    match node:
        case ast.BinOp(left=left, right=right):
            return [left, right]
        case ast.UnaryOp(operand=one) | ast.Starred(value=one) | ast.NamedExpr(value=one) | ast.Subscript(value=one):
            return [one]
        case ast.IfExp(body=body, orelse=other):
            return [body, other]
        case ast.GeneratorExp(elt=one) | ast.ListComp(elt=one) | ast.SetComp(elt=one):
            return [one]
        case ast.Tuple(elts=several) | ast.List(elts=several):
            return list(several)
        case ast.Dict(values=several):
            return list(several)
        case _:
            return []


def _numbers(node: ast.expr, named: set[str], values: Mapping[str, list[ast.expr]], seen: set[str]) -> Iterator[str]:
    """The numbers that the value of an expression is made of; local names stand for all their `values`."""
    match node:
        case ast.Constant(value=bool()):
            return
        case ast.Constant(value=int() | float() as value):
            if value not in NEUTRAL:
                yield repr(value)
        case ast.Name(id=name):
            if name in named:
                yield name
            elif name in values and name not in seen:
                seen.add(name)
                for one in values[name]:
                    yield from _numbers(one, named, values, seen)
        case ast.Call(args=args) if _called(node) in REDUCTIONS:
            for one in args:
                yield from _numbers(one, named, values, seen)
        case _:
            for one in _parts(node):
                yield from _numbers(one, named, values, seen)


def _is_number(node: ast.expr) -> bool:
    """Whether a value is made of nothing but numbers, and not of 0 and 1 alone."""
    return _is_literal(node) and any(_numbers(node, set(), {}, set()))


def _is_literal(node: ast.expr) -> bool:
    if isinstance(node, ast.Constant):
        return isinstance(node.value, int | float) and not isinstance(node.value, bool)
    parts = [] if isinstance(node, ast.Subscript) else _parts(node)
    return bool(parts) and all(map(_is_literal, parts))


def _constants(tree: ast.Module) -> Iterator[str]:
    """The names to which a file assigns numbers other than 0 and 1."""
    return (name for name, part in _assigned(tree.body) if _is_number(part))


def _imported(tree: ast.Module, names: set[str]) -> set[str]:
    imports = (node for node in tree.body if isinstance(node, ast.ImportFrom))
    return {one.asname or one.name for node in imports for one in node.names if one.name in names}


def _defaults(function: ast.FunctionDef) -> set[str]:
    """The parameters whose defaults are numbers other than 0 and 1."""
    given = [*zip(function.args.args[::-1], function.args.defaults[::-1], strict=False)]
    named = zip(function.args.kwonlyargs, function.args.kw_defaults, strict=True)
    given += [(one, value) for one, value in named if value is not None]
    return {one.arg for one, value in given if _is_number(value)}


@cache
def _annotation(function: ast.FunctionDef) -> str:
    return "" if function.returns is None else ast.unparse(function.returns)


@cache
def _nodes(tree: ast.AST) -> tuple[ast.AST, ...]:
    return tuple(ast.walk(tree))


@cache
def _functions(tree: ast.AST) -> tuple[ast.FunctionDef, ...]:
    return tuple(node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef))


@cache
def _returned(function: ast.FunctionDef) -> list[ast.expr]:
    """What a function returns: no results of functions inside."""
    found: list[ast.expr] = []
    waiting: list[ast.AST] = [*function.body]
    while waiting:
        node = waiting.pop()
        if isinstance(node, ast.Return) and node.value is not None:
            found.append(node.value)
        if not isinstance(node, ast.FunctionDef | ast.Lambda):
            waiting += ast.iter_child_nodes(node)
    return found


@cache
def _locals(function: ast.FunctionDef) -> list[tuple[str, ast.expr]]:
    """The names that a function assigns, each with each of its values."""
    return list(_assigned(_nodes(function)))


def _assigned(nodes: Iterable[ast.AST]) -> Iterator[tuple[str, ast.expr]]:
    """The names that statements assign, each with its value."""
    for node in nodes:
        match node:
            case ast.Assign(targets=targets, value=value):
                for target in targets:
                    yield from _pairs(target, value)
            case ast.AnnAssign(target=target, value=ast.expr() as value) | ast.AugAssign(target=target, value=value):
                yield from _pairs(target, value)
            case ast.NamedExpr(target=target, value=value):
                yield from _pairs(target, value)


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[str, ast.expr]]:
    """The names of an assignment, each with its value; a tuple from one value has that for each."""
    if isinstance(target, ast.Name):
        yield target.id, value
    elif isinstance(target, ast.Tuple):
        alike = isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts)
        parts = value.elts if isinstance(value, ast.Tuple) and alike else [ast.Constant(None)] * len(target.elts)
        for one, part in zip(target.elts, parts, strict=True):
            yield from _pairs(one, part)


def _sources() -> dict[str, str]:
    files = [file for room in ROOMS for file in sorted((ROOT / room).rglob("*.py"))]
    named = {str(file.relative_to(ROOT)): file for file in files}
    return {name: file.read_text(encoding="utf-8") for name, file in named.items() if not name.startswith(ELSEWHERE)}


@pytest.mark.parametrize(
    ("text", "numbers"),
    [
        ("def f(stage): return stage.work > 100 * stage.elements", ["100"]),
        ("_LEAST = 1 << 15\ndef f(stage): return stage.work < max(_LEAST, 1)", ["_LEAST"]),
        ("def f(x, cycles):\n    far = 0.3 if x else 0.0\n    return cycles + far * x", ["0.3"]),
        ("def cycles(x) -> float:\n    each, rows = 2.5, x\n    return each * rows", ["2.5"]),
        ("def g(stage) -> float: return stage.work / 3\ndef f(x): return g(x) < 7", ["3", "7"]),
        ("def f(stage):\n    more = stage.work\n    more += 5", ["5"]),
        ("def f(x, *, factor=6): return x.cycles * factor", ["factor"]),
        ("def f(x): return g(x, least_share=4)", ["4"]),
        ("_A, _B = 2, {1: 3}\ndef f(x): return _B[x] * x.cost", ["_B"]),
        ("def f(stage, costs): return costs.function * stage.work + 0 > 1", []),
        ("def f(stage): return stage.lanes * 4 + len(stage.parts[2:])", []),
    ],
)
def test_numbers_beside_estimates_are_found(text: str, numbers: list[str]) -> None:
    assert sorted(one.text for one in Rooms({"a.py": text}).numbers()) == numbers


@pytest.mark.long
def test_every_number_beside_an_estimate_is_in_the_table_or_has_a_reason() -> None:
    found = {(one.file, one.inside, one.text) for one in Rooms(_sources()).numbers()}
    assert sorted(found - set(ALLOWED)) == [], "a cost belongs to edgetune/target/costs.py: see CONTRIBUTING.md"
    assert sorted(set(ALLOWED) - found) == [], "these stand there no longer: take them out"
    assert len(ALLOWED) <= MOST
