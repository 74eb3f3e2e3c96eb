"""The protocol of a backend, for one kind of device: what all other rooms ask of it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Protocol

from edgetune.events import Event
from edgetune.measure.compiler import CandidateBuilder
from edgetune.package.program_image import ProgramImage
from edgetune.target.board_kind import BoardKind
from edgetune.target.dialect import Dialect
from edgetune.target.preferences import Io, Precision
from edgetune.target.target import KeyFault

if TYPE_CHECKING:
    from edgetune.backends.printed import PrintedKernels
    from edgetune.graph.program import Kernel, Program
    from edgetune.package.content import PackageContent
    from edgetune.records import Record, RecordStore

OnEvent = Callable[[Event], None]


class Backend(CandidateBuilder, Protocol):
    """A member of the registry `edgetune.backends`; a target names it with the key `backend`.

    `dialect` is the C that its compilers take, `content` the files of its packages. Where nothing `searches`, kernels
    have default schedules, or those of records that were timed elsewhere and imported. `most_threads` limits the
    threads of a package (None: no limit). Where it `joins_attention`, scores, their softmax and the weighted values are
    one kernel, whose rows one thread walks; else they are kernels of their own. `transport` reaches its boards where
    their addresses name no other. `rounds`: their candidates are timed in rounds, at boards with an address or
    elsewhere. `bundles` names the kind of candidates that bundles carry to them ("": none). Where its packages have no
    `loops`, the calls of all iterations stand one after another. `keeps_states`: its packages can keep tensors from
    run to run. `io` has the places where inputs and outputs of its packages can lie.
    """

    dialect: Dialect
    searches: bool
    most_threads: int | None
    joins_attention: bool
    transport: str
    rounds: bool
    bundles: str
    loops: bool
    keeps_states: bool
    io: tuple[Io, ...]

    @property
    def content(self) -> PackageContent:
        """The files of its packages; asked for when one is written, because it loads TVM."""

    def precisions(self, target: BoardKind) -> tuple[Precision, ...]:
        """Return the precisions that packages for `target` can have; fp32 is always among them."""

    def untimed(self, target: BoardKind) -> str:
        """Return why no session can time candidates on boards of `target`, as part of a sentence; "" where one can."""

    def target_fault(self, target: BoardKind) -> KeyFault | None:
        """Return what is wrong in the file of a target that names it; None where nothing is."""

    def default_schedules(self, program: Program, target: BoardKind) -> list[tuple[str, str]]:
        """Return a schedule of each kernel, and a note for people; raises KernelFailed.

        Only asked where nothing `searches`.
        """

    def imported_records(
        self, kernel: Kernel, target: BoardKind, store: RecordStore, min_trust: str
    ) -> Iterator[Record]:
        """Yield the records of `kernel` that were timed elsewhere, as the text that their traces give today.

        The fastest comes first; none is graded below `min_trust`. Only asked where nothing `searches`.
        """

    def in_forms(self, program: Program, target: BoardKind) -> Program:
        """Return `program` with each kernel in the form that a package has where nothing is measured.

        Forms are other kernels, or several, that compute the same; those worth a measurement are its divisions.
        """

    def in_place_at_best(self, program: Program, target: BoardKind) -> dict[int, int]:
        """Return the tensors that can be written in place (see `in_place_outputs`) under the best of schedules."""

    def print_kernels(
        self, program: Program, texts: Sequence[str], target: BoardKind, prefix: str, events: OnEvent, threads: int
    ) -> PrintedKernels:
        """Return the text of every kernel of `program` under the schedules `texts`, for the package called `prefix`.

        Raises KernelFailed, and UnsupportedOperator for a type that `dialect` lacks.
        """

    def preamble(self, names: Iterable[str], target: BoardKind, prefix: str) -> str:
        """Return the text of the snippets `names`, which kernels need."""

    def program_image(self, prefix: str, target: BoardKind) -> ProgramImage:
        """Return what the test programs of the package called `prefix` need; `target_fault` finds no fault."""
