"""Package toolchain: the compiler, make and emulator that build and run an existing package again."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from edgetune.errors import NothingRunsIt, PackageInvalid, UsageError
from edgetune.package.native import runs_here
from edgetune.target.board_kind import BoardKind
from edgetune.target.cuda_toolkit import has_gpu
from edgetune.target.cycles import CycleCosts
from edgetune.target.isa import INSTRUCTION_SETS
from edgetune.target.programs import MAKE, RequiredProgram, require_programs
from edgetune.target.target import Probe, Target
from edgetune.target.tool_names import emulator_fault


@dataclass(frozen=True)
class PackageToolchain:
    """Compiler and emulator of one board; `package` and `emulator_package` are their Debian packages.

    Where this machine lacks what the package is for, a GPU, `instead` says what computes, and `make_words` tell make.
    A board of this machine's instruction set needs no emulator; `unused` is the one that its target names nevertheless.
    `runs_here` is False where neither it nor an emulator runs the programs. `prefix` is the package's, "" for others.
    With `images`, programs are images without operating system, whose instructions the emulator counts. A `probe` runs
    them on a real board. By `cycles` they are estimated from what was counted, at `clock_mhz`.
    """

    board: str
    isa: str
    cc: str
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    emulator: tuple[str, ...]
    package: str | None
    emulator_package: str | None
    instead: str = ""
    make_words: tuple[str, ...] = ()
    unused: str = ""
    runs_here: bool = True
    prefix: str = ""
    images: bool = False
    probe: Probe | None = None
    cycles: CycleCosts | None = None
    clock_mhz: float | None = None

    @classmethod
    def of(cls, manifest: dict[str, Any], target: BoardKind | None = None) -> PackageToolchain:
        """Return the tools of `target`, or of the board that the package was made for.

        Raises UsageError where the package holds instructions that `target` does not have, PackageInvalid where the
        manifest lacks its target.
        """
        try:
            facts = manifest["target"]
            isa, instead = facts.get("isa", "cuda"), facts.get("instead", "")
            if target is not None:
                if target.shown["isa"] != isa:
                    raise UsageError(
                        f"the package is for {isa} (board {facts['name']}), board {target.name} is "
                        f"{target.shown['isa']}: build it with `edgetune build MODEL --board {target.name}`"
                    )
                facts = target.model_dump(mode="json")
            compiler, native = facts["compiler"], bool(instead) or runs_here(isa)
            probe = None if facts.get("debug_probe") is None else Probe.model_validate(facts["debug_probe"])
            cycles = None if facts.get("cycles") is None else CycleCosts.model_validate(facts["cycles"])
            emulator = () if instead else tuple(facts["emulator"])
            return cls(
                board=facts["name"],
                isa=isa,
                cc=compiler["cc"],
                cflags=tuple(compiler["cflags"]),
                ldflags=tuple(compiler["ldflags"]),
                emulator=() if native else emulator,
                package=compiler["package"],
                emulator_package=facts.get("emulator_package"),
                instead=instead if instead and not has_gpu() else "",
                make_words=("DEVICE=cpu",) if instead and not has_gpu() else (),
                unused=emulator[0] if native and emulator else "",
                runs_here=native or bool(emulator) or probe is not None,
                prefix=manifest.get("prefix", ""),
                images=facts.get("memory_map") is not None and facts.get("clock") == "instructions",
                probe=probe,
                cycles=cycles,
                clock_mhz=facts.get("clock_mhz"),
            )
        except (KeyError, TypeError, ValidationError) as error:
            raise PackageInvalid(
                f"MANIFEST.json has no usable target ({error}): write the package again with `edgetune build`"
            ) from error

    @classmethod
    def of_board(cls, target: Target) -> PackageToolchain:
        """Return the tools of `target` for a program that is no package."""
        return cls.of({"target": {"isa": target.isa, "name": target.name}}, target)

    def require(self, *, emulator: bool = True) -> None:
        """Raise ToolchainMissing, naming all tools that are not on PATH and the one command that installs them.

        Without `emulator`, none is required, as the programs run elsewhere; else raises NothingRunsIt where the board
        has none, or where the one that is installed does not know its machine or CPU.
        """
        if emulator and not self.runs_here:
            self_test = f" (`make build/{self.prefix}_selftest` in the package makes it)" if self.prefix else ""
            raise NothingRunsIt(
                f"nothing on this machine runs programs of board '{self.board}' ({self.isa}), whose target names no "
                f"'emulator': use `--board {self.board}` where the board has an address, or start the self-test"
                f"{self_test} there, whose last line is PASS"
            )
        if emulator and (why := emulator_fault(self.emulator)):
            raise NothingRunsIt(f"the 'emulator' of board '{self.board}' {why}")
        needed = [MAKE, RequiredProgram(self.cc, self.package, f"the C compiler of board '{self.board}'")]
        if self.emulator and emulator:
            role = f"which runs binaries of board '{self.board}'"
            needed.append(RequiredProgram(self.emulator[0], self.emulator_package, role))
        if self.probe is not None and emulator:
            role = f"which drives the debug probe of board '{self.board}'"
            needed.append(RequiredProgram(self.probe.command[0], self.probe.package, role))
        require_programs(needed)


def require_native(tools: PackageToolchain) -> None:
    """Raise NothingRunsIt where a package of `tools` cannot be loaded into a process of this machine."""
    if tools.isa not in INSTRUCTION_SETS or not runs_here(tools.isa):
        raise NothingRunsIt(
            f"the package is for board '{tools.board}' ({tools.isa}), and only one for the CPU of this machine can be "
            "called: build the model with board 'host', or use verify and bench, which take an emulator or the board"
        )
