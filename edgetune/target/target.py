"""Targets: reads the description of a kind of board, with a CPU or with a GPU, from its YAML file.

A new target needs no change of Python code.

Also lists the compiler options that relax floating-point arithmetic, and the options that undo them at the end of the
command line.
"""

from __future__ import annotations

import shlex
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Literal, NamedTuple

from pydantic import Field, StrictBool, StrictFloat, StrictInt, StrictStr, ValidationInfo, field_validator

from edgetune.errors import UnknownBoard, UsageError
from edgetune.resources import targets_dir, user_dir
from edgetune.target.board_kind import BoardKind, Peak, this_clock_mhz
from edgetune.target.costs import Costs
from edgetune.target.cycles import CycleCosts
from edgetune.target.dot_product import DotProduct, at_words
from edgetune.target.gpu import GpuTarget
from edgetune.target.isa import INSTRUCTION_SETS, InstructionSet, Isa
from edgetune.target.isa.vector_instructions import RESULTS_OF_WINDOW, TileSize
from edgetune.target.memory_map import MemoryMap
from edgetune.target.preferences import Preferences
from edgetune.yaml_reader.checked import Checked, check_document
from edgetune.yaml_reader.nearest import nearest
from edgetune.yaml_reader.quantities import ByteCount
from edgetune.yaml_reader.source import YamlDocument, load_yaml

# Maps the option that forbids a relaxation to the option that allows it. Options that allow several are below.
_ALLOWED_BY = {
    "-fno-unsafe-math-optimizations": "-funsafe-math-optimizations",
    "-fno-associative-math": "-fassociative-math",
    "-fno-reciprocal-math": "-freciprocal-math",
    "-fsigned-zeros": "-fno-signed-zeros",
    "-fno-finite-math-only": "-ffinite-math-only",
}
_UNSAFE = frozenset(_ALLOWED_BY) - {"-fno-finite-math-only"}
_SEVERAL = {
    "-funsafe-math-optimizations": _UNSAFE,
    "-ffast-math": frozenset(_ALLOWED_BY),
    "-Ofast": frozenset(_ALLOWED_BY),
}


def strict_math(asked: Sequence[str]) -> tuple[str, ...]:
    """Options that undo the float relaxations of other flags, except those that the flags `asked` allow in the end.

    They go last on the command line of a file. A target that asks for such a relaxation for its kernels keeps it.
    """
    kept: set[str] = set()
    for flag in asked:
        if flag in _ALLOWED_BY:
            kept.discard(flag)
        kept |= _SEVERAL.get(flag, frozenset())
        kept |= {back for back, allowing in _ALLOWED_BY.items() if allowing == flag}
    return tuple(back for back in _ALLOWED_BY if back not in kept)


STACK_LIMIT_BYTES = 4096
"""Stack of one function: a search refuses candidates that take more, a package warns of them."""

Words = tuple[StrictStr, ...]
THIS_MACHINE = "host"
"""The name of the target that describes the machine itself."""
_FLOAT_BITS = 32
_SWEEP = 16  # times the size of the L2 cache, so that the L3 cache of a small board is swept as well
Count = Annotated[StrictInt, Field(ge=1)]
GigabytesPerSecond = Annotated[StrictFloat | StrictInt, Field(gt=0)]


class Compiler(Checked):
    """The one compiler command line of a board: what is timed is what ships."""

    cc: StrictStr = Field(description="C compiler, as found on PATH.")
    cxx: StrictStr | None = Field(default=None, description="C++ compiler, for tests of the header only.")
    cross_prefix: StrictStr = Field(default="", description="Prefix of the binutils, such as aarch64-linux-gnu-.")
    cflags: Words = Field(description="Flags for every C file.")
    kernel_cflags: Words = Field(
        default=(),
        description="Flags added for the kernel file alone. Their relaxations of float arithmetic "
        "(-funsafe-math-optimizations) stay in force; those of other flags are switched off again.",
    )
    ldflags: Words = Field(default=("-lm",), description="Flags after the objects when linking a program.")
    package: StrictStr | None = Field(default=None, description="Debian packages that bring the compiler.")

    @property
    def strict_math(self) -> Words:
        """Flags at the end of the kernel file's line; they undo the float relaxations of the flags before them."""
        return strict_math(self.kernel_cflags)

    @property
    def kernel_line(self) -> Words:
        """All flags of the kernel file, in the order in which they are shipped and timed."""
        return (*self.cflags, *self.kernel_cflags, *self.strict_math)


IMAGE_FILE = "{image}"
"""Stands in the command of a probe for the file of the image."""


def _quoted(text: str) -> str:
    """A piece of a shell's word."""
    return shlex.quote(text) if text else ""


class Probe(Checked):
    """The debug probe of a board without operating system, as a command of this machine."""

    command: Annotated[Words, Field(min_length=1)] = Field(
        description="Command that writes an image to the board, starts it, and prints what it says by semihosting; "
        "{image} stands for the image's file. It may end with the image or go on."
    )
    package: StrictStr | None = Field(default=None, description="Debian packages that bring the command.")
    start: StrictStr = Field(
        default="",
        description="C statements that run in an image before anything else: they set the clock of the core to "
        "clock_mhz, the wait states of flash, and caches, as the firmware does.",
    )

    @field_validator("command")
    @classmethod
    def _names_the_image(cls, words: Words) -> Words:
        if not any(IMAGE_FILE in word for word in words):
            raise ValueError(f"must hold {IMAGE_FILE}, which stands for the file of the image")
        return words

    @property
    def prefix(self) -> str:
        """The command for a shell, in front of an image's file."""
        *words, last = self.command
        if last == IMAGE_FILE and not any(IMAGE_FILE in word for word in words):
            return shlex.join(words)
        line = " ".join('"$1"'.join(map(_quoted, word.split(IMAGE_FILE))) for word in self.command)
        return f"sh -c {shlex.quote(line)} probe"

    def words(self, image: Path) -> list[str]:
        """Return the command for an image."""
        return [word.replace(IMAGE_FILE, str(image)) for word in self.command]


class Target(BoardKind):
    """A board with a CPU, fixed in every detail that code generation, compilation and measuring depend on."""

    isa: Isa = Field(description="Instruction set family.")
    triple: StrictStr = Field(description="LLVM target triple.")
    cpu: StrictStr = Field(description="LLVM name of the CPU (mcpu).")
    llvm_features: Words = Field(default=(), description="LLVM features beyond those of the CPU, such as +dotprod.")
    vector_bits: Literal[0, 32, 64, 128, 256, 512] = Field(
        description="Native vector width; 0 means no vectors, 32 numbers in the core's own registers."
    )
    vector_registers: Annotated[StrictInt, Field(ge=0)] = Field(description="Vector registers at that width.")
    cores: Count = Field(description="Cores of the board.")
    l1_bytes: ByteCount = Field(description="L1 data cache of one core, such as 32KiB.")
    l2_bytes: ByteCount = Field(description="L2 cache that one core sees.")
    handover_cycles: Count = Field(
        default=4000,
        description="Cycles of a core to share a loop among threads and to join them at its end, without the loop "
        "itself. benchmarks/threads.py measures it; loops too short to gain from threads stay on one thread.",
    )
    memory_gb_per_s: GigabytesPerSecond = Field(
        default=8,
        description="GB/s at which one core reads from memory. benchmarks/roofline.py measures it; it decides how "
        "much slower a kernel may get by prefetching weights.",
    )
    costs: Costs = Field(
        default=Costs(),
        description="What things cost on a core, in cycles, where it differs from the defaults of the instruction set. "
        "They choose default schedules and what a search tries first; records stay valid.",
    )
    cycles: CycleCosts | None = Field(
        default=None,
        description="What instructions cost on the core, where they are counted: for an estimate of cycles, which "
        "nothing is chosen by.",
    )
    compiler: Compiler
    dot: DotProduct | None = Field(
        default=None,
        description="The instruction that adds products of neighbouring integers to lanes of 32 bits, where it is a "
        "better one than every core of the instruction set has.",
    )
    has_float16: StrictBool = Field(default=False, description="The compiler has _Float16 for this board.")
    cpu_part: StrictStr = Field(
        default="",
        description="Implementer and part of the cores as /proc/cpuinfo shows them, such as 0x41:0xd08, if cpu "
        "names a whole family: boards with different cores must not share records.",
    )
    memory_map: MemoryMap | None = Field(
        default=None,
        description="Flash, RAM and [regions of RAM](#several-regions-of-ram), for boards without operating system.",
    )
    emulator: Words = Field(default=(), description="Command prefix that runs its binaries on this machine.")
    emulator_package: StrictStr | None = Field(default=None, description="Debian packages that bring the emulator.")
    debug_probe: Probe | None = Field(default=None, description="The debug probe of the board, with 'reach: probe'.")
    cpu_checks: Words = Field(
        default=(),
        description="CPU features that init() checks: names of __builtin_cpu_supports, or of HWCAP bits on ARM.",
    )

    @field_validator("costs", mode="before")
    @classmethod
    def _with_defaults(cls, stated: object, info: ValidationInfo) -> object:
        """What is stated over the costs of the instruction set."""
        isa = INSTRUCTION_SETS.get(info.data.get("isa", ""))
        if isinstance(stated, Costs):
            stated = stated.model_dump(exclude_unset=True)
        if isa is None or not isinstance(stated, Mapping):
            return stated
        return {**isa.costs.model_dump(), **stated}

    @field_validator("dot")
    @classmethod
    def _is_there(cls, stated: DotProduct | None, info: ValidationInfo) -> DotProduct | None:
        """A dot product that the instruction set has."""
        isa = INSTRUCTION_SETS.get(info.data.get("isa", ""))
        if stated is not None and isa is not None and stated.function not in isa.vectors.dot:
            raise ValueError(f"{isa.name} has no instruction for {stated.elements} products of {stated.data} in a lane")
        return stated

    @property
    def dot_products(self) -> tuple[DotProduct, ...]:
        """Its dot products of integers, the best first, one of each type of data; none where it has no vectors."""
        found = (self.instruction_set.dot, self.dot) if self.vector_bits else ()
        by_type = {one.data: one for one in found if one is not None}
        return tuple(reversed(by_type.values()))

    def adds_apart(self, products: int, lanes: int) -> bool:
        """Whether its dot products of so many products of a lane multiply, and another instruction adds the results."""
        rows = self.instruction_set.vectors.dot
        found = [rows.get(one.function, {}).get(lanes, ()) for one in self.dot_products if one.elements == products]
        return any(one.count > 1 for instructions in found for one in instructions[-1:])

    def tiles_of_dots(self, products: int) -> frozenset[TileSize]:
        """The tiles that one function computes, by dot products of so many numbers."""
        tiles = self.instruction_set.vectors.dot_tiles
        names = [one.function for one in self.dot_products if one.elements == products]
        return frozenset(size for name in names for one in (name, at_words(name)) for size in tiles.get(one, {}))

    def near_rows_of_dots(self, products: int) -> float:
        """`TileReach.near` of such tiles whose integers begin at multiples of 4 bytes."""
        reach = self.instruction_set.vectors.tile_reach
        names = [at_words(one.function) for one in self.dot_products if one.elements == products]
        return max((reach[name].near for name in names if name in reach), default=0)

    def has_windows_of(self, lanes: int) -> bool:
        """Whether one function computes so many results of a window from their bias to their bytes."""
        return lanes == RESULTS_OF_WINDOW and bool(self.instruction_set.vectors.lane_windows)

    @property
    def has_fpu(self) -> bool:
        """See `BoardKind.has_fpu`; GCC and Clang say it by this flag."""
        return "-mfloat-abi=soft" not in self.compiler.cflags

    @property
    def run_prefix(self) -> str:
        """What stands before a program in a shell to run it: its emulator, the command of its probe, or nothing."""
        return shlex.join(self.emulator) if self.debug_probe is None else self.debug_probe.prefix

    @property
    def memory_sizes(self) -> dict[str, int]:
        """Bytes of `ram`, all regions of it together, and `flash`, where `memory_map` says them."""
        space = self.memory_map
        return {} if space is None else {"ram": space.workspace_bytes, "flash": space.flash.bytes}

    def peak(self) -> Peak | None:
        """One vector multiply-add per cycle of one core, or the products that one instruction adds.

        The clock of this machine is asked for where it is meant.
        """
        clock = self.clock_mhz or (this_clock_mhz() if self.name == THIS_MACHINE else None)
        if clock is None:
            return None
        lanes = max(1, self.vector_bits // _FLOAT_BITS)
        products = [one.elements * lanes / max(1.0, self.costs.operation) for one in self.dot_products]
        return Peak(lanes, clock, float(self.memory_gb_per_s), "one core", int(max([lanes, *products])))

    @property
    def register_bytes(self) -> int:
        """Bytes of all vector registers."""
        return self.vector_registers * self.vector_bits // 8

    @property
    def instruction_set(self) -> InstructionSet:
        """The facts of its instruction set."""
        return INSTRUCTION_SETS[self.isa]

    @property
    def caveat(self) -> str:
        """The note that must accompany every measured number, for an emulated board or cold caches; else empty."""
        if self.clock == "instructions":
            return (
                f"instruction counts under {self.emulator[0]}, 1000 instructions written as 1 us: exact and "
                "repeatable, but not times"
            )
        cold = "times with cold caches, flushed before every call" if self.caches == "cold" else ""
        return super().caveat or cold

    @property
    def shown(self) -> dict[str, object]:
        """Its instruction set, CPU, vectors and cores."""
        vectors = f"{self.vector_registers} x {self.vector_bits} bits"
        return {"isa": self.isa, "cpu": self.cpu, "vectors": vectors, "cores": self.cores}

    @property
    def c_compiler(self) -> tuple[str, str | None]:
        """That of kernels and programs."""
        return self.compiler.cc, self.compiler.package

    @property
    def emulators(self) -> tuple[tuple[str, str | None], ...]:
        """Its emulator."""
        return ((self.emulator[0], self.emulator_package),) if self.emulator else ()

    @property
    def stand_in(self) -> str:
        """Its emulator."""
        return self.emulator[0] if self.emulator else ""

    @property
    def cold_bytes(self) -> int:
        """Bytes to sweep before every timed call, more than the caches hold; 0 keeps the caches warm."""
        swept = max(self.instruction_set.least_swept_bytes, _SWEEP * self.l2_bytes)
        return swept if self.caches == "cold" else 0


class DetectedCompiler(Checked):
    """Overrides of the detected compiler."""

    cc: StrictStr | None = None
    cxx: StrictStr | None = None
    ldflags: Words | None = None


class DetectedTarget(Checked):
    """A target file whose facts are detected on this machine; what it states wins over what was detected."""

    name: Annotated[StrictStr, Field(pattern=r"^[a-z0-9][a-z0-9_-]*$")]
    description: StrictStr
    detect: Literal[True] = Field(description="Detect the other keys on this machine.")
    cores: Count | None = None
    handover_cycles: Count | None = None
    memory_gb_per_s: GigabytesPerSecond | None = None
    costs: Costs = Costs()
    compiler: DetectedCompiler = DetectedCompiler()
    defaults: Preferences = Preferences()


class KeyFault(NamedTuple):
    """A key of a file that must not stand there as it does ("" where several keys contradict each other), and why."""

    key: str
    why: str


TargetFault = Callable[[BoardKind], KeyFault | None]


def load_target(name: str, fault: TargetFault = lambda _: None) -> Target:
    """Return the target called ``name`` as ``load_board_kind`` does; raises UsageError where it is a GPU."""
    return with_cpu(load_board_kind(name, fault))


def with_cpu(kind: BoardKind) -> Target:
    """Return a kind of board whose kernels run on a CPU; raises UsageError for any other."""
    if not isinstance(kind, Target):
        raise UsageError(f"'{kind.name}' is a GPU, and this needs a board whose kernels run on a CPU")
    return kind


def load_board_kind(name: str, fault: TargetFault = lambda _: None) -> BoardKind:
    """Return the kind of board called ``name``, or the one in the file ``name`` if that ends in ``.yaml``.

    ``fault`` returns what is wrong in a target's file beside its form; the transports know more than that.
    Files in the user's own ``targets`` folder come before the shipped ones.
    Raises UnknownBoard (no such file, names the nearest) and ConfigError (the file is wrong).
    """
    if name.endswith((".yaml", ".yml")):
        path = Path(name)
        if not path.is_file():
            msg = f"there is no target file {name}: give the name of a board or the path of its YAML file"
            raise UnknownBoard(msg)
        return _read(path, fault)
    files = _target_files()
    if name not in files:
        msg = f"unknown target '{name}': {nearest(name, files)} (`edgetune boards list` shows all)"
        raise UnknownBoard(msg)
    return _read(files[name], fault)


def is_shipped(target: BoardKind) -> bool:
    """Whether `target` is that of edgetune's own file of its name, and no user's."""
    path = targets_dir() / f"{target.name}.yaml"
    return path.is_file() and _read(path, lambda _: None) == target


def target_names() -> list[str]:
    """Return the names of all targets, ``host`` first, then sorted; reads only the file names."""
    return sorted(_target_files(), key=lambda name: (name != "host", name))


def list_targets(fault: TargetFault = lambda _: None) -> list[BoardKind]:
    """Return all targets in the order of ``target_names``; ``fault`` is that of ``load_target``."""
    return [load_board_kind(name, fault) for name in target_names()]


def _target_files() -> dict[str, Path]:
    files: dict[str, Path] = {}
    for folder in (targets_dir(), user_dir() / "targets"):
        if folder.is_dir():
            files |= {path.stem: path for path in sorted(folder.glob("*.yaml"))}
    return files


def _read(path: Path, fault: TargetFault) -> BoardKind:
    document = load_yaml(path)
    target: BoardKind
    if "detect" in document.data:
        target = _complete(document)
    else:
        arm = GpuTarget if document.data.get("kind") == "gpu" else Target
        target = check_document(arm, document)
    if target.name != path.stem:
        raise document.error(("name",), f"'name' must be '{path.stem}', like the file")
    if (found := fault(target)) is not None:
        key = (found.key,) if found.key else ()
        raise document.error(key, f"'{found.key}' {found.why}" if key else found.why)
    return target


def _complete(document: YamlDocument) -> Target:
    from edgetune.target.detect import detect_host

    stated = check_document(DetectedTarget, document)
    detected = detect_host(cc=stated.compiler.cc or "gcc")
    compiler = detected.compiler.model_copy(
        update=stated.compiler.model_dump(exclude_none=True, exclude_unset=True),
    )
    update: dict[str, object] = {
        "name": stated.name,
        "description": stated.description,
        "compiler": compiler,
        "defaults": stated.defaults,
        "costs": detected.costs.model_copy(update=stated.costs.model_dump(exclude_unset=True)),
    }
    measured = ("cores", "handover_cycles", "memory_gb_per_s")
    update |= {key: getattr(stated, key) for key in measured if getattr(stated, key) is not None}
    return detected.model_copy(update=update)
