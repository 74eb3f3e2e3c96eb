"""Random samples of TVM's own rules for CUDA: python -m tests.cuda.tvm_rules MODEL NUMBER.

Of NUMBER samples of each distinct kernel that a design of ours fits, counts those that TVM's postprocessors accept
within the target's limits (threads, shared memory, unrolled steps): what `python -m tests.cuda.proposals` counts of our
designs, without nvcc. Rules for tensor cores are not among them. The numbers say nothing about speed.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter
from pathlib import Path

import tvm
from tvm.s_tir import Schedule, Trace
from tvm.s_tir import meta_schedule as ms

from edgetune.errors import TVM_REFUSALS
from edgetune.pipeline.model_formats import read_model
from edgetune.schedule.gpu.spaces import gpu_designs
from edgetune.schedule.sketches.spaces import module_of
from edgetune.target.gpu import GpuTarget
from edgetune.tvm_types import PrimFunc
from tests.cuda.cpu_check import gpu

ACCEPTED = "accepted"


def accepted(function: PrimFunc, target: GpuTarget, number: int) -> Counter[str]:
    """What became of `number` samples of a function, from each of the rules' design spaces in turns."""
    limits = {
        "kind": "cuda",
        "arch": target.arch,
        "max_threads_per_block": 1024,
        "max_num_threads": 1024,
        "max_shared_memory_per_block": target.shared_bytes_per_block,
        "thread_warp_size": 32,
    }
    module = module_of(function)
    context = ms.TuneContext(
        module,
        target=tvm.target.Target(limits, host={"kind": "llvm"}),
        space_generator=ms.space_generator.PostOrderApply(sch_rules="cuda", postprocs="cuda", mutator_probs="cuda"),
        rand_state=1,
        num_threads=1,
    )
    spaces = context.generate_design_space()
    counts: Counter[str] = Counter()
    for place in range(number):
        trace = Trace(spaces[place % len(spaces)].trace.insts, {})
        counts[_fate(Schedule(module, seed=place + 1), trace, context)] += 1
    return counts


def _fate(sch: Schedule, trace: Trace, context: ms.TuneContext) -> str:
    """What becomes of a sample that a trace without decisions draws."""
    try:
        trace.apply_to_schedule(sch, remove_postproc=True)
        sch.enter_postproc()
        for step in context.space_generator.postprocs:
            if not step.apply(sch):
                return f"refused by {type(step).__name__}"
    except TVM_REFUSALS:
        return "not scheduled"
    return ACCEPTED


def main() -> int:
    """Run the command."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("number", type=int, help="samples of each kernel")
    given = parser.parse_args()
    kernels = {kernel.workload: kernel for kernel in read_model(given.model).program().kernels}
    total: Counter[str] = Counter()
    for kernel in kernels.values():
        if gpu_designs(kernel.function, gpu()):
            counts = accepted(kernel.function, gpu(), given.number)
            sys.stdout.write(f"{kernel.name}: {dict(counts)}\n")
            sys.stdout.flush()
            total += counts
    sys.stdout.write(f"{ACCEPTED} {total[ACCEPTED]} of {total.total()}\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
