"""``edgetune inspect MODEL``: shows what a model is, and whether a board may run it, without a build."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from edgetune.cli.options import TARGET, AxisSize, InputShape, sizes_by_name
from edgetune.cli.output import Output, output_options
from edgetune.cli.stream_options import STREAMS, streams_by_name

if TYPE_CHECKING:
    from edgetune.config.input_stream import InputStream
    from edgetune.pipeline.inspection import BoardFit, InspectedTensor, Inspection, MemoryFit


@click.command("inspect")
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--board", type=TARGET, help="Say whether its flash and RAM suffice, and estimate the time of a run.")
@click.option("--shape", "shapes", type=InputShape(), multiple=True, help="Set the shape of an input; may be repeated.")
@click.option("--dim", "dims", type=AxisSize(), multiple=True, help="Set the size of a named axis; may be repeated.")
@STREAMS
@output_options
def command(
    output: Output,
    /,
    model: Path,
    board: str | None,
    shapes: tuple[tuple[str, tuple[int, ...]], ...],
    dims: tuple[tuple[str, int], ...],
    streams: tuple[tuple[str, InputStream], ...],
) -> None:
    """Show what MODEL is: inputs, outputs, operators, what is unsupported, multiply-adds, weights and least RAM.

    Nothing is built. Open axes and unsupported nodes are part of what is shown, and no error.
    """
    from edgetune.pipeline.boards import load_board
    from edgetune.pipeline.model_formats import require_model

    named, sizes = sizes_by_name(shapes, dims)
    path = Path.cwd() / model
    require_model(path, "")
    target = load_board(board).target if board else None
    from edgetune.config.stack import check_stack

    check_stack()
    from edgetune.pipeline.inspection import inspect_model

    found = inspect_model(path, named, sizes, target, streams_by_name(streams))
    if output.as_json:
        output.result(found.model_dump(mode="json"))
        return
    for line in _lines(found, model.name):
        output.line(line)


def _lines(found: Inspection, name: str) -> list[str]:
    from edgetune.yaml_reader.quantities import format_bytes

    by = f", written by {found.producer}" if found.producer else ""
    lines = [f"{name}: {', '.join(filter(None, (found.format, found.version)))}{by}"]
    for word, tensors in (("input", found.inputs), ("output", found.outputs)):
        lines += [f"{word} {_tensor(tensor)}" for tensor in tensors]
    lines += [
        f"state: input '{pair.input}' and output '{pair.output}' look like the state of a recurrent model"
        for pair in found.states
    ]
    lines += [f"state {_tensor(tensor)}, which the model itself keeps from run to run" for tensor in found.kept]
    operators = ", ".join(f"{count} {operator}" for operator, count in found.operators.items())
    lines.append(f"operators: {operators or 'none'}")
    lines.append(f"unsupported: {_nodes(len(found.unsupported))}")
    lines += [f"  {_place(one.operator, one.node)}{one.reason}" for one in found.unsupported]
    apart = ", without unsupported nodes" if found.unsupported else ""
    macs = "not known" if found.multiply_adds is None else f"{found.multiply_adds:,}{apart}"
    lines.append(f"multiply-adds: {macs}")
    weights = ", ".join(f"{format_bytes(size)} of {kind}" for kind, size in found.weight_bytes.items())
    lines.append(f"weights: {weights or 'none'}")
    if found.least_ram is None:
        lines.append("least RAM: not known")
    else:
        ram = found.least_ram
        inner, interface = format_bytes(ram.workspace_bytes), format_bytes(ram.interface_bytes)
        found_by = f"by the {ram.found_by}{apart}"
        states = f", {format_bytes(ram.state_bytes)} for states" if ram.state_bytes else ""
        shared = "" if ram.shared_bytes is None else f"; with --io arena, {format_bytes(ram.shared_bytes)} for both"
        lines.append(
            f"least RAM: {inner} for tensors between layers ({found_by}), {interface} for inputs and outputs{shared}"
            f"{states}"
        )
    if found.step is not None:
        step = found.step
        lines += [
            (
                f"a step: {step.multiply_adds:,} multiply-adds (the window: {step.window_multiply_adds:,}), "
                f"{step.state_bytes:,} bytes kept in between, at most {step.live_bytes:,} bytes of tensors "
                f"alive at once (the window: {step.window_live_bytes:,})"
            ),
            f"latency: {step.latency_frames:,} frame{'' if step.latency_frames == 1 else 's'}",
        ]
    lines += [f"note: {remark}" for remark in found.remarks]
    return lines if found.board is None else [*lines, *_on_board(found.board)]


def _nodes(count: int) -> str:
    return "nothing" if not count else f"{count} node{'s' if count > 1 else ''}"


def _place(operator: str, node: str) -> str:
    return f"{operator} '{node}': " if operator else ""


def _tensor(tensor: InspectedTensor) -> str:
    shape = "shape not known" if tensor.shape is None else " x ".join(map(str, tensor.shape)) or "scalar"
    text = f"'{tensor.name}': {shape}, {tensor.type}"
    if tensor.quantisation is None:
        return text
    scales, points = tensor.quantisation.scales, tensor.quantisation.zero_points
    if len(scales) > 1:
        return f"{text}, quantised with {len(scales)} scales along axis {tensor.quantisation.axis}"
    return f"{text}, quantised with scale {scales[0]:.6g} and zero point {points[0]}"


def _on_board(board: BoardFit) -> list[str]:
    from edgetune.yaml_reader.quantities import format_bytes

    lines = [
        f"flash of {board.name}: {_fit(board.flash, 'weights alone')}",
        f"RAM of {board.name}: {_fit(board.ram, 'at least')}",
    ]
    if board.regions:
        listed = ", ".join(f"{one.name} with {format_bytes(one.available_bytes)}" for one in board.regions)
        whole = next((f"{one.name} holds all of them" for one in board.regions if one.suffices), "")
        whole = whole or ("no region holds all of them" if board.ram.needed_bytes is not None else "")
        lines.append(f"regions for tensors between layers: {listed}{'; ' if whole else ''}{whole}")
    if board.time is None:
        return [*lines, f"time on {board.name}: no estimate, because {board.no_time}"]
    least = f"at least {_time(board.time.seconds)} a run, limited by {board.time.limited_by}"
    return [
        *lines,
        f"time on {board.name}: an estimate, not a measurement: {least} (assumes {board.time.assumes})",
    ]


def _fit(fit: MemoryFit, what: str) -> str:
    from edgetune.yaml_reader.quantities import format_bytes

    needed = "what is needed is not known" if fit.needed_bytes is None else f"{what} {format_bytes(fit.needed_bytes)}"
    if fit.available_bytes is None:
        return f"{needed}; the target states no limit"
    verdict = {True: "suffices", False: "does not suffice", None: "cannot be said to suffice"}[fit.suffices]
    return f"{format_bytes(fit.available_bytes)} {verdict} ({needed})"


def _time(seconds: float) -> str:
    for factor, unit in ((1.0, "s"), (1e3, "ms")):
        if seconds * factor >= 1:
            return f"{seconds * factor:.3g} {unit}"
    return f"{seconds * 1e6:.3g} us"
