"""The flag `--stream`, which `tune`, `build` and `inspect` have."""

from __future__ import annotations

from typing import Any

import click

from edgetune.config.input_stream import InputStream, stream_of


class StreamedInput(click.ParamType[tuple[str, InputStream]]):
    """An input that comes frame by frame, such as ``features:1=2``; the value is a pair of name and stream."""

    name = "input:axis[=hop]"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> tuple[str, InputStream]:
        """Parse ``value``."""
        if isinstance(value, tuple):
            return value
        try:
            return stream_of(str(value))
        except ValueError as error:
            self.fail(str(error), param, ctx)


STREAMS = click.option(
    "--stream",
    "streams",
    type=StreamedInput(),
    multiple=True,
    help="Make a package of one step that gets the next HOP frames (default: 1) of this input; may be repeated.",
)


def streams_by_name(streams: tuple[tuple[str, InputStream], ...]) -> dict[str, InputStream]:
    """The values of `--stream` by name; raises UsageError for one that is given twice."""
    named = dict(streams)
    if len(named) < len(streams):
        raise click.UsageError("--stream names the same input twice")
    return named
