"""A flat function cut at its top into stages: nests that several threads may share, and what runs on one.

A stage is a function of its own, lowered and printed like any other; what one stage hands to the next is a parameter of
both. A nest is shared where neighbours among its loops write apart, and only if its work outweighs handing it over.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx

from edgetune.codegen.disjoint import Accesses, accesses_of, writes_apart
from edgetune.codegen.memory import aliased_buffer, size_of
from edgetune.codegen.traverse import children
from edgetune.codegen.unrolling import extent_of

ENOUGH_WASTE = 1 / 16  # of a worker's time: with less idling than that no further loop is fused
_MANY = 1 << 20  # iterations beyond which a loop is not fused with the next


@dataclass(frozen=True)
class Stage:
    """A part of a kernel. `loops`: variables of the loops that are shared as one, none for one thread.

    `steps` counts the stores that run, each of one element: one for each multiply-add and each element moved.
    `inner`: other loops run around the shared one, so that short ranges would read much again and again.
    """

    function: Any
    loops: tuple[Any, ...]
    iterations: int
    steps: int
    inner: bool = False


@dataclass(frozen=True)
class Cut:
    """The stages of a function in order, and the buffers that one stage writes for another."""

    stages: tuple[Stage, ...]
    between: tuple[Any, ...]


@dataclass
class _Group:
    nests: list[Any]
    loops: tuple[Any, ...]
    steps: int


def cut(function: Any, workers: int, least_steps: int) -> Cut | None:
    """`function` (flat, not yet vectorised) as stages for `workers` threads; None where one thread does it all.

    A nest of fewer than `least_steps` steps is not shared: waking the others and waiting for them costs more.
    """
    allocated, declared, body = _top(function.body)
    alias = {node.buffer: aliased_buffer(node) for node in declared}
    groups: list[_Group] = []
    for nest in body:
        steps = steps_of(nest)
        if _is_empty(nest):
            continue
        if steps == 0:
            return None  # it does what nothing here understands
        loops = _shared(nest, alias, workers) if steps >= least_steps else ()
        if not loops and groups and not groups[-1].loops:
            groups[-1].nests.append(nest)
            groups[-1].steps += steps
        else:
            groups.append(_Group([nest], loops, steps))
    if not any(group.loops for group in groups):
        return None
    used = [set().union(*(accesses_of(nest, alias).indices for nest in group.nests)) for group in groups]
    # What one group of one thread alone uses is its own; threads of a shared nest would each have another.
    own = {
        node.buffer: next(i for i, buffers in enumerate(used) if node.buffer in buffers)
        for node in allocated
        if sum(node.buffer in buffers for buffers in used) == 1
    }
    own = {buffer: i for buffer, i in own.items() if not groups[i].loops}
    between = [n.buffer for n in allocated if n.buffer not in own and any(n.buffer in buffers for buffers in used)]
    stages = []
    for i, group in enumerate(groups):
        params = [buffer for buffer in (*function.params, *between) if buffer in used[i]]
        needed = [node for node in declared if alias[node.buffer] in used[i]]
        inside = [node for node in allocated if own.get(node.buffer) == i]
        parts = [*needed, *inside, *group.nests]
        made = tirx.PrimFunc(params, tirx.SeqStmt(parts) if len(parts) > 1 else parts[0])
        variables = tuple(loop.loop_var for loop in group.loops)
        inner = bool(variables) and not variables[0].same_as(_first(group.nests[0]))
        stages.append(Stage(made, variables, prod(map(_extent, group.loops)), group.steps, inner))
    return Cut(tuple(stages), tuple(between))


def steps_of(node: Any) -> int:
    """Elements that `node` stores when it runs, both sides of a condition counted as the longer one."""
    if isinstance(node, tirx.For):
        return (extent_of(node) or 1) * steps_of(node.body)
    below = [steps_of(child) for child in children(node)]
    if isinstance(node, tirx.IfThenElse):
        return max(below)
    return sum(below) if below else int(isinstance(node, tirx.BufferStore))


def _is_empty(node: Any) -> bool:
    """Whether `node` is what passes leave of a statement that does nothing."""
    while isinstance(node, tirx.For):
        node = node.body
    return isinstance(node, tirx.Evaluate) and isinstance(node.value, tirx.IntImm)


def _top(body: Any) -> tuple[list[Any], list[Any], list[Any]]:
    """Allocations at the top of a function, declarations there, and the statements behind them."""
    allocated: list[Any] = []
    declared: list[Any] = []
    rest: list[Any] = []
    for node in list(body.seq) if isinstance(body, tirx.SeqStmt) else [body]:
        if isinstance(node, tirx.AllocBuffer):
            allocated.append(node)
        elif isinstance(node, tirx.DeclBuffer):
            declared.append(node)
        else:
            rest.append(node)
    return allocated, declared, rest


def _extent(loop: Any) -> int:
    return extent_of(loop) or 1


def _first(nest: Any) -> Any:
    """The variable of the outermost loop of a nest that runs more than once."""
    while _extent(nest) == 1:
        nest = nest.body
    return nest.loop_var


def _shared(nest: Any, alias: dict[Any, Any], workers: int) -> tuple[Any, ...]:
    """The loops of `nest` that are to be shared as one: neighbours, as few as keep `workers` busy.

    Of several such runs the one that moves the fewest bytes between caches; loops around it run whole in every range.
    """
    loops = []
    node = nest
    while isinstance(node, tirx.For) and int(node.kind) in (int(tirx.ForKind.SERIAL), int(tirx.ForKind.PARALLEL)):
        loops.append(node)
        node = node.body
    found = accesses_of(nest, alias)
    apart = [loop for loop in writes_apart(found, loops) if _extent(loop) > 1]
    busy: list[tuple[Any, ...]] = []
    for first in range(len(apart)):
        runs = [tuple(apart[first:last]) for last in range(first + 1, len(apart) + 1)]
        busy += [run for run in runs if _waste(run, workers) <= ENOUGH_WASTE][:1]
    if busy:
        top = found.outermost(apart)
        return min(busy, key=lambda run: _moved(found, run[0].loop_var, top.loop_var, workers))
    return min((tuple(apart[:depth]) for depth in range(len(apart) + 1)), key=lambda run: _waste(run, workers))


def _waste(loops: tuple[Any, ...], workers: int) -> float:
    """Idle share of `workers` that share `loops` as one; 1, as if one did nothing, for none and for far too many."""
    count = prod(map(_extent, loops))
    return idle(count, workers) if 1 < count <= _MANY else 1.0


def _moved(found: Accesses, v: Any, top: Any, workers: int) -> float:
    """Bytes that come to one worker's core if the loop over `v` is shared, those from another core counted twice.

    Layers agree best on the outermost axis of a tensor, that of the loop over `top`: what is shared along another one
    lies, all but a part in `workers`, in the caches of other cores, and so does what the next layer reads.
    """
    total = 0.0
    for buffer in found.outside():
        size = size_of(buffer) / (workers if found.uses(buffer, v) else 1)
        elsewhere = not v.same_as(top) and found.uses(buffer, top)
        total += size * (2 - 1 / workers if elsewhere else 1)
    return total


def idle(count: int, workers: int) -> float:
    """Share of the workers' time that is idle when they share `count` equal iterations."""
    return 1 - count / (workers * -(-count // workers))
