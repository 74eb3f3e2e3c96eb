"""How far a result in floats may be from its reference: one table for single kernels and for whole packages."""

from __future__ import annotations

FLOAT_TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-4}
"""Allowed error as a share of the largest element, by dtype: for the halves, about four units in their last place."""
