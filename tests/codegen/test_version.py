"""Records outlive the printer that made their kernels: text that changes needs another CODEGEN_VERSION."""

from __future__ import annotations

import hashlib

import pytest

from edgetune.codegen import CODEGEN_VERSION, emit_kernel, kernel_unit
from edgetune.codegen.polynomial_functions import function
from edgetune.codegen.polynomials import BODIES
from tests.codegen.test_golden import KERNELS, TARGETS
from tests.conftest import GOLDEN

PINNED = GOLDEN / "codegen" / "version.txt"


def digest() -> str:
    """SHA-256 over the texts of all sample kernels for all sample targets, and of all polynomials."""
    texts = hashlib.sha256()
    for kernel in sorted(KERNELS):
        for name in sorted(TARGETS):
            target = TARGETS[name]()
            source = emit_kernel(KERNELS[kernel](), target, f"sample_{kernel}")
            texts.update(kernel_unit(source, target, "sample").encode())
    for name in sorted(BODIES):
        for short in ("f32", "f32x4"):
            texts.update(function(name, short).encode())
    return texts.hexdigest()


@pytest.mark.long
def test_other_text_has_another_version(update_golden: bool) -> None:
    now = f"{CODEGEN_VERSION} {digest()}\n"
    pinned = PINNED.read_text(encoding="ascii")
    if now == pinned:
        return
    assert int(pinned.split()[0]) < CODEGEN_VERSION, (
        "kernels are written differently, so times recorded for their old text say nothing of the new one: "
        "raise CODEGEN_VERSION in edgetune/codegen, then run pytest with --update-golden"
    )
    assert update_golden, f"CODEGEN_VERSION is {CODEGEN_VERSION} now: run pytest with --update-golden"
    PINNED.write_text(now, encoding="ascii")
