"""Search by bundles: rounds of candidates as folders, each made of what the rounds before it have brought.

A round that has come back is imported. Where a host with a GPU is at hand, it runs each round at once; elsewhere the
search stops with a round to carry over, and the same command goes on. All that it knows is in the records and in the
folders.
"""

from __future__ import annotations

import re
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from edgetune.bundle.export import MOST_BYTES, BundleRequest, export_bundle
from edgetune.bundle.import_results import BEST_GRADE, import_bundle, refuse_nothing
from edgetune.bundle.kinds import CandidateKind, kind_of
from edgetune.bundle.kinds.kind import BUNDLE, PackageRules, RoundHost, TriedAlready
from edgetune.bundle.manifest import RESULTS, BundleManifest, read_manifest
from edgetune.codegen import CODEGEN_VERSION
from edgetune.config.settings import Settings
from edgetune.errors import UsageError
from edgetune.events import Event
from edgetune.frontend.model_format import Model
from edgetune.graph.program import Kernel, Program
from edgetune.package.output_folder import check_output_folder
from edgetune.pipeline.backends import require_precision, require_threads
from edgetune.pipeline.compile_input import Events, load
from edgetune.pipeline.flavours import flavours_of
from edgetune.pipeline.tune_and_build import PackageBuild, build_input
from edgetune.records import RecordStore
from edgetune.target.board_kind import BoardKind
from edgetune.target.toolchain import require_trust

_MOST_IN_ROUND = 16  # candidates of each kernel
_FASTEST = 4  # records whose neighbours a round tries
_ROUND = re.compile(r"round-(\d{1,6})")
_SEEDS = 2**31


@dataclass(frozen=True)
class ViaBundles:
    """What came of a search: records of the model's kernels, rounds, the `waiting` bundle (None: done), the package."""

    records: int
    rounds: int
    waiting: Path | None
    built: PackageBuild

    def to_json(self) -> dict[str, object]:
        """Plain JSON values."""
        waiting = None if self.waiting is None else str(self.waiting)
        return {**self.built.to_json(), "records": self.records, "rounds": self.rounds, "waiting": waiting}


def tune_via_bundles(
    settings: Settings, events: Events, model: Model | None = None, via: str | None = BUNDLE
) -> ViaBundles:
    """Import the rounds that came back, export the next where the budget allows, and write the package.

    Rounds lie in a folder beside the package, called like it with `-rounds`. They run on the host with the SSH address
    `via`; where that is None, on the board of the settings, or on this machine if that has no address; where it is
    "bundle", on this machine if it has a GPU, and else they are carried over. Raises UsageError for a board whose
    candidates cannot travel, for a trust grade that no bundle has, and for a budget of time where rounds are carried,
    BoardUnavailable where a GPU is asked for and this machine has none, and what `export_bundle`, `import_bundle`,
    `RoundHost.run` and `build_input` raise.
    """
    target, kind = settings.target, kind_of(settings.target)
    kind.check_via(settings, via)
    host = kind.host(settings, via, events)
    require_threads(target, settings.threads)
    require_precision(target, settings.precision)
    require_trust(target, settings.min_trust)
    if settings.min_trust < BEST_GRADE:
        raise UsageError(
            f"times from a bundle never have a better trust grade than {BEST_GRADE}, as nobody watches the clocks of "
            f"that machine: use --min-trust {BEST_GRADE} instead of {settings.min_trust}"
        )
    check_output_folder(settings.out)
    flavours_of(settings)
    subject = load(settings, events, model)
    folder = settings.out.with_name(f"{settings.out.name}-rounds")
    with RecordStore.open(settings.db) as store:
        rules = PackageRules(settings.winograd, settings.threads)
        search = _Rounds(subject.program, (kind, target), (settings.seed, rules), folder, store, events, host)
        waiting = search.run(settings.budget_trials, settings.budget_seconds)
        records, rounds = search.records(), len(search.folders())
    return ViaBundles(records, rounds, waiting, build_input(subject, settings, events))


class _Rounds:
    """The rounds of one model in one folder."""

    def __init__(
        self,
        program: Program,
        where: tuple[CandidateKind, BoardKind],
        how: tuple[int, PackageRules],
        folder: Path,
        store: RecordStore,
        events: Events,
        host: RoundHost | None,
    ) -> None:
        self._program = program
        self._seed, self._rules = how
        self._kind, self._target = where
        self._folder, self._store, self._events = folder, store, events
        self._keys = {kernel.workload: self._kind.record_key(kernel, self._target) for kernel in program.kernels}
        self._host = host

    def run(self, trials: int | None, seconds: float | None) -> Path | None:
        """Go on until the budget is used, nothing is left to try, or a round has to be carried over: its folder.

        The budget is of candidates or, where that is None, of time, which ends between rounds.
        """
        end = time.monotonic() + (seconds or 0.0)
        while True:
            waiting = [bundle for bundle in self.folders() if self._import(bundle)]
            for bundle in waiting:
                if self._host is None:
                    return bundle
                self._host.run(bundle)
                if self._import(bundle):
                    return bundle
            if trials is None:
                left = _MOST_IN_ROUND * len(self._keys) if time.monotonic() < end else 0
            else:
                left = trials - self.records()
            if left <= 0 or not self._export(left):
                return None

    def folders(self) -> Sequence[Path]:
        """The bundles of all rounds, the first round first."""
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        numbered = [(int(match[1]), path) for path in found if (match := _ROUND.fullmatch(path.name))]
        return [path for _, path in sorted(numbered)]

    def records(self) -> int:
        """Candidates of the model's kernels that have a record."""
        return self._store.count(self._keys.values())

    def _import(self, bundle: Path) -> bool:
        """Import what a round has brought; whether candidates are missing that the model's search waits for."""
        manifest, _ = read_manifest(bundle)
        missing = len(manifest.candidates)
        if (bundle / RESULTS).exists():
            counts = import_bundle(bundle, self._store)
            refuse_nothing(counts, bundle)
            missing = counts.missing
        return missing > 0 and self._comparable(manifest)

    def _comparable(self, manifest: BundleManifest) -> bool:
        """Whether the times of a round are of today's compiler, printer and target."""
        today = (*self._kind.identity(self._target), CODEGEN_VERSION)
        return (manifest.target_fingerprint, manifest.toolchain, manifest.codegen_version) == today

    def _export(self, left: int) -> bool:
        """Write the next round; whether it has a candidate."""
        folders = self.folders()
        number = 1 + max((int(path.name.partition("-")[2]) for path in folders), default=0)
        self._folder.mkdir(parents=True, exist_ok=True)
        bundle = self._folder / f"round-{number}"
        counts = export_bundle(
            self._program,
            self._target,
            bundle,
            BundleRequest(
                candidates=max(1, min(_MOST_IN_ROUND, left // len(self._keys))),
                seed=(self._seed + 1_000_003 * number) % _SEEDS,
                known=self._known,
                most=left,
                most_bytes=MOST_BYTES if self._host is None else None,
                rules=self._rules,
            ),
            self._events,
        )
        self._events(Event("phase", {"name": f"round {number}: {counts['candidates']} candidates in {bundle}"}))
        return bundle.exists()

    def _known(self, kernel: Kernel) -> TriedAlready:
        key = self._keys[kernel.workload]
        best = self._store.best(key, _FASTEST)
        times = tuple((record.trace, record.median_ns) for record in self._store.all(key))
        return TriedAlready(frozenset(self._store.seen(key)), tuple(record.trace for record in best), times)
