"""What all backends in C have in common: how kernels are scheduled and printed, and the content of packages."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from edgetune.events import Event
from edgetune.target.board_kind import BoardKind
from edgetune.target.dialect import Dialect
from edgetune.target.preferences import Io, Precision
from edgetune.target.target import KeyFault, with_cpu

if TYPE_CHECKING:
    from edgetune.backends.printed import PrintedKernels
    from edgetune.graph.program import Kernel, Program
    from edgetune.package.content import PackageContent
    from edgetune.records import Record, RecordStore

OnEvent = Callable[[Event], None]

NO_CPU = KeyFault("backend", "is for CPUs, and 'kind' is gpu: write 'backend: cuda'")
"""What backends in C say of a GPU."""


class CBackend:
    """A base of members of `Backend`."""

    dialect: Dialect
    searches = True
    rounds = False
    keeps_states = True
    io: tuple[Io, ...] = ("caller", "arena")

    def precisions(self, target: BoardKind) -> tuple[Precision, ...]:
        """Return fp32."""
        del target
        return ("fp32",)

    def untimed(self, target: BoardKind) -> str:
        """Return "": a session can time them."""
        del target
        return ""

    @property
    def content(self) -> PackageContent:
        """Files in C."""
        from edgetune.package.content import C_CONTENT

        return C_CONTENT

    def default_schedules(self, program: Program, target: BoardKind) -> list[tuple[str, str]]:
        """Return the default schedules of the direct algorithm."""
        from edgetune.schedule.default_schedule import default_trace

        return [default_trace(kernel.function, with_cpu(target)) for kernel in program.kernels]

    def imported_records(
        self, kernel: Kernel, target: BoardKind, store: RecordStore, min_trust: str
    ) -> Iterator[Record]:
        """Yield nothing: a search has timed what is there."""
        del kernel, target, store, min_trust
        return iter(())

    def in_forms(self, program: Program, target: BoardKind) -> Program:
        """Return the program in the forms of fewest instructions, by an estimate."""
        from edgetune.rewrites.program import for_target

        return for_target(program, with_cpu(target))

    def in_place_at_best(self, program: Program, target: BoardKind) -> dict[int, int]:
        """Return the tensors that can be written in place under default schedules."""
        from edgetune.backends.c_kernels import written_over_at_best

        return written_over_at_best(program, with_cpu(target))

    def print_kernels(
        self, program: Program, texts: Sequence[str], target: BoardKind, prefix: str, events: OnEvent, threads: int
    ) -> PrintedKernels:
        """Return the kernels in C; raises KernelFailed and UnsupportedOperator."""
        from edgetune.backends.c_kernels import print_c_kernels

        return print_c_kernels(program, texts, with_cpu(target), prefix, events, threads, self.dialect)

    def preamble(self, names: Iterable[str], target: BoardKind, prefix: str) -> str:
        """Return the C text of the snippets `names`."""
        from edgetune.codegen.preamble import render_preamble

        return render_preamble(names, with_cpu(target), prefix)
