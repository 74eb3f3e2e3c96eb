"""Is a package still whole, does it compile, and does it compute what the reference computes?"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from edgetune.config.target import Target
from edgetune.errors import SelfTestFailed, WrongResult
from edgetune.package.difference import Difference, difference
from edgetune.package.driver import last_words, run_cases
from edgetune.package.golden import Golden, Tolerance
from edgetune.package.place import Here, Place
from edgetune.package.reference_error import off_double
from edgetune.package.toolchain import Toolchain
from edgetune.package.work_copy import Finished, reuse, work_copy

TIMEOUT_S = 1800.0
CPU_TOO_OLD = "this CPU lacks instructions that the kernels were compiled for"
"""What a self-test ends with that cannot run where it was started; nothing is said of the package."""
_LINE = re.compile(
    r"case (?P<case>\d+) output (?P<output>\d+) max_abs (?P<abs>\S+) max_rel (?P<rel>\S+) ulp (?P<ulp>\S+) "
    r"differing (?P<share>\S+) bound (?P<bound>\S+) (?P<verdict>ok|WRONG) "
)


@dataclass(frozen=True)
class OutputReport:
    """Worst case of one output over all comparisons of one kind; `against` is "golden" or "fresh".

    `differing` is the share (0 to 1) of elements that are not equal. `note` says so where `bound` had to be widened.
    """

    name: str
    against: str
    max_abs: float
    max_rel: float
    ulp: float
    differing: float
    bound: float
    note: str = ""

    def worse(self, other: OutputReport) -> OutputReport:
        """Return both as one: the larger of each number."""
        numbers = ("max_abs", "max_rel", "ulp", "differing", "bound")
        return replace(self, **{name: max(getattr(self, name), getattr(other, name)) for name in numbers})


@dataclass(frozen=True)
class VerifyReport:
    """A package that passed: what it was built with, where it ran, and how near each output came.

    `not_compared` says why no fresh inputs were compared, "" where they were.
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

    def to_json(self) -> dict[str, object]:
        """Return plain JSON values."""
        return asdict(self)


def verify(
    package: Path,
    *,
    target: Target | None = None,
    place: Place | None = None,
    fresh: Sequence[Golden] = (),
    reference: str = "",
    tolerances: Mapping[str, Tolerance] | None = None,
    objects: Path | None = None,
    timeout_s: float = TIMEOUT_S,
    alone: Callable[[], AbstractContextManager[object]] = nullcontext,
) -> VerifyReport:
    """Check the hashes of `package`, build a copy, run its self-test, and compare with `fresh` cases where given.

    `target` overrides the compiler and the emulator of the board that the package was made for. `fresh` are inputs with
    the outputs that `reference` computed for them just now, within `tolerances` by output name, those of the package
    for the rest. Binaries run at `place`: by default here, natively where they can, else under the board's emulator,
    while what `alone` gives is held. `objects` is a folder of those that were compiled from this very package with its
    own flags, for runs here. Raises what the place raises, PackageInvalid, ToolchainMissing, CompileFailed, DiskFull,
    SelfTestFailed and WrongResult.
    """
    with work_copy(package) as (copy, manifest):
        tools = Toolchain.of(manifest, target)
        place = place or Here(tools, alone)
        tools.require(emulator=isinstance(place, Here))
        if objects is not None:
            reuse(copy, objects, tools, timeout_s)
        binary = f"build/{manifest['prefix']}_selftest"
        place.link(copy, binary, tools, timeout_s)
        outputs = _judge(place.execute(copy / binary, (), timeout_s), manifest)
        if fresh:
            computed = run_cases(copy, manifest, tools, place, fresh, timeout_s)
            outputs += _compare(manifest, fresh, computed, tolerances or {})
    return VerifyReport(
        package=manifest["prefix"],
        model=manifest["name"],
        board=tools.board,
        compiler=tools.cc,
        emulator=tools.emulator[0] if tools.emulator and isinstance(place, Here) else None,
        ran_on=place.where,
        reference=reference if fresh and reference else manifest["goldens"]["reference"],
        golden_cases=manifest["goldens"]["cases"],
        fresh_cases=len(fresh),
        outputs=tuple(outputs),
    )


def _judge(done: Finished, manifest: dict[str, Any]) -> list[OutputReport]:
    """Turn the self-test's text into reports; raises WrongResult for a wrong output, SelfTestFailed for all else."""
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
        complaint = next((line for line in lines if line.startswith("FAIL: ")), "") or last_words(
            done.status, done.stderr
        )
        raise SelfTestFailed(f"the self-test did not end with PASS: {complaint}")
    if len(worst) < len(manifest["outputs"]):
        raise SelfTestFailed(f"the self-test compared {len(worst)} of {len(manifest['outputs'])} outputs: run it again")
    return [worst[index] for index in sorted(worst)]


def _reported(match: re.Match[str], manifest: dict[str, Any]) -> tuple[int, OutputReport]:
    """The number of an output, and what the self-test said of it; raises SelfTestFailed where that makes no sense."""
    try:
        index = int(match["output"])
        tensor = manifest["outputs"][index]
        largest, relative, ulp, share, bound = (float(match[n]) for n in ("abs", "rel", "ulp", "share", "bound"))
    except (ValueError, IndexError) as error:
        said = f"the self-test said what makes no sense ({match[0][:200]})"
        raise SelfTestFailed(f"{said}: look after the board") from error
    note = _note(tensor["name"], Tolerance(**tensor["tolerance"]))
    return index, OutputReport(tensor["name"], "golden", largest, relative, ulp, share, bound, note)


def _compare(
    manifest: dict[str, Any],
    fresh: Sequence[Golden],
    computed: Sequence[dict[str, Any]],
    tolerances: Mapping[str, Tolerance],
) -> list[OutputReport]:
    reports = []
    for tensor in manifest["outputs"]:
        name = tensor["name"]
        tolerance = tolerances.get(name, Tolerance(**tensor["tolerance"]))
        worst: Difference | None = None
        for number, (case, got) in enumerate(zip(fresh, computed, strict=True)):
            wanted = case.outputs[name].reshape(tensor["shape"])
            found = difference(name, got[name], wanted, tolerance)
            if not found.ok:
                raise WrongResult(
                    f"output '{name}' of fresh case {number} is off by {found.max_abs:g}, "
                    f"the tolerance is {found.bound:g}"
                )
            worst = found if worst is None else worst.worse(found)
        if worst is not None:
            numbers = (worst.max_abs, worst.max_rel, worst.ulp, worst.differing, worst.bound)
            reports.append(OutputReport(name, "fresh", *numbers, note=_note(name, tolerance)))
    return reports


def _note(name: str, tolerance: Tolerance) -> str:
    if tolerance.reference_error:
        return off_double(name, tolerance)
    if not tolerance.widened:
        return ""
    return (
        f"evaluators of the reference differ among themselves by {tolerance.disagreement / tolerance.step:.1f} steps "
        f"in {tolerance.disagreeing:.1%} of the elements, so more than one step is allowed"
    )
