"""What a compiler or make said, cut down to the one line that matters."""

from __future__ import annotations

import re


def first_diagnostic(output: str) -> str:
    """Return the first line that names an error, else the last line that says anything."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    for line in lines:
        if re.search(r"\b(fatal error|error|undefined reference|Error \d+)\b", line):
            return line[:300]
    return lines[-1][:300] if lines else "it said nothing"
