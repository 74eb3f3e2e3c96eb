"""Facts of one subject of the corpus on one target: kernels as C and traces, predicted cycles, instructions, error."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, replace
from hashlib import sha256
from math import isfinite
from pathlib import Path
from typing import Any

from benchmarks.oracle.corpus import Subject, corpus
from benchmarks.untuned_settings import untuned_settings
from edgetune.codegen.kernel_source import KernelSource
from edgetune.codegen.preamble import render_preamble
from edgetune.config.naming import package_name
from edgetune.config.settings import Settings
from edgetune.errors import EdgetuneError
from edgetune.graph.program import Program
from edgetune.package.manifest import read_manifest
from edgetune.pipeline.compile_input import assembled, load
from edgetune.pipeline.link import Choice, print_kernels
from edgetune.pipeline.select import choose
from edgetune.schedule.algorithms.catalogue import algorithm_named
from edgetune.schedule.algorithms.schedule_text import DIRECT, algorithm_of
from edgetune.schedule.default_algorithms import predicted_cycles
from edgetune.target.target import Target, load_target
from edgetune.verify import bench as bench_package
from edgetune.verify import verify as verify_package
from edgetune.verify.starts import counting_here
from edgetune.verify.toolchain import PackageToolchain

WIDTHS = (0, 128, 256, 512)
"""Bits of the vectors of the targets."""
_TARGETS = Path(__file__).parent / "targets"


@dataclass(frozen=True)
class KernelFacts:
    """A kernel under its default schedule. `cycles` are predicted for all its calls; None without a prediction.

    `estimate`: the instructions of all its calls that are estimated from the printed C, None where nothing is.
    `functions`: a hash of the text of those that it calls, "" where it calls none or where that was not noted.
    """

    name: str
    text: str
    trace: str
    cycles: float | None
    estimate: float | None = field(default=None, compare=False)
    functions: str = ""


@dataclass(frozen=True)
class Facts:
    """A subject on a target. `instructions` are those of a run, None where nothing counts them.

    `error` is the largest difference of an output from its golden value, as a share of the largest element. `failure`
    is the sentence of an error, and "" without one.
    """

    subject: str
    width: int
    kernels: tuple[KernelFacts, ...] = ()
    instructions: int | None = None
    error: float | None = None
    failure: str = ""

    def write(self, path: Path) -> None:
        """Write the facts beside `path`, and rename them into place."""
        path.parent.mkdir(parents=True, exist_ok=True)
        beside = path.with_suffix(".new")
        beside.write_text(json.dumps(asdict(self), indent=1) + "\n", encoding="utf-8")
        beside.replace(path)

    @classmethod
    def read(cls, path: Path) -> Facts:
        """What `write` has written."""
        stated: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        return cls(**{**stated, "kernels": tuple(KernelFacts(**one) for one in stated["kernels"])})


def target_of(width: int) -> Target:
    """The target whose vectors have `width` bits."""
    return load_target(str(_TARGETS / f"lanes-{width}.yaml"))


def facts_of(subject: Subject, width: int, known: Facts | None = None) -> Facts:
    """Build the package of a subject without records, test it, and count its instructions.

    Facts that are `known` are returned where the kernels are the same, without a build.
    """
    try:
        return _facts(subject, width, known)
    except EdgetuneError as error:
        return Facts(subject.name, width, failure=error.message)


def kernels_of(program: Program, choices: Sequence[Choice], target: Target, prefix: str) -> tuple[KernelFacts, ...]:
    """The kernels of a program under `choices`, in a package whose symbols begin with `prefix`."""
    printed = print_kernels(program, choices, target, prefix, lambda _: None).kernels
    return tuple(
        KernelFacts(
            kernel.name,
            one.source.definition,
            choice.trace,
            _cycles(kernel, choice.trace, target),
            one.source.instructions * kernel.weight or None,
            _hash_of_functions(one.source, target),
        )
        for kernel, one, choice in zip(program.kernels, printed, choices, strict=True)
    )


def freeze_one(shared: Path, name: str, width: int, path: Path, known: Path | None = None) -> str:
    """Write the facts of a subject, in a process of its own; returns its failure. `known` is as for `facts_of`."""
    facts = facts_of(corpus(shared)[name], width, Facts.read(known) if known else None)
    facts.write(path)
    return facts.failure


def _facts(subject: Subject, width: int, known: Facts | None) -> Facts:
    target = target_of(width)
    with tempfile.TemporaryDirectory(prefix="edgetune-oracle-") as folder:
        settings = _settings(subject, target, Path(folder))
        compiled = load(settings, model=subject.read())
        choices = choose(compiled.program, target, None, lambda _: None)
        kernels = kernels_of(compiled.program, choices, target, settings.name)
        if known is not None and known.kernels == kernels:
            return replace(known, kernels=kernels)
        assembled(compiled, settings, choices, settings.out, lambda _: None)
        if not target.emulator:
            return Facts(subject.name, width, kernels)
        error = max(one.max_rel for one in verify_package.verify(settings.out, target=target).outputs)
        tools = replace(PackageToolchain.of(read_manifest(settings.out), target), emulator=target.emulator)
        place = counting_here(tools)  # also where this machine could run it itself
        counted = bench_package.bench(settings.out, target=target, place=place, runs=3, seconds=0.0)
        return Facts(subject.name, width, kernels, round(counted.median_us * 1000), float(error))


def _hash_of_functions(source: KernelSource, target: Target) -> str:
    called = sorted(name for name in source.preamble if not name.startswith("type:"))
    return sha256(render_preamble(called, target, "p").encode()).hexdigest() if called else ""


def _cycles(kernel: Any, trace: str, target: Target) -> float | None:
    form = algorithm_of(trace)
    function = kernel.function if form == DIRECT else algorithm_named(kernel.function, form).function
    found = predicted_cycles(function, target) * kernel.weight
    return found if isfinite(found) else None


def _settings(subject: Subject, target: Target, folder: Path) -> Settings:
    return untuned_settings(subject.file, package_name(subject.name), target, folder)
