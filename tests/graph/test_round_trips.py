"""Round trips through 8 bits: what is quantised and dequantised in a kernel stays a float, with the same values."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tvm import te, tirx

from edgetune.graph.round_trips import without_round_trips
from tests.sketch_samples import prim_func, run_plain

Chain = dict[str, Any]
FITTING: Chain = {"zero": 3.0, "ends": (-128.0, 127.0), "dtype": "int8", "rounds": True}


def round_trip(zero: float, ends: tuple[float, float], dtype: str, *, rounds: bool, kept: bool = False) -> Any:
    """Stages as graphs write them: x / 0.1 rounded, moved, clamped, as 8 bits and back. `kept`: these are a result."""
    x = te.placeholder((4, 40), name="x")

    def number(value: float) -> Any:
        return tirx.const(value, "float32")

    scaled = te.compute(x.shape, lambda *i: x(*i) / number(0.1), "scaled")
    rounded = te.compute(x.shape, lambda *i: tirx.nearbyint(scaled(*i)) if rounds else scaled(*i), "rounded")
    moved = te.compute(x.shape, lambda *i: rounded(*i) + number(zero), "moved")
    low = te.compute(x.shape, lambda *i: tirx.max(moved(*i), number(ends[0])), "low")
    high = te.compute(x.shape, lambda *i: tirx.min(low(*i), number(ends[1])), "high")
    bits = te.compute(x.shape, lambda *i: high(*i).astype(dtype), "bits")
    wide = te.compute(x.shape, lambda *i: bits(*i).astype("int32"), "wide")
    centred = te.compute(x.shape, lambda *i: wide(*i) - tirx.const(int(zero), "int32"), "centred")
    back = te.compute(x.shape, lambda *i: centred(*i).astype("float32") * number(0.1), "back")
    return prim_func([x], back) if not kept else prim_func([x, bits], back)


@pytest.mark.parametrize(
    "chain",
    [
        FITTING,
        FITTING | {"zero": -5.0},
        FITTING | {"zero": 0.0},
        FITTING | {"dtype": "uint8", "ends": (0.0, 255.0)},
        FITTING | {"ends": (-100.0, 20.0)},
    ],
)
def test_a_value_that_is_quantised_and_dequantised_stays_a_float(chain: Chain) -> None:
    function = round_trip(**chain)
    made = without_round_trips(function)
    assert "int8" not in str(made)
    assert "int32" not in str(made.body.block.alloc_buffers)
    x = np.linspace(-30, 30, 160, dtype=np.float32).reshape(4, 40)
    arrays = [x, np.zeros_like(x)]
    np.testing.assert_array_equal(run_plain(made, arrays), run_plain(function, arrays))


@pytest.mark.parametrize(
    "chain",
    [
        FITTING | {"rounds": False},
        FITTING | {"zero": 2.5},
        FITTING | {"ends": (-128.0, 128.0)},
        FITTING | {"ends": (-128.5, 127.0)},
        FITTING | {"dtype": "uint8"},
    ],
    ids=["not whole", "moved by a half", "beyond the greatest", "an end that is not whole", "beyond the least"],
)
def test_other_values_become_integers(chain: Chain) -> None:
    function = round_trip(**chain)
    assert without_round_trips(function).same_as(function)


def test_integers_that_are_a_result_are_stored() -> None:
    function = round_trip(**FITTING, kept=True)
    made = without_round_trips(function)
    assert "int8" in str(made)
    assert "int32" not in str(made.body.block.alloc_buffers)
