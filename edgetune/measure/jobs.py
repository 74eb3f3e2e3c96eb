"""What travels between a measuring session, its build workers and its runner: plain frozen data, all picklable."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from edgetune.graph.program import Kernel, Param, Program

if TYPE_CHECKING:
    import numpy as np

    from edgetune.measure.sampling import TimingPolicy

BuildStatus = Literal["built", "duplicate", "over_scratch", "lower_failed", "build_failed", "timeout"]
RunStatus = Literal["ok", "wrong_result", "crashed", "timeout", "build_failed"]
Status = Literal[
    "ok",
    "refused_noisy",
    "duplicate",
    "over_scratch",
    "lower_failed",
    "build_failed",
    "timeout",
    "crashed",
    "wrong_result",
    "reference_failed",
]


PART = "part"
"""Role of an output with gaps: the reference has bytes of `gap_fill` there, and a candidate has to leave them alone."""

OUTPUTS = ("output", PART)
"""Roles of what a candidate writes and what is compared with the reference."""


def gap_fill(dtype: str) -> int:
    """The byte that the gaps of an output hold, so that whatever is written there is not within its tolerance.

    For integers, no neighbour of 0 or of either end of the range: those are what quantised kernels write most. 255 for
    all else, which makes a NaN of a float.
    """
    return 0x5A if dtype.startswith(("int", "uint")) else 0xFF


@dataclass(frozen=True)
class KernelSpec:
    """One kernel to measure candidates of: `key` names it in jobs, `function_json` is `tvm.ir.save_json` of it.

    `params` are the tensors of a call before weight packing, `scratch_limit` is in bytes.
    """

    key: str
    symbol: str
    function_json: str
    params: tuple[Param, ...]
    scratch_limit: int


@dataclass(frozen=True)
class BuildJob:
    """A schedule to lower, print and compile. `job_id` is the caller's own name for it, unique in a session.

    With `again`, a candidate that is known is built all the same, instead of being called a duplicate.
    """

    job_id: str
    kernel_key: str
    trace: str
    again: bool = False


@dataclass(frozen=True)
class BuildResult:
    """What became of a `BuildJob`.

    `candidate_id` is the SHA-256 of the C text of the kernel, None when lowering failed. `seconds` has the keys
    "lower", "emit", "pack", "compile" of the phases that ran. `packed` maps parameter index to the .npy of a weight
    whose layout the schedule changes. `library` is the shared object, None unless `status` is "built". `code_bytes` is
    code with its constants. A candidate of status "duplicate" was built before, under the same `candidate_id`.
    `least_cycles` of a core are needed for a call, whatever the schedule.
    """

    job_id: str
    kernel_key: str
    status: BuildStatus
    reason: str = ""
    candidate_id: str | None = None
    library: Path | None = None
    packed: dict[int, Path] = field(default_factory=dict)
    scratch_bytes: int = 0
    code_bytes: int = 0
    seconds: dict[str, float] = field(default_factory=dict)
    least_cycles: float = 0.0


@dataclass(frozen=True)
class ReferenceJob:
    """Ask a worker for test inputs and reference outputs of a kernel; `constants` are weights to use, by index."""

    kernel_key: str
    seed: int
    constants: dict[int, Path]


@dataclass(frozen=True)
class Tolerance:
    """How far an output may be from its reference.

    `relative`: of the largest absolute reference value; `absolute`: in units of the output. Both 0 means exact. At most
    the `share` of the elements (or one) may be further off than `relative` allows, such as values that round to the
    neighbouring step.
    """

    relative: float = 0.0
    absolute: float = 0.0
    share: float = 1.0


@dataclass(frozen=True)
class Case:
    """Test vectors of a kernel: one .npy per parameter (inputs and constants as given, outputs as expected).

    Roles are those of parameters, and `PART`.
    """

    kernel_key: str
    arrays: tuple[Path, ...]
    roles: tuple[str, ...]
    tolerances: tuple[Tolerance | None, ...]


@dataclass(frozen=True)
class ReferenceResult:
    """A `Case`, or the reason why there is none (then no candidate of the kernel can be measured)."""

    kernel_key: str
    case: Case | None
    reason: str
    seconds: float


@dataclass(frozen=True)
class RunRequest:
    """One candidate to check and time: `arrays`, `roles` and `tolerances` as in `Case`, weights already packed.

    `best_ns` is the best time of this kernel so far (0: none). `deadline_s` is wall time for the whole of it, after
    which it is killed; `memory_bytes` is the address space that it may take beyond what the runner has. `seed` draws
    the calls that are watched (`sampling`): one that the candidate cannot know. A time of less than half of
    `least_cycles` is refused (0: no time is).
    """

    candidate_id: str
    library: str
    arrays: tuple[str, ...]
    roles: tuple[str, ...]
    tolerances: tuple[Tolerance | None, ...]
    scratch_bytes: int
    timing: TimingPolicy
    best_ns: float = 0.0
    deadline_s: float = 10.0
    memory_bytes: int = 2 << 30
    seed: int = 0
    least_cycles: float = 0.0


@dataclass(frozen=True)
class RunResult:
    """What became of a `RunRequest`. `samples_ns` are nanoseconds per call, in order of measuring.

    `error_absolute` and `error_relative` (of the largest reference value) are those of the worst output.
    `stopped` says why sampling ended: "narrow", "budget", "slow" or "count". `seconds` has "load", "check", "time", and
    "process", what starting and ending its process took, where that is known. `disturbed` is the number of samples
    during which another thread of the core was busy, as far as that was looked at. `cycle_ns` is how long a cycle of
    the core took right after the timing, in nanoseconds (0: not measured).
    """

    candidate_id: str
    status: RunStatus
    reason: str = ""
    samples_ns: tuple[float, ...] = ()
    repeat: int = 0
    stopped: str = ""
    error_absolute: float = 0.0
    error_relative: float = 0.0
    seconds: dict[str, float] = field(default_factory=dict)
    disturbed: int = 0
    cycle_ns: float = 0.0


def kernel_spec(kernel: Kernel, scratch_limit: int, key: str | None = None) -> KernelSpec:
    """Describe a kernel of a program for measuring; `key` is its workload hash unless given, `scratch_limit` bytes.

    The symbol comes from the workload: equal kernels of two models have equal C text.
    """
    import tvm

    return KernelSpec(
        key=key or kernel.workload,
        symbol=f"kernel_{kernel.workload[:12]}",
        function_json=str(tvm.ir.save_json(kernel.function)),
        params=kernel.params,
        scratch_limit=scratch_limit,
    )


def first_constants(program: Program) -> dict[str, dict[int, np.ndarray]]:
    """Weights of the first call of each kernel, by workload and parameter index.

    Scales and biases of quantised kernels mean nothing when drawn at random: with these, outputs do not saturate.
    """
    found: dict[str, dict[int, np.ndarray]] = {}
    for call in program.calls:
        kernel = program.kernels[call.kernel]
        if kernel.workload not in found:
            found[kernel.workload] = {
                index: program.constants[call.arguments[index]]
                for index, param in enumerate(kernel.params)
                if param.role == "constant"
            }
    return found
