"""Writes docs/passes.md, the rewrites of unscheduled kernels in their order: python .ci/passes.py [--check].

Names and reasons are those of the lists in edgetune/rewrites, paragraphs those of the modules' docstrings: the first
pass of a module has its first paragraph below the summary, the second pass the second. A list belongs to the paragraph
that it follows. With --check nothing is written, and the exit status is 1 where the page is not what would be written.
"""

from __future__ import annotations

import ast
import re
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from textwrap import wrap

from generated import write_or_check

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "passes.md"
COLUMNS = 120
TITLE = "# Rewrites of kernels"
INTRODUCTION = (
    "`python .ci/passes.py` writes this page from the code. A pass gets an unscheduled kernel and makes another one "
    "with the same results, or with sums in another order. Kernels of models and of tensor expressions go through the "
    "same passes, from the first to the last, and may be divided. What comes out is a form of the kernel, beside the "
    "kernel as it is; [the estimate of their instructions](search.md#a-kernel-in-other-forms) chooses. Thresholds with "
    "a name, such as `Margins.gain`, are in `edgetune/target/costs.py`."
)
SECTIONS = (
    ("PASSES", "Passes", "Every kernel goes through these, before it is divided.", False),
    ("DIVISIONS", "Divisions", "", True),
    (
        "PASSES_OF_PARTS",
        "Passes of parts",
        "Every part of a divided kernel goes through these, or the whole one.",
        False,
    ),
)
"""For each list: its name, its heading, what is said of it, and whether its module's docstring is said."""
MODULES = {
    "PASSES": "edgetune.rewrites.passes",
    "DIVISIONS": "edgetune.rewrites.parts",
    "PASSES_OF_PARTS": "edgetune.rewrites.passes",
}


class UnreadableListError(Exception):
    """An entry of a list is no call of the form `Rewrite("name", "reason", function)`."""


@dataclass(frozen=True)
class Entry:
    """One pass: its name, its reason, and the module that has its function."""

    name: str
    reason: str
    module: str

    @property
    def path(self) -> str:
        """The file of the module, from the root of the repository."""
        return path_of(self.module)


def path_of(module: str) -> str:
    """The file of a module, from the root of the repository."""
    return f"{module.replace('.', '/')}.py"


def entries(module: str, name: str) -> list[Entry]:
    """The entries of the list `name`, those of lists that it contains included."""
    tree = ast.parse((ROOT / path_of(module)).read_text(encoding="utf-8"))
    assigned = {
        node.targets[0].id: node.value
        for node in tree.body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    modules = {
        alias.asname or alias.name: node.module
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module
        for alias in node.names
    }
    return list(_entries(name, assigned, modules))


def _entries(name: str, assigned: dict[str, ast.expr], modules: dict[str, str]) -> Iterator[Entry]:
    value = assigned.get(name)
    if not isinstance(value, ast.Tuple):
        raise UnreadableListError(f"{name} is no tuple")
    for element in value.elts:
        match element:
            case ast.Starred(value=ast.Name(id=other)):
                yield from _entries(other, assigned, modules)
            case ast.Call(args=[ast.Constant(value=str(called)), ast.Constant(value=str(reason)), function]):
                named = [node.id for node in ast.walk(function) if isinstance(node, ast.Name) and node.id in modules]
                if len(named) != 1:
                    raise UnreadableListError(f"{called} of {name} names {len(named)} imported functions")
                yield Entry(called, reason, modules[named[0]])
            case _:
                raise UnreadableListError(f"{ast.unparse(element)} of {name} is no pass")


def paragraphs(module: str) -> tuple[str, list[str]]:
    """The summary of a module's docstring, and its paragraphs, with the list that follows one."""
    text = ast.get_docstring(ast.parse((ROOT / path_of(module)).read_text(encoding="utf-8"))) or ""
    summary, *others = text.split("\n\n")
    found: list[str] = []
    for other in others:
        if other.startswith("- ") and found:
            found[-1] += f"\n\n{other}"
        else:
            found.append(other)
    return summary, found


def page() -> str:
    """The whole page."""
    said: Counter[str] = Counter()
    parts = [TITLE, *_filled(INTRODUCTION)]
    for name, heading, words, has_docstring in SECTIONS:
        listed = entries(MODULES[name], name)
        parts.append(f"## {heading}")
        parts += _filled(f"`{name}` of `{path_of(MODULES[name])}`. {words}".strip())
        if has_docstring:
            parts += [text for said_of in paragraphs(MODULES[name])[1] for text in _filled(said_of)]
        rows = [f"| {number} | [{one.name}](#{_anchor(one)}) | {one.reason} |" for number, one in enumerate(listed, 1)]
        parts.append("\n".join(["| | pass | reason |", "|---:|---|---|", *rows]))
        for one in listed:
            parts += _section(one, said[one.module])
            said[one.module] += 1
    return "\n\n".join(parts) + "\n"


def _anchor(entry: Entry) -> str:
    return entry.name.replace(" ", "-")


def _section(entry: Entry, number: int) -> Iterator[str]:
    """What is said of a pass; `number` others of its module come before it."""
    summary, texts = paragraphs(entry.module)
    yield f"### {entry.name}"
    yield from _filled(f"`{entry.path}`. {summary}" if number == 0 else f"`{entry.path}`.")
    if number < len(texts):
        yield from _filled(texts[number])


def _filled(text: str) -> list[str]:
    """Paragraphs in lines of the page's width, without the marks that are Python's; lists stay as they are."""
    filled = []
    for part in text.split("\n\n"):
        if part.startswith("- "):
            items = [" ".join(item.split()) for item in re.split(r"^- ", part, flags=re.MULTILINE) if item]
            lines = [line for item in items for line in wrap(f"- {item}", COLUMNS, subsequent_indent="  ", **_WHOLE)]
        else:
            lines = wrap(" ".join(part.split()), COLUMNS, **_WHOLE)
        filled.append("\n".join(lines))
    return filled


_WHOLE = {"break_long_words": False, "break_on_hyphens": False}


def main(arguments: Sequence[str] | None = None) -> int:
    """Write the page, or compare it."""
    return write_or_check(PAGE, page, "passes.py", (__doc__ or "").splitlines()[0], arguments)


if __name__ == "__main__":
    sys.exit(main())
