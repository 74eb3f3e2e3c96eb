"""From an exception to one sentence and an exit code: the only place that decides either."""

from __future__ import annotations

import errno
import json
import os
import sys

import click

from edgetune.errors import DiskFull, EdgetuneError, Interrupted, OutputRefused, UsageError

_BROKEN_PIPE_EXIT = 141  # what a shell shows for a program that SIGPIPE ended


def as_edgetune_error(error: BaseException) -> EdgetuneError | None:
    """Return the EdgetuneError that stands for ``error``, or None for a fault of edgetune's own."""
    if isinstance(error, EdgetuneError):
        return error
    if isinstance(error, click.Abort | KeyboardInterrupt):
        return Interrupted("interrupted before it was done; the same command can be run again")
    if isinstance(error, click.ClickException):
        return UsageError(_usage_sentence(error))
    if isinstance(error, OSError):
        return _of_os(error)
    return None


def exit_code_of(error: BaseException) -> int | None:
    """Return the exit code for ``error``, or None for a fault of edgetune's own."""
    if isinstance(error, BrokenPipeError):
        return _BROKEN_PIPE_EXIT
    known = as_edgetune_error(error)
    return known.exit_code if known else None


def report(error: BaseException, *, as_json: bool) -> int:
    """Write ``error`` on stderr, a sentence or a JSON object, and return its exit code."""
    if isinstance(error, BrokenPipeError):
        # Whoever read stdout has gone; without this Python would complain again while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE_EXIT
    known = as_edgetune_error(error)
    if known is None:
        raise error
    sentence = one_line(known.message)
    if as_json:
        body = {"class": type(known).__name__, "exit_code": known.exit_code, "message": sentence}
        sys.stderr.write(json.dumps({"error": body}) + "\n")
    else:
        sys.stderr.write(f"edgetune: error: {sentence}\n")
    return known.exit_code


def one_line(text: str) -> str:
    """Make ``text`` a single line without control characters: names in a model are hostile text."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Replace the control characters of ``text``, line ends too."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _of_os(error: OSError) -> EdgetuneError | None:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(f"no space is left on the device{where}: free some, then run the same command again")
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return OutputRefused(f"{error.strerror}{where}: choose a folder that you may write to, or change its rights")
    if error.filename is not None:
        return EdgetuneError(f"{error.strerror}{where}")
    return None


def _usage_sentence(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "edgetune"
    said = error.format_message().rstrip(".")
    for technical, plain in _PLAIN.items():
        said = said.replace(technical, plain)
    return f"{said} (see `{command} --help`)"


_PLAIN = {"is not a valid integer range": "is not a whole number", "is not a valid integer": "is not a whole number"}
