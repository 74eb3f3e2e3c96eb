"""Times of a package's layers while nobody else was on the core, each beside what the core could do just then.

Virtual cores share theirs with strangers and change their clock. Before and behind each layer a probe tells how many
multiply-adds a second the core does and how many additions at once; where one of these says that somebody was there,
or the clock changed in between, the sample does not count.
"""

from __future__ import annotations

import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median
from typing import Any

from edgetune.errors import SelfTestFailed
from edgetune.target.target import Target
from edgetune.verify.shared_library import build_program, shim

_CHAINS = 12
_ALONE = 0.97  # of the additions at once of a core alone; two threads have about 0.6 each
_STEADY = 0.02  # by which the peak may differ between before and behind
_PATIENCE_S = 600.0  # for the first runs and the last one
_ROOT = Path(__file__).resolve().parent.parent
_TIMER = (f"-I{_ROOT / 'templates' / 'agent'}", str(_ROOT / "edgetune" / "boards" / "local" / "timer.c"))

_DRIVER = """
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

double edgetune_width(void);
typedef float probe_vector __attribute__((vector_size({bytes})));
#if defined(__x86_64__)
#define HIDE(v) __asm__ volatile("" : "+v"(v))
#elif defined(__aarch64__) || defined(__arm__)
#define HIDE(v) __asm__ volatile("" : "+w"(v))
#else
#define HIDE(v) __asm__ volatile("" : "+m"(v))
#endif
static double now_s(void)
{{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}}
/* Operations per second of independent chains of multiply-adds, just now. */
static double flops(void)
{{
    const long rounds = 8000;
    {declare}
    probe_vector x = (probe_vector){{0}} + 0.999f;
    const probe_vector y = (probe_vector){{0}} + 0.001f;
    const double begin = now_s();
    for (long r = 0; r < rounds; ++r) {{
        {step}
        HIDE(x);
    }}
    const double seconds = now_s() - begin;
    {hide}
    return 2.0 * {lanes} * {chains} * (double)rounds / seconds;
}}
static double began, flops_before, width_before;
static void probe(void *user, unsigned layer, const char *name, int end)
{{
    const double at = now_s();
    (void)user, (void)name;
    if (end) {{
        const double can = flops(), width = edgetune_width();
        printf("%u %.9g %.6g %.6g %.6g %.6g\\n", layer, at - began, flops_before, can, width_before, width);
    }} else {{
        width_before = edgetune_width();
        flops_before = flops(); /* next to the layer: wide vectors have a clock of their own */
        began = now_s();
    }}
}}
int main(int argc, char **argv)
{{
    const double until = now_s() + (argc > 1 ? atof(argv[1]) : 1.0);
    if (shim_start() != 0 || shim_run() != 0) return 1;
    {p}_set_profiler(&ctx, probe, NULL);
    do {{
        if (shim_run() != 0) return 1;
    }} while (now_s() < until);
    return 0;
}}
"""


@dataclass(frozen=True)
class LayerSample:
    """One run of a layer: `seconds`, and before and behind it the operations a second and the additions at once."""

    seconds: float
    flops: tuple[float, float]
    widths: tuple[float, float]


@dataclass(frozen=True)
class LayerTime:
    """`us`: median at the clock of `peak`; `undisturbed` samples of `samples`. Where none was, all of them count."""

    us: float
    undisturbed: int
    samples: int


def layer_times(package: Path, target: Target, core: int, seconds: float) -> tuple[list[LayerTime], float]:
    """The layers of `package`, run on `core` for about `seconds`, and the core's operations a second at its best clock.

    Times are those of that clock: a layer is slower by as much as the probes are, unless it waits for memory. Raises
    what building the package raises, and SelfTestFailed where it does not run, or not in time.
    """
    with tempfile.TemporaryDirectory() as folder:
        program = build_program(package, Path(folder), lambda manifest: source(manifest, target), _TIMER)
        pinned = ["taskset", "--cpu-list", str(core), str(program), f"{seconds:g}"]
        try:
            done = subprocess.run(pinned, capture_output=True, text=True, check=False, timeout=seconds + _PATIENCE_S)
        except subprocess.TimeoutExpired as expired:
            raise SelfTestFailed(f"{package} did not end on core {core} within {expired.timeout:g} s") from None
    if done.returncode:
        raise SelfTestFailed(f"{package} did not run on core {core}: {done.stderr.strip() or done.returncode}")
    return judged(samples_of(done.stdout))


def source(manifest: Mapping[str, Any], target: Target) -> str:
    """C text of the program that runs a package and probes around its layers."""
    width = (target.vector_bits or 32) // 8
    numbers = range(_CHAINS)
    return shim(manifest) + _DRIVER.format(
        p=manifest["prefix"],
        bytes=width,
        lanes=width // 4,
        chains=_CHAINS,
        declare="probe_vector " + ", ".join(f"a{i} = (probe_vector){{0}} + {i}.0f" for i in numbers) + ";",
        step=" ".join(f"a{i} = a{i} * x + y;" for i in numbers),
        hide=" ".join(f"HIDE(a{i});" for i in numbers),
    )


def samples_of(text: str) -> list[list[LayerSample]]:
    """The samples of each layer, from the lines that the program writes."""
    found: list[list[LayerSample]] = []
    for line in text.splitlines():
        layer, seconds, before, behind, wide_before, wide_behind = (float(word) for word in line.split())
        found += [[] for _ in range(int(layer) + 1 - len(found))]
        found[int(layer)].append(LayerSample(seconds, (before, behind), (wide_before, wide_behind)))
    return found


def judged(layers: Sequence[Sequence[LayerSample]]) -> tuple[list[LayerTime], float]:
    """Times of layers from their samples, and operations per second at the best clock (95th percentile of probes).

    Raises SelfTestFailed where a layer has no samples, or there are no layers.
    """
    probes = [sample for samples in layers for sample in samples]
    if not all(layers) or not layers:
        raise SelfTestFailed("a package wrote no sample of a layer: run it for longer, or see whether it has layers")
    widths = sorted(width for sample in probes for width in sample.widths)
    rates = sorted(rate for sample in probes for rate in sample.flops)
    alone, peak = widths[len(widths) * 95 // 100], rates[len(rates) * 95 // 100]

    def calm(sample: LayerSample) -> bool:
        before, behind = sample.flops
        return min(sample.widths) >= _ALONE * alone and abs(before - behind) <= _STEADY * peak

    def at_peak(sample: LayerSample) -> float:
        return sample.seconds * 1e6 * sum(sample.flops) / 2 / peak

    times = []
    for samples in layers:
        kept = [sample for sample in samples if calm(sample)]
        times.append(LayerTime(median(map(at_peak, kept or samples)), len(kept), len(samples)))
    return times, peak
