"""Backend cuda: packages of CUDA kernels for boards with an NVIDIA GPU; their times come from bundles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

from edgetune.errors import BoardUnavailable, KernelFailed, ToolchainMissing, UnsupportedOperator
from edgetune.events import Event
from edgetune.measure.compiler import CompilerCommand, CompileResult, OnStart
from edgetune.package.ident import kernel_symbol
from edgetune.package.program_image import ProgramImage
from edgetune.target.board_kind import BoardKind
from edgetune.target.cuda_toolkit import WHEELS, find_nvcc, gpu_fingerprint, nvcc_id, require_nvcc
from edgetune.target.dialect import Dialect
from edgetune.target.gpu import GpuTarget
from edgetune.target.preferences import Io, Precision
from edgetune.target.target import KeyFault, Target

if TYPE_CHECKING:
    from edgetune.backends.printed import PrintedKernels
    from edgetune.graph.program import Kernel, Program
    from edgetune.package.content import PackageContent
    from edgetune.records import Record, RecordKey, RecordStore

OnEvent = Callable[[Event], None]

_CONSIDERED = 50
"""How many of the fastest records of a kernel are checked for one whose trace gives the text that was timed."""


class Cuda:
    """See `Backend`."""

    dialect = Dialect("CUDA")
    searches = False
    most_threads: int | None = 1
    loops = False  # a graph of launches has all of them
    keeps_states = False
    io: tuple[Io, ...] = ("caller",)  # memory of the device is its own
    joins_attention = False  # its products are tiles of blocks, or of tensor cores
    transport = "gpu"
    rounds = True
    bundles = "cubins"

    def precisions(self, target: BoardKind) -> tuple[Precision, ...]:
        """Return fp32, and the types of 16 bits that the tensor cores of `target` multiply."""
        from edgetune.graph.precision import STORED

        return ("fp32", *(one for one in STORED if one in _gpu(target).tensor_cores))

    def untimed(self, target: BoardKind) -> str:
        """Return that a folder carries them."""
        del target
        return "candidates travel to a GPU and back as a folder (`--via bundle`, or `edgetune bundle export --help`)"

    def target_fault(self, target: BoardKind) -> KeyFault | None:
        """Demand a GPU."""
        if isinstance(target, GpuTarget):
            return None
        return KeyFault("backend", "is 'cuda', which is for GPUs: add 'kind: gpu', and what the file of a GPU needs")

    def toolchain(self, target: Target, timeout_s: float) -> NoReturn:
        """Raise BoardUnavailable: no candidate can be timed yet."""
        del timeout_s
        raise BoardUnavailable(f"board '{target.name}' cannot be tuned: {self.untimed(target)}")

    def build_candidate(
        self, toolchain: CompilerCommand, unit: Path, shim: Path, library: Path, on_start: OnStart | None = None
    ) -> CompileResult:
        """Do nothing: without `toolchain` no candidate gets here."""
        del toolchain, unit, shim, library, on_start
        return CompileResult("a GPU loads no candidates yet", timed_out=False, code_bytes=0)

    @property
    def content(self) -> PackageContent:
        """Files in CUDA."""
        from edgetune.package.cuda_content import CUDA_CONTENT

        return CUDA_CONTENT

    def default_schedules(self, program: Program, target: BoardKind) -> list[tuple[str, str]]:
        """Return the first schedule of each kernel that ptxas finds no spill in; without nvcc, the first with a text.

        Raises KernelFailed where there is none.
        """
        from edgetune.backends.gpu_registers import fitting_defaults, printed_defaults

        gpu = _gpu(target)
        if find_nvcc(gpu.compiler.nvcc) is None:
            return printed_defaults(program.kernels, gpu)
        return fitting_defaults(program.kernels, gpu, require_nvcc(gpu))

    def imported_records(
        self, kernel: Kernel, target: BoardKind, store: RecordStore, min_trust: str
    ) -> Iterator[Record]:
        """Yield what bundles have brought; nothing where there is no nvcc, because its version is part of a record.

        Those before the first that does not spill are left out.
        """
        from edgetune.backends.gpu_registers import spills
        from edgetune.schedule.gpu.candidate import gpu_candidate

        gpu = _gpu(target)
        if find_nvcc(gpu.compiler.nvcc) is None:
            return
        fits = False
        for record in store.best(record_key(kernel, gpu), _CONSIDERED, min_trust):
            try:
                candidate = gpu_candidate(kernel, record.trace, gpu)
            except KernelFailed:
                continue
            if candidate.name != record.candidate:
                continue
            fits = fits or not spills(candidate, gpu, require_nvcc(gpu))
            if fits:
                yield record

    def in_forms(self, program: Program, target: BoardKind) -> Program:
        """Return the program in the forms that formulas decide; nothing here estimates kernels of a GPU."""
        from edgetune.rewrites.parts import PARALLEL_DIVISIONS
        from edgetune.rewrites.program import decided

        del target
        return replace(decided(program, PARALLEL_DIVISIONS), divisions=())

    def in_place_at_best(self, program: Program, target: BoardKind) -> dict[int, int]:
        """Return nothing: kernels of a GPU write elsewhere."""
        del program, target
        return {}

    def print_kernels(
        self, program: Program, texts: Sequence[str], target: BoardKind, prefix: str, events: OnEvent, threads: int
    ) -> PrintedKernels:
        """Return the kernels in CUDA, none of them in place; raises KernelFailed and UnsupportedOperator."""
        from edgetune.backends.printed import Printed, PrintedKernels
        from edgetune.codegen.cuda.emit import emit_cuda_kernel
        from edgetune.codegen.package_names import with_prefix
        from edgetune.codegen.packing import split_packing
        from edgetune.graph.tvm_errors import kernel_named
        from edgetune.schedule.algorithms.apply import replay_plainly

        del threads
        gpu = _gpu(target)
        if find_nvcc(gpu.compiler.nvcc) is None:
            if gpu.compiler.nvcc != "nvcc":
                raise ToolchainMissing(
                    f"board '{gpu.name}' names the compiler '{gpu.compiler.nvcc}', which is not there: correct "
                    "'compiler.nvcc' in its file"
                )
            missing = "there is no nvcc: the kernels run on this machine's CPU, but no CUDA compiler reads them"
            events(Event("warning", {"message": f"{missing} ({WHEELS})"}))
        printed = []
        for number, (kernel, trace) in enumerate(zip(program.kernels, texts, strict=True)):
            with kernel_named(program, number):
                module, packing = split_packing(replay_plainly(kernel.function, trace))
                source = emit_cuda_kernel(module, gpu, kernel_symbol(prefix, kernel.name), kernel.unaligned)
            if (lacking := self.dialect.lacking(source.definition)) is not None:
                raise UnsupportedOperator(f"kernel {kernel.name} computes in {lacking}, which {gpu.name} lacks")
            text, declared = (with_prefix(part, prefix) for part in (source.definition, source.prototype))
            printed.append(Printed(replace(source, definition=text, prototype=_wrapped(declared)), packing))
        return PrintedKernels(tuple(printed), {})

    def preamble(self, names: Iterable[str], target: BoardKind, prefix: str) -> str:
        """Return the CUDA text of the snippets `names`."""
        from edgetune.codegen.cuda.maths import render_device_preamble

        del target
        return render_device_preamble(names, prefix)

    def program_image(self, prefix: str, target: BoardKind) -> ProgramImage:
        """Return a self-test and a benchmark."""
        del prefix, target
        return ProgramImage()


def record_key(kernel: Kernel, target: GpuTarget) -> RecordKey:
    """The key of a kernel's records with today's nvcc and printer. Raises ToolchainMissing."""
    from edgetune.codegen import CODEGEN_VERSION
    from edgetune.records import RecordKey

    return RecordKey(kernel.workload, gpu_fingerprint(target), nvcc_id(target), CODEGEN_VERSION)


def _gpu(target: BoardKind) -> GpuTarget:
    if not isinstance(target, GpuTarget):
        raise KernelFailed(f"'{target.name}' is no GPU, and backend cuda prints for GPUs alone: correct its file")
    return target


def _wrapped(declared: str) -> str:
    """A prototype whose lines are broken again, since names with the prefix of a package are longer."""
    from edgetune.codegen.line_breaks import prototype

    head, bracket, rest = " ".join(line.strip() for line in declared.splitlines()).partition("(")
    return prototype(head + bracket, rest.removesuffix(")").split(", "))


BACKEND = Cuda()
