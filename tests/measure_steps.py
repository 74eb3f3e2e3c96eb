"""Steps that measuring tests name by `measure_steps:...`: C by hand instead of lowering, numpy instead of TVM.

A trace is JSON: `body` (C statements), optional `globals` (C text before the function), `scratch` (bytes), `pack`
(index of a constant to reverse), `least_cycles`, and `lowering`: "raise", "die" or "hang". The kernel is
out[i] = 2 * a[i] + w[i].
"""

from __future__ import annotations

import json
import os
import signal
import time
from pathlib import Path

import numpy as np

from edgetune.boards.protocol import PART
from edgetune.errors import KernelFailed
from edgetune.graph.accuracy import Tolerance
from edgetune.graph.program import Param
from edgetune.measure.jobs import Case, ReferenceJob
from edgetune.measure.reference import random_input
from edgetune.schedule.kernel_spec import KernelSpec
from edgetune.schedule.source import CandidateSource
from edgetune.target.target import Target

LENGTH = 1000
GOOD = "for (int i = 0; i < 1000; ++i) out[i] = 2.0f * a[i] + w[i];"


def trace(body: str = GOOD, **options: object) -> str:
    return json.dumps({"body": body, **options})


def spec(key: str = "k", scratch_limit: int = 4096) -> KernelSpec:
    shape = (LENGTH,)
    params = (
        Param("a", shape, "float32", "input"),
        Param("w", shape, "float32", "constant"),
        Param("out", shape, "float32", "output"),
    )
    return KernelSpec(key, "twice_plus", "{}", params, scratch_limit)


class Reversed:
    def apply(self, array: np.ndarray) -> np.ndarray:
        return array[::-1]


def make_source(spec: KernelSpec, trace: str, target: Target) -> CandidateSource:
    del target
    plan = json.loads(trace)
    match plan.get("lowering"):
        case "raise":
            raise KernelFailed("the schedule makes no sense")
        case "die":
            os.kill(os.getpid(), signal.SIGSEGV)
        case "hang":
            time.sleep(1000)
    scratch = int(plan.get("scratch", 0))
    prototype = f"void {spec.symbol}(const float *a, const float *w, float *out, unsigned char *scratch)"
    unused = "(void)scratch; (void)a; (void)w;"
    unit = f"{plan.get('globals', '')}\n{prototype};\n{prototype}\n{{\n{unused}\n{plan['body']}\n}}\n"
    last = "buffers[3]" if scratch else "0"
    shim = (
        f"{prototype};\nvoid edgetune_call(void *const *buffers);\n"
        f"void edgetune_call(void *const *buffers) {{ {spec.symbol}(buffers[0], buffers[1], buffers[2], {last}); }}\n"
    )
    packing = {int(plan["pack"]): Reversed()} if "pack" in plan else {}
    least_cycles = float(plan.get("least_cycles", 0.0))
    return CandidateSource(unit, shim, scratch, packing, {"lower": 0.0, "emit": 0.0}, least_cycles)


def make_case(spec: KernelSpec, folder: Path, job: ReferenceJob) -> Case:
    if spec.key == "hopeless":
        raise KernelFailed("no reference for this one")
    if spec.key == "deadly":
        os.kill(os.getpid(), signal.SIGFPE)
    generator = np.random.default_rng(job.seed)
    a, w = (random_input(param, spec.params, generator, positive=False) for param in spec.params[:2])
    if 1 in job.constants:
        w = np.load(job.constants[1])
    folder.mkdir(parents=True, exist_ok=True)
    paths = tuple(folder / f"array_{index}.npy" for index in range(3))
    out = 2 * a + w
    roles: tuple[str, ...] = tuple(p.role for p in spec.params)
    if spec.key.startswith("gaps"):  # every second element is somebody else's
        integers = spec.key == "gaps of integers"
        out.view(np.uint32)[1::2] = 0x5A5A5A5A if integers else 0xFFFFFFFF
        out = out.view(np.int8) if integers else out
        roles = (*roles[:2], PART)
    for path, array in zip(paths, (a, w, out), strict=True):
        np.save(path, array)
    return Case(spec.key, paths, roles, (None, None, Tolerance(relative=1e-4)))
