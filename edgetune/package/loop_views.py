"""Loops for the templates: the layers of a package, of which a loop is one, and what each loop calls."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby

from edgetune.graph.loops import Stage, stages, times_called
from edgetune.graph.program import Program
from edgetune.package.arguments import loop_variable
from edgetune.package.calls import CallView, WrittenPlace, distinct
from edgetune.package.interface import Interface
from edgetune.package.provenance import KernelProvenance


@dataclass(frozen=True)
class LoopView:
    """A loop: what runs in each of its `steps`, with the variable that counts them; `symbol` is that of its function.

    Loops in it are among its parts, and have no function.
    """

    symbol: str
    variable: str
    steps: int
    label: str
    parts: tuple[CallView | LoopView, ...]

    @property
    def calls(self) -> tuple[CallView, ...]:
        """All calls in it."""
        return tuple(call for part in self.parts for call in ((part,) if isinstance(part, CallView) else part.calls))

    @property
    def is_loop(self) -> bool:
        """What tells it from a call, in a template."""
        return True

    def names(self, name: str) -> bool:
        """Whether an argument in it names `name`: a macro or a pointer."""
        return any(name in argument for call in self.calls for argument in call.arguments)


def layer_views(
    program: Program, calls: Sequence[CallView], written: Sequence[Sequence[WrittenPlace]], api: Interface
) -> tuple[CallView, ...]:
    """The layers of a package: its calls outside of loops, and one for each outermost loop.

    `written` is by layer.
    """
    layers = []
    found = stages(program)
    labels = distinct([_label(program, calls, stage) for stage in found])
    for stage, places, label in zip(found, written, labels, strict=True):
        if stage.loop is None:
            layers.append(replace(calls[stage.start], label=label, written=tuple(places)))
            continue
        inside = range(stage.start, stage.stop)
        times = [times_called(program, number) for number in inside]
        own = [calls[number] for number in inside]
        layers.append(
            CallView(
                symbol=f"{api.prefix}__loop_{stage.loop}",
                arguments=("s", *api.passed),
                label=label,
                kernel="",
                shape=own[-1].shape,
                macs=sum(call.macs * count for call, count in zip(own, times, strict=True)),
                nbytes=sum(call.nbytes * count for call, count in zip(own, times, strict=True)),
                provenance=_total([call.provenance for call in own], times),
                workers=max(call.workers for call in own),
                written=tuple(places),
                steps=program.loops[stage.loop].steps,
                parts=tuple(zip(own, times, strict=True)),
            )
        )
    return tuple(layers)


def _label(program: Program, calls: Sequence[CallView], stage: Stage) -> str:
    if stage.loop is None:
        return calls[stage.start].label
    loop = program.loops[stage.loop]
    return f"{loop.label} ({loop.steps} steps)"


def loop_views(program: Program, calls: Sequence[CallView], prefix: str) -> tuple[LoopView, ...]:
    """The outermost loops of a package."""
    return tuple(_loop(program, calls, stage.loop, prefix) for stage in stages(program) if stage.loop is not None)


def _loop(program: Program, calls: Sequence[CallView], number: int, prefix: str) -> LoopView:
    loop = program.loops[number]
    parts: list[CallView | LoopView] = []
    at, inner = loop.start, number + 1
    while at < loop.stop:
        while inner < len(program.loops) and program.loops[inner].start < at:
            inner += 1
        if inner < len(program.loops) and program.loops[inner].start == at:
            parts.append(_loop(program, calls, inner, prefix))
            at = program.loops[inner].stop
        else:
            parts.append(calls[at])
            at += 1
    return LoopView(f"{prefix}__loop_{number}", loop_variable(number), loop.steps, loop.label, tuple(parts))


def _total(each: Sequence[KernelProvenance], times: Sequence[int]) -> KernelProvenance:
    """The provenance of calls together; without a cost where one of them has none."""
    measured = all(one.cost is not None for one in each)
    clocks = [clock for clock, _ in groupby(one.clock for one in each)]
    if not measured or len(clocks) > 1:
        return KernelProvenance("", "fixed", clock=clocks[0])
    cost = sum(float(one.cost or 0) * count for one, count in zip(each, times, strict=True))
    boards = " and ".join(dict.fromkeys(str(one.board) for one in each))
    counted = clocks[0] == "instructions"
    return KernelProvenance(
        "",
        "record",
        board=boards,
        record="of each kernel in it",
        median_us=None if counted else cost,
        instructions=int(cost) if counted else None,
        clock=clocks[0],
    )
