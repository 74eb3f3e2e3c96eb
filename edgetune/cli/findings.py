"""Shows the findings of ``doctor`` and ``boards check``, and turns them into an exit code."""

from __future__ import annotations

from collections.abc import Iterable

import click

from edgetune.cli.output import Output
from edgetune.config.findings import Finding


def show_findings(output: Output, findings: Iterable[Finding], *, strict: bool) -> None:
    """Show ``findings`` as they come; leave with the code of the first fault that is required (any, if strict)."""
    seen: list[Finding] = []
    for finding in findings:
        seen.append(finding)
        mark = "ok  " if finding.ok else "FAIL" if finding.required or strict else "warn"
        if not (finding.ok and output.verbosity < 0):
            output.line(f"{mark}  {finding.check}: {finding.detail}")
        if finding.fix:
            output.line(f"      fix: {finding.fix}")
    if output.as_json:
        output.result([finding.to_json() for finding in seen])
    fault = next((item for item in seen if not item.ok and (item.required or strict)), None)
    if fault is not None:
        raise click.exceptions.Exit(fault.exit_code)
