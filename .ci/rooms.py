"""How large the rooms of edgetune are, and which files are slices of one thought: python .ci/rooms.py [--check].

For each room: files, lines, lines of code (without blank lines, comments and docstrings), the median and the largest
file. Then the files of up to 100 lines that one other file of the same room imports, and nobody else; members that a
folder's own `__init__` registers are left out. Neither has a limit: a file is as long as its thought. With --check the
exit status is 1 where `__import__` is used, which import-linter and ruff do not see, and where a folder is no package.
"""

from __future__ import annotations

import argparse
import ast
import io
import sys
import tokenize
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from statistics import median

ROOT = Path(__file__).resolve().parent.parent
SMALL_LINES = 100
_SILENT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENCODING,
    tokenize.ENDMARKER,
}


@dataclass(frozen=True)
class Module:
    """One file: its dotted name, and its text."""

    name: str
    path: Path

    @cached_property
    def text(self) -> str:
        """The whole file."""
        return self.path.read_text(encoding="utf-8")

    @cached_property
    def tree(self) -> ast.Module:
        """Its syntax tree."""
        return ast.parse(self.text)

    @property
    def room(self) -> str:
        """The folder below the package that it lies in; "(top)" for files of the package itself."""
        parts = self.name.split(".")
        return parts[1] if len(parts) > 1 and (len(parts) > 2 or self.is_package) else "(top)"  # noqa: PLR2004

    @property
    def is_package(self) -> bool:
        """Whether it is the `__init__` of a folder."""
        return self.path.name == "__init__.py"

    @property
    def hides_imports(self) -> bool:
        """Whether it names `__import__`."""
        named = (getattr(node, "id", getattr(node, "attr", "")) for node in ast.walk(self.tree))
        return "__import__" in named

    @property
    def lines(self) -> int:
        """Lines, all of them."""
        return len(self.text.splitlines())

    @property
    def code_lines(self) -> int:
        """Lines that hold code: neither blank nor of comments and docstrings alone."""
        silent = {number for start, end in _docstrings(self.tree) for number in range(start, end + 1)}
        found: set[int] = set()
        for token in tokenize.generate_tokens(io.StringIO(self.text).readline):
            if token.type not in _SILENT:
                found.update(range(token.start[0], token.end[0] + 1))
        return len(found - silent)


def _docstrings(tree: ast.Module) -> Iterator[tuple[int, int]]:
    """First and last lines of the strings that stand alone: docstrings of modules, classes, functions and constants."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant) and isinstance(node.value.value, str):
            yield node.lineno, node.end_lineno or node.lineno


def modules(package: Path) -> dict[str, Module]:
    """Read all modules of `package` by their dotted names."""
    found = {}
    for path in sorted(package.rglob("*.py")):
        parts = [package.name, *path.relative_to(package).with_suffix("").parts]
        name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
        found[name] = Module(name, path)
    return found


def importers(found: dict[str, Module]) -> dict[str, set[str]]:
    """Who imports each module, wherever in a file the import stands."""
    readers: dict[str, set[str]] = {name: set() for name in found}
    for name, module in found.items():
        for node in ast.walk(module.tree):
            for wanted in _imported(node):
                while wanted and wanted not in found:
                    wanted = wanted.rpartition(".")[0]  # noqa: PLW2901  a name in a module is the module's
                if wanted and wanted != name:
                    readers[wanted].add(name)
    return readers


def _imported(node: ast.AST) -> list[str]:
    if isinstance(node, ast.Import):
        return [alias.name for alias in node.names]
    if isinstance(node, ast.ImportFrom) and node.module and node.level == 0:  # ruff forbids relative ones
        return [f"{node.module}.{alias.name}" for alias in node.names]
    return []


def slices(found: dict[str, Module]) -> list[str]:
    """Small files with one reader, in the same room, which is not the registry of their folder."""
    readers = importers(found)
    return [
        name
        for name, module in found.items()
        if not module.is_package
        and module.lines <= SMALL_LINES
        and [found[reader].room for reader in readers[name]] == [module.room]
        and readers[name] != {name.rpartition(".")[0]}
    ]


def table(found: dict[str, Module]) -> list[str]:
    """Lines to print: a row per room, and the sum."""
    rooms = sorted({module.room for module in found.values()})
    rows = [f"{'room':12} {'files':>6} {'lines':>7} {'code':>7} {'median':>7} {'largest':>8}"]
    for room in [*rooms, "all"]:
        members = [module for module in found.values() if room in {module.room, "all"}]
        sizes = [module.lines for module in members]
        code = sum(module.code_lines for module in members)
        rows.append(f"{room:12} {len(members):6} {sum(sizes):7} {code:7} {median(sizes):7.0f} {max(sizes):8}")
    return rows


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the table and the slices; with --check, 1 where there is a fault."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("package", type=Path, nargs="?", default=ROOT / "edgetune")
    parser.add_argument("--check", action="store_true")
    options = parser.parse_args(arguments)
    found = modules(options.package)
    small = slices(found)
    print("\n".join(table(found)))
    print(f"\n{len(small)} files of up to {SMALL_LINES} lines with one reader, in the same room:")
    print("\n".join(f"  {name}" for name in small))
    faults = [f"{m.path} uses __import__: import the module by its name" for m in found.values() if m.hides_imports]
    folders = {path.parent for path in options.package.rglob("*.py")}
    faults += [f"{folder} has no __init__.py" for folder in sorted(folders) if not (folder / "__init__.py").is_file()]
    for fault in faults if options.check else ():
        print(f"rooms: {fault}", file=sys.stderr)
    return int(options.check and bool(faults))


if __name__ == "__main__":
    sys.exit(main())
