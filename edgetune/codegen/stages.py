"""A flat function cut at its top into stages: nests that several threads may share, and what runs on one.

A stage is a function of its own, lowered and printed like any other; what one stage hands to the next is a parameter of
both. A nest is shared where its outermost loops write apart, and only if its work outweighs handing it over.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import Any

from tvm import tirx

from edgetune.codegen.disjoint import touched, writes_apart
from edgetune.codegen.memory import aliased_buffer
from edgetune.codegen.traverse import children
from edgetune.codegen.unrolling import extent_of

ENOUGH_WASTE = 1 / 16  # of a worker's time: with less idling than that no further loop is fused
_MANY = 1 << 20  # iterations beyond which a loop is not fused with the next


@dataclass(frozen=True)
class Stage:
    """A part of a kernel. `loops`: variables of the outermost loops that are shared as one, none for one thread.

    `steps` counts the stores that run, each of one element: one for each multiply-add and each element moved.
    """

    function: Any
    loops: tuple[Any, ...]
    iterations: int
    steps: int


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
        if steps == 0:
            continue
        loops = _shared(nest, alias, workers) if steps >= least_steps else ()
        if not loops and groups and not groups[-1].loops:
            groups[-1].nests.append(nest)
            groups[-1].steps += steps
        else:
            groups.append(_Group([nest], loops, steps))
    if not any(group.loops for group in groups):
        return None
    used = [set().union(*(touched(nest, alias) for nest in group.nests)) for group in groups]
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
        stages.append(Stage(made, variables, prod(map(_extent, group.loops)), group.steps))
    return Cut(tuple(stages), tuple(between))


def steps_of(node: Any) -> int:
    """Elements that `node` stores when it runs, both sides of a condition counted as the longer one."""
    if isinstance(node, tirx.For):
        return (extent_of(node) or 1) * steps_of(node.body)
    below = [steps_of(child) for child in children(node)]
    if isinstance(node, tirx.IfThenElse):
        return max(below)
    return sum(below) if below else int(isinstance(node, tirx.BufferStore))


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


def _shared(nest: Any, alias: dict[Any, Any], workers: int) -> tuple[Any, ...]:
    """The outermost loops of `nest` that are to be shared as one: as few as keep `workers` busy."""
    loops = []
    node = nest
    while isinstance(node, tirx.For) and int(node.kind) in (int(tirx.ForKind.SERIAL), int(tirx.ForKind.PARALLEL)):
        loops.append(node)
        node = node.body
    apart = [loop for loop in loops[: writes_apart(nest, loops, alias)] if _extent(loop) > 1]
    best: tuple[Any, ...] = ()
    least = 1.0
    for depth in range(1, len(apart) + 1):
        count = prod(map(_extent, apart[:depth]))
        waste = idle(count, workers)
        if waste < least and count <= _MANY:
            best, least = tuple(apart[:depth]), waste
        if least <= ENOUGH_WASTE:
            break
    return best


def idle(count: int, workers: int) -> float:
    """Share of the workers' time that is idle when they share `count` equal iterations."""
    return 1 - count / (workers * -(-count // workers))
