"""Canary: a small kernel that never changes, timed between candidates to detect a board whose speed changes.

The loops that show what a core can do at most are compiled with it.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from edgetune.boards.protocol import RunRequest
from edgetune.boards.sampling import TimingPolicy
from edgetune.errors import DiskFull
from edgetune.ipc.process_group import kill_group
from edgetune.measure.compiler import CandidateBuilder, CompilerCommand
from edgetune.measure.peaks import PeakProgram, can_be_timed, write_program
from edgetune.target.target import Target

NAME = "canary"
_LENGTH, _ROUNDS, _FACTOR, _SHIFT = 1024, 32, 2654435761, 15
_POLICY = TimingPolicy(
    budget_ns=12e6, sample_ns=0.2e6, warm_up_ns=1e6, min_sampling_ns=2e6, min_samples=5, max_samples=20, narrow=0.005
)
_UNIT = f"""#include <stdint.h>
void edgetune_canary(const uint32_t *restrict in, uint32_t *restrict out);
void edgetune_canary(const uint32_t *restrict in, uint32_t *restrict out)
{{
    for (int i = 0; i < {_LENGTH}; ++i) {{
        uint32_t value = in[i];
        for (int round = 0; round < {_ROUNDS}; ++round)
            value = value * UINT32_C({_FACTOR}) + (value >> {_SHIFT});
        out[i] = value;
    }}
}}
"""
_SHIM = """#include <stdint.h>
void edgetune_canary(const uint32_t *restrict in, uint32_t *restrict out);
void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers) { edgetune_canary(buffers[0], buffers[1]); }
"""


@dataclass(frozen=True)
class Canary:
    """The built canary: its library and its input and output, as files of this machine.

    `peaks` is the program that measures the limits of a core, once it is built.
    """

    library: Path
    arrays: tuple[Path, Path]
    peaks: PeakProgram | None = None

    def request(self) -> RunRequest:
        """Return the request to run it; the paths are of this machine."""
        return RunRequest(
            candidate_id=NAME,
            library=str(self.library),
            arrays=tuple(str(path) for path in self.arrays),
            roles=("input", "output"),
            tolerances=(None, None),
            scratch_bytes=0,
            timing=_POLICY,
        )


class CanaryMaker:
    """Compiles the canary in its own thread on `cores` (None: any) while the session starts.

    With a `target` whose boards are real, it then compiles the program that measures the limits of their cores.
    """

    def __init__(
        self,
        builder: CandidateBuilder,
        toolchain: CompilerCommand,
        folder: Path,
        cores: frozenset[int] | None = None,
        on_failure: Callable[[str], None] = lambda _: None,
        target: Target | None = None,
    ) -> None:
        self._builder, self._toolchain = builder, toolchain
        self._folder = folder / NAME
        self._cores = cores
        self._on_failure = on_failure
        self._target = target
        self._made: Canary | None = None
        self._compiler = 0
        self._thread = threading.Thread(target=self._make, name="edgetune-canary", daemon=True)
        self._thread.start()

    def get(self) -> Canary | None:
        """Return the canary, None until it is ready."""
        return self._made

    def close(self) -> None:
        """Stop compiling."""
        if self._thread.is_alive() and self._compiler:
            kill_group(self._compiler)
        self._thread.join()

    def _make(self) -> None:
        if self._cores is not None:
            os.sched_setaffinity(0, self._cores)  # of this thread, and of the compiler
        try:
            canary = self._files()
            reason = self._compile(self._folder / "unit.c", self._folder / "shim.c", canary.library)
        except (DiskFull, OSError) as error:
            self._on_failure(f"the canary cannot be written ({error}): drift cannot be detected")
            return
        if reason:
            self._on_failure(f"the canary cannot be compiled ({reason}): drift cannot be detected")
            return
        self._made = canary
        if self._target is None or not can_be_timed(self._target):
            return
        try:
            program, unit, shim = write_program(self._target, self._folder / "peaks")
            reason = self._compile(unit, shim, program.library)
        except (DiskFull, OSError) as error:
            reason = str(error)
        if reason:
            self._on_failure(f"the limits of the core cannot be measured ({reason}): no kernel gets a roofline")
            return
        self._made = replace(canary, peaks=program)

    def _compile(self, unit: Path, shim: Path, library: Path) -> str:
        """Compile one program; return why that failed, or nothing."""
        return self._builder.build_candidate(self._toolchain, unit, shim, library, self._note).reason

    def _files(self) -> Canary:
        self._folder.mkdir()
        (self._folder / "unit.c").write_text(_UNIT)
        (self._folder / "shim.c").write_text(_SHIM)
        given = np.arange(1, _LENGTH + 1, dtype=np.uint32)
        value = given.copy()
        for _ in range(_ROUNDS):
            value = value * np.uint32(_FACTOR) + (value >> np.uint32(_SHIFT))
        paths = self._folder / "in.npy", self._folder / "out.npy"
        np.save(paths[0], given)
        np.save(paths[1], value)
        return Canary(self._folder / "canary.so", paths)

    def _note(self, group: int) -> None:
        self._compiler = group
