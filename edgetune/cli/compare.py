"""``edgetune compare A B``: shows what differs between two packages, and with ``--bench`` times both in turns."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetune.cli.options import BOARD
from edgetune.cli.output import Output, output_options

if TYPE_CHECKING:
    from edgetune.pipeline.comparison import ComparedFigure, ComparedLayer, PackageComparison, TimesInTurns

_UNITS = {"bytes": "bytes", "count": "", "us": "us", "instructions": "instructions"}
_HEADS = ("", "A", "B", "difference", "percent")


@click.command("compare")
@click.argument("a", metavar="A", type=click.Path(path_type=Path))
@click.argument("b", metavar="B", type=click.Path(path_type=Path))
@click.option("--bench", is_flag=True, help="Time both in turns: the ratio of their times, with its interval.")
@click.option("--board", type=BOARD, help="Board to time them on (default: this machine); needs --bench.")
@click.option("--markdown", is_flag=True, help="Print tables in Markdown.")
@output_options
def command(output: Output, /, a: Path, b: Path, board: str | None, *, bench: bool, markdown: bool) -> None:
    """Compare the packages in the folders A (old) and B (new): memory, flash, kernels, times and layers.

    The figures are those of the manifests. Layers are matched by their names. Times are those that were recorded while
    the kernels were tuned, if all were. With --bench, both packages run in turns until the ratio of their times is
    known well enough, which takes up to a few minutes.
    """
    from edgetune.cli.progress import show_progress
    from edgetune.opened_package import Package

    if markdown and output.as_json:
        raise click.UsageError("--markdown and --json exclude each other: give one of them")
    if board is not None and not bench:
        raise click.UsageError("--board needs --bench: without it, nothing is timed")
    old, new = Package.open(a), Package.open(b)
    with show_progress(output, f"compare {a} {b}") as events:
        found = old.compare(new, bench=bench, board=board, events=events)
    if output.as_json:
        output.result(found.model_dump(mode="json"))
        return
    (_print_markdown if markdown else _print_tables)(output, found)


def _print_tables(output: Output, found: PackageComparison) -> None:
    for line in _facts(found):
        output.line(line)
    if found.changed:
        output.result([_numbers(figure) for figure in found.changed], title="figures that differ")
    if found.layers:
        output.result([_layer_numbers(layer) for layer in found.layers], title="layers that differ")
    output.line("")
    output.line(_equal(found))


def _print_markdown(output: Output, found: PackageComparison) -> None:
    from edgetune.package.ctext import markdown

    for line in _facts(found):
        output.line(f"- {markdown(line, None)}")
    if found.changed:
        rows = [_texts(figure) for figure in found.changed]
        _table(output, _HEADS, [[markdown(rest, None) for rest in row] for row in rows])
    if found.layers:
        heads = ["layer", "what differs"]
        for unit in ("bytes", found.layers[0].time.unit):
            heads += [f"{unit} in A", f"{unit} in B", "difference", "percent"]
        rows = [
            [layer.layer, _differs(layer), *_texts(layer.bytes)[1:], *_texts(layer.time)[1:]] for layer in found.layers
        ]
        _table(output, heads, [[markdown(rest, None) for rest in row] for row in rows])
    output.line("")
    output.line(markdown(_equal(found), None))


def _table(output: Output, heads: Sequence[str], rows: Sequence[Sequence[str]]) -> None:
    """Columns after those of words are aligned to the right."""
    words = heads.index("what differs") + 1 if "what differs" in heads else 1
    ends = ["---" if number < words else "---:" for number in range(len(heads))]
    for row in ("", heads, ends, *rows):
        output.line(f"| {' | '.join(row)} |" if row else "")


def _facts(found: PackageComparison) -> list[str]:
    """Which packages they are, what makes them hard to compare, and how they were timed."""
    lines = [
        f"{word}: {one.folder} ({' '.join(filter(None, (one.name, one.version)))} for {one.board})"
        for word, one in (("A", found.a), ("B", found.b))
    ]
    lines += [f"note: {remark}" for remark in found.remarks]
    return [*lines, _timed(found.timing)] if found.timing else lines


def _timed(timing: TimesInTurns) -> str:
    both = f"A {_number(timing.a)} {timing.unit}, B {_number(timing.b)} {timing.unit}; B divided by A is"
    if timing.unit == "instructions":
        return f"instructions of a run: {both} {timing.ratio:.5f}, counted on {timing.ran_on}"
    known = f"{timing.low:.4f} to {timing.high:.4f} with a probability of {100 * timing.coverage:g} %"
    same = ", so no difference is seen" if timing.low <= 1 <= timing.high else ""
    where = f"{timing.turns} turns on {timing.ran_on}"
    return f"time of a run: {both} {timing.ratio:.4f} ({known}{same}; {where})"


def _equal(found: PackageComparison) -> str:
    """One line for all that is equal."""
    if found.same_files:
        return "equal: all files, byte for byte"
    names = [figure.name for figure in found.figures if figure.equal]
    if found.equal_layers:
        names.append(f"{found.equal_layers} layer{'s' if found.equal_layers > 1 else ''}")
    return f"equal: {', '.join(names) or 'nothing'}"


def _title(figure: ComparedFigure) -> str:
    return f"{figure.name}, {_UNITS[figure.unit]}" if _UNITS[figure.unit] else figure.name


def _numbers(figure: ComparedFigure) -> dict[str, object]:
    return dict(zip(_HEADS, (_title(figure), figure.a, figure.b, figure.difference, figure.percent), strict=True))


def _layer_numbers(layer: ComparedLayer) -> dict[str, object]:
    row: dict[str, object] = {"layer": layer.layer, "what differs": _differs(layer)}
    for figure in (layer.bytes, layer.time):
        values = (figure.a, figure.b, figure.difference, figure.percent)
        ends = ("in A", "in B", "difference", "percent")
        row |= {f"{figure.unit} {end}": value for end, value in zip(ends, values, strict=True)}
    return row


def _differs(layer: ComparedLayer) -> str:
    if layer.index_b is None:
        return "only in A"
    return "only in B" if layer.index_a is None else ", ".join(layer.differs)


def _texts(figure: ComparedFigure) -> list[str]:
    """The figure as texts, with signs of differences."""
    percent = "-" if figure.percent is None else f"{figure.percent:+.1f} %"
    return [_title(figure), _number(figure.a), _number(figure.b), _number(figure.difference, "+"), percent]


def _number(value: float | None, sign: str = "") -> str:
    if value is None:
        return "-"
    return f"{value:{sign},}" if isinstance(value, int) else f"{value:{sign},.2f}"
