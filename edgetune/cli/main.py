"""The ``edgetune`` command: its verbs, and the single place where it ends with an exit code.

SIGTERM ends a command as Ctrl-C does: cleanly and with the results so far, but with an exit code of its own.
"""

from __future__ import annotations

import signal
import sys
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

import click

from edgetune._version import __version__
from edgetune.cli import stderr
from edgetune.cli.failure import as_edgetune_error, exit_code_of, report
from edgetune.cli.stderr_reader import install_hooks, stderr_is_read
from edgetune.cli.verbs import VerbGroup
from edgetune.errors import Interrupted, Terminated


class Termination:
    """Records whether SIGTERM arrived."""

    def __init__(self) -> None:
        self.came = False

    def take(self, number: int, frame: FrameType | None) -> None:
        """Handle the signal."""
        del number, frame
        self.came = True
        raise KeyboardInterrupt

    def name(self, error: BaseException) -> BaseException:
        """Return the error to report instead of `error`: Terminated if SIGTERM caused an interruption."""
        if self.came and isinstance(error, Interrupted):
            return Terminated(error.message.replace("interrupted", "terminated", 1))
        return error


@contextmanager
def termination() -> Iterator[Termination]:
    """Turn SIGTERM into a KeyboardInterrupt, unless the process ignores or handles it already."""
    told = Termination()
    ours = threading.current_thread() is threading.main_thread() and signal.getsignal(signal.SIGTERM) == signal.SIG_DFL
    if ours:
        signal.signal(signal.SIGTERM, told.take)
    try:
        yield told
    finally:
        if ours:
            signal.signal(signal.SIGTERM, signal.SIG_DFL)


# Verb -> (module, first line of its help). The module is imported when the verb is used, not before.
VERBS = {
    "init": "Write edgetune.yaml for a model.",
    "inspect": "Show what a model is and needs, without a build.",
    "tune": "Search for the fastest kernels on a board, then write the package.",
    "build": "Write the package from records, without a search.",
    "verify": "Compile a package, run its self-test, compare with the reference.",
    "run": "Run a package with arrays from files, and write its outputs.",
    "bench": "Measure a package, layer by layer.",
    "compare": "Show what differs between two packages: memory, flash, time, layers.",
    "explain": "Show the record, time and schedule of a kernel, and why it won.",
    "records": "List, show, export, import and prune records of measurements.",
    "boards": "List, add, remove, check, trust and set up boards, and open shells on them.",
    "bundle": "Export candidates for another machine, run them there, import their times.",
    "nightly": "Tune, verify and compare every model of a farm on every board, night after night.",
    "doctor": "Check this installation; each fault comes with the command that fixes it.",
    "completion": "Print the completion script of a shell.",
}


@click.group(
    cls=VerbGroup,
    verbs=VERBS,
    prefix="edgetune.cli.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    epilog="Each verb has --help, --json, -v and -q. Precedence of settings: flag, EDGETUNE_* environment, "
    "edgetune.yaml, ~/.config/edgetune/config.yaml, board.",
)
@click.version_option(__version__, "-V", "--version", message="edgetune %(version)s")
def cli() -> None:
    """Tune a model for a board by timing it there, and get it back as plain C."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line ``argv`` (that of the process by default) and exit with its exit code."""
    words = sys.argv[1:] if argv is None else argv
    as_json = _wants_json(words)
    stderr.hold_open()
    with stderr_is_read(as_json=as_json):
        install_hooks(as_json=as_json)
        code = run(words)
    sys.exit(code)


def run(argv: Sequence[str]) -> int:
    """Run the command line ``argv`` and return its exit code; errors become one sentence on stderr."""
    as_json = _wants_json(argv)
    with termination() as told:
        try:
            code = cli.main(args=list(argv), prog_name="edgetune", standalone_mode=False)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            stderr.say(error.format_message())
            return error.exit_code
        except SystemExit:
            # Only click exits this way, with 1 for every verb: the reader of stdout has closed it.
            return report(BrokenPipeError(), as_json=as_json)
        except (Exception, KeyboardInterrupt) as error:
            if exit_code_of(error) is None:
                raise  # a bug in edgetune: a report needs its traceback
            return report(told.name(as_edgetune_error(error) or error), as_json=as_json)
    return code if isinstance(code, int) else 0


def _wants_json(argv: Sequence[str]) -> bool:
    # Arguments after a separate -- belong to another command: `boards shell NAME -- tool --json`.
    return "--json" in (argv[: argv.index("--")] if "--" in argv else argv)
