"""Lines of the middle end that name a type of elements, or its bytes: a new type ought to touch few places."""

from __future__ import annotations

import ast
import re
from collections import Counter
from pathlib import Path

ROOT = Path(__file__).parents[2] / "edgetune"
ROOMS = ("affine", "frontend/tensor_expression", "rewrites", "graph", "schedule")
NAMED = re.compile(r"float32|\bf32\b|\bFLOAT\b|\b4\b.*\bbytes\b")
MOST = 40

REASONS = {
    "affine/values.py": (1, "what numpy evaluates each type in"),
    "frontend/tensor_expression/kernel.py": (2, "examples in the sentences of errors"),
    "graph/accuracy.py": (1, "a tolerance for each type"),
    "graph/channel_ranges.py": (1, "the types whose rounding its bounds allow for"),
    "graph/dequantised.py": (1, "the scales of ONNX's DequantizeLinear are float"),
    "graph/double_sums.py": (1, "the types that are narrower than double"),
    "graph/element_type.py": (1, "the types in which C computes and rounds"),
    "graph/evaluate.py": (2, "C's suffix of a function of float; what C widens half precision to"),
    "graph/nan_operands.py": (1, "a power of two for each type"),
    "graph/precision.py": (1, "the type of a model that half precision is in the place of"),
    "graph/resampling.py": (5, "ONNX Runtime computes places of Resize in float"),
    "graph/widened_integers.py": (2, "what integers widen to without a change"),
    "schedule/algorithms/integer_products/wide.py": (1, "the wider type of products of bytes"),
    "schedule/algorithms/schedule_text.py": (1, "the name of the form in that type"),
    "schedule/sketches/tile.py": (1, "a default"),
}


def test_few_lines_of_the_middle_end_name_a_type_of_elements() -> None:
    """GPU designs aside: tensor cores have types of their own. A line more has a reason here, or asks the type."""
    found = Counter(
        str(path.relative_to(ROOT))
        for room in ROOMS
        for path in sorted((ROOT / room).rglob("*.py"))
        if "gpu" not in path.parts
        for _ in _naming(path.read_text(encoding="utf-8"))
    )
    assert dict(found) == {name: count for name, (count, _) in REASONS.items()}
    assert found.total() <= MOST


def _naming(source: str) -> list[str]:
    """The lines of a file that name float32 or count 4 bytes, without those of strings that stand alone."""
    prose: set[int] = set()
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            prose.update(range(node.lineno, (node.end_lineno or node.lineno) + 1))
    lines = enumerate(source.splitlines(), 1)
    return [line for number, line in lines if number not in prose and NAMED.search(line)]
