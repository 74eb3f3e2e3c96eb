"""``edgetune bundle export|run|import``: candidates for another machine, as a folder that travels."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetune.cli.options import COLD, PRECISIONS, DatabaseOption
from edgetune.cli.output import Output, output_options

if TYPE_CHECKING:
    from edgetune.config.database_location import DatabaseLocation
    from edgetune.target.preferences import Precision


@click.group("bundle")
def command() -> None:
    """Export candidates for another machine, run them there, import their times."""


@command.command("export")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--board", required=True, help="A target, such as rpi4 or cuda-generic.")
@click.option("-o", "--out", required=True, type=click.Path(path_type=Path), help="The folder to write.")
@click.option("--candidates", type=click.IntRange(1, 1000), default=16, show_default=True, help="Most of each kernel.")
@click.option("--seed", type=click.IntRange(0, 2**31 - 1), default=0, show_default=True, help="Of random decisions.")
@click.option(
    "--precision",
    type=click.Choice(PRECISIONS),
    default="fp32",
    show_default=True,
    help="Type of weights and of tensors between layers.",
)
@COLD
@output_options
def export(
    output: Output, /, model: Path, board: str, out: Path, candidates: int, seed: int, precision: Precision, cold: bool
) -> None:
    """Write a bundle of MODEL's kernels to a folder, compiled for the target; this machine needs no such board."""
    from edgetune.errors import OutputRefused, UsageError
    from edgetune.pipeline.boards import load_board
    from edgetune.target.gpu import GpuTarget, with_cold_caches

    target = load_board(board, ask=True).target
    if cold and not isinstance(target, GpuTarget):
        raise UsageError(f"board '{board}' has no GPU: write 'caches: cold' into its file instead of --cold")
    target = with_cold_caches(target) if cold and isinstance(target, GpuTarget) else target
    from edgetune.bundle.kinds import kind_of

    kind_of(target)
    from edgetune.bundle.export import BundleRequest, export_bundle
    from edgetune.cli.progress import show_progress
    from edgetune.config.stack import check_stack
    from edgetune.graph.precision import with_precision
    from edgetune.pipeline.backends import require_precision
    from edgetune.pipeline.compile_input import program_for
    from edgetune.pipeline.model_formats import read_model

    require_precision(target, precision)
    check_stack()
    with show_progress(output, f"bundle for {board}") as events:
        program = with_precision(program_for(read_model(model), target), precision)
        counts = export_bundle(program, target, out, BundleRequest(candidates, seed), events)
        if not counts["candidates"]:
            raise OutputRefused("no kernel of this model fits into a bundle, see the warnings: nothing is written")
    output.result(counts, title=f"bundle {out}")


@command.command("run")
@click.argument("folder", type=click.Path(path_type=Path))
@output_options
def run(output: Output, /, folder: Path) -> None:
    """Check and time the candidates of the bundle FOLDER on this machine, of its target; goes on where it ended.

    They are code that runs as you do: run only bundles that you trust.
    """
    from edgetune.boards.lock import timing_lock
    from edgetune.bundle.running import check_files, run_bundle
    from edgetune.cli.progress import show_progress

    check_files(folder)  # nobody waits for a folder that is no bundle
    with show_progress(output, f"bundle {folder}") as events, timing_lock(events):
        counts = run_bundle(folder)
    output.result(counts, title=f"bundle {folder}")


@command.command("import")
@click.argument("folder", type=click.Path(path_type=Path))
@click.option("--db", type=DatabaseOption(), help="Records database (default: .edgetune/records.db).")
@output_options
def import_(output: Output, /, folder: Path, db: DatabaseLocation | None) -> None:
    """Add the results in the bundle FOLDER to the records; those that are there already are not counted again."""
    from dataclasses import asdict

    from edgetune.bundle.import_results import import_bundle, refuse_nothing
    from edgetune.bundle.manifest import read_manifest
    from edgetune.config.settings import resolve_db
    from edgetune.records import RecordStore

    read_manifest(folder)  # no database is created for what is no bundle
    with RecordStore.open(resolve_db(db, os.environ, Path.cwd())) as store:
        counts = import_bundle(folder, store)
    output.result(asdict(counts), title=f"import of {folder}")
    refuse_nothing(counts, folder)
