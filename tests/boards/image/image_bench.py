"""A bench of boards without operating system: builds a candidate from C text, and tries it under the emulator."""

from __future__ import annotations

import select
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import numpy as np

from edgetune.backends.c_bare_metal import BACKEND
from edgetune.boards.cores import split_cores
from edgetune.boards.host_resources import HostResources
from edgetune.boards.image.board import ImageBoard
from edgetune.boards.protocol import RunRequest, RunResult
from edgetune.boards.sampling import TimingPolicy
from edgetune.boards.transports.image import IMAGE, ImageTransport
from edgetune.codegen import KernelSource, kernel_unit, shim
from edgetune.graph.accuracy import Tolerance
from edgetune.target.target import Target

LENGTH = 100
SCRATCH_BYTES = 32
RIGHT = f"for (int i = 0; i < {LENGTH}; i++) y[i] = a[i] * (float)w[i];"
"""The body of a right candidate: `a` are floats, `w` are constants of 8 bits, `y` is the output, `s` the scratch."""

_PARAMETERS = "const float *a, const int8_t *w, float *y, uint8_t *s"
_UNIT = """#include <stdint.h>
void kernel({parameters});
void kernel({parameters})
{{
    (void)a, (void)w, (void)y, (void)s;
    {body}
}}
"""
_SHIM = """#include <stdint.h>
void kernel({parameters});
void edgetune_call(void *const *buffers);
void edgetune_call(void *const *buffers) {{ kernel(buffers[0], buffers[1], buffers[2], buffers[3]); }}
"""


def image_board(target: Target, folder: Path, cache: Path, transport: ImageTransport = IMAGE) -> ImageBoard:
    """Return a board whose files lie in `folder`, not reserved yet."""
    return ImageBoard(target, partial(transport.runner, target), HostResources(folder, split_cores()), cache)


@dataclass(frozen=True)
class ImageBench:
    """Files in `folder`, one board of `target`."""

    target: Target
    folder: Path
    board: ImageBoard

    @classmethod
    def of(cls, target: Target, folder: Path, cache: Path, transport: ImageTransport = IMAGE) -> ImageBench:
        """Return a bench whose inputs are written and whose board is reserved."""
        a = np.random.default_rng(0).standard_normal(LENGTH).astype(np.float32)
        w = (np.arange(LENGTH) - 50).astype(np.int8)
        for name, array in (("a", a), ("w", w), ("y", a * w)):
            np.save(folder / f"{name}.npy", array)
        board = image_board(target, folder, cache, transport)
        board.reserve()
        return cls(target, folder, board)

    def request(self, body: str) -> RunRequest:
        """Build a candidate whose kernel has `body`, and return the request for it."""
        unit, shim = _UNIT.format(parameters=_PARAMETERS, body=body), _SHIM.format(parameters=_PARAMETERS)
        return RunRequest(
            candidate_id="candidate",
            library=self.library(unit, shim),
            arrays=tuple(self.board.put(self.folder / f"{name}.npy") for name in "awy"),
            roles=("input", "constant", "output"),
            tolerances=(None, None, None),
            scratch_bytes=SCRATCH_BYTES,
            timing=TimingPolicy(),
        )

    def library(self, unit_text: str, shim_text: str) -> str:
        """Build a candidate of two C files, and put it on the board."""
        place = self.folder / f"candidate-{len(list(self.folder.glob('candidate-*')))}"
        place.mkdir()
        unit, shim, library = place / "unit.c", place / "shim.c", place / "candidate.so"
        unit.write_text(unit_text)
        shim.write_text(shim_text)
        built = BACKEND.build_candidate(BACKEND.toolchain(self.target, 30.0), unit, shim, library)
        assert built.reason == ""
        assert built.code_bytes > 0
        return self.board.put(library)

    def run(self, body: str, deadline_s: float = 10.0) -> RunResult:
        """Try a candidate whose kernel has `body`."""
        return self.wait_for(replace(self.request(body), deadline_s=deadline_s))

    def run_kernel(
        self, source: KernelSource, arrays: Sequence[np.ndarray], roles: Sequence[str], tolerance: Tolerance
    ) -> RunResult:
        """Try a printed kernel; the last one of its arrays is the output that is expected."""
        paths = []
        for index, array in enumerate(arrays):
            paths.append(self.folder / f"{index}.npy")
            np.save(paths[-1], array)
        request = replace(
            self.request(RIGHT),
            library=self.library(kernel_unit(source, self.target, "edgetune"), shim(source, "edgetune")),
            arrays=tuple(self.board.put(path) for path in paths),
            roles=tuple(roles),
            tolerances=(*[None] * (len(paths) - 1), tolerance),
            scratch_bytes=source.scratch_bytes,
        )
        return self.wait_for(request)

    def wait_for(self, request: RunRequest) -> RunResult:
        """Try a request until its result, for which the descriptor of the board is waited for."""
        self.board.begin(request)
        assert select.select([self.board.fileno()], [], [], request.deadline_s + 40)[0]
        result = self.board.collect(1.0)
        assert result is not None
        assert not select.select([self.board.fileno()], [], [], 0)[0]
        return result

    def with_arrays(self, body: str, arrays: Sequence[np.ndarray], roles: Sequence[str]) -> RunRequest:
        """Return a request with other arrays than those of the bench, written into its folder."""
        paths = []
        for index, array in enumerate(arrays):
            paths.append(self.folder / f"other_{index}.npy")
            np.save(paths[-1], array)
        none = (None,) * len(paths)
        return replace(self.request(body), arrays=tuple(map(str, paths)), roles=tuple(roles), tolerances=none)
