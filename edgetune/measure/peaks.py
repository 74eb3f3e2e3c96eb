"""What one core can do at most: multiply-adds, and reading from each level of memory, as its own loops show.

The loops are independent chains of multiply-adds on vectors of the target's width, and sums over arrays that fit the
first cache, the second, and neither. The fastest sample counts, for a limit is what is looked for (Williams, Waterman,
Patterson: Roofline, CACM 52(4), 2009). A session times them once on each board, beside the canary.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from edgetune.boards.protocol import RunRequest
from edgetune.boards.sampling import TimingPolicy
from edgetune.target.target import Target

NAME = "peaks"
LEVELS = ("L1", "L2", "DRAM")
CHAINS = 12  # of 16 registers on the smallest of vector units, two hold the factors
_ROUNDS = 4096
_WALKED = {"L1": 64, "L2": 16, "DRAM": 1}  # times that a call walks an array
_LEAST_DRAM, _MOST_DRAM = 16 << 20, 64 << 20  # bytes of the array that no cache should hold
_BEYOND_L2 = 64  # the same as a multiple of L2
_POLICY = TimingPolicy(
    budget_ns=8e6, sample_ns=0.2e6, warm_up_ns=1e6, min_sampling_ns=2e6, min_samples=5, max_samples=20, narrow=0.005
)
_KEYS = {"L1": "l1_gb_per_s", "L2": "l2_gb_per_s", "DRAM": "dram_gb_per_s"}
_PEAK = "peak_gflops"

_VECTOR = """typedef float vector __attribute__((vector_size({bytes})));
#define ZERO ((vector){{0}})
#define FIRST(v) ((v)[0])"""
_SCALAR = """typedef float vector;
#define ZERO 0.0f
#define FIRST(v) (v)"""
_LOOPS = """#include <stddef.h>
#include <stdint.h>
{vector}
#if {lanes} > 1 && defined(__x86_64__)
#define HIDE(v) __asm__ volatile("" : "+v"(v))
#elif {lanes} > 1 && (defined(__aarch64__) || defined(__arm__))
#define HIDE(v) __asm__ volatile("" : "+w"(v))
#else
#define HIDE(v) __asm__ volatile("" : "+m"(v))
#endif

/* {chains} independent chains of `rounds` multiply-adds on vectors. */
static float multiply_adds(long rounds)
{{
    vector a[{chains}];
    for (int i = 0; i < {chains}; ++i) a[i] = ZERO + (float)i;
    vector x = ZERO + 0.999f;
    const vector y = ZERO + 0.001f;
    {declare}
    for (long r = 0; r < rounds; ++r) {{
        {step}
        HIDE(x); /* or the product would leave the loop */
    }}
    return {collect};
}}

/* Reads an array of `bytes`, `passes` times. */
static float read_memory(const char *memory, size_t bytes, size_t passes)
{{
    const size_t step = 8 * sizeof(vector);
    vector s0 = ZERO, s1 = s0, s2 = s0, s3 = s0, s4 = s0, s5 = s0, s6 = s0, s7 = s0;
    for (size_t pass = 0; pass < passes; ++pass) {{
        for (size_t at = 0; at + step <= bytes; at += step) {{
            const vector *v = (const vector *)(const void *)(memory + at);
            s0 += v[0]; s1 += v[1]; s2 += v[2]; s3 += v[3]; s4 += v[4]; s5 += v[5]; s6 += v[6]; s7 += v[7];
        }}
        __asm__ volatile("" ::: "memory");
    }}
    s0 += s1 + s2 + s3 + s4 + s5 + s6 + s7;
    return FIRST(s0);
}}
"""

_UNIT = """
static char array[{room}] __attribute__((aligned(4096)));
void edgetune_peaks(const uint32_t *restrict in, uint32_t *restrict out);
void edgetune_peaks(const uint32_t *restrict in, uint32_t *restrict out)
{{
    static const size_t sizes[] = {{{sizes}}}, passes[] = {{{passes}}};
    static uint32_t filled;
    char *memory = array;
    __asm__ volatile("" : "+r"(memory)); /* or the compiler would know what is read */
    float sum;
    if (in[0] == 0) {{
        sum = multiply_adds({rounds});
    }} else {{
        const uint32_t level = in[0] - 1;
        if (!filled) /* pages that were never written are one and the same */
            for (size_t i = 0; i < sizes[level]; i += 64) memory[i] = 0;
        filled = 1;
        sum = read_memory(memory, sizes[level], passes[level]);
    }}
    out[0] = sum < 0.0f ? 0u : in[0] + 1u;
}}
"""
_SHIM = """#include <stdint.h>
void edgetune_peaks(const uint32_t *restrict in, uint32_t *restrict out);
void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers) { edgetune_peaks(buffers[0], buffers[1]); }
"""


@dataclass(frozen=True)
class Peaks:
    """Limits of one core: operations per second (a multiply-add is two), bytes per second from each level."""

    flops: float
    bandwidth: Mapping[str, float]  # by `LEVELS`

    def or_better(self, other: Peaks) -> Peaks:
        """The larger of each limit: what disturbs a core only makes it look slower."""
        best = {level: max(rate, other.bandwidth[level]) for level, rate in self.bandwidth.items()}
        return Peaks(max(self.flops, other.flops), best)

    def level(self, bytes_touched: int, target: Target) -> str:
        """The level of memory that holds `bytes_touched` bytes from one run to the next."""
        if bytes_touched <= target.l1_bytes:
            return "L1"
        return "L2" if bytes_touched <= target.l2_bytes else "DRAM"

    def to_environment(self) -> dict[str, float]:
        """Keys of a record's environment: GFLOP/s and GB/s."""
        rates = {_KEYS[level]: round(self.bandwidth[level] / 1e9, 3) for level in LEVELS}
        return {_PEAK: round(self.flops / 1e9, 3), **rates}

    @classmethod
    def of_environment(cls, environment: Mapping[str, object]) -> Peaks | None:
        """The limits in a record's environment; None where it lacks one, or where one cannot be a limit."""
        told = [environment.get(key) for key in (_PEAK, *(_KEYS[level] for level in LEVELS))]
        rates = [1e9 * rate for rate in told if isinstance(rate, int | float) and math.isfinite(rate) and rate > 0]
        return cls(rates[0], dict(zip(LEVELS, rates[1:], strict=True))) if len(rates) == len(told) else None


@dataclass(frozen=True)
class PeakProgram:
    """The built loops: their library, and an input and an output for each limit, as files of this machine."""

    target: Target
    library: Path
    arrays: tuple[tuple[Path, Path], ...]

    def requests(self) -> Iterator[RunRequest]:
        """Yield the requests to time each limit, the peak first; the paths are of this machine."""
        for paths in self.arrays:
            yield RunRequest(
                candidate_id=NAME,
                library=str(self.library),
                arrays=tuple(str(path) for path in paths),
                roles=("input", "output"),
                tolerances=(None, None),
                scratch_bytes=0,
                timing=_POLICY,
            )

    def peaks(self, fastest_ns: list[float]) -> Peaks:
        """The limits from the fastest sample of each request, in nanoseconds per call."""
        operations = 2 * _lanes(self.target) * CHAINS * _ROUNDS
        moved = {level: size * _WALKED[level] for level, size in _sizes(self.target).items()}
        rates = {level: 1e9 * moved[level] / ns for level, ns in zip(LEVELS, fastest_ns[1:], strict=True)}
        return Peaks(1e9 * operations / fastest_ns[0], rates)


def can_be_timed(target: Target) -> bool:
    """Whether times on boards of `target` are those of a real core."""
    return not target.emulated and target.clock == "time"


def loops(target: Target) -> str:
    """C text of the functions `multiply_adds` and `read_memory`, and the type `vector`."""
    numbers = range(CHAINS)
    return _LOOPS.format(
        vector=_VECTOR.format(bytes=4 * _lanes(target)) if _lanes(target) > 1 else _SCALAR,
        lanes=_lanes(target),
        chains=CHAINS,
        declare="vector " + ", ".join(f"a{i} = a[{i}]" for i in numbers) + ";",
        step=" ".join(f"a{i} += x * y;" for i in numbers),
        collect=" + ".join(f"FIRST(a{i})" for i in numbers),
    )


def write_program(target: Target, folder: Path) -> tuple[PeakProgram, Path, Path]:
    """Write the files of the program into the new `folder`; the last two are its unit and its shim, to be compiled.

    Raises OSError.
    """
    folder.mkdir()
    sizes = _sizes(target)
    unit = _UNIT.format(
        room=max(sizes.values()),
        sizes=", ".join(str(size) for size in sizes.values()),
        passes=", ".join(str(_WALKED[level]) for level in sizes),
        rounds=_ROUNDS,
    )
    (folder / "unit.c").write_text(loops(target) + unit)
    (folder / "shim.c").write_text(_SHIM)
    arrays = tuple((folder / f"in{n}.npy", folder / f"out{n}.npy") for n in range(1 + len(LEVELS)))
    for number, (given, wanted) in enumerate(arrays):
        np.save(given, np.array([number], dtype=np.uint32))
        np.save(wanted, np.array([number + 1], dtype=np.uint32))
    return PeakProgram(target, folder / "peaks.so", arrays), folder / "unit.c", folder / "shim.c"


def _lanes(target: Target) -> int:
    return max(1, target.vector_bits // 32)


def _sizes(target: Target) -> dict[str, int]:
    """Bytes of the array of each level, whole steps of the loop."""
    step = 8 * 4 * _lanes(target)
    beyond = min(max(_BEYOND_L2 * target.l2_bytes, _LEAST_DRAM), _MOST_DRAM)
    wanted = {"L1": target.l1_bytes // 2, "L2": target.l2_bytes // 2, "DRAM": beyond}
    return {level: max(1, size // step) * step for level, size in wanted.items()}
