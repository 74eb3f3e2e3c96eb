"""Candidates for CPUs as shared libraries, built by the target's compiler: the search's own proposals.

The default schedule comes first. The rest is proposed as in a search on a board, by a cost model that learns from all
times of the kernel that came back.
"""

from __future__ import annotations

import hashlib
import tempfile
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from edgetune.boards.agent.build import ABI
from edgetune.bundle.kinds.kind import BUNDLE, CandidateMaker, Compiled, PackageRules, RoundHost, TriedAlready
from edgetune.errors import CompileFailed, KernelFailed, ToolchainMissing, UsageError
from edgetune.measure.compiler import builder_of
from edgetune.target.board_kind import BoardKind
from edgetune.target.identity import target_fingerprint, toolchain_id
from edgetune.target.isa.cpu_features import CpuidCheck
from edgetune.target.target import Target, with_cpu
from edgetune.target.tool_process import run_tool

if TYPE_CHECKING:
    from edgetune.config.settings import Settings
    from edgetune.graph.program import Kernel, Program
    from edgetune.pipeline.compile_input import Events
    from edgetune.records import RecordKey

_TIMEOUT_S, _RUNNER_S = 30.0, 120.0
_STRIPPED = ("-Wl,-s", "-Wl,--build-id=none")
"""Flags of the linker: no names of temporary files travel, and two exports have the same bytes."""

_TRIES = 2  # proposals for each candidate of a round: some have the text of another


class Libraries:
    """See `CandidateKind`."""

    name = "libraries"
    runner: tuple[str, ...] = ("bundle/cpu.c", "agent/fence.c", "agent/fence.h")
    elsewhere = "on a board that this machine reaches"

    def fault(self, target: BoardKind) -> str:
        """Refuse a board whose instructions are counted."""
        return "which counts instructions: a bundle carries times" if with_cpu(target).clock == "instructions" else ""

    def identity(self, target: BoardKind) -> tuple[str, str]:
        """Return those of a search on the board."""
        return target_fingerprint(with_cpu(target)), toolchain_id(with_cpu(target))

    def head(self, target: BoardKind) -> str:
        """Return the instruction set, and the features that `init` of a package checks as well."""
        cpu = with_cpu(target)
        needed = cpu.instruction_set.cpu_checks(cpu.cpu_checks)
        bits = "".join(f" {_cpuid(check)}" for check in needed.cpuid)
        features = f"features {','.join(needed.names) or '-'} hwcap {needed.hwcap:x} {needed.hwcap2:x}"
        return f"isa {cpu.isa} {features} xcr0 {needed.xcr0:x} cpuid {len(needed.cpuid)}{bits}"

    def build_runner(self, target: BoardKind, folder: Path) -> None:
        """Compile it with the target's compiler, as boards behind an air gap may have none."""
        cc, flags = with_cpu(target).compiler.cc, with_cpu(target).compiler.cflags
        sources = [path.name for path in sorted(folder.glob("*.c"))]
        abi = [flag for flag in flags if flag.startswith(ABI)]
        command = [cc, *abi, "-O2", *_STRIPPED, *sources, "-o", "runner", "-ldl", "-lm"]
        done = run_tool(command, timeout_s=_RUNNER_S, folder=folder)
        if done.returncode:
            raise ToolchainMissing(f"{cc} cannot compile the runner of the bundle: {done.stderr.strip()[:200]}")

    def cold_bytes(self, target: BoardKind) -> int:
        """Return the bytes that are swept before each timed call."""
        return with_cpu(target).cold_bytes

    def record_key(self, kernel: Kernel, target: BoardKind) -> RecordKey:
        """Return the key of a search on the board."""
        from edgetune.search.migrate import record_key

        return record_key(kernel, with_cpu(target))

    def maker(self, program: Program, target: BoardKind, rules: PackageRules) -> CandidateMaker:
        """Return a maker that compiles with the target's compiler."""
        return _Maker(program, with_cpu(target), rules)

    def check_via(self, settings: Settings, via: str | None) -> None:
        """Take carried rounds alone, with a budget of candidates."""
        if via != BUNDLE:
            raise UsageError(
                f"board '{settings.target.name}' has no GPU, and --via USER@HOST is for GPUs: `edgetune boards add` "
                "names a board behind SSH, and --via bundle carries candidates to it"
            )
        if settings.budget_trials is None:
            raise UsageError(
                "nobody here sees how long a bundle runs: give the candidates of all kernels with --trials"
            )

    def host(self, settings: Settings, via: str | None, events: Events) -> RoundHost | None:
        """Return nothing: rounds are carried."""
        del settings, via, events
        return None


LIBRARIES = Libraries()


class _Maker:
    """See `CandidateMaker`."""

    def __init__(self, program: Program, target: Target, rules: PackageRules) -> None:
        from edgetune.pipeline.in_model_cost import streams
        from edgetune.pipeline.kernel_scratch import kernel_scratch
        from edgetune.schedule.algorithms.schedule_text import allowed_algorithms

        self._target = target
        self._builder = builder_of(target)
        plain = self._builder.toolchain(target, _TIMEOUT_S)
        self._toolchain = replace(plain, link_flags=(*plain.link_flags, *_STRIPPED))
        self._limits = {
            program.kernels[i].workload: limit for i, limit in kernel_scratch(program, target, rules.threads).items()
        }
        self._forms = allowed_algorithms(rules.winograd)
        self._streamed = streams(program, target)

    def candidates(self, kernel: Kernel, most: int, seed: int, tried: TriedAlready) -> Iterator[Compiled]:
        """See `CandidateMaker`."""
        names, made, complaint = set(tried.names), 0, "every proposal is known"
        for trace in self._texts(kernel, most, seed, tried):
            found = self._compiled(kernel, trace, names)
            if isinstance(found, str):
                complaint = found or complaint
                continue
            names.add(found.name)
            made += 1
            yield found
            if made == most:
                return
        if not made and not tried.names:
            raise CompileFailed(
                f"no candidate of kernel {kernel.name} can be compiled for {self._target.name}: {complaint}"
            )

    def _texts(self, kernel: Kernel, most: int, seed: int, tried: TriedAlready) -> Iterator[str]:
        """Schedules to try, as a search on the board would propose them."""
        from edgetune.schedule.guessed_schedule import default_schedule
        from edgetune.search.cost_model import CostModel
        from edgetune.search.search import AlgorithmsSearch
        from edgetune.search.task import TuneTask
        from edgetune.search.wiring import other_spaces, space_of

        limit = self._limits[kernel.workload]
        task = TuneTask(kernel, limit, self._forms, streamed=self._streamed)
        known = {trace for trace, _ in tried.times}
        first = default_schedule(kernel.function, self._target, limit, task.forms, streamed=task.streamed)[0]
        if first not in known:
            known.add(first)
            yield first
        model = CostModel(seed)
        spaces = [space_of(task, self._target), *other_spaces(task, self._target)]
        search = AlgorithmsSearch(kernel.workload, spaces, model, seed)
        search.learn(tried.times)
        model.fit()
        for number in range(1, _TRIES + 1):
            found = search.propose(most, number, known)
            known.update(found)
            yield from found

    def _compiled(self, kernel: Kernel, trace: str, names: set[str]) -> Compiled | str:
        """A candidate, or why there is none ("": its text is known)."""
        from edgetune.schedule.kernel_spec import kernel_spec
        from edgetune.schedule.source import make_source

        limit = self._limits[kernel.workload]
        try:
            source = make_source(kernel_spec(kernel, limit), trace, self._target)
        except KernelFailed as error:
            return error.message
        name = hashlib.sha256(source.unit.encode()).hexdigest()
        if name in names:
            return ""
        if source.scratch_bytes > limit:
            return f"it needs {source.scratch_bytes} bytes of scratch, and the limit is {limit}"
        with tempfile.TemporaryDirectory(prefix="edgetune-") as place:
            unit, shim, library = (Path(place) / file for file in ("kernel.c", "shim.c", "candidate.so"))
            unit.write_text(source.unit)
            shim.write_text(source.shim)
            built = self._builder.build_candidate(self._toolchain, unit, shim, library)
            if built.reason:
                return built.reason
            binary = library.read_bytes()
        return Compiled(name, trace, binary, built.code_bytes, source.scratch_bytes, source.packing)


def _cpuid(check: CpuidCheck) -> str:
    return f"{check.leaf}:{check.subleaf}:{check.register}:{check.mask:x}"
