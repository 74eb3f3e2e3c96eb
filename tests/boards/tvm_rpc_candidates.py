"""Candidates for tests of TVM's RPC: out[i] = 2 * a[i] + w[i] over 1000 floats, compiled as the builder does."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.boards.sampling import TimingPolicy
from edgetune.boards.tvm_rpc.board import TvmRpcBoard
from edgetune.graph.accuracy import Tolerance
from edgetune.measure.compiler import build_library, toolchain_of
from edgetune.target.target import Target

GOOD = "for (int i = 0; i < 1000; ++i) out[i] = 2.0f * a[i] + w[i];"
BRIEF = TimingPolicy(budget_ns=5e6, sample_ns=0.1e6, warm_up_ns=0.2e6, min_sampling_ns=1e6)
_UNIT = """#include <stdlib.h>
#include <unistd.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
void kernel(const float *a, const float *w, float *out, unsigned char *scratch);
{globals}
void kernel(const float *a, const float *w, float *out, unsigned char *scratch)
{{ (void)a; (void)w; (void)out; (void)scratch; {body} }}
"""
_SHIM = """void kernel(const float *, const float *, float *, unsigned char *);
void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers) { kernel(buffers[0], buffers[1], buffers[2], SCRATCH); }
"""


def run(board: TvmRpcBoard, request: RunRequest) -> RunResult:
    """Try one candidate as a session does."""
    board.reserve()
    board.begin(request)
    result = finish(board)
    board.release()
    return result


def finish(board: TvmRpcBoard) -> RunResult:
    """Wait for the result of what is under way."""
    while (result := board.collect(1.0)) is None:
        pass
    return result


class Candidates:
    """Compiles candidates into `folder` and describes them as requests."""

    def __init__(self, target: Target, folder: Path) -> None:
        self._toolchain, self._folder, self._count = toolchain_of(target), folder, 0
        generator = np.random.default_rng(1)
        a, w = generator.standard_normal((2, 1000)).astype(np.float32)
        arrays = {"a": a, "w": w, "out": 2 * a + w}
        for name, array in arrays.items():
            np.save(folder / f"{name}.npy", array)
        self.arrays = tuple(str(folder / f"{name}.npy") for name in arrays)

    def request(
        self,
        body: str = GOOD,
        *,
        globals_: str = "",
        scratch: int = 0,
        deadline_s: float = 20.0,
    ) -> RunRequest:
        self._count += 1
        folder = self._folder / f"candidate-{self._count}"
        folder.mkdir()
        unit, shim, library = folder / "unit.c", folder / "shim.c", folder / "candidate.so"
        unit.write_text(_UNIT.format(globals=globals_, body=body))
        shim.write_text(_SHIM.replace("SCRATCH", "buffers[3]" if scratch else "0"))
        compiled = build_library(self._toolchain, unit, shim, library)
        assert not compiled.reason, compiled.reason
        return RunRequest(
            candidate_id=f"c{self._count}",
            library=str(library),
            arrays=self.arrays,
            roles=("input", "constant", "output"),
            tolerances=(None, None, Tolerance(1e-6)),
            scratch_bytes=scratch,
            timing=BRIEF,
            deadline_s=deadline_s,
            memory_bytes=256 << 20,
        )


def listening_addresses(pids: set[int]) -> set[str]:
    """IPv4 and IPv6 addresses, in hexadecimal, on which these processes listen."""
    inodes = set()
    for pid in pids:
        try:
            links = [str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir()]
        except OSError:
            continue
        inodes |= {link[8:-1] for link in links if link.startswith("socket:[")}
    found = set()
    for table in ("tcp", "tcp6"):
        for line in Path("/proc/net", table).read_text().splitlines()[1:]:
            words = line.split()
            if words[3] == "0A" and words[9] in inodes:
                found.add(words[1].split(":")[0])
    return found


def descendants(pid: int) -> set[int]:
    """Process ids of a process and all below it."""
    parents = {}
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
            except OSError:
                continue
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found
