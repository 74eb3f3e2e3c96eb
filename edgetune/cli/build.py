"""``edgetune build [MODEL] --board NAME``: writes a package from existing records, without a search."""

from __future__ import annotations

from typing import Any

import click

from edgetune.cli.options import model_and_board, settings_of, show_origins
from edgetune.cli.output import Output, output_options


@click.command("build")
@model_and_board
@output_options
def command(output: Output, /, **flags: Any) -> None:
    """Write the package of MODEL from records, without a search; kernels without a record get default schedules."""
    settings, model = settings_of(**flags)
    show_origins(output, settings)
    from edgetune.config.stack import check_stack

    check_stack()
    from edgetune import api
    from edgetune.cli.progress import show_progress

    with show_progress(output, f"{settings.name} for {settings.board}") as events:
        result = api.build(settings, events=events, model=model)
    output.result(result.to_json(), title=f"{settings.name} for {settings.board}")
