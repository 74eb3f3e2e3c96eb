"""What one core can do at most: multiply-adds, and reading from each level of memory.

A program of its own around the loops that a measuring session times as well (`edgetune.measure.peaks`), compiled with
the target's own compiler and flags. The best of several repeats counts.
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from pathlib import Path

from edgetune.errors import CompileFailed, UsageError
from edgetune.measure.peaks import CHAINS, Peaks, loops
from edgetune.pipeline.boards import own_transport
from edgetune.target.target import Target

__all__ = ["LARGEST", "Peaks", "measure_peaks", "source"]

LARGEST = 1 << 28  # bytes of the array that no cache holds
TIMEOUT_S = 120.0
_PAGE = 4096

_SOURCE = """
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
{loops}
static double now(void) {{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}}
static volatile float sink;

/* Operations per second. */
static double flops(void) {{
  const long rounds = 1L << 20;
  const double begin = now();
  sink = multiply_adds(rounds);
  return 2.0 * {lanes} * {chains} * (double)rounds / (now() - begin);
}}

/* Bytes read per second from an array of `bytes`, walked again and again. */
static double bandwidth(const char *memory, size_t bytes) {{
  const size_t step = 8 * sizeof(vector), passes = ((size_t)1 << 29) / bytes + 1;
  const double begin = now();
  sink = read_memory(memory, bytes, passes);
  return (double)(bytes / step * step) * (double)passes / (now() - begin);
}}

int main(void) {{
  static const size_t sizes[] = {{{l1} / 2, {l2} / 2, {dram}}};
  char *memory = aligned_alloc(4096, {room});
  if (memory == NULL) return 1;
  for (size_t i = 0; i < {room}; i += 64) memory[i] = 0;
  double best[4] = {{0}};
  for (int repeat = 0; repeat < {repeats}; ++repeat) {{
    const double f = flops();
    if (f > best[0]) best[0] = f;
    for (int level = 0; level < 3; ++level) {{
      if (level == 2 && repeat >= 3) continue;
      const double b = bandwidth(memory, sizes[level]);
      if (b > best[1 + level]) best[1 + level] = b;
    }}
  }}
  printf("[%.6g, %.6g, %.6g, %.6g]\\n", best[0], best[1], best[2], best[3]);
  return 0;
}}
"""


def source(target: Target, repeats: int, largest: int = LARGEST) -> str:
    """C text of the measuring program; the largest array has `largest` bytes."""
    return _SOURCE.format(
        loops=loops(target),
        lanes=max(1, target.vector_bits // 32),
        chains=CHAINS,
        l1=target.l1_bytes,
        l2=target.l2_bytes,
        dram=largest,
        room=-(-max(largest, target.l1_bytes // 2, target.l2_bytes // 2) // _PAGE) * _PAGE,
        repeats=repeats,
    )


def measure_peaks(target: Target, core: int, repeats: int = 20, largest: int = LARGEST) -> Peaks:
    """Measure `core` of this machine; "DRAM" is the bandwidth from an array of `largest` bytes.

    Raises UsageError for a board elsewhere, CompileFailed.
    """
    transport = own_transport(target)
    if transport is None or not transport.here:
        raise UsageError(f"the limits of '{target.name}' can be measured only on the machine itself")
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "peaks.c").write_text(source(target, repeats, largest), encoding="ascii")
        program = str(Path(folder) / "peaks")
        flags = (*target.compiler.cflags, *target.compiler.kernel_cflags)
        command = [target.compiler.cc, "-std=gnu11", *flags, "-o", program, f"{folder}/peaks.c"]
        built = subprocess.run(command, capture_output=True, text=True, check=False)
        if built.returncode:
            raise CompileFailed(f"{target.compiler.cc} refuses the program that measures limits: {built.stderr[-300:]}")
        pinned = ["taskset", "--cpu-list", str(core), program]
        try:
            done = subprocess.run(pinned, capture_output=True, text=True, check=True, timeout=TIMEOUT_S)
        except (OSError, subprocess.SubprocessError) as error:
            raise UsageError(f"core {core} cannot be measured ({error}): choose another with --core") from error
    flops, first, second, memory = json.loads(done.stdout)
    return Peaks(flops, {"L1": first, "L2": second, "DRAM": memory})
