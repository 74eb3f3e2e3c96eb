"""Candidates for GPUs: a trace of a kernel as the CUDA text that is compiled, timed and shipped."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from edgetune.codegen.cuda.emit import emit_cuda_kernel
from edgetune.codegen.cuda.half import headers
from edgetune.codegen.cuda.maths import render_device_preamble
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.package_names import with_prefix
from edgetune.codegen.packing import PackedLayout, split_packing
from edgetune.graph.program import Kernel
from edgetune.schedule.algorithms.apply import replay_plainly
from edgetune.target.gpu import GpuTarget

_PREFIX = "edgetune"


@dataclass(frozen=True)
class GpuCandidate:
    """The text of a candidate as a whole file, its launches, and the layouts of weights by parameter index."""

    trace: str
    unit: str
    source: KernelSource
    packing: Mapping[int, PackedLayout]

    @property
    def name(self) -> str:
        """The hash of the text, as in a record."""
        return hashlib.sha256(self.unit.encode()).hexdigest()


def gpu_candidate(kernel: Kernel, trace: str, target: GpuTarget) -> GpuCandidate:
    """A kernel under a trace; equal kernels of two models have equal text. Raises KernelFailed."""
    module, packing = split_packing(replay_plainly(kernel.function, trace))
    source = emit_cuda_kernel(module, target, f"{_PREFIX}__k_{kernel.workload[:12]}", kernel.unaligned)
    return GpuCandidate(trace, joined_unit((source,)), source, packing)


def joined_unit(sources: Sequence[KernelSource]) -> str:
    """The text of a file with the kernels of several candidates, whose symbols differ, and the functions they need."""
    preamble = render_device_preamble(frozenset().union(*(source.preamble for source in sources)), _PREFIX)
    text = "\n".join(with_prefix(source.definition, _PREFIX) for source in sources)
    return f'#include <math.h>\n#include <stdint.h>\n{headers(sources)}{preamble}\nextern "C" {{\n{text}\n}}\n'
