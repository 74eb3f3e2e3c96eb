"""Error reporting: turns an exception into one sentence and an exit code; no other module decides these."""

from __future__ import annotations

import errno
import json
import os
import re
import sys
from difflib import get_close_matches

import click

from edgetune.cli import stderr
from edgetune.errors import DiskFull, EdgetuneError, Interrupted, OutputRefused, UsageError
from edgetune.yaml_reader.nearest import nearest

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
        # The reader of stdout has closed it; without this Python would report that again while it shuts down.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return _BROKEN_PIPE_EXIT
    known = as_edgetune_error(error)
    if known is None:
        raise error
    stderr.settle()
    stderr.say(as_fault(type(known).__name__, known.exit_code, _with_lines(known), as_json=as_json))
    return known.exit_code


def as_fault(kind: str, exit_code: int, sentence: str, *, as_json: bool, **more: str) -> str:
    """Return the line that reports a fault, for people or as a JSON object."""
    if as_json:
        return json.dumps({"error": {"class": kind, "exit_code": exit_code, "message": sentence, **more}})
    return f"edgetune: error: {sentence}"


def _with_lines(error: EdgetuneError) -> str:
    """The sentence as one line, then the lines that it announces."""
    return "\n".join((one_line(error.message), *(f"    {printable(line)}" for line in error.lines)))


def one_line(text: str) -> str:
    """Make ``text`` a single line without control characters: names in a model are untrusted text."""
    return printable(" ".join(text.split()))


def printable(text: str) -> str:
    """Replace the control characters of ``text``, including line ends."""
    return "".join(char if char.isprintable() else "?" for char in text)


def _of_os(error: OSError) -> EdgetuneError | None:
    where = f" ({error.filename})" if error.filename else ""
    if error.errno in {errno.ENOSPC, errno.EDQUOT}:
        return DiskFull(f"no space is left on the device{where}: free some, then run the same command again")
    if isinstance(error, PermissionError) or error.errno == errno.EROFS:
        return OutputRefused(
            f"{error.strerror}{where}: choose a folder that you may write to, or change its permissions"
        )
    if error.filename is not None:
        return EdgetuneError(f"{error.strerror}{where}")
    return None


def _usage_sentence(error: click.ClickException) -> str:
    context = error.ctx if isinstance(error, click.UsageError) else None
    command = context.command_path if context else "edgetune"
    said = _nearest(error, context) or error.format_message().rstrip(".")
    for technical, plain in _PLAIN:
        said = re.sub(technical, plain, said)
    return f"{said} (see `{command} --help`)"


def _nearest(error: click.ClickException, context: click.Context | None) -> str | None:
    """Return the nearest name to an unknown option or verb, None for other errors: versions of click differ in it."""
    if context is None:
        return None
    command = context.command
    if isinstance(error, click.NoSuchOption):
        word = error.option_name.lstrip("-")
        known = [name[2:] for param in command.get_params(context) for name in param.opts if name.startswith("--")]
        close = get_close_matches(word, known, n=1)
        return f"No such option '{error.option_name}'" + (f": did you mean '--{close[0]}'?" if close else "")
    verb = re.match(r"No such command '([^']*)'", error.format_message())
    if verb is not None and isinstance(command, click.Group):
        return f"No such command '{verb[1]}': {nearest(verb[1], command.list_commands(context))}"
    return None


# Messages of click and their plain replacements; the last ones are for limits of numbers.
_PLAIN = (
    (r"is not a valid integer( range)?", "is not a whole number"),
    (r"'?(-?\d+)'? is not in the range (\d+)<=x<=(\d+)", r"must be from \2 to \3, not \1"),
    (r"'?(-?\d+)'? is not in the range x>=(\d+)", r"must be at least \2, not \1"),
)
