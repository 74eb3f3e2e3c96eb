"""Lines of generated C that are too long for a reader: code is broken, comments are wrapped.

What a template writes depends on names of the model, so no template can keep its lines short by itself.
"""

from __future__ import annotations

import re
import textwrap

from edgetune.codegen.line_breaks import break_line

COLUMNS = 120
_TITLE = re.compile(r"( *)\* (\w+: +)?")
_WHOLE = re.compile(r"( *)/\* (.*?)( \*/)?")


def in_columns(text: str, columns: int = COLUMNS) -> str:
    """`text` with lines of at most `columns` columns, but for those of the preprocessor and those with a string."""
    return "\n".join(part for line in text.split("\n") for part in _parts(line, columns))


def _parts(line: str, columns: int) -> list[str]:
    if len(line) <= columns:
        return [line]
    if found := _WHOLE.fullmatch(line):
        indent, words, end = found.groups()
        return _wrapped(words + (end or ""), f"{indent}/* ", f"{indent} * ", columns)
    if found := _TITLE.match(line):
        begin = f"{found[1]}* "
        title = found[2] or ""
        return _wrapped(line[found.end() :], begin + title, begin + " " * len(title), columns)
    return break_line(line, columns)


def _wrapped(words: str, first: str, others: str, columns: int) -> list[str]:
    return textwrap.wrap(
        words,
        columns,
        initial_indent=first,
        subsequent_indent=others,
        break_long_words=False,
        break_on_hyphens=False,
    )
