"""Findings on the command line: shows those of ``doctor`` and ``boards check``, and derives the exit code."""

from __future__ import annotations

from collections.abc import Iterable

import click

from edgetune.cli.output import Output
from edgetune.findings import Finding


def show_findings(output: Output, findings: Iterable[Finding]) -> None:
    """Show ``findings`` line by line as they come; exit with the code of the first required fault."""
    seen: list[Finding] = []
    for finding in findings:
        seen.append(finding)
        if not (finding.ok and output.verbosity < 0):
            output.line(f"{_state(finding):4}  {finding.check}: {finding.detail}")
        if finding.fix:
            output.line(f"      fix: {finding.fix}")
    if output.as_json:
        output.result([finding.to_json() for finding in seen])
    _leave(seen)


def show_table(output: Output, findings: Iterable[Finding], *, title: str) -> None:
    """Show ``findings`` as one table; exit with the code of the first required fault."""
    seen = list(findings)
    if output.as_json:
        output.result([finding.to_json() for finding in seen])
    else:
        many = len({finding.board for finding in seen}) > 1
        rows: list[dict[str, object]] = [
            {
                **({"board": finding.board or "here"} if many else {}),
                "": _state(finding),
                "check": finding.check,
                "found": finding.detail,
                "fix": finding.fix,
            }
            for finding in seen
            if not (finding.ok and output.verbosity < 0)
        ]
        output.result(rows, title=title)
    _leave(seen)


def _state(finding: Finding) -> str:
    return "ok" if finding.ok else "FAIL" if finding.required else "warn"


def _leave(findings: list[Finding]) -> None:
    fault = next((item for item in findings if not item.ok and item.required), None)
    if fault is not None:
        raise click.exceptions.Exit(fault.exit_code)
