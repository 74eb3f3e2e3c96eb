"""Systems that filter no calls: what a candidate starts is seen and ended. Emulators are such (`test_hostile`)."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetune.boards.local import runner
from edgetune.boards.tvm_rpc.board import SHIM
from edgetune.resources import templates_dir
from tests.hostile.ways import RIGHT, STARTED, WRONG, Way, way

STARTS = [what for what, (_, expected) in WRONG.items() if expected == STARTED]


def _without(source: Path, folder: Path) -> Path:
    """A copy of a C file that installs no filter."""
    text = source.read_text()
    assert "processes_forbid()" in text
    altered = folder / source.name
    altered.write_text(text.replace("processes_forbid()", "0"))
    return altered


@pytest.fixture(scope="module", params=["local", "tvm"])
def tried(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Way]:
    folder = tmp_path_factory.mktemp("unfiltered")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(runner, "_TIMER_SOURCE", _without(Path(runner.__file__).with_name("timer.c"), folder))
        shim = _without(templates_dir() / SHIM, folder)
        headers = f"-I{(templates_dir() / SHIM).parent}"
        library = str(folder / "tvm_shim_host.so")
        command = ["gcc", "-D_GNU_SOURCE", "-fPIC", "-shared", headers, "-o", library, str(shim)]
        subprocess.run(command, check=True)
        with way(request.param, folder) as found:
            yield found


@pytest.mark.parametrize("what", STARTS)
def test_what_it_starts_is_seen_and_ended(tried: Way, what: str) -> None:
    result = tried.try_it(WRONG[what][0], 1)
    assert (result.status, result.reason) == STARTED
    assert tried.try_it(RIGHT["honest"], 1).status == "ok"
