"""The tables of docs/ say what the code says."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from pydantic import BaseModel

from edgetune.codegen.polynomials import ULP_BOUND
from edgetune.errors import EdgetuneError
from edgetune.target.costs import Costs
from edgetune.target.dot_product import DotProduct
from edgetune.target.gpu import GpuCompilers, GpuTarget
from edgetune.target.target import Compiler, Target

DOCS = Path(__file__).parents[2] / "docs"


def _classes(base: type[EdgetuneError]) -> Iterator[type[EdgetuneError]]:
    yield base
    for kind in base.__subclasses__():
        yield from _classes(kind)


def exit_codes() -> str:
    """Return the table of docs/exit-codes.md."""
    own = {kind for kind in _classes(EdgetuneError) if kind.__module__ == "edgetune.errors"}
    lines = ["| code | class | meaning |", "|---|---|---|"]
    for kind in sorted(own, key=lambda kind: kind.exit_code):
        meaning = (kind.__doc__ or "").partition("\n")[0].replace("``", "`")
        lines.append(f"| {kind.exit_code} | {kind.__name__} | {meaning} |")
    return "\n".join(lines)


def target_keys() -> str:
    """Return the table of docs/targets.md."""
    return _table(Target, {"dot.": DotProduct, "costs.": Costs, "compiler.": Compiler})


def gpu_keys() -> str:
    """Return the table of docs/targets.md for GPUs."""
    return _table(GpuTarget, {"compiler.": GpuCompilers})


def polynomial_bounds() -> str:
    """Return the first table of docs/accuracy.md."""
    lines = ["| function | largest error |", "|---|---|"]
    return "\n".join([*lines, *(f"| `{name}` | {bound:g} ULP |" for name, bound in ULP_BOUND.items())])


def _table(target: type[BaseModel], groups: Mapping[str, type[BaseModel]]) -> str:
    lines = ["| key | needed | meaning |", "|---|---|---|"]
    for prefix, model in {"": target, **groups}.items():
        lines += _rows(prefix, model)
    return "\n".join(lines)


def _rows(prefix: str, model: type[BaseModel]) -> Iterator[str]:
    for name, field in model.model_fields.items():
        if name != "compiler":
            needed = "yes" if field.is_required() else "no"
            yield f"| `{prefix}{name}` | {needed} | {(field.description or '').replace('|', '/')} |"


def test_every_exit_code_is_in_its_table() -> None:
    assert exit_codes() in (DOCS / "exit-codes.md").read_text(encoding="utf-8")


def test_every_key_of_a_target_is_in_its_table() -> None:
    text = (DOCS / "targets.md").read_text(encoding="utf-8")
    assert target_keys() in text
    assert gpu_keys() in text


def test_every_polynomial_has_its_bound_in_the_table() -> None:
    assert polynomial_bounds() in (DOCS / "accuracy.md").read_text(encoding="utf-8")
