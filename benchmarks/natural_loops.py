"""Loops of a control flow graph: successors of numbered blocks enter, the innermost natural loops leave.

A natural loop is what a back edge makes: its head, which dominates the block that jumps back, and all blocks that
reach that jump without passing the head (Aho, Lam, Sethi, Ullman, Compilers, 2nd edition, 2006, section 9.6).
"""

from __future__ import annotations

from collections.abc import Sequence


def innermost_loops(successors: Sequence[Sequence[int]]) -> list[frozenset[int]]:
    """Blocks of each loop that has no other loop in it, in order of the heads; block 0 is the entry.

    Loops with one head are one loop (its rounds end in several places), unless one of them is within the other.
    """
    dominators = _dominators(successors)
    bodies: dict[int, list[frozenset[int]]] = {}
    for block, targets in enumerate(successors):
        for head in targets:
            if head in dominators[block]:
                bodies.setdefault(head, []).append(_body(successors, head, block))
    loops = [loop for head in sorted(bodies) for loop in _joined(bodies[head])]
    return [loop for loop in loops if not any(other < loop for other in loops)]


def _dominators(successors: Sequence[Sequence[int]]) -> list[frozenset[int]]:
    """For each block the blocks that every way from the entry passes; none for a block without such a way."""
    before = _predecessors(successors)
    everything = frozenset(range(len(successors)))
    found = [everything] * len(successors)
    found[0] = frozenset({0})
    changed = True
    while changed:
        changed = False
        for block in range(1, len(successors)):
            ways = [found[other] for other in before[block]]
            new = frozenset.intersection(*ways) | {block} if ways else everything
            if new != found[block]:
                found[block], changed = new, True
    reached = _reached(successors)
    return [found[block] if block in reached else frozenset() for block in range(len(successors))]


def _reached(successors: Sequence[Sequence[int]]) -> set[int]:
    seen, ahead = {0}, [0]
    while ahead:
        new = set(successors[ahead.pop()]) - seen
        seen |= new
        ahead += new
    return seen


def _predecessors(successors: Sequence[Sequence[int]]) -> list[list[int]]:
    found: list[list[int]] = [[] for _ in successors]
    for block, targets in enumerate(successors):
        for target in targets:
            found[target].append(block)
    return found


def _body(successors: Sequence[Sequence[int]], head: int, last: int) -> frozenset[int]:
    before = _predecessors(successors)
    body, ahead = {head, last}, [last]
    while ahead:
        block = ahead.pop()
        if block != head:
            ahead += [other for other in before[block] if other not in body]
            body.update(before[block])
    return frozenset(body)


def _joined(bodies: Sequence[frozenset[int]]) -> list[frozenset[int]]:
    """Loops of one head: those of which none is within the other are one."""
    least = [body for body in bodies if not any(other < body for other in bodies)]
    rest = [body for body in bodies if body not in least]
    return [frozenset.union(*least), *rest]
