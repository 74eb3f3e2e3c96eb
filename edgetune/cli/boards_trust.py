"""``edgetune boards trust NAME``: shows the host key of a board, asks, and stores it."""

from __future__ import annotations

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options
from edgetune.errors import HostKeyRefused


@click.command("trust")
@click.argument("board", type=BOARD)
@click.option("--yes", is_flag=True, help="Trust the key that the board shows now without asking.")
@output_options
def command(output: Output, /, board: str, *, yes: bool) -> None:
    """Show the host key of BOARD and of its jump hosts, ask, and store it.

    Compare the fingerprint with that of the board itself: `ssh-keygen -lf /etc/ssh/ssh_host_ed25519_key.pub` there.
    """
    from edgetune.boards.ssh.trusting import shown_keys
    from edgetune.pipeline.boards import only_address

    rows: list[dict[str, object]] = []
    for shown in shown_keys(only_address(board)):
        row: dict[str, object] = {"host": shown.host, "key": shown.fingerprint, "before": shown.status}
        if shown.status != "known":
            output.line(f"{shown.host} shows {shown.fingerprint}, which {_SAYS[shown.status]}")
            if shown.status == "revoked":
                raise HostKeyRefused(
                    f"{shown.host} shows a revoked key, which is not trusted: give the board a new host key"
                )
            if not yes and not (not output.as_json and _confirmed()):
                raise HostKeyRefused(
                    f"the host key of {shown.host} was not trusted: confirm it, or use --yes to trust it "
                    "without a question"
                )
            row["file"] = shown.trust()
        rows.append(row)
    output.result(rows)


def _confirmed() -> bool:
    """Ask the user; no answer, for example without a terminal, means no."""
    try:
        return click.confirm("Trust it?")
    except click.Abort as abort:
        if not isinstance(abort.__context__, EOFError):
            raise
        click.echo()  # ends the line of the question
        return False


_SAYS = {
    "unknown": "is not known yet",
    "changed": "is NOT the key that was known: another machine may be intercepting the connection",
    "revoked": "is marked as revoked",
}
