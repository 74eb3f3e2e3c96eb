"""Instruction set: the facts that hold for every board of one architecture, and that differ between architectures."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from math import inf

from edgetune.target.costs import COSTS, Costs
from edgetune.target.dot_product import DotProduct
from edgetune.target.isa.cpu_features import CpuChecks, Features, checks_of
from edgetune.target.isa.vector_instructions import VectorInstructions


@dataclass(frozen=True)
class HostCpu:
    """The part of a target that the CPU of this machine decides. `machine_flags` are those that choose instructions."""

    cpu: str
    vector_bits: int
    vector_registers: int
    machine_flags: tuple[str, ...]
    has_float16: bool
    cpu_checks: tuple[str, ...] = ()
    llvm_features: tuple[str, ...] = ()
    kernel_cflags: tuple[str, ...] = ()
    cpu_part: str = ""
    dot: DotProduct | None = None


# Takes the text of /proc/cpuinfo, the compiler, and a function that asks the compiler which CPU "native" is.
HostDescription = Callable[[str, str, Callable[[str], str | None]], HostCpu]


@dataclass(frozen=True)
class OffsetReach:
    """Largest offsets, in bytes, of loads and stores: `any`, and those that are `scaled` by what is loaded."""

    any: float = inf
    scaled: float = inf


@dataclass(frozen=True, eq=False)
class InstructionSet:
    """One instruction set. Only the first three fields have no default.

    `machines` are the values of `uname -m` of its own kernels, the usual one first; none where it runs no Linux. `bits`
    is the width of its pointers. A default means that an instruction set has no such thing.
    """

    name: str
    machines: tuple[str, ...]
    bits: int

    wider_machines: tuple[str, ...] = ()
    """Values of `uname -m` of wider kernels that run a userland of this instruction set as well."""

    features: Features = field(default_factory=dict)
    """CPU features that `init` of a package can check, by their names in the `cpu_checks` of a target."""

    dot: DotProduct | None = None
    """The dot product that every core with vectors has."""

    host_triple: str = ""
    """LLVM triple of a Linux machine of this instruction set; needed with `describe_host`."""

    describe_host: HostDescription | None = None
    """Describes the CPU of this machine; raises EdgetuneError for one that is too old. None: it cannot be tuned for."""

    libc_packages: Mapping[str, str] = field(default_factory=dict)
    """Debian package of the C library for each triplet that a cross compiler's name begins with."""

    tvm_wheels: bool = False
    """Whether TVM publishes wheels for its Linux machines, of which a server of its RPC is made."""

    machine_flags_are_abi: bool = False
    """Whether all objects of a program must share the -m flags, not the kernels alone."""

    other_modes: str = ""
    """What else packages may be compiled for by the same compiler, as their README says it."""

    least_swept_bytes: int = 0
    """Least bytes to sweep for cold caches, where a cache beyond L2 is far larger than that."""

    library_vector_bytes: int = 0
    """Bytes of a vector in the C library's memcpy, where they may exceed the vectors of a target."""

    offset_reach: OffsetReach = field(default_factory=OffsetReach)
    """How far from an address in a register a load or store reaches."""

    folds_loads: bool = False
    """Whether the operand of an operation may lie in memory."""

    broadcast_operand_bits: float = inf
    """Least bits of the vectors of an operation whose operand in memory may be one element for all lanes."""

    strided_loops: float = 2.5
    """Instructions that compilers make of a loop over elements with gaps, for each of one over neighbours; a factor.

    It is 1 where an instruction loads or stores vectors of every second, third or fourth element. The default is an
    assumption: `python -m benchmarks.oracle estimates` says how far estimates lie from counts with it.
    """

    prefetches: bool = True
    """Whether kernels may load data ahead of its use by instructions of their own.

    A microcontroller's weights lie in flash, and what caches it has are small and near: there they only cost.
    """

    tile_rows: float = inf
    """Most rows in a register tile whose rows have several pixels."""

    costs: Costs = COSTS
    """What things cost on its cores where a target file says nothing."""

    vectors: VectorInstructions = field(default_factory=VectorInstructions)
    """Its instructions that compilers do not find on their own, and its registers."""

    @property
    def machine(self) -> str:
        """The usual value of `uname -m`; the name of the instruction set where it runs no Linux."""
        return self.machines[0] if self.machines else self.name

    @property
    def all_machines(self) -> frozenset[str]:
        """All values of `uname -m` of machines that run its programs."""
        return frozenset((*self.machines, *self.wider_machines))

    def cpu_checks(self, names: Sequence[str]) -> CpuChecks:
        """Return the checks for feature `names`; raises ConfigError for a name that cannot be checked."""
        return checks_of(self.name, self.features, names)
