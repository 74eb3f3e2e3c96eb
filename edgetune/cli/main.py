"""The ``edgetune`` command: its verbs, and the one way out of it."""

from __future__ import annotations

import sys
from collections.abc import Sequence

import click

from edgetune import __version__
from edgetune.cli import stderr
from edgetune.cli.failure import as_edgetune_error, exit_code_of, report
from edgetune.cli.stderr_reader import install_hooks, stderr_is_read
from edgetune.cli.termination import termination
from edgetune.cli.verbs import VerbGroup

# Verb -> (module, first line of its help). The module is imported when the verb is used, not before.
VERBS = {
    "init": "Write edgetune.yaml for a model.",
    "tune": "Search for the fastest kernels on a board and write the package.",
    "build": "Write the package from records, without search.",
    "verify": "Compile a package, run its self-test and compare with the reference.",
    "bench": "Measure a package, layer by layer.",
    "explain": "Tell why a kernel of a package is what it is.",
    "records": "List, show, export, import and prune what was measured.",
    "boards": "List, add, remove, check, trust, enter and set up boards.",
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
    """Tune an ONNX model for a board by timing it there, and get it back as plain C."""


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line ``argv`` (that of the process by default) and leave with its exit code."""
    words = sys.argv[1:] if argv is None else argv
    as_json = _wants_json(words)
    stderr.hold_open()
    with stderr_is_read(as_json=as_json):
        install_hooks(as_json=as_json)
        code = run(words)
    sys.exit(code)


def run(argv: Sequence[str]) -> int:
    """Run the command line ``argv`` and return its exit code; faults become one sentence on stderr."""
    as_json = _wants_json(argv)
    with termination() as told:
        try:
            code = cli.main(args=list(argv), prog_name="edgetune", standalone_mode=False)
            sys.stdout.flush()
        except click.exceptions.NoArgsIsHelpError as error:
            stderr.say(error.format_message())
            return error.exit_code
        except SystemExit:
            # Only click leaves so, with 1 whatever the verb: whoever read stdout has gone.
            return report(BrokenPipeError(), as_json=as_json)
        except (Exception, KeyboardInterrupt) as error:
            if exit_code_of(error) is None:
                raise  # a fault of edgetune's own: its traceback is what a report needs
            return report(told.name(as_edgetune_error(error) or error), as_json=as_json)
    return code if isinstance(code, int) else 0


def _wants_json(argv: Sequence[str]) -> bool:
    # What comes after a lone -- belongs to another command: `boards shell NAME -- tool --json`.
    return "--json" in (argv[: argv.index("--")] if "--" in argv else argv)
