"""Embedding layers of ONNX Runtime: the sum of words, positions and segments, normalised, and how long each row is."""

from __future__ import annotations

import numpy as np
import onnx

from edgetune.frontend.onnx.decompositions.builder import Builder
from edgetune.frontend.onnx.decompositions.onnx_runtime.fused import layer_normalised
from edgetune.frontend.onnx.decompositions.scales import dequantised


def embed_layer_normalization(b: Builder, _: onnx.NodeProto) -> None:
    """The normalised sum of rows of tables, and how many words each row of the batch has."""
    tables = [b.input(index) for index in (2, 3, 4)]
    _embedded(b, tables, b.input(5), b.input(6), b.input(7), b.input(8))


def qembed_layer_normalization(b: Builder, _: onnx.NodeProto) -> None:
    """The same of tables, scale and offset of integers, each with a scale and a zero point."""
    given = [(2, 8, 13), (3, 9, 14), (4, 10, 15), (5, 11, 16), (6, 12, 17)]
    tables = [dequantised(b, b.input(i), b.input(j), b.input(k)) if b.input(i) else "" for i, j, k in given]
    _embedded(b, tables[:3], tables[3], tables[4], b.input(7), "")


def _embedded(b: Builder, tables: list[str], scale: str, offset: str, mask: str, places: str) -> None:
    words = b.input(0)
    batch, length = b.shape(words)
    places = places or b.constant(np.arange(length).reshape(1, length), "int64")
    total = b.op("Add", b.op("Gather", tables[0], words, axis=0), b.op("Gather", tables[1], places, axis=0))
    if b.input(1) and tables[2]:
        total = b.op("Add", total, b.op("Gather", tables[2], b.input(1), axis=0))
    b.output(0, layer_normalised(b, total, scale, offset))
    counted = b.constant(np.zeros(batch), "int32")
    if mask:
        kept = b.cast(b.op("Equal", mask, b.constant(1, b.dtype(mask))), "int32")
        counted = b.reshape(b.total(kept, 1), batch)
    b.output(1, counted)
    b.output(2, total)
