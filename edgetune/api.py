"""What the command line can do, as library calls: tune, build, verify, bench and explain."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from edgetune import assembly
from edgetune.answers import answers
from edgetune.choosing import choose
from edgetune.config.boards_file import ResolvedBoard, load_board
from edgetune.config.settings import Settings
from edgetune.errors import BoardUnavailable, MemoryLimitExceeded, PackageInvalid, UnsupportedOperator
from edgetune.events import Event
from edgetune.graph.evaluate import EVALUATOR
from edgetune.graph.memory_plan import plan, scratch_limits
from edgetune.graph.partition import to_program
from edgetune.graph.program import Program
from edgetune.in_package import streams
from edgetune.measure.options import MeasuringOptions
from edgetune.models.importer import import_onnx
from edgetune.models.onnx_file import read_onnx
from edgetune.models.sample_inputs import sample_inputs
from edgetune.on_board import at_board, elsewhere, tell_here
from edgetune.package import bench as bench_package
from edgetune.package import explain as explain_package
from edgetune.package import verify as verify_package
from edgetune.package.bench import BenchReport
from edgetune.package.emit import PackageSummary
from edgetune.package.explain import Explanation
from edgetune.package.golden import Golden
from edgetune.package.manifest import interface_of, read_manifest, sha256_file
from edgetune.package.output_folder import check_output_folder
from edgetune.package.toolchain import Toolchain
from edgetune.package.verify import VerifyReport
from edgetune.rehearsal import rehearse_subject
from edgetune.subject import Events, Subject, assembled, limits_of, load
from edgetune.tuning.carrying import carry_over, known_to_older
from edgetune.tuning.forms.schedule_text import DIRECT, allowed_forms
from edgetune.tuning.options import TuneOptions
from edgetune.tuning.outcome import TuneOutcome
from edgetune.tuning.records import RecordStore
from edgetune.tuning.tune import tune as search

FRESH_CASES = 2
_FRESH_SEED = 1_000_003


@dataclass(frozen=True)
class BuildResult:
    """A package: where it is, how large (bytes), and how many of its kernels have a measured schedule."""

    package: PackageSummary
    kernels: int
    measured_kernels: int
    reference: str

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        size, code = self.package.size, self.package.code
        return {
            "package": str(self.package.folder),
            "arena_bytes": size.arena_bytes,
            "arena_bound_bytes": size.bound_bytes,
            "weights_bytes": size.weights_bytes,
            "code_bytes": code.code_bytes if code else None,
            "kernels": self.kernels,
            "measured_kernels": self.measured_kernels,
            "reference": self.reference,
            "warnings": list(self.package.warnings),
        }


@dataclass(frozen=True)
class TuneResult:
    """A search and the package of its winners; `interrupted` when Ctrl-C ended the search.

    `verified` is the package's self-test on the board it was tuned for; None where the board is this machine, where it
    did not answer, and after Ctrl-C. `unverified` says why there is none ("" where none was due).
    """

    search: TuneOutcome
    build: BuildResult
    verified: VerifyReport | None = None
    unverified: str = ""

    @property
    def interrupted(self) -> bool:
        """Whether the search was ended by the user."""
        return self.search.interrupted

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        verified = self.verified.to_json() if self.verified else None
        search = self.search.to_json()
        return {**self.build.to_json(), "search": search, "verified": verified, "unverified": self.unverified}


def tune(settings: Settings, *, events: Events) -> TuneResult:
    """Searches for the fastest kernels on the board of `settings`, then writes the package.

    On a board that is not this machine the package is verified at the end. Raises the errors of `build` and `verify`,
    and BoardUnavailable when the board cannot be measured from here.
    """
    _mind_threads(settings, events)
    check_output_folder(settings.out)
    return tune_subject(load(settings, events), settings, events)


def tune_subject(subject: Subject, settings: Settings, events: Events) -> TuneResult:
    """`tune` for anything that has become a program; `settings.model` is not read."""
    program = subject.program
    _check_limits_early(program, settings)
    # Kernels are timed on one thread; in the package each thread has its own scratch.
    room = scratch_limits(program, settings.threads)
    limits = {program.kernels[i].workload: limit // settings.threads for i, limit in room.items()}
    options = TuneOptions(
        trials=settings.budget_trials,
        seconds=settings.budget_seconds,
        seed=settings.seed,
        scratch_limits=limits,
        forms=allowed_forms(settings.winograd),
        streamed=streams(program, settings.target),
    )
    if options.streamed:
        size = f"{program.constant_bytes / 1e6:.1f} MB"
        told = f"timing kernels with their weights in a cache; in a run of the package {size} of them come from memory"
        events(Event("phase", {"name": told}))
    with RecordStore.open(settings.db) as store:
        _carry_over(program, settings, store, events)
        measuring = MeasuringOptions(settings.addresses, settings.rpc, settings.min_trust)
        outcome = search(program, settings.target, store, options, events, measuring)
        apart = options.streamed or settings.threads > 1  # what kernels take alone is not what they take in a package
        here = not elsewhere(ResolvedBoard(settings.target, settings.addresses)) and not settings.target.emulated
        if apart and here and not outcome.interrupted and not rehearse_subject(subject, settings, store, events):
            outcome = replace(outcome, interrupted=True)
        built = _build(subject, settings, store, events)
    verified, why = _verified(settings, events, interrupted=outcome.interrupted)
    return TuneResult(outcome, built, verified, why)


def _carry_over(program: Program, settings: Settings, store: RecordStore, events: Events) -> None:
    outdated = known_to_older(program.kernels, settings.target, store)
    if not outdated:
        return
    start = time.monotonic()
    events(Event("phase", {"name": f"looking at older records of {len(outdated)} kernels"}))
    carried = carry_over(outdated, settings.target, store)
    name = f"taking over {carried} records that were timed with the same C"
    events(Event("phase", {"name": name, "seconds": round(time.monotonic() - start, 3)}))


def _verified(settings: Settings, events: Events, *, interrupted: bool = False) -> tuple[VerifyReport | None, str]:
    """Verify the package where it was tuned for; where that cannot be, tell and return why."""
    resolved = ResolvedBoard(settings.target, settings.addresses)
    if not elsewhere(resolved) and not resolved.target.emulated:
        return None, ""
    if interrupted:
        return None, "the search was interrupted"
    if resolved.farm:
        why = f"no package can be brought to a board of a farm; `edgetune verify {settings.out}` runs it here"
        events(Event("warning", {"message": f"the package is not verified on its board: {why}"}))
        return None, why
    start = time.monotonic()
    try:
        report = _verify(settings.out, resolved, events)
    except BoardUnavailable as error:
        again = f"`edgetune verify {settings.out} --board {settings.board}` does it"
        events(
            Event("warning", {"message": f"the package is not verified on its board yet ({error.message}); {again}"})
        )
        return None, error.message
    seconds = round(time.monotonic() - start, 3)
    events(Event("phase", {"name": f"verified on {report.ran_on}", "seconds": seconds}))
    return report, ""


def build(settings: Settings, *, events: Events) -> BuildResult:
    """Writes the package from the records there are; a kernel without one gets the fixed schedule.

    Raises ModelError, UnsupportedOperator, DynamicShape, KernelFailed, MemoryLimitExceeded, OutputRefused, DiskFull,
    DatabaseError, CompileFailed.
    """
    _mind_threads(settings, events)
    check_output_folder(settings.out)
    subject = load(settings, events)
    _check_limits_early(subject.program, settings)
    if not settings.db.exists():
        events(Event("warning", {"message": f"there are no records at {settings.db}: all schedules are fixed ones"}))
        return _build(subject, settings, None, events)
    with RecordStore.open(settings.db, create=False) as store:
        return _build(subject, settings, store, events)


def verify(
    package: Path, board: str | None, model: Path | None = None, events: Events = lambda _: None
) -> VerifyReport:
    """Compiles `package`, runs its self-test on `board`, compares with the reference.

    A board with an address, or an emulated machine, runs the self-test itself. Without `board` this machine does, under
    the emulator of the package's target if need be, which is told. The goldens in the package always count. Where the
    model file is at hand (`model`, or a file of the recorded name and hash in the working folder or beside the
    package), fresh inputs are compared as well. Raises PackageInvalid, ToolchainMissing, CompileFailed, SelfTestFailed,
    WrongResult, and BoardUnavailable and its kin.
    """
    manifest = read_manifest(package)
    resolved = _resolve(board, manifest, events)
    source = model or _find_model(package)
    if source is None:
        message = f"{manifest['model']['file']} was not found here: only the golden vectors were compared; give --model"
        events(Event("warning", {"message": message}))
        return _verify(package, resolved, events)
    if sha256_file(source) != manifest["model"]["sha256"]:
        raise PackageInvalid(f"{package} was not made from {source} (their hashes differ); give the right model")
    tensors = interface_of(manifest)
    read = read_onnx(source, {t.name: t.of_model().shape for t in tensors[: len(manifest["inputs"])]})
    try:
        imported = import_onnx(read)
    except UnsupportedOperator as error:
        # Whoever made the package had registered the operator; here it is unknown, which the goldens do not mind.
        if model is not None or manifest["goldens"]["reference"] != EVALUATOR:
            raise
        events(Event("warning", {"message": f"only the golden vectors are compared: {error.message}"}))
        return _verify(package, resolved, events)
    feeds = sample_inputs(read, imported.inputs, FRESH_CASES, _FRESH_SEED)
    outputs, reference = answers(read, lambda: to_program(imported), feeds, events)
    layouts = {tensor.name: tensor.layout for tensor in tensors}
    fresh = [Golden(i, o).exchanged(layouts) for i, o in zip(feeds, outputs, strict=True)]
    return _verify(package, resolved, events, fresh, reference)


def _verify(
    package: Path,
    resolved: ResolvedBoard | None,
    events: Events,
    fresh: Sequence[Golden] = (),
    reference: str = "",
) -> VerifyReport:
    target = resolved.target if resolved else None
    if resolved is None or not elsewhere(resolved):
        return verify_package.verify(package, target=target, fresh=fresh, reference=reference)
    Toolchain.of(read_manifest(package), target)  # refuses another ISA before a board is bothered
    return at_board(
        resolved,
        events,
        lambda place, _: verify_package.verify(package, target=target, place=place, fresh=fresh, reference=reference),
    )


def _resolve(board: str | None, manifest: dict[str, Any], events: Events) -> ResolvedBoard | None:
    if board:
        return load_board(board)
    tell_here(manifest, events)
    return None


def bench(package: Path, board: str | None, events: Events = lambda _: None) -> BenchReport:
    """Times `package` as a whole and layer by layer, where `verify` would run it; raises what `verify` raises."""
    resolved = _resolve(board, read_manifest(package), events)
    if resolved is None or not elsewhere(resolved):
        return bench_package.bench(package, target=resolved.target if resolved else None)
    Toolchain.of(read_manifest(package), resolved.target)
    return at_board(
        resolved,
        events,
        lambda place, cores: bench_package.bench(package, target=resolved.target, place=place, cores=cores),
    )


def explain(package: Path, kernel: str) -> Explanation:
    """Tells where a kernel of `package` comes from; raises PackageInvalid when it has no such kernel."""
    return explain_package.explain(package, kernel)


def _build(subject: Subject, settings: Settings, store: RecordStore | None, events: Events) -> BuildResult:
    forms = allowed_forms(settings.winograd)
    try:
        return _build_with(subject, settings, store, events, forms)
    except MemoryLimitExceeded as error:
        if settings.flash_limit is None or forms == {DIRECT}:
            raise
        built = _build_with(subject, settings, store, events, frozenset({DIRECT}))  # else that error is the one to tell
        message = f"{error.message}; kernels are computed in their direct form, whose weights are the smallest"
        events(Event("warning", {"message": message}))
        return built


def _build_with(
    subject: Subject, settings: Settings, store: RecordStore | None, events: Events, forms: frozenset[str]
) -> BuildResult:
    choices = choose(subject.program, settings.target, store, events, settings.min_trust, forms, settings.threads)
    summary = assembled(subject, settings, choices, settings.out, events)
    measured = sum(choice.provenance.origin == "record" for choice in choices)
    return BuildResult(summary, len(choices), measured, subject.reference)


def _mind_threads(settings: Settings, events: Events) -> None:
    if settings.threads > settings.target.cores:
        origin = settings.origins.get("threads", "a setting")
        message = (
            f"{settings.threads} threads are asked for ({origin}), which is more than the cores of board "
            f"{settings.target.name} ({settings.target.cores}): threads that share a core get in each other's way"
        )
        events(Event("warning", {"message": message}))


def _check_limits_early(program: Program, settings: Settings) -> None:
    """Refuses before the search what no schedule can make fit: scratch only adds to the arena planned here."""
    limits = limits_of(settings)
    try:
        assembly.check_limits(program, plan(program, {}), {}, limits, settings.threads)
    except MemoryLimitExceeded:
        if limits.ram is None:
            raise
        least = plan(program, {}, assembly.written_over_at_best(program, settings.target))
        assembly.check_limits(program, least, {}, limits, settings.threads)


def _find_model(package: Path) -> Path | None:
    facts = read_manifest(package)["model"]
    for folder in (Path.cwd(), package.parent):
        candidate = folder / Path(str(facts["file"])).name
        if candidate.is_file() and sha256_file(candidate) == facts["sha256"]:
            return candidate
    return None
