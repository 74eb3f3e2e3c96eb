"""Printed kernels: what a backend gives for the kernels of a program."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from edgetune.codegen.kernel_source import KernelSource
from edgetune.schedule.source import WeightLayout


@dataclass(frozen=True)
class Printed:
    """One kernel as C text, and the packing of its constants, by parameter index."""

    source: KernelSource
    packing: Mapping[int, WeightLayout]


@dataclass(frozen=True)
class PrintedKernels:
    """All kernels of a program, in order, and the tensors that may be written `in_place`.

    See `in_place_outputs` and `states_in_place`.
    """

    kernels: tuple[Printed, ...]
    in_place: Mapping[int, int]
