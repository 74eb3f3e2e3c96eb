"""What one core can do at most: multiply-adds, and reading from each level of memory.

A small C program, compiled with the target's own compiler and flags: independent chains of multiply-adds on vectors of
the target's width, and sums over arrays that fit the first cache, the second, and none. The best of several repeats
counts, for a limit is what it looks for (Williams, Waterman, Patterson: Roofline, CACM 52(4), 2009).
"""

from __future__ import annotations

import json
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path

from edgetune.errors import CompileFailed, UsageError
from edgetune.pipeline.boards import own_transport
from edgetune.target.target import Target

CHAINS = 12  # of 16 registers on the smallest of vector units, two hold the factors
LARGEST = 1 << 28  # bytes of the array that no cache holds
TIMEOUT_S = 120.0
_PAGE = 4096

_SOURCE = """
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

typedef float vector __attribute__((vector_size({bytes})));
static double now(void) {{
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}}
static volatile float sink;
#if defined(__x86_64__)
#define HIDE(v) __asm__ volatile("" : "+v"(v))
#elif defined(__aarch64__) || defined(__arm__)
#define HIDE(v) __asm__ volatile("" : "+w"(v))
#else
#define HIDE(v) __asm__ volatile("" : "+m"(v))
#endif

/* Multiply-adds per second over {chains} independent chains, twice that in operations. */
static double flops(void) {{
  const long rounds = 1L << 20;
  vector a[{chains}];
  for (int i = 0; i < {chains}; ++i) a[i] = (vector){{0}} + (float)i;
  vector x = (vector){{0}} + 0.999f;
  const vector y = (vector){{0}} + 0.001f;
  {declare}
  const double begin = now();
  for (long r = 0; r < rounds; ++r) {{
    {step}
    HIDE(x); /* or the product would leave the loop */
  }}
  const double seconds = now() - begin;
  {collect}
  return 2.0 * {lanes} * {chains} * (double)rounds / seconds;
}}

/* Bytes read per second from an array of `bytes`, walked again and again. */
static double bandwidth(const char *memory, size_t bytes) {{
  const size_t step = 8 * sizeof(vector), passes = ((size_t)1 << 29) / bytes + 1;
  vector s0 = {{0}}, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
  const double begin = now();
  for (size_t pass = 0; pass < passes; ++pass) {{
    for (size_t at = 0; at + step <= bytes; at += step) {{
      const vector *v = (const vector *)(const void *)(memory + at);
      s0 += v[0]; s1 += v[1]; s2 += v[2]; s3 += v[3]; s4 += v[4]; s5 += v[5]; s6 += v[6]; s7 += v[7];
    }}
    __asm__ volatile("" ::: "memory");
  }}
  const double seconds = now() - begin;
  s0 += s1 + s2 + s3 + s4 + s5 + s6 + s7;
  sink = s0[0];
  return (double)(bytes / step * step) * (double)passes / seconds;
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


@dataclass(frozen=True)
class Peaks:
    """Limits of one core: operations per second (a multiply-add is two), bytes per second from each level."""

    flops: float
    bandwidth: dict[str, float]  # "L1", "L2", "DRAM"

    def or_better(self, other: Peaks) -> Peaks:
        """The larger of each limit: what disturbs a core only makes it look slower."""
        best = {level: max(rate, other.bandwidth[level]) for level, rate in self.bandwidth.items()}
        return Peaks(max(self.flops, other.flops), best)

    def level(self, bytes_touched: int, target: Target) -> str:
        """The level of memory that holds `bytes_touched` bytes from one run to the next."""
        if bytes_touched <= target.l1_bytes:
            return "L1"
        return "L2" if bytes_touched <= target.l2_bytes else "DRAM"


def source(target: Target, repeats: int, largest: int = LARGEST) -> str:
    """C text of the measuring program; the largest array has `largest` bytes."""
    width = (target.vector_bits or 32) // 8
    numbers = range(CHAINS)
    return _SOURCE.format(
        bytes=width,
        lanes=width // 4,
        chains=CHAINS,
        declare="vector " + ", ".join(f"a{i} = a[{i}]" for i in numbers) + ";",
        step=" ".join(f"a{i} += x * y;" for i in numbers),
        collect="sink = " + " + ".join(f"a{i}[0]" for i in numbers) + ";",
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
