"""Import of a bundle's results: each line becomes a record, or is refused with a reason."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import cast

from edgetune.bundle.manifest import (
    MOST_RESULT_BYTES,
    RESULTS,
    BundledCandidate,
    BundleManifest,
    read_limited,
    read_manifest,
)
from edgetune.errors import BundleInvalid
from edgetune.records import STATUSES, Record, RecordStore, Status
from edgetune.target.preferences import Grade

_FIELDS = 7
_MOST_LINE = 4096
_MOST_SAMPLES = 1000
_MOST_REASONS = 20
_PRINTABLE = re.compile(r"[ -~]*")
_LOWEST, _HIGHEST = 1.0, 1e13  # nanoseconds of a sample
BEST_GRADE: Grade = "C"
_TRUST: dict[Grade, str] = {
    "C": "timed by the runner of a bundle, on a machine whose clocks nobody watched",
    "D": "timed by the runner of a bundle under an emulator, whose times are not those of a core",
}
_EMULATED = "emulated, "  # what the runner for CPUs says of itself first


@dataclass
class BundleCounts:
    """Lines by what became of them; `reasons` has line number (from 1) and reason of the first refused."""

    imported: int = 0
    known: int = 0
    refused: int = 0
    missing: int = 0
    reasons: list[tuple[int, str]] = field(default_factory=list)


def import_bundle(folder: Path, store: RecordStore) -> BundleCounts:
    """Add the results in `folder` to `store`; a candidate that it knows already is not counted again.

    A last line without an end is what a killed runner left, and is passed over. Raises BundleInvalid, DatabaseError.
    """
    manifest, bundle = read_manifest(folder)
    known = {one.candidate: one for one in manifest.candidates}
    counts, done = BundleCounts(), set()
    for number, line in _lines(read_limited(folder, RESULTS, MOST_RESULT_BYTES)):
        try:
            record = parse_result(line, known, manifest, bundle)
        except ValueError as error:
            counts.refused += 1
            if len(counts.reasons) < _MOST_REASONS:
                counts.reasons.append((number, str(error)))
            continue
        done.add(record.candidate)
        new = store.add_new(record)[1]
        counts.imported += new
        counts.known += not new
    counts.missing = len(known.keys() - done)
    return counts


def _lines(data: bytes) -> Iterator[tuple[int, str]]:
    whole, _, _ = data.rpartition(b"\n")
    for number, line in enumerate(whole.split(b"\n") if whole else [], 1):
        yield number, line[: _MOST_LINE + 1].decode("ascii", errors="replace")


def parse_result(line: str, known: dict[str, BundledCandidate], manifest: BundleManifest, bundle: str) -> Record:
    """The record of one line of results.txt; raises ValueError with the reason that it is none."""
    if len(line) > _MOST_LINE or not _PRINTABLE.fullmatch(line):
        raise ValueError("it is too long, or not printable")
    parts = line.split(" ", _FIELDS - 1)
    if len(parts) != _FIELDS:
        raise ValueError("it lacks fields")
    name, of, status, repeats, samples, error, told = parts
    if of != bundle:
        raise ValueError("it is of another bundle")
    candidate = known.get(name)
    if candidate is None:
        raise ValueError("its candidate is not in the bundle")
    if status not in {"ok", "wrong_result", "crashed", "timeout"} or status not in STATUSES:
        raise ValueError("its status is unknown")
    worst = float(error)
    if not (repeats.isascii() and repeats.isdigit() and len(repeats) <= 9) or not math.isfinite(worst) or worst < 0:  # noqa: PLR2004
        raise ValueError("its numbers are wrong")
    times = tuple(float(text) for text in samples.split(",")) if status == "ok" else ()
    if status == "ok" and not all(_LOWEST <= time <= _HIGHEST for time in times):
        raise ValueError("a time is impossible")
    if len(times) > _MOST_SAMPLES:
        raise ValueError("it has too many samples")
    ordered = sorted(times)
    grade: Grade = "D" if manifest.emulated or told.startswith(_EMULATED) else BEST_GRADE
    return Record(
        workload=candidate.workload,
        workload_name=candidate.workload_name,
        target=manifest.target,
        target_fingerprint=manifest.target_fingerprint,
        toolchain=manifest.toolchain,
        codegen_version=manifest.codegen_version,
        board=manifest.target,
        candidate=candidate.candidate,
        status=cast("Status", status),
        tool_version=manifest.tool_version,
        trace=candidate.trace,
        reason="" if status == "ok" else told,
        samples_ns=times,
        median_ns=median(ordered) if ordered else None,
        ci_low_ns=ordered[len(ordered) // 4] if ordered else None,
        ci_high_ns=ordered[-1 - len(ordered) // 4] if ordered else None,
        max_error=worst,
        scratch_bytes=candidate.scratch_bytes,
        code_bytes=candidate.code_bytes,
        environment={
            "trust": grade,
            "trust_reason": _TRUST[grade],
            "bundle": bundle,
            "caches": manifest.caches,
            "device": told if status == "ok" else None,
        },
        seed=manifest.seed,
    )


def refuse_nothing(counts: BundleCounts, folder: Path) -> None:
    """Raise BundleInvalid where lines were refused; all others are stored."""
    if counts.refused:
        number, reason = counts.reasons[0]
        raise BundleInvalid(
            f"{counts.refused} lines of {folder / RESULTS} were refused, first line {number} ({reason}): all others "
            "are stored; delete that file and run the bundle again for the rest"
        )
