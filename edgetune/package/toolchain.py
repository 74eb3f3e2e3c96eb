"""The tools that build and run a package again: its compiler, make, and what runs its binaries here."""

from __future__ import annotations

import shutil
from dataclasses import dataclass
from typing import Any

from edgetune.config.target import Target
from edgetune.config.toolchain import install_command
from edgetune.errors import PackageInvalid, ToolchainMissing, UsageError
from edgetune.package.native import runs_here


@dataclass(frozen=True)
class Toolchain:
    """Compiler and emulator of one board; `package` and `emulator_package` are the Debian packages that bring them."""

    board: str
    isa: str
    cc: str
    cflags: tuple[str, ...]
    ldflags: tuple[str, ...]
    emulator: tuple[str, ...]
    package: str | None
    emulator_package: str | None

    @classmethod
    def of(cls, manifest: dict[str, Any], target: Target | None = None) -> Toolchain:
        """Return the tools of `target`, or of the board that the package was made for.

        Raises UsageError where the package holds instructions that `target` does not have, PackageInvalid where the
        manifest lacks its target.
        """
        try:
            facts = manifest["target"]
            isa = facts["isa"]
            if target is not None:
                if target.isa != isa:
                    raise UsageError(
                        f"the package is for {isa} (board {facts['name']}), board {target.name} is {target.isa}: "
                        f"build it with `edgetune build MODEL --board {target.name}`"
                    )
                facts = target.model_dump(mode="json")
            compiler = facts["compiler"]
            return cls(
                board=facts["name"],
                isa=isa,
                cc=compiler["cc"],
                cflags=tuple(compiler["cflags"]),
                ldflags=tuple(compiler["ldflags"]),
                emulator=() if runs_here(isa) else tuple(facts["emulator"]),
                package=compiler["package"],
                emulator_package=facts["emulator_package"],
            )
        except (KeyError, TypeError) as error:
            raise PackageInvalid(
                f"MANIFEST.json has no usable target ({error}): write the package again with `edgetune build`"
            ) from error

    def require(self, *, emulator: bool = True) -> None:
        """Raise ToolchainMissing, naming the command that installs it, unless all tools are on PATH.

        Without `emulator`, the programs run elsewhere.
        """
        _require("make", "make", "which builds packages")
        _require(self.cc, self.package, f"the C compiler of board '{self.board}'")
        if self.emulator and emulator:
            _require(self.emulator[0], self.emulator_package, f"which runs binaries of board '{self.board}'")


def _require(program: str, package: str | None, role: str) -> None:
    if shutil.which(program) is None:
        raise ToolchainMissing(f"{program} ({role}) is not on PATH: {install_command(package)}")
