"""Our side: the package as a shared library, called through ctypes by the loop that calls the others."""

from __future__ import annotations

import ctypes

import numpy as np

from benchmarks.side import Arrays, Call, Case, Loaded
from edgetune.errors import SelfTestFailed
from edgetune.graph.layout.axis_order import exchanged, to_model
from edgetune.package.manifest import interface_of, read_manifest
from edgetune.verify.shared_library import build_library


class EdgetunePackage:
    """A package with static buffers for its tensors."""

    def load(self, case: Case) -> Loaded:
        """Build and load the library; raises PackageInvalid, CompileFailed, and SelfTestFailed when init refuses."""
        manifest = read_manifest(case.package)
        built = build_library(case.package, case.work)
        tensors, inputs = interface_of(manifest), len(manifest["inputs"])
        self._inputs, self._outputs = tensors[:inputs], tensors[inputs:]
        self._library = ctypes.CDLL(str(built.path))
        self._library.shim_run.argtypes = []
        for name in ("shim_input", "shim_output"):
            function = getattr(self._library, name)
            function.argtypes, function.restype = [ctypes.c_uint], ctypes.c_void_p
        if status := self._library.shim_start():
            raise SelfTestFailed(f"the package {case.package} refuses to start (status {status}): run its self-test")
        measured = sum(kernel["provenance"]["origin"] == "record" for kernel in manifest["kernels"])
        settings = f"{measured} of {len(manifest['kernels'])} kernels tuned; {built.compiler} {' '.join(built.flags)}"
        return Loaded(manifest["generator"]["version"], settings)

    def prepare(self, feed: Arrays) -> Call:
        """Copy the inputs in; raises SelfTestFailed when a run refuses."""
        own = exchanged(feed, {tensor.name: tensor.layout for tensor in self._inputs})
        for index, tensor in enumerate(self._inputs):
            data = np.ascontiguousarray(own[tensor.name], np.dtype(tensor.dtype)).reshape(tensor.shape)
            ctypes.memmove(self._library.shim_input(index), data.ctypes.data, data.nbytes)
        if status := self._library.shim_run():
            raise SelfTestFailed(f"the package refuses to run (status {status}): run its self-test")
        run: Call = self._library.shim_run
        return run

    def answers(self) -> dict[str, np.ndarray]:
        """Outputs of the last run, with their axes in the order of the model."""
        found = {}
        for index, tensor in enumerate(self._outputs):
            data = ctypes.string_at(self._library.shim_output(index), tensor.nbytes)
            array = np.frombuffer(data, np.dtype(tensor.dtype)).reshape(tensor.shape)
            found[tensor.name] = array.transpose(to_model(array.ndim, tensor.layout)).copy()
        return found
