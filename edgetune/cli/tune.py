"""``edgetune tune [MODEL] --board NAME``: searches for the fastest kernels and writes the package."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import click

from edgetune.cli.options import COLD, Duration, TransportName, model_and_board, settings_of, show_origins
from edgetune.cli.output import Output, output_options

if TYPE_CHECKING:
    from edgetune.config.settings import Settings
    from edgetune.frontend.model_format import Model

GRADES = (
    "Refuse times of a lower grade: A steady clock and canary, B unknown clock, C unsteady clock or noise, D "
    "emulated or drifted (D refuses none)."
)


@click.command("tune")
@model_and_board
@click.option(
    "--trials",
    type=click.IntRange(min=0),
    help="Candidates over all kernels, including recorded ones, which leave a new kernel its share; excludes --time.",
)
@click.option("--time", "seconds", type=Duration(), help="Time to search (default: 30m without --trials).")
@click.option("--objective", type=click.Choice(["latency"]), help="What to minimize.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), help="Seed of the search.")
@click.option(
    "--rpc",
    type=TransportName(),
    help="Transport to the boards: agent, tvm, or an installed one (default: as in boards.yaml, else agent).",
)
@click.option("--min-trust", type=click.Choice(["A", "B", "C", "D"]), help=GRADES)
@click.option(
    "--via",
    metavar="bundle|USER@HOST",
    help="Time elsewhere: bundle writes rounds as folders to carry, USER@HOST is a host with a GPU behind SSH.",
)
@COLD
@output_options
def command(output: Output, /, via: str | None, cold: bool, **flags: Any) -> None:
    """Search for the fastest kernels of MODEL by timing them on the board, then write the package.

    MODEL may be left out in a folder with an edgetune.yaml. Ctrl-C ends the search and writes the best
    package so far; the same command continues the search and repeats no measurement.
    """
    settings, model = settings_of(**flags)
    show_origins(output, settings)
    from edgetune.target.gpu import GpuTarget, with_cold_caches

    if cold and isinstance(settings.target, GpuTarget):
        settings = replace(settings, target=with_cold_caches(settings.target))
    elif cold:
        from edgetune.errors import UsageError

        raise UsageError(f"board '{settings.board}' has no GPU: write 'caches: cold' into its file instead of --cold")
    if via is not None or isinstance(settings.target, GpuTarget):
        _via_bundles(output, settings, model, via)
        return
    from edgetune.config.stack import check_stack
    from edgetune.pipeline.boards import measured_boards

    measured_boards(settings)
    check_stack()
    from edgetune import api
    from edgetune.cli.progress import show_progress
    from edgetune.errors import BoardLost, HostUnknown, Interrupted

    title, target = f"{settings.name} on {settings.board}", settings.target
    if target.caveat:
        output.note(target.caveat)
    unit = "k instructions" if target.clock == "instructions" else "us"
    with show_progress(output, title, unit=unit) as events:
        try:
            result = api.tune(settings, events=events, model=model)
        except HostUnknown as error:
            raise HostUnknown(f"{error.message} (`edgetune boards check {settings.board}` shows more)") from error
    measured = {"clock": target.clock, "caveat": target.caveat} if target.caveat else {}
    output.result({**result.to_json(), **measured}, title=title)
    if result.interrupted:
        raise Interrupted("interrupted; the package holds the best kernels so far, and the same command continues")
    if result.search.ended:
        raise BoardLost(
            f"{result.search.ended}; the package holds the best kernels so far, and the same command continues"
        )


def _via_bundles(output: Output, settings: Settings, model: Model, via: str | None) -> None:
    from edgetune.bundle.kinds import kind_of
    from edgetune.config.stack import check_stack

    kind_of(settings.target).check_via(settings, via)
    check_stack()
    from edgetune.bundle.rounds import tune_via_bundles
    from edgetune.cli.progress import show_progress

    title = f"{settings.name} on {settings.board}"
    with show_progress(output, title) as events:
        result = tune_via_bundles(settings, events, model, via)
    output.result(result.to_json(), title=title)
    if result.waiting is not None:
        output.note(
            f"carry {result.waiting} to a machine of the target, `edgetune bundle run` it there, carry it back to the "
            "same place, and give the same command again"
        )
