"""``edgetune completion SHELL``: prints a shell completion script."""

from __future__ import annotations

import click

from edgetune.cli.output import Output, output_options


@click.command("completion")
@click.argument("shell", metavar="SHELL", type=click.Choice(["bash", "zsh", "fish"]))
@output_options
def command(output: Output, shell: str) -> None:
    """Print the completion script of SHELL.

    \b
    bash:  edgetune completion bash > ~/.local/share/bash-completion/completions/edgetune
    zsh:   edgetune completion zsh > "${fpath[1]}/_edgetune"
    fish:  edgetune completion fish > ~/.config/fish/completions/edgetune.fish
    """  # noqa: D301 (click wants the character itself)
    from click.shell_completion import get_completion_class

    kind = get_completion_class(shell)
    if kind is None:
        raise click.UsageError(f"this version of click cannot complete {shell}")
    from edgetune.cli.main import cli

    script = kind(cli, {}, "edgetune", "_EDGETUNE_COMPLETE").source()
    if output.as_json:
        output.result({"shell": shell, "script": script})
    else:
        click.echo(script)
