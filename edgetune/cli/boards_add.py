"""``edgetune boards add NAME --target T --ssh ADDRESS``: writes a board into the user's boards.yaml."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from edgetune.cli.options import TARGET, CoreList, TransportName
from edgetune.cli.output import Output, output_options


class Words(click.ParamType[tuple[str, ...]]):
    """A command, split as a shell would split it; the value is its words."""

    name = "command"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, ...]:
        """Split ``value``."""
        if isinstance(value, tuple):
            return value
        try:
            return tuple(shlex.split(value))
        except ValueError as error:
            self.fail(f"is not a command: {error}", param, ctx)


@click.command("add")
@click.argument("name")
@click.option("--target", required=True, type=TARGET, help="Kind of board: a target of `edgetune boards list`.")
@click.option("--ssh", required=True, metavar="[USER@]HOST[:PORT]", help="Address, or a Host of ~/.ssh/config.")
@click.option("--cores", type=CoreList(), help="Cores to time on, such as 3 or 2,3 (default: the last one).")
@click.option("--folder", help="Folder on the board for edgetune's files, such as /var/tmp.")
@click.option("--identity", type=click.Path(path_type=Path), help="File of the private SSH key.")
@click.option("--reboot", metavar="COMMAND", help="Command that reboots the board; it runs there.")
@click.option("--power", type=Words(), help="Command that switches the board off and on; it runs here.")
@click.option(
    "--rpc", type=TransportName(), help="Transport to the board: edgetune's agent (default), tvm, or an installed one."
)
@click.option(
    "--tracker", metavar="HOST:PORT|local", help="TVM tracker as seen from the board's ssh host; local starts one here."
)
@click.option("--key", help="Key of the board at the tracker (default: the target's name).")
@output_options
def command(output: Output, /, **flags: Any) -> None:
    """Add the board NAME to boards.yaml in the user's configuration folder; comments there stay as they are."""
    from edgetune.pipeline.boards import add_board

    values = {key: value for key, value in flags.items() if value not in {None, ()}}
    if "identity" in values:
        values["identity"] = str(values["identity"].expanduser().absolute())
    if "power" in values and "/" in values["power"][0]:
        values["power"] = (str(Path(values["power"][0]).expanduser().absolute()), *values["power"][1:])
    path = add_board(values)
    if output.as_json:
        output.result({"board": flags["name"], "file": path})
    elif output.verbosity >= 0:
        output.line(
            f"wrote {path}; next: edgetune boards trust {flags['name']}, then edgetune boards check {flags['name']}"
        )
