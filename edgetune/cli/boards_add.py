"""``edgetune boards add NAME --target T --ssh ADDRESS``: writes a board into the user's boards.yaml."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Any

import click

from edgetune.cli.options import TARGET, CoreList
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
            self.fail(f"is no command: {error}", param, ctx)


@click.command("add")
@click.argument("name")
@click.option("--target", required=True, type=TARGET, help="Kind of board, as `edgetune boards list` names it.")
@click.option("--ssh", required=True, metavar="[USER@]HOST[:PORT]", help="Address, or a Host of ~/.ssh/config.")
@click.option("--cores", type=CoreList(), help="Cores to time on, such as 3 or 2,3; the last one if left out.")
@click.option("--folder", help="Folder of the board for our files, such as /var/tmp.")
@click.option("--identity", type=click.Path(path_type=Path), help="File of the private SSH key.")
@click.option("--reboot", metavar="COMMAND", help="Command that reboots the board, run there.")
@click.option("--power", type=Words(), help="Command of this machine that switches the board off and on.")
@click.option("--rpc", type=click.Choice(["agent", "tvm"]), help="How the board is talked to (agent).")
@click.option(
    "--tracker", metavar="HOST:PORT|local", help="TVM tracker, as the board's ssh host sees it, or local: started here."
)
@click.option("--key", help="Key of the board at the tracker; the target's name if left out.")
@output_options
def command(output: Output, /, **flags: Any) -> None:
    """Write the board NAME into boards.yaml of the user's configuration; comments there stay as they are."""
    from edgetune.config.boards_add import add_board

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
