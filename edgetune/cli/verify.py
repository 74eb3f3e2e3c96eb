"""``edgetune verify DIR``: compiles a package, runs its self-test and compares with the reference."""

from __future__ import annotations

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options

if TYPE_CHECKING:
    from edgetune.verify.verify import OutputReport


@click.command("verify")
@click.argument("package", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--board", type=BOARD, help="Board to run on (default: this machine, under an emulator if needed).")
@click.option(
    "--model", type=click.Path(path_type=Path), help="Model file, to compare outputs on fresh inputs as well."
)
@output_options
def command(output: Output, package: Path, board: str | None, model: Path | None) -> None:
    """Compile the package in DIR, run its self-test, and compare with the reference.

    With --board, the board runs the package if it has an address or is an emulated machine. Otherwise it runs here,
    natively or under an emulator.

    Without --model, edgetune looks for a file of the recorded name and hash here and beside DIR. If there is none, only
    the golden vectors in the package are compared.
    """
    from edgetune import api
    from edgetune.cli.progress import show_progress

    with show_progress(output, f"verify {package}") as events:
        report = api.verify(package, board, model, events)
    if output.as_json:
        output.result(report.to_json())
        return
    facts = {name: value for name, value in report.to_json().items() if name != "passed" and value != ""}
    facts["outputs"] = [asdict(each) | {"differing": f"{each.differing:.2%}"} for each in report.outputs]
    output.result(facts, title=f"verify {package}")
    nearest = max(report.outputs, key=_share_of_bound, default=None)
    passed = "PASS" if nearest is None else f"PASS: largest error {nearest.max_abs:g}, allowed {nearest.bound:g}"
    output.line(passed if report.fresh_cases else f"{passed}; no fresh inputs were compared")


def _share_of_bound(report: OutputReport) -> tuple[float, float]:
    """Return the error of an output as a share of its bound, then the error itself."""
    return (report.max_abs / report.bound if report.bound else 0.0, report.max_abs)
