"""``edgetune init MODEL``: writes a commented edgetune.yaml for a model."""

from __future__ import annotations

from pathlib import Path

import click

from edgetune.cli.options import NAME
from edgetune.cli.output import Output, output_options


@click.command("init")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("-o", "--out", type=click.Path(path_type=Path), help="File to write (edgetune.yaml).")
@NAME
@output_options
def command(output: Output, model: Path, out: Path | None, name: str | None) -> None:
    """Write a commented edgetune.yaml for MODEL, which `edgetune tune --board NAME` then uses."""
    from edgetune.config.project_template import init_project
    from edgetune.pipeline.model_formats import read_signature

    written = init_project(model, read_signature(model), out, name)
    if output.as_json:
        output.result({"project": written})
    else:
        output.line(f"wrote {written}; next: edgetune tune --board host")
