"""Loop names: each loop of a scheduled function is named after the axis that it runs over.

Where a schedule splits an axis, the outer part ends in `_o`, the inner one in `_i`, one between them in `_m`.
"""

from __future__ import annotations

from collections.abc import Sequence

from tvm import s_tir, tirx

from edgetune.affine.expressions import variables_in
from edgetune.codegen.axes import Place, block_axes, joined, places_of
from edgetune.tvm_types import For, PrimFunc, Stmt, Var

_PARTS = 3


def with_loop_names(function: PrimFunc) -> PrimFunc:
    """A scheduled function (with blocks) whose loop variables have the names of axes; all else is unchanged."""
    renamed: dict[Var, Var] = {}
    body = _renamed(function.body, _loop_names(function), renamed)
    if not renamed:
        return function
    # Specialisation replaces parameters wherever TVM keeps variables: in blocks, regions and buffers too.
    opened = tirx.PrimFunc([*function.params, *renamed], body, function.ret_type, function.attrs)
    return opened.specialize(renamed)


def _renamed(node: Stmt, names: dict[Var, str], renamed: dict[Var, Var]) -> Stmt:
    """`node` whose loops define new variables; uses still name the old ones, which `renamed` maps to the new ones."""
    if isinstance(node, tirx.For):
        body = _renamed(node.body, names, renamed)
        variable = node.loop_var
        if names.get(variable, variable.name) != variable.name:
            renamed[variable] = tirx.Var(names[variable], variable.ty)
        new, kind = renamed.get(variable, variable), int(node.kind)
        return tirx.For(
            new, node.min, node.extent, kind, body, node.thread_binding, node.annotations, node.step, node.span
        )
    if isinstance(node, tirx.SeqStmt):
        return tirx.SeqStmt([_renamed(child, names, renamed) for child in node.seq])
    if isinstance(node, s_tir.SBlockRealize):
        block = node.block
        made = s_tir.SBlock(
            block.iter_vars,
            block.reads,
            block.writes,
            block.name_hint,
            _renamed(block.body, names, renamed),
            block.init,
            block.alloc_buffers,
            block.match_buffers,
            block.annotations,
        )
        return s_tir.SBlockRealize(node.iter_values, node.predicate, made)
    return node


def _loop_names(function: PrimFunc) -> dict[Var, str]:
    """By loop variable; a block that sums names its loops before others do, a known axis before a letter."""
    places = list(places_of(function.body))
    axes = block_axes(places)
    found: dict[Var, str] = {}
    for certain in (True, False):
        for place in sorted(places, key=lambda place: not place.sums):
            _name_loops(place, axes[place.block], found, certain=certain)
    return found


def _name_loops(place: Place, axes: Sequence[tuple[str, bool]], found: dict[Var, str], *, certain: bool) -> None:
    words: dict[Var, list[str]] = {}
    for value, (name, known) in zip(place.values, axes, strict=True):
        used: set[Var] = set()
        variables_in([value], used)
        for variable in used if known or not certain else ():
            words.setdefault(variable, []).append(name)
    stems = {variable: joined(names) for variable, names in words.items()}
    for loop in place.loops:
        variable = loop.loop_var
        if variable in stems and variable not in found:
            same = [other for other in place.loops if _runs(other) and stems.get(other.loop_var) == stems[variable]]
            found[variable] = stems[variable] + _ending(same, variable)


def _ending(parts: Sequence[For], variable: Var) -> str:
    """The ending of the loop over `variable`; `parts` are all loops over its axis that run, outermost first."""
    place = next((number for number, part in enumerate(parts) if part.loop_var.same_as(variable)), None)
    if place is None or len(parts) == 1:
        return ""
    if place in (0, len(parts) - 1):
        return "_i" if place else "_o"
    return "_m" if len(parts) == _PARTS else f"_m{place}"


def _runs(loop: For) -> bool:
    return not isinstance(loop.extent, tirx.IntImm) or int(loop.extent.value) > 1
