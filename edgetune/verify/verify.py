"""Package verification: checks that a package is intact, compiles, and computes what the reference computes.

Also measures by how many units in the last place (ULP) two tensors differ, and in how many elements.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from edgetune.boards.image.faults import fault_of_program
from edgetune.errors import MemoryLimitExceeded, SelfTestFailed, WrongResult
from edgetune.graph.accuracy import OutputError, Tolerance, absolute_errors, compare, distance
from edgetune.package.golden import GoldenCases, OutputTolerance
from edgetune.package.reference_error import note
from edgetune.target.board_kind import BoardKind
from edgetune.verify.driver import last_words, run_cases
from edgetune.verify.layers import LayerError
from edgetune.verify.notebook_table import table
from edgetune.verify.place import ExecutionPlace, Here
from edgetune.verify.probed import execution_place
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.work_copy import ProgramResult, reuse, work_copy


@dataclass(frozen=True)
class Difference:
    """How an output differs from its reference: by `error`, in the share `differing` of its elements.

    `ulp` is the largest distance in units of the last place; for integers, in steps.
    """

    error: OutputError
    ulp: float
    differing: float


def difference(got: np.ndarray, wanted: np.ndarray, tolerance: Tolerance) -> Difference:
    """Compare `got` with `wanted`, which have equal shape and dtype."""
    error = compare(got, wanted, tolerance)
    differs = absolute_errors(got, wanted) > 0.0
    if not np.any(differs):
        return Difference(error, 0.0, 0.0)
    steps = distance(_position(got[differs]), _position(wanted[differs]))
    return Difference(error, float(np.max(steps)), float(np.mean(differs)))


def _position(values: np.ndarray) -> np.ndarray:
    """Return the position of each float among all floats of its dtype, 0 for zeros; integers as they are."""
    if values.dtype.kind in "biu":
        return values
    bits = values.view(f"i{values.dtype.itemsize}")
    return np.where(bits < 0, np.iinfo(bits.dtype).min - bits, bits)


TIMEOUT_S = 1800.0
NO_CASES = GoldenCases(())
_OF_STATES = 1e-3
"""Share of the largest element by which states of floats may be off: they add up what many steps round."""
CPU_TOO_OLD = "this CPU lacks instructions that the kernels were compiled for"
"""End of the self-test's output on a CPU that cannot run the package; it says nothing about the package."""
_LINE = re.compile(
    r"case (?P<case>\d+) output (?P<output>\d+) max_abs (?P<abs>\S+) max_rel (?P<rel>\S+) ulp (?P<ulp>\S+) "
    r"differing (?P<share>\S+) bound (?P<bound>\S+) (?P<verdict>ok|WRONG) "
)


@dataclass(frozen=True)
class OutputReport:
    """Worst case of one output over all comparisons of one kind; `against` is "golden" or "fresh".

    `max_abs` is the error of the case that is nearest to its `bound`, which differs by case. `max_rel` is the largest
    error as a share of the largest finite magnitude of the reference. `differing` is the share (0 to 1) of elements
    that are not equal. `note` says if `bound` had to be widened.
    """

    name: str
    against: str
    max_abs: float
    max_rel: float
    ulp: float
    differing: float
    bound: float
    note: str = ""

    @property
    def of_bound(self) -> float:
        """The error as a share of what is allowed; 0 for an output that has to be exact."""
        return self.max_abs / self.bound if self.bound else 0.0

    def worse(self, other: OutputReport) -> OutputReport:
        """Return the worst of both: error and bound of the one nearer to its bound, and the larger of other numbers."""
        nearer = max(self, other, key=lambda report: (report.of_bound, report.max_abs))
        numbers = ("max_rel", "ulp", "differing")
        return replace(nearer, **{name: max(getattr(self, name), getattr(other, name)) for name in numbers})


@dataclass(frozen=True)
class VerifyReport:
    """A package that passed: its compiler, where it ran, and the error of each output.

    `not_compared` says why no fresh inputs were compared, "" where they were. `layers` has the error of each layer
    where that was asked for.
    """

    package: str
    model: str
    board: str
    compiler: str
    emulator: str | None
    ran_on: str
    reference: str
    golden_cases: int
    fresh_cases: int
    outputs: tuple[OutputReport, ...]
    passed: bool = True
    not_compared: str = ""
    layers: tuple[LayerError, ...] = ()

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)

    def _repr_html_(self) -> str:
        title = f"{self.package} on {self.ran_on}: {self.golden_cases} golden and {self.fresh_cases} fresh cases passed"
        return table(title, [asdict(output) for output in self.outputs])


def verify(
    package: Path,
    *,
    target: BoardKind | None = None,
    place: ExecutionPlace | None = None,
    fresh: GoldenCases = NO_CASES,
    objects: Path | None = None,
    timeout_s: float = TIMEOUT_S,
    alone: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> VerifyReport:
    """Check the hashes of `package`, build a copy, run its self-test, and compare with `fresh` cases if given.

    `target` overrides the compiler and the emulator of the board that the package was made for. `fresh` are cases that
    were computed just now; the package's own tolerances apply to outputs for which they have none. Binaries run at
    `place`: by default here, natively where possible, else under the board's emulator, with the context of `alone`
    entered. `objects` is a folder of objects compiled from this very package with its own flags, for runs here. Raises
    what the place raises, PackageInvalid, ToolchainMissing, CompileFailed, DiskFull, SelfTestFailed and WrongResult.
    Where the board has room for the self-test but not for fresh inputs, `not_compared` says so.
    """
    with work_copy(package) as (copy, manifest):
        tools = PackageToolchain.of(manifest, target)
        place = place or execution_place(tools, alone)
        tools.require(emulator=isinstance(place, Here))
        if objects is not None:
            reuse(copy, objects, tools, timeout_s)
        binary = f"build/{manifest['prefix']}_selftest"
        place.link(copy, binary, tools, timeout_s)
        outputs, not_compared = _judge(place.execute(copy / binary, (), timeout_s), manifest), ""
        if fresh.cases:
            try:
                computed = run_cases(copy, manifest, tools, place, fresh.cases, timeout_s)
            except MemoryLimitExceeded as error:  # beside the workspace it holds all inputs and outputs
                fresh, not_compared = NO_CASES, f"no fresh inputs were compared: {error.message}"
            else:
                outputs += _compare(manifest, fresh, computed)
    return VerifyReport(
        package=manifest["prefix"],
        model=manifest["name"],
        board=tools.board,
        compiler=tools.cc,
        emulator=tools.emulator[0] if tools.emulator and isinstance(place, Here) else None,
        ran_on=place.where,
        reference=fresh.reference if fresh.cases and fresh.reference else manifest["goldens"]["reference"],
        golden_cases=manifest["goldens"]["cases"],
        fresh_cases=len(fresh.cases),
        outputs=tuple(outputs),
        not_compared=not_compared,
    )


def _judge(done: ProgramResult, manifest: dict[str, Any]) -> list[OutputReport]:
    """Parse the self-test's output into reports; raises WrongResult for a wrong output, SelfTestFailed for all else."""
    worst: dict[int, OutputReport] = {}
    for match in _LINE.finditer(done.stdout):
        index, report = _reported(match, manifest)
        if match["verdict"] == "WRONG":
            raise WrongResult(
                f"output '{report.name}' of golden case {match['case']} is off by {report.max_abs:g}, "
                f"the tolerance is {report.bound:g}"
            )
        worst[index] = worst.get(index, report).worse(report)
    lines = done.stdout.strip().splitlines()
    if done.status or not lines or lines[-1] != "PASS":
        failed = next((line for line in lines if line.startswith("FAIL: ")), "")
        complaint = fault_of_program(failed) or failed or last_words(done.status, done.stderr)
        raise SelfTestFailed(f"the self-test did not end with PASS: {complaint}")
    if len(worst) < len(manifest["outputs"]):
        raise SelfTestFailed(f"the self-test compared {len(worst)} of {len(manifest['outputs'])} outputs: run it again")
    return [worst[index] for index in sorted(worst)]


def _reported(match: re.Match[str], manifest: dict[str, Any]) -> tuple[int, OutputReport]:
    """The number of an output and its report, from a self-test line; raises SelfTestFailed for an invalid line."""
    try:
        index = int(match["output"])
        tensor = manifest["outputs"][index]
        largest, relative, ulp, share, bound = (float(match[n]) for n in ("abs", "rel", "ulp", "share", "bound"))
    except (ValueError, IndexError) as error:
        said = f"the self-test printed an invalid line ({match[0][:200]})"
        raise SelfTestFailed(f"{said}: check the board") from error
    said = note(tensor["name"], OutputTolerance(**tensor["tolerance"]))
    return index, OutputReport(tensor["name"], "golden", largest, relative, ulp, share, bound, said)


def _compare(
    manifest: dict[str, Any],
    fresh: GoldenCases,
    computed: Sequence[dict[str, Any]],
) -> list[OutputReport]:
    reports = []
    for tensor in manifest["outputs"]:
        name = tensor["name"]
        tolerance = fresh.tolerances.get(name, OutputTolerance(**tensor["tolerance"]))
        worst: OutputReport | None = None
        for number, (case, got) in enumerate(zip(fresh.cases, computed, strict=True)):
            wanted = case.outputs[name].reshape(tensor["shape"])
            found = difference(got[name], wanted, tolerance)
            error = found.error
            if not error.allowed:
                raise WrongResult(
                    f"output '{name}' of fresh case {number} is off by {error.absolute:g}, "
                    f"the tolerance is {error.bound:g}"
                )
            numbers = (error.absolute, error.relative, found.ulp, found.differing, error.bound)
            report = OutputReport(name, "fresh", *numbers, note=note(name, tolerance))
            worst = report if worst is None else worst.worse(report)
        if worst is not None:
            reports.append(worst)
    _compare_states(manifest, fresh, computed)
    return reports


def _compare_states(manifest: dict[str, Any], fresh: GoldenCases, computed: Sequence[dict[str, Any]]) -> None:
    """Raise WrongResult where a sequence leaves another state than the reference: outputs may hide that for long."""
    widest = max((OutputTolerance(**tensor["tolerance"]).relative for tensor in manifest["outputs"]), default=0.0)
    for state in manifest.get("states", []):
        name = state["output"]
        floats = max(_OF_STATES, widest) if "float" in state["dtype"] else 0.0
        tolerance = fresh.tolerances.get(name, OutputTolerance(relative=floats, absolute=0.0 if floats else 1.0))
        for number, (case, got) in enumerate(zip(fresh.cases, computed, strict=True)):
            if name not in got or name not in case.outputs:
                continue
            error = difference(got[name], case.outputs[name].reshape(got[name].shape), tolerance).error
            if not error.allowed:
                raise WrongResult(
                    f"fresh case {number} leaves a state '{name}' that is off by {error.absolute:g}, the tolerance is "
                    f"{error.bound:g}"
                )
