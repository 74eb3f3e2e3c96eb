"""Lazy command group: imports the module of a verb only when it is used, so that help is fast."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import click


class VerbGroup(click.Group):
    """``verbs`` gives the first line of help by verb; verb ``x`` is ``command`` of the module ``prefix`` + ``x``."""

    def __init__(self, *args: Any, verbs: Mapping[str, str], prefix: str, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._verbs = verbs
        self._prefix = prefix

    def list_commands(self, ctx: click.Context) -> list[str]:
        """Return the verbs in the order of their definition."""
        del ctx
        return list(self._verbs)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the module of ``cmd_name`` and return its command."""
        del ctx
        if cmd_name not in self._verbs:
            return None
        command = import_module(f"{self._prefix}{cmd_name}").command
        assert isinstance(command, click.Command)  # noqa: S101 (each verb module has one)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Return the verb's command; an error for an unknown verb names the nearest one."""
        if args and args[0] not in self._verbs and not args[0].startswith("-"):
            from edgetune.yaml_reader.nearest import nearest

            raise click.UsageError(f"No such command '{args[0]}': {nearest(args[0], self._verbs)}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the verbs with their help, without importing any."""
        del ctx
        with formatter.section("Verbs"):
            formatter.write_dl(list(self._verbs.items()))
