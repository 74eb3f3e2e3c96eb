"""Table of TensorFlow Lite's builtin operators in SUPPORT.md, by the forms that `test_operators.py` compares."""

from __future__ import annotations

from collections.abc import Mapping

from edgetune.frontend.tflite.operators import TRANSLATORS
from tests.frontend.tflite import cases_elementwise, cases_moving, cases_networks, variable_operators
from tests.frontend.tflite.branches import Cases
from tests.frontend.tflite.writer import OPERATORS

CASES: Mapping[str, tuple[Cases, set[str]]] = {
    **cases_networks.CASES,
    **cases_elementwise.CASES,
    **cases_moving.CASES,
    **variable_operators.CASES,
}
"""Forms of every operator that is built, and the types that LiteRT takes."""

COLUMNS: Mapping[str, str] = {"FLOAT32": "float", "INT8": "int8", "INT16": "int16"}
HEADING = "## Operators of TensorFlow Lite"
_NO_OPERATORS = {"DELEGATE", "PLACEHOLDER_FOR_GREATER_OP_CODES"}
_INTRODUCTION = """
Builtin operators of a `.tflite` file. `tests/frontend/tflite/test_operators.py` makes all forms of an operator that are
marked in a column, runs them with LiteRT, and compares: floats within 1e-5 of the largest, integers within one step,
95 % of them equal. The column `float` has operators of booleans and plain integers as well. A type is left empty where
LiteRT does not take the operator in it, or computes something else there than the operator is defined to.

{counts}

| operator | float | int8 | int16 | refused |
|---|---|---|---|---|
"""


def operators() -> list[str]:
    """Names of all builtin operators of the schema."""
    return sorted(set(OPERATORS) - _NO_OPERATORS)


def refused() -> list[str]:
    """Those that are not built."""
    return [name for name in operators() if name not in TRANSLATORS]


def built_in(type_: str) -> list[str]:
    """Those that are built and compared in a type."""
    return sorted(name for name, (_, types) in CASES.items() if type_ in types)


def operators_section() -> str:
    """The section of SUPPORT.md."""
    parts = [f"{len(built_in(type_))} in {name}" for type_, name in COLUMNS.items()]
    counts = f"{', '.join(parts)}; {len(refused())} are refused, by name of operator and tensor."
    text = f"{HEADING}\n" + _INTRODUCTION.format(counts=counts)
    for name in operators():
        types = CASES[name][1] if name in CASES else set()
        cells = ["yes" if type_ in types else "" for type_ in COLUMNS]
        text += f"| {' | '.join([name, *cells, '' if name in TRANSLATORS else 'yes'])} |\n".replace("  ", " ")
    return text
