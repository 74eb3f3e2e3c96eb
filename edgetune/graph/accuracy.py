"""Error tolerances of float results against their reference, by dtype: one table for kernels and for whole packages."""

from __future__ import annotations

FLOAT_TOLERANCE = {"float16": 4e-3, "bfloat16": 3e-2, "float32": 1e-4, "float64": 1e-4}
"""Allowed error relative to the largest element, by dtype. For the 16-bit types it is about four units in the last
place."""
