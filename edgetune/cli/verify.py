"""``edgetune verify DIR``: compiles a package, runs its self-test and compares with the reference."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options, to_plain
from edgetune.events import Event

if TYPE_CHECKING:
    from edgetune.verify.layers import LayerError


_ELSEWHERE = ("passed", "layers")


@click.command("verify")
@click.argument("package", metavar="DIR", type=click.Path(path_type=Path))
@click.option("--board", type=BOARD, help="Board to run on (default: this machine, under an emulator if needed).")
@click.option(
    "--model", type=click.Path(path_type=Path), help="Model file, to compare outputs on fresh inputs as well."
)
@click.option(
    "--per-layer", is_flag=True, help="Compare what each layer writes with what it should, and print the errors."
)
@output_options
def command(output: Output, package: Path, board: str | None, model: Path | None, *, per_layer: bool) -> None:
    """Compile the package in DIR, run its self-test, and compare with the reference.

    With --board, the board runs the package if it has an address or is an emulated machine. Otherwise it runs here,
    natively or under an emulator.

    Without --model, edgetune looks for a file of the recorded name and hash here and beside DIR. If there is none, only
    the golden vectors in the package are compared.

    With --per-layer, which needs the model, the package runs once more, and each layer is compared alone, for what it
    reads. The table has, as shares of the largest magnitude: the error of the layer alone, what is allowed for it, and
    the error of all layers up to it.
    """
    from edgetune import api
    from edgetune.cli.progress import show_progress

    with show_progress(output, f"verify {package}") as events:

        def table(errors: Sequence[LayerError]) -> None:
            rows = [asdict(error) for error in errors]
            if output.as_json:
                events(Event("summary", {"layers": to_plain(rows)}))
            else:
                output.result(rows, title=f"layers of {package}")

        report = api.verify(package, board, model, events, per_layer=table if per_layer else None)
    if output.as_json:
        output.result(report.to_json())
        return
    facts = {name: value for name, value in report.to_json().items() if name not in _ELSEWHERE and value != ""}
    facts["outputs"] = [asdict(each) | {"differing": f"{each.differing:.2%}"} for each in report.outputs]
    output.result(facts, title=f"verify {package}")
    nearest = max(report.outputs, key=lambda each: (each.of_bound, each.max_abs), default=None)
    passed = "PASS" if nearest is None else f"PASS: largest error {nearest.max_abs:g}, allowed {nearest.bound:g}"
    output.line(passed if report.fresh_cases else f"{passed}; no fresh inputs were compared")
