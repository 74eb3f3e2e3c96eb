"""Our side: the package as a shared library, called through ctypes by the loop that calls the others."""

from __future__ import annotations

import ctypes

import numpy as np

from benchmarks.package_library import build_library
from benchmarks.side import Arrays, Call, Case, Loaded
from edgetune.errors import SelfTestFailed
from edgetune.package.manifest import read_manifest


class EdgetunePackage:
    """A package with static buffers for its tensors."""

    def load(self, case: Case) -> Loaded:
        """Build and load the library; raises PackageInvalid, CompileFailed, and SelfTestFailed when init refuses."""
        manifest = read_manifest(case.package)
        built = build_library(case.package, case.work)
        self._inputs = [(t["name"], tuple(t["shape"]), np.dtype(t["dtype"])) for t in manifest["inputs"]]
        self._outputs = [(t["name"], tuple(t["shape"]), np.dtype(t["dtype"])) for t in manifest["outputs"]]
        self._library = ctypes.CDLL(str(built.path))
        self._library.bench_run.argtypes = []
        for name in ("bench_input", "bench_output"):
            function = getattr(self._library, name)
            function.argtypes, function.restype = [ctypes.c_uint], ctypes.c_void_p
        if status := self._library.bench_start():
            raise SelfTestFailed(f"the package {case.package} refuses to start (status {status}): run its self-test")
        measured = sum(kernel["provenance"]["origin"] == "record" for kernel in manifest["kernels"])
        settings = f"{measured} of {len(manifest['kernels'])} kernels tuned; {built.compiler} {' '.join(built.flags)}"
        return Loaded(manifest["generator"]["version"], settings)

    def prepare(self, feed: Arrays) -> Call:
        """Copy the inputs in; raises SelfTestFailed when a run refuses."""
        for index, (name, shape, dtype) in enumerate(self._inputs):
            data = np.ascontiguousarray(feed[name], dtype).reshape(shape)
            ctypes.memmove(self._library.bench_input(index), data.ctypes.data, data.nbytes)
        if status := self._library.bench_run():
            raise SelfTestFailed(f"the package refuses to run (status {status}): run its self-test")
        run: Call = self._library.bench_run
        return run

    def answers(self) -> dict[str, np.ndarray]:
        """Outputs of the last run."""
        found = {}
        for index, (name, shape, dtype) in enumerate(self._outputs):
            size = int(np.prod(shape)) * dtype.itemsize
            data = ctypes.string_at(self._library.bench_output(index), size)
            found[name] = np.frombuffer(data, dtype).reshape(shape).copy()
        return found
