"""What is said where CUDA's compiler is missing, or does not know the target any more."""

from __future__ import annotations

import sysconfig
from pathlib import Path

import pytest

from edgetune.errors import ToolchainMissing
from edgetune.target.cuda_toolkit import find_nvcc, has_gpu, nvcc_id, require_nvcc
from tests.cuda.cpu_check import gpu

ANSWERS = """#!/bin/sh
case $1 in
--list-gpu-code) printf 'sm_80\\nsm_90\\n' ;;
--version) echo 'Cuda compilation tools, release 14.1, V14.1.7' ;;
*) exit 1 ;;
esac
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder that is the whole PATH, and that has the site-packages of this interpreter: nothing yet."""
    monkeypatch.setenv("PATH", f"{tmp_path / 'bin'}:/usr/bin:/bin")
    monkeypatch.setattr(sysconfig, "get_path", lambda _: str(tmp_path / "site"))
    return tmp_path


def _installed(nvcc: Path) -> Path:
    nvcc.parent.mkdir(parents=True)
    nvcc.write_text(ANSWERS)
    nvcc.chmod(0o755)
    return nvcc


def test_without_nvcc_the_wheels_are_named(folder: Path) -> None:
    assert not (folder / "bin").exists()
    with pytest.raises(ToolchainMissing, match=r"'nvcc' of board .* is not installed: pip install 'edgetune"):
        require_nvcc(gpu())


def test_an_architecture_that_nvcc_dropped_is_named_with_those_that_it_knows(folder: Path) -> None:
    nvcc = _installed(folder / "bin/nvcc")
    with pytest.raises(ToolchainMissing, match=rf"{nvcc} compiles no code for sm_75, .*knows sm_80 to sm_90"):
        require_nvcc(gpu())
    assert nvcc_id(gpu().model_copy(update={"compute_capability": 80})).startswith("nvcc-14.1.7-")


def test_nvcc_on_path_comes_before_that_of_the_wheels(folder: Path) -> None:
    wheel = _installed(folder / "site/nvidia/cu13/bin/nvcc")
    assert find_nvcc() == wheel
    assert find_nvcc() != _installed(folder / "bin/nvcc")
    assert find_nvcc() == folder / "bin/nvcc"


@pytest.mark.parametrize("visible", [None, "0", "1", "0,-1", "GPU-8932f937", "MIG-8932f937"])
def test_a_gpu_that_cuda_may_see_is_there(visible: str | None, monkeypatch: pytest.MonkeyPatch) -> None:
    assert _seen(visible, monkeypatch)


@pytest.mark.parametrize("visible", ["", "-1", "-1,0", "NoDevFiles"])
def test_a_gpu_that_is_hidden_from_cuda_is_not_there(visible: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests of machines without a GPU hide it, so that they run on every machine."""
    assert not _seen(visible, monkeypatch)


def _seen(visible: str | None, monkeypatch: pytest.MonkeyPatch) -> bool:
    monkeypatch.setattr(Path, "exists", lambda _: True)
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    if visible is not None:
        monkeypatch.setenv("CUDA_VISIBLE_DEVICES", visible)
    return has_gpu()
