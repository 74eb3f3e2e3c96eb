"""Messages between a measuring session and its build workers: plain frozen data, all picklable."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from edgetune.graph.accuracy import Tolerance
from edgetune.graph.program import Program

if TYPE_CHECKING:
    import numpy as np


BuildStatus = Literal["built", "duplicate", "over_scratch", "lower_failed", "build_failed", "timeout"]
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


@dataclass(frozen=True)
class BuildJob:
    """A schedule to lower, print and compile. The caller chooses `job_id`, unique in a session.

    With `again`, a known candidate is built once more instead of being reported as a duplicate.
    """

    job_id: str
    kernel_key: str
    trace: str
    again: bool = False


@dataclass(frozen=True)
class CandidateBuild:
    """The result of a `BuildJob`.

    `candidate_id` is the SHA-256 of the C text of the kernel, None when lowering failed. `seconds` has an entry for
    each phase that ran: "lower", "emit", "pack", "compile". `packed` maps a parameter index to the .npy of a weight
    whose layout the schedule changes. `library` is the shared object, None unless `status` is "built". `code_bytes`
    counts code with its constants. A candidate of status "duplicate" was built before, under the same `candidate_id`. A
    call needs at least `least_cycles` of a core, whatever the schedule.
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
    """Request for test inputs and reference outputs of a kernel; `constants` are weights to use, by index."""

    kernel_key: str
    seed: int
    constants: dict[int, Path]


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


def first_constants(program: Program) -> dict[str, dict[int, np.ndarray]]:
    """Return the weights of the first call of each kernel, by workload and parameter index.

    Random scales and biases make no sense for quantised kernels: with these weights, outputs do not saturate.
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
