"""``edgetune boards list|check``."""

from __future__ import annotations

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options


@click.group("boards")
def command() -> None:
    """List and check boards."""


@command.command("list")
@output_options
def list_(output: Output, /) -> None:
    """List the boards that there are target files for."""
    from edgetune.config.target import list_targets

    targets = list_targets()
    if output.as_json:
        output.result([target.model_dump(mode="json") for target in targets])
        return
    output.result(
        [
            {
                "name": target.name,
                "isa": target.isa,
                "cpu": target.cpu,
                "vectors": f"{target.vector_registers} x {target.vector_bits} bits",
                "cores": target.cores,
                "tune": "yes" if target.reach == "local" else "build only",
                "verify": target.emulator[0] if target.emulator else "natively",
                "description": target.description,
            }
            for target in targets
        ]
    )


@command.command("check")
@click.argument("board", type=BOARD)
@output_options
def check(output: Output, /, board: str) -> None:
    """Compile a small program for BOARD with its flags and run it, natively or under its emulator."""
    from edgetune.cli.findings import show_findings
    from edgetune.config.board_check import check_board
    from edgetune.config.target import load_target

    findings = check_board(load_target(board))
    show_findings(output, findings, strict=True)
