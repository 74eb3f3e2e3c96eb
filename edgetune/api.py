"""Python interface: tune, build, verify, bench and explain as library calls, as the command line offers them.

`tune` and `build` need TVM and import their part when called, as does `verify` for fresh inputs. `bench` and `explain`
work on a finished package without TVM.
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from edgetune.boards.access import BoardAccess
from edgetune.boards.lock import timing_lock
from edgetune.config.boards_file import ResolvedBoard
from edgetune.config.settings import Settings
from edgetune.errors import BoardUnavailable, ModelError, PackageInvalid, UnsupportedOperator, UsageError, WrongResult
from edgetune.events import Event
from edgetune.frontend.model_format import Model, StoredModel
from edgetune.package import explain as explain_package
from edgetune.package.explain import Explanation
from edgetune.package.golden import Golden, GoldenCases, OutputTolerance
from edgetune.package.manifest import check_files, interface_of, read_manifest, states_of, stream_of
from edgetune.package.output_folder import check_output_folder
from edgetune.pipeline.backends import require_io, require_precision, require_search, require_threads
from edgetune.pipeline.boards import RULES, accesses, elsewhere, load_board
from edgetune.pipeline.declared_states import require_states, stepped
from edgetune.pipeline.flavours import flavours_of
from edgetune.pipeline.model_formats import read_stored, require_model
from edgetune.pipeline.on_board import Events, at_board, tell_here
from edgetune.target.target import with_cpu
from edgetune.verify import bench as bench_package
from edgetune.verify import verify as verify_package
from edgetune.verify.bench import BenchReport
from edgetune.verify.layers import LayerError, LayersRun, require_readable_layers, run_layers
from edgetune.verify.place import ExecutionPlace
from edgetune.verify.toolchain import PackageToolchain
from edgetune.verify.verify import NO_CASES, VerifyReport

if TYPE_CHECKING:
    from _typeshed import StrPath

    from edgetune.pipeline.tune_and_build import PackageBuild
    from edgetune.search.outcome import TuneOutcome

Answer = TypeVar("Answer")


@dataclass(frozen=True)
class TuneResult:
    """Result of a search and the package of its winners; `interrupted` when Ctrl-C ended the search.

    `verified` is the result of the package's self-test on the board it was tuned for. It is None where the board is
    this machine, where the board did not answer, and after Ctrl-C. `unverified` gives the reason ("" where no such test
    was due).
    """

    search: TuneOutcome
    build: PackageBuild
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


def tune(settings: Settings, *, events: Events, model: Model | None = None) -> TuneResult:
    """Searches for the fastest kernels on the board of `settings`, then writes the package.

    Before it is written, the package is verified on its board, or here if it is for this machine. `model` is the
    content of `settings.model` if the caller has read it already. Raises the errors of `build` and `verify`, and
    BoardUnavailable when the board cannot be measured from here.
    """
    require_search(settings.target)
    _mind_states(settings, model)
    require_io(settings.target, settings.io)
    require_precision(settings.target, settings.precision)
    _mind_threads(settings, events)
    check_output_folder(settings.out)
    flavours_of(settings)
    from edgetune.pipeline import tune_and_build
    from edgetune.pipeline.compile_input import load

    there = _OnItsBoard(settings, events)
    outcome, built = tune_and_build.tune_input(load(settings, events, model), settings, events, there)
    return TuneResult(outcome, built, there.report, there.why)


def build(settings: Settings, *, events: Events, model: Model | None = None) -> PackageBuild:
    """Writes the package from existing records; a kernel without a record gets the default schedule.

    A package that fails its self-test on this machine or under its emulator is not written. `model` is the content of
    `settings.model` if the caller has read it already. Raises UsageError (a flavour is unknown), ConfigError (it
    cannot be loaded), ModelError, UnsupportedOperator, DynamicShape, KernelFailed, MemoryLimitExceeded, OutputRefused,
    DiskFull, DatabaseError, CompileFailed, SelfTestFailed, WrongResult, and BoardBusy where another run that times here
    holds this machine's lock.
    """
    _mind_states(settings, model)
    require_io(settings.target, settings.io)
    require_precision(settings.target, settings.precision)
    _mind_threads(settings, events)
    check_output_folder(settings.out)
    flavours_of(settings)
    from edgetune.pipeline import tune_and_build
    from edgetune.pipeline.compile_input import load

    return tune_and_build.build_input(load(settings, events, model), settings, events)


class _OnItsBoard:
    """Verifies a package on the board of `settings`; `report` is the result, or `why` says why there is none."""

    def __init__(self, settings: Settings, events: Events) -> None:
        self._settings, self._events = settings, events
        self._resolved = ResolvedBoard(settings.target, settings.addresses)
        self._used = False
        self.report: VerifyReport | None = None
        self.why = ""
        self.silent = ""

    def __call__(self, package: Path, *, interrupted: bool = False) -> bool:
        """Whether the board verified `package`; an event reports why it did not, where that was due."""
        settings, boards = self._settings, accesses(self._resolved)
        self.report, self.why, self.silent, self._used = None, "", "", False
        if RULES.here(settings.target):
            return False
        if interrupted:
            self.why = "the search was interrupted"
            return False
        if boards and all(access.lent for access in boards):
            self.why = f"no package can be copied to a board of a farm; `edgetune verify {settings.out}` runs it here"
            self._warn(f"the package was not verified on its board: {self.why}")
            return False
        start = time.monotonic()
        self._used = bool(_boards_elsewhere(self._resolved))
        try:
            self.report = _verify(package, self._resolved, self._events)
        except BoardUnavailable as error:
            self.silent = "" if self._used else error.message
            self._used = False
            again = f"`edgetune verify {settings.out} --board {settings.board}` does it"
            self._warn(f"the package was not verified on its board ({error.message}); {again}")
            self.why = error.message
            return False
        seconds = round(time.monotonic() - start, 3)
        self._events(Event("phase", {"name": f"verified on {self.report.ran_on}", "seconds": seconds}))
        return True

    def layers(self, package: Path, case: Golden) -> LayersRun | None:
        """What the layers of `package` write on the board for the inputs of `case`; None where it is not used."""
        return _layers(package, self._resolved, self._events, case) if self._used else None

    def _warn(self, message: str) -> None:
        self._events(Event("warning", {"message": message}))


def verify(
    package: StrPath,
    board: str | None,
    model: StrPath | None = None,
    events: Events = lambda _: None,
    *,
    per_layer: Callable[[Sequence[LayerError]], None] | None = None,
    stored: StoredModel | None = None,
) -> VerifyReport:
    """Compiles `package`, runs its self-test on `board`, and compares its outputs with the reference.

    A board with an address, or an emulated machine, runs the self-test itself. Without `board` this machine runs it,
    under the emulator of the target if needed; an event reports that. The package's golden vectors are always compared.
    Where the model is available (`model`, or `stored`, its content if the caller has read it already, or a file of the
    recorded name and hash in the working folder or beside the package), fresh inputs are compared as well, and an error
    says which layer departs first. `per_layer` is called with the errors of all layers, also before such an error.
    Programs run while the search's lock of the board, or of this machine, is held. Raises PackageInvalid,
    ToolchainMissing, CompileFailed, SelfTestFailed, WrongResult, BoardBusy (where another run holds the lock),
    BoardUnavailable and its subclasses, and UsageError where `per_layer` is given and there is no model.
    """
    package, model = Path(package), None if model is None else Path(model)
    manifest = read_manifest(package)
    resolved = _resolve(board, manifest, events)
    if model is not None:
        require_model(model, "--model")
    # Checks that need no model come first: importing a model takes seconds.
    check_files(package, manifest)
    if per_layer is not None:
        require_readable_layers(package, manifest)
    there = bool(_boards_elsewhere(resolved))
    PackageToolchain.of(manifest, resolved.target if resolved else None).require(emulator=not there)
    given = model or "the model that was loaded"
    stored = stored or (read_stored(model) if model else _find_model(package))
    if stored is None:
        name = manifest["model"]["file"] or "the model file"
        why = f"{name}, from which the package was made, was not found"
        if per_layer is not None:
            raise UsageError(f"{why}, and its layers are compared with it: give --model")
        return _golden_only(package, resolved, events, f"{why}: only the golden vectors were compared; give --model")
    if stored.sha256 != manifest["model"]["sha256"]:
        raise PackageInvalid(f"{package} was not made from {given} (their hashes differ); give the right model")
    from edgetune.graph.evaluate import EVALUATOR
    from edgetune.pipeline.departure import by_layer
    from edgetune.pipeline.double_precision_reference import judge
    from edgetune.pipeline.fresh_inputs import fresh_goldens, model_of
    from edgetune.pipeline.tolerances import tolerances_of, wider

    interface, states = interface_of(manifest), [state for state in states_of(manifest) if state.of_model]
    tensors = (*interface, *(end for state in states for end in state.ends))
    read = model_of(stored, interface[: len(manifest["inputs"])], states, stream_of(manifest))
    try:
        fresh, reference = fresh_goldens(read, interface, events, states)
    except UnsupportedOperator as error:
        # The process that made the package had registered the operator. Here it is unknown; the goldens do not need it.
        if model is not None or per_layer is not None or manifest["goldens"]["reference"] != EVALUATOR:
            raise
        return _golden_only(package, resolved, events, f"only the golden vectors are compared: {error.message}")

    def judged() -> VerifyReport:
        try:
            return _verify(package, resolved, events, GoldenCases(fresh, reference))
        except WrongResult:
            allowed = {t["name"]: OutputTolerance(**t["tolerance"]) for t in manifest["outputs"]}
            layouts = {tensor.name: tensor.layout for tensor in tensors}
            tolerances = wider(allowed, tolerances_of(read, [case.given_back(layouts) for case in fresh], events))
            judged = judge(read, tensors, fresh, tolerances, events)
            if not judged.errors and tolerances == allowed:
                raise
        return _verify(package, resolved, events, GoldenCases(judged.cases, reference, judged.tolerances))

    run = partial(_layers, package, resolved, events)
    return by_layer(judged, read, manifest, fresh, run, per_layer, resolved.target if resolved else None)


def _golden_only(package: Path, resolved: ResolvedBoard | None, events: Events, why: str) -> VerifyReport:
    """Verify without fresh inputs; an event reports that first, and the result notes it."""
    events(Event("warning", {"message": why}))
    return replace(_verify(package, resolved, events), not_compared=why)


def _verify(
    package: Path,
    resolved: ResolvedBoard | None,
    events: Events,
    fresh: GoldenCases = NO_CASES,
) -> VerifyReport:
    target = resolved.target if resolved else None
    verified = partial(verify_package.verify, package, target=target, fresh=fresh, alone=partial(timing_lock, events))
    return _placed(package, resolved, events, lambda place: verified(place=place))


def _layers(package: Path, resolved: ResolvedBoard | None, events: Events, case: Golden) -> LayersRun:
    target = resolved.target if resolved else None
    run = partial(run_layers, package, case, target=target, alone=partial(timing_lock, events))
    return _placed(package, resolved, events, lambda place: run(place=place))


def _placed(
    package: Path, resolved: ResolvedBoard | None, events: Events, use: Callable[[ExecutionPlace | None], Answer]
) -> Answer:
    """What `use` returns of the board that runs `package` in place of this machine, or of None for this machine."""
    boards = _boards_elsewhere(resolved)
    if resolved is None or not boards:
        return use(None)
    PackageToolchain.of(read_manifest(package), resolved.target)  # refuses another ISA before a board is reserved
    return at_board(boards, events, lambda place, _: use(place))


def _boards_elsewhere(resolved: ResolvedBoard | None) -> tuple[BoardAccess, ...]:
    """The boards that run packages instead of this machine."""
    boards = accesses(resolved) if resolved is not None else ()
    return boards if elsewhere(boards) else ()


def _resolve(board: str | None, manifest: dict[str, Any], events: Events) -> ResolvedBoard | None:
    if board:
        return load_board(board)
    tell_here(manifest, events)
    return None


def bench(package: StrPath, board: str | None, events: Events = lambda _: None) -> BenchReport:
    """Times `package` as a whole and layer by layer, on the machine where `verify` would run it.

    The board (or this machine) is locked while the benchmark runs: a search waits for the benchmark, and the benchmark
    for a search. Raises the errors of `verify`.
    """
    package = Path(package)
    resolved = _resolve(board, read_manifest(package), events)
    boards = _boards_elsewhere(resolved)
    if resolved is None or not boards:
        alone = partial(timing_lock, events)
        return bench_package.bench(package, target=resolved.target if resolved else None, alone=alone)
    PackageToolchain.of(read_manifest(package), resolved.target)
    return at_board(
        boards,
        events,
        lambda place, cores: bench_package.bench(package, target=resolved.target, place=place, cores=cores),
    )


def explain(package: StrPath, kernel: str) -> Explanation:
    """Returns the provenance of a kernel of `package`; raises PackageInvalid when it has no such kernel."""
    return explain_package.explain(Path(package), kernel)


def _mind_states(settings: Settings, model: Model | None) -> None:
    """Refuse states before a model that was read already is imported, which takes seconds."""
    if model is not None:
        require_states(settings, stepped(settings, model))


def _mind_threads(settings: Settings, events: Events) -> None:
    require_threads(settings.target, settings.threads)
    cores = with_cpu(settings.target).cores if settings.threads > 1 else 1
    if settings.threads > cores:
        origin = settings.origins.get("threads", "a setting")
        message = (
            f"{settings.threads} threads are requested ({origin}), but board {settings.target.name} has "
            f"{cores} cores: threads that share a core slow each other down"
        )
        events(Event("warning", {"message": message}))


def _find_model(package: Path) -> StoredModel | None:
    """The model of `package`, by its name and hash, in the working folder or beside the package."""
    facts = read_manifest(package)["model"]
    for folder in (Path.cwd(), package.parent):
        candidate = folder / Path(str(facts["file"])).name
        if candidate.is_file():
            with contextlib.suppress(ModelError):  # a file of that name that is no model is skipped
                stored = read_stored(candidate)
                if stored.sha256 == facts["sha256"]:
                    return stored
    return None
