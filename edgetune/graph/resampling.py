"""Resizing by tables: which elements of an axis make each result, and their weights, are known before the device runs.

TVM's operator computes places and weights anew for each element: floats, floors and conversions to 64-bit integers that
no compiler moves out of its loops. Sizes are constant, so the tables are: one row of places and weights for each result
along an axis, one element for the nearest, two for linear, four for cubic interpolation (Keys 1981).
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial, reduce

import numpy as np
from tvm import ir, relax, te

from edgetune.graph.rewrite import DefUse
from edgetune.graph.te_call import call_fusable
from edgetune.graph.whole_factors import whole_factor
from edgetune.tvm_types import Expr

_LAYOUTS = {"NCHW": (2, 3), "NHWC": (1, 2)}
_MODES = frozenset({"half_pixel", "align_corners", "asymmetric", "pytorch_half_pixel"})


@dataclass(frozen=True)
class Taps:
    """Rows of `places` (int32) and `weights` (float32), both results x taps; equal places of a row are not joined."""

    places: np.ndarray
    weights: np.ndarray

    @property
    def count(self) -> int:
        """Elements that make one result."""
        return int(self.places.shape[1])

    @property
    def repeats(self) -> bool:
        """Whether single elements are repeated evenly: short indices say that without a table (`whole_factors.py`)."""
        places = self.places[:, 0]
        return self.count == 1 and whole_factor(places, np.arange(len(places))) is not None

    @property
    def tables(self) -> list[np.ndarray]:
        """What a kernel reads: a single element needs no weight."""
        return [self.places, self.weights] if self.count > 1 else [self.places]


def resize_by_tables(call: relax.Call, _: DefUse, builder: relax.BlockBuilder) -> relax.Expr | None:
    """The same as a kernel that reads tables; None for any other operator, type or variant, or where it needs none."""
    if call.op.name != "relax.image.resize2d":
        return None
    x, attributes = call.args[0], call.attrs
    axes = _LAYOUTS.get(str(attributes.layout))
    if axes is None or str(call.ty.dtype) != "float32" or str(x.ty.dtype) != "float32":
        return None
    old, new = ([int(one.ty.shape[axis]) for axis in axes] for one in (x, call))
    rows, columns = (_taps(attributes, *sizes) for sizes in zip(old, new, strict=True))
    if rows is None or columns is None or (rows.repeats and columns.repeats):
        return None
    tables = [relax.const(table) for table in (*rows.tables, *columns.tables)]
    compute = _by_rows if axes[-1] == 3 and rows.count > 1 else _at_once
    return call_fusable(builder, compute(axes, rows, columns), x, *tables)


def _taps(attributes: ir.Attrs, old: int, new: int) -> Taps | None:
    """The taps of one axis; None for a variant that stays TVM's."""
    mode, method = str(attributes.coordinate_transformation_mode), str(attributes.method)
    if mode not in _MODES:
        return None
    if method == "nearest_neighbor":
        chosen = _nearest(str(attributes.rounding_method), _positions(mode, old, new, np.float32))
        if chosen is None:
            return None
        return Taps(np.clip(chosen, 0, old - 1)[:, None].astype("int32"), np.ones((new, 1), "float32"))
    positions = _positions(mode, old, new, np.float64)
    first = np.floor(positions)
    share = positions - first
    if method == "linear":
        weights = np.stack([1 - share, share], axis=1)
    elif method == "cubic" and not int(attributes.cubic_exclude):
        weights = _keys(share, float(attributes.cubic_alpha))
        first = first - 1
    else:
        return None
    places = np.clip(first[:, None] + np.arange(weights.shape[1]), 0, old - 1)
    return Taps(places.astype("int32"), weights.astype("float32"))


def _positions(mode: str, old: int, new: int, dtype: type[np.floating]) -> np.ndarray:
    """Where each result lies among the `old` elements, as ONNX's Resize specifies it."""
    found: np.ndarray = np.arange(new, dtype=dtype)
    scale, half = dtype(old) / dtype(new), dtype(0.5)
    if mode == "align_corners":
        found *= dtype(old - 1) / dtype(max(new - 1, 1))
    elif mode == "asymmetric":
        found *= scale
    elif mode == "pytorch_half_pixel" and new == 1:
        found[:] = 0
    else:
        found = (found + half) * scale - half
    return found


def _nearest(rounding: str, positions: np.ndarray) -> np.ndarray | None:
    """Positions as places; a thousandth of a hundredth keeps what ought to be an integer from the wrong side."""
    half, margin = np.float32(0.5), np.float32(1e-5)
    rounded = {
        "round_prefer_floor": np.ceil(positions - half),
        "round_prefer_ceil": np.floor(positions + half),
        "floor": np.floor(positions + margin),
        "ceil": np.ceil(positions - margin),
    }
    return rounded.get(rounding)


def _keys(share: np.ndarray, a: float) -> np.ndarray:
    """The four weights of cubic convolution, a position `share` beyond the second element (Keys 1981, equation 4)."""
    distances = np.abs(np.stack([share + 1, share, 1 - share, 2 - share], axis=1))
    near = ((a + 2) * distances - (a + 3)) * distances**2 + 1
    far = ((a * distances - 5 * a) * distances + 8 * a) * distances - 4 * a
    return np.asarray(np.where(distances <= 1, near, far))


def _at_once(axes: tuple[int, int], rows: Taps, columns: Taps) -> Callable[..., te.Tensor]:
    """All elements of a result in one sum: lanes run along the channels."""

    def resize2d(x: te.Tensor, *tables: te.Tensor) -> te.Tensor:
        line = partial(_sum, columns, axes[1], tables[len(rows.tables) :], x)
        whole = partial(_sum, rows, axes[0], tables, line)
        return te.compute(_shape(x, axes, rows, columns), whole, "resize2d")

    return resize2d


def _by_rows(axes: tuple[int, int], rows: Taps, columns: Taps) -> Callable[..., te.Tensor]:
    """A row of the image between two others first, in whole vectors, then its columns."""

    def resize2d(x: te.Tensor, *tables: te.Tensor) -> te.Tensor:
        line = te.compute(_shape(x, axes[:1], rows), partial(_sum, rows, axes[0], tables, x), "line")
        whole = partial(_sum, columns, axes[1], tables[len(rows.tables) :], line)
        return te.compute(_shape(x, axes, rows, columns), whole, "resize2d")

    return resize2d


def _sum(taps: Taps, axis: int, tables: Sequence[te.Tensor], x: Callable[..., Expr], *at: Expr) -> Expr:
    """The elements of `x` that make the one at `at`, along one axis; the axis' tables are the first of `tables`."""
    terms = []
    for tap in range(taps.count):
        place = [*at]
        place[axis] = tables[0][at[axis], tap]
        terms.append(x(*place) if taps.count == 1 else x(*place) * tables[1][at[axis], tap])
    return reduce(operator.add, terms)


def _shape(x: te.Tensor, axes: Sequence[int], *taps: Taps) -> list[int]:
    shape = [int(extent) for extent in x.shape]
    for axis, one in zip(axes, taps, strict=True):
        shape[axis] = len(one.places)
    return shape
