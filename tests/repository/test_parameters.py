"""Functions of the rooms that write packages take few parameters: what belongs together is an object."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
MOST = 8


def parameters(function: ast.FunctionDef) -> int:
    stated = function.args
    names = [argument.arg for argument in (*stated.posonlyargs, *stated.args, *stated.kwonlyargs)]
    return sum(name not in {"self", "cls"} for name in names)


@pytest.mark.parametrize("room", ["package", "pipeline"])
def test_no_function_takes_more_than_eight_parameters(room: str) -> None:
    found = {}
    for path in (ROOT / "edgetune" / room).rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.FunctionDef):
                found[f"{path.relative_to(ROOT)}:{node.name}"] = parameters(node)
    assert found
    assert {name: count for name, count in found.items() if count > MOST} == {}
