"""Axis names: the axes of a function's blocks, in the words of oneDNN and BLAS.

In a convolution `n` is the batch, `oh` and `ow` are the rows and columns of the output image, `oc` its channels; `kh`,
`kw` and `ic` are summed over. A product of matrices has `m`, `n` and `k`, and `b` for the batch. An axis that nothing
names is a letter by its place: `i`, `j`, `k` and so on, or `r` where it is summed over.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from tvm import s_tir, tirx

from edgetune.affine.expressions import variables_in
from edgetune.tvm_types import Expr, For, IterVar, PrimFunc, SBlock, Stmt, TvmBuffer, Var

PIXEL = "pixel"
"""The rows and columns of an output image as one axis."""

_CONVOLUTION = re.compile(r"conv\dd_(n[a-z]+)")
_POOLING = re.compile(r"pool_(sum|max)")
_PRODUCT = re.compile(r"matmul", re.IGNORECASE)
_BY_PLACE = re.compile(r"(ax|i|v|rv|k)?\d+$")
_PART = re.compile(r"(?<=\w)_\d+$")
_SUMMED = re.compile(r"(k|rv)\d+$")
_SHORT = {"nn": "n", "yy": "oh", "xx": "ow", "ff": "oc", "ry": "kh", "rx": "kw", "rc": "ic"}
_LETTERS = "ijklmnpqstu"
_SUM = "r"
_OPERANDS = 2


@dataclass(frozen=True)
class Place:
    """A block without blocks inside, the values of its axes, and the loops around it, outermost first."""

    block: SBlock
    values: tuple[Expr, ...]
    loops: tuple[For, ...]

    @property
    def sums(self) -> bool:
        """Whether the block reduces; its axes then give the best names for its loops."""
        return str(self.block.name_hint).endswith("_update") or any(map(is_reduction, self.block.iter_vars))


def is_reduction(axis: IterVar) -> bool:
    """Whether an axis of a block is summed over."""
    return int(axis.iter_type) == int(tirx.IterVar.CommReduce)


def places_of(node: Stmt, loops: tuple[For, ...] = ()) -> Iterator[Place]:
    """The innermost blocks of a function's body, in order."""
    if isinstance(node, tirx.For):
        yield from places_of(node.body, (*loops, node))
    elif isinstance(node, tirx.SeqStmt):
        for child in node.seq:
            yield from places_of(child, loops)
    elif isinstance(node, s_tir.SBlockRealize):
        inside = list(places_of(node.block.body, loops))
        yield from inside or [Place(node.block, tuple(node.iter_values), loops)]


def axes_of(function: PrimFunc, *, summed: bool = True) -> dict[str, tuple[str, ...]]:
    """The names of the axes of each innermost block of `function`, by the block's name; of `summed` ones too."""
    found = block_axes(list(places_of(function.body)))
    return {
        str(block.name_hint): tuple(
            name for (name, _), axis in zip(axes, block.iter_vars, strict=True) if summed or not is_reduction(axis)
        )
        for block, axes in found.items()
    }


def block_axes(places: Sequence[Place]) -> dict[SBlock, list[tuple[str, bool]]]:
    """For each block (name, whether anything but its place names it) of its axes."""
    known = _Known()
    for place in sorted(places, key=lambda place: not place.sums):
        known.learn(place.block)
    named = {name for names in known.of_block.values() for name in names if name is not None}
    letters = [letter for letter in _LETTERS if letter not in named]
    found = {}
    for block, names in known.of_block.items():
        axes = list(zip(block.iter_vars, names, strict=True))
        others = [axis for axis, name in axes if name is None and not is_reduction(axis)]
        found[block] = [(name, True) if name else (_letter(axis, others, letters), False) for axis, name in axes]
    return found


def with_pixels(axes: Sequence[str]) -> tuple[str, ...]:
    """`axes` of a convolution whose rows and columns became one axis."""
    together = [PIXEL if axis == "oh" else axis for axis in axes if axis != "ow"]
    return tuple(together) if "oh" in axes and "ow" in axes else tuple(axes)


def _letter(axis: IterVar, others: Sequence[IterVar], letters: Sequence[str]) -> str:
    """A letter by the place of `axis` among those of `others` that are longer than 1."""
    if is_reduction(axis):
        return _SUM
    before = [other for other in others if int(other.dom.extent) > 1 or other.same_as(axis)]
    place = next(number for number, other in enumerate(before) if other.same_as(axis))
    return letters[place] if place < len(letters) else f"i{place}"


@dataclass
class _Known:
    """Known names of axes: of each block, and of the dimensions of each buffer that such a block writes."""

    of_block: dict[SBlock, list[str | None]] = field(default_factory=dict)
    of_buffer: dict[TvmBuffer, dict[int, str]] = field(default_factory=dict)

    def learn(self, block: SBlock) -> None:
        """Names of the block's axes: by its operator, their own, or by the dimensions of the buffers they index."""
        own = [_own_name(str(axis.var.name)) for axis in block.iter_vars]
        names: list[str | None] = list(_operator_axes(block)) or own
        for place, axis in enumerate(block.iter_vars):
            if names[place] is None:
                names[place] = next(filter(None, map(self._named(axis), [*block.writes, *block.reads])), None)
        self.of_block[block] = names
        for region in block.writes:
            dimensions = self.of_buffer.setdefault(region.source, {})
            for dimension, item in enumerate(region.region):
                for axis, name in zip(block.iter_vars, names, strict=True):
                    if name is not None and item.min.same_as(axis.var):
                        dimensions.setdefault(dimension, name)

    def _named(self, axis: IterVar) -> Callable[[Expr], str | None]:
        def name(region: Expr) -> str | None:
            dimensions = self.of_buffer.get(region.source, {})
            indexed = (number for number, item in enumerate(region.region) if item.min.same_as(axis.var))
            return next((dimensions[number] for number in indexed if number in dimensions), None)

        return name


def _own_name(name: str) -> str | None:
    """The name that an axis has from its operator's definition; None for a number."""
    short = name.removeprefix("v").removeprefix("_") or name
    short = _PART.sub("", short)
    if _SUMMED.match(short):
        return _SUM
    return None if _BY_PLACE.match(short) else _SHORT.get(short, short)


def _operator_axes(block: SBlock) -> tuple[str, ...]:
    """The names of all axes of a block that computes a known operator; empty for any other block."""
    name, count = str(block.name_hint), len(block.iter_vars)
    if _PRODUCT.search(name):
        return _product_axes(block)
    axes = tuple(_layout_axes(name))
    return axes if len(axes) == count else with_pixels(axes) if len(with_pixels(axes)) == count else ()


def _layout_axes(block: str) -> list[str]:
    convolution = _CONVOLUTION.search(block)
    if convolution is not None:
        layout = convolution[1]
        outputs = [{"n": "n", "c": "oc"}.get(letter, f"o{letter}") for letter in layout]
        window = [f"k{letter}" for letter in layout if letter not in "nc"]
        return [*outputs, *(["ic", *window] if layout[1:2] == "c" else [*window, "ic"])]
    return ["n", "oh", "ow", "c", "kh", "kw"] if _POOLING.search(block) else []


def _product_axes(block: SBlock) -> tuple[str, ...]:
    """`m` is the last axis of the left operand alone, `n` that of the right one; all others are `b`."""
    written = [region.source for region in block.writes]
    operands = [_used(r) for r in block.reads if not any(r.source.same_as(buffer) for buffer in written)]
    sums = [axis for axis in block.iter_vars if is_reduction(axis)]
    if len(operands) < _OPERANDS or len(sums) != 1:
        return ()
    left, right = operands[:_OPERANDS]
    spatial = [axis for axis in block.iter_vars if not is_reduction(axis)]
    found = {sums[0].var: "k"}
    for name, inside, outside in (("m", left, right), ("n", right, left)):
        alone = [axis for axis in spatial if axis.var in inside and axis.var not in outside]
        wide = [axis for axis in alone if int(axis.dom.extent) > 1] or alone
        if wide:
            found[wide[-1].var] = name
    others = [axis.var for axis in spatial if axis.var not in found]
    found |= {var: "b" if len(others) == 1 else f"b{number}" for number, var in enumerate(others)}
    return tuple(found[axis.var] for axis in block.iter_vars)


def _used(region: Expr) -> set[Var]:
    found: set[Var] = set()
    variables_in([item.min for item in region.region], found)
    return found


def joined(words: Iterable[str]) -> str:
    """One name for several axes."""
    return "_".join(dict.fromkeys(words))
