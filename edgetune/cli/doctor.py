"""``edgetune doctor``."""

from __future__ import annotations

import os
from pathlib import Path

import click

from edgetune.cli.output import Output, output_options


@click.command("doctor")
@output_options
def command(output: Output, /) -> None:
    """Check pins, toolchains, clocks, disk and permissions; each fault comes with the command that fixes it."""
    from edgetune.cli.findings import show_findings
    from edgetune.config.doctor import diagnose

    show_findings(output, diagnose(os.environ, Path.cwd()))
