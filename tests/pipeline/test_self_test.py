"""Where a package is tested before it is in its place: on its board, or here, or nowhere."""

from __future__ import annotations

from pathlib import Path

from edgetune.package.golden import Golden
from edgetune.pipeline.self_test import SelfTest, ThereOrHere
from edgetune.target.target import load_target
from edgetune.verify.layers import LayersRun


class SilentProbe:
    """A board that this machine drives, and that does not answer."""

    silent = "board 'part' does not answer"

    def __call__(self, package: Path, *, interrupted: bool) -> bool:
        del package, interrupted
        return False

    def layers(self, package: Path, case: Golden) -> LayersRun | None:
        del package, case
        return None


def test_a_board_that_this_machine_drives_is_not_asked_twice(tmp_path: Path) -> None:
    """A second try would wait as long as the first one; here it would fail, as there is no package."""
    here = SelfTest(load_target("mps2-an386"), lambda _: None)
    assert ThereOrHere(SilentProbe(), here, interrupted=False)(tmp_path / "none", tmp_path) is None
    assert here.not_tested == SilentProbe.silent
