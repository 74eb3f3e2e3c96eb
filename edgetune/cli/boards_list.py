"""``edgetune boards list``: lists the targets and the boards of boards.yaml."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from edgetune.cli.output import Output, output_options

if TYPE_CHECKING:
    from edgetune.boards.transport import Transport
    from edgetune.config.boards_file import BoardAddress
    from edgetune.target.board_kind import BoardKind


@click.command("list")
@output_options
def command(output: Output, /) -> None:
    """List the targets (kinds of boards, one file each) and the boards that have an address in boards.yaml.

    --board takes either name; the name of a target means all its boards.
    """
    from edgetune.pipeline.boards import list_addresses, list_targets

    boards: dict[str, list[BoardAddress]] = {}
    for address in list_addresses():
        boards.setdefault(address.target, []).append(address)
    targets = list_targets()
    if output.as_json:
        output.result(
            [
                {
                    **target.model_dump(mode="json"),
                    "boards": [address.model_dump(mode="json") for address in boards.get(target.name, [])],
                }
                for target in targets
            ]
        )
        return
    rows = [_target_row(target, len(boards.get(target.name, []))) for target in targets]
    output.result(rows, title="targets" if boards else None)
    if boards:
        addresses = [address for target in targets for address in boards.get(target.name, [])]
        output.result([_board_row(address) for address in addresses], title="boards")


def _target_row(target: BoardKind, boards: int) -> dict[str, object]:
    from edgetune.pipeline.backends import packages_only
    from edgetune.pipeline.boards import own_transport

    own = own_transport(target)
    unnamed = "no" if packages_only(target) else "needs an address"
    named = f"{boards} board{'s' if boards > 1 else ''}"
    return {
        "name": target.name,
        **target.shown,
        "tune": named if boards else own.shown if own is not None else unnamed,
        "verify": _verified(target, own),
        "description": target.description,
    }


def _verified(target: BoardKind, own: Transport | None) -> str:
    if own is not None and (own.elsewhere or not (own.here or own.emulates)):
        return "on the board"
    if target.stand_in:
        return target.stand_in
    return "on the board" if own is None else "here"


def _board_row(address: BoardAddress) -> dict[str, object]:
    return {
        "name": address.name,
        "target": address.target,
        "ssh": address.ssh,
        "cores": ",".join(str(core) for core in address.cores) or None,
        "rpc": address.rpc,
        "reboot": address.reboot,
        "power": " ".join(address.power) if address.power else None,
    }
