"""``edgetune doctor``: checks this machine and shows each fault with the command that fixes it."""

from __future__ import annotations

import os
from pathlib import Path

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options


@click.command("doctor")
@click.option("--board", type=BOARD, help="Check only the tools of this board, and require them.")
@output_options
def command(output: Output, /, board: str | None) -> None:
    """Check versions, toolchains, clocks, disk and permissions; each fault comes with the command that fixes it.

    Faults come first, then warnings. `edgetune boards check NAME` checks the board itself.
    """
    from edgetune.cli.findings import show_findings
    from edgetune.pipeline.boards import diagnose
    from edgetune.pipeline.database import database_findings

    found = [] if board else database_findings(os.environ, Path.cwd())
    findings = [*found, *diagnose(os.environ, Path.cwd(), board)]
    show_findings(output, sorted(findings, key=lambda finding: (finding.ok, not finding.required)))
