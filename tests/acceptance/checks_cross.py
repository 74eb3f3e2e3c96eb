"""Packages for ARM boards, built with the cross compiler and run under user-mode QEMU."""

from __future__ import annotations

from tests.acceptance.case import Case, build_case, edgetune
from tests.acceptance.checks_compile import no_warning, undefined_symbols
from tests.acceptance.checks_loops import loops
from tests.acceptance.checks_memory import arena, stack

BOARDS = ("generic-aarch64", "rpi4", "generic-armv7")


def cross(case: Case, boards: tuple[str, ...] = BOARDS) -> str:
    """Built for each board without a warning, small, tiles in registers, and passing `verify` under the emulator."""
    said = []
    for board in boards:
        built = build_case(case.model, board, case.scratch / "cross", db=case.db)
        for check in (no_warning, undefined_symbols, arena, stack, loops):
            try:
                note = check(built)
            except AssertionError as error:
                raise AssertionError(f"{board}: {error}") from error
        done = edgetune("verify", built.package, "--json", cwd=case.scratch)
        assert done.returncode == 0, f"{board}: {done.stderr.strip()[-500:]}"
        said.append(f"{board} ({note})")
    return ", ".join(said)
