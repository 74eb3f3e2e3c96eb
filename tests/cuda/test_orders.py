"""A kernel of one block runs on the CPU with its threads in both orders: one launch shows a missing barrier."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cuda.small_kernels import compiled_kernels, run_kernel

_EARLIER, _LATER = "i == 0 ? 0 : i - 1", "i == 31 ? 31 : i + 1"
_PLACES = {_EARLIER: [0, *range(31)], _LATER: [*range(1, 32), 31]}
_BARRIERS = ("__syncthreads();", "")


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Without the sanitizer, whose shadow would tell as well."""
    bodies = [f"held[i] = x[i]; {barrier} y[i] += held[{place}];" for place in _PLACES for barrier in _BARRIERS]
    return compiled_kernels(bodies, tmp_path_factory.mktemp("orders"), watched=False)


@pytest.mark.parametrize("place", _PLACES)
@pytest.mark.parametrize("barrier", _BARRIERS)
def test_a_single_block_runs_in_both_orders(place: str, barrier: str, program: Path) -> None:
    """With its barrier it adds once, not once per order."""
    number = [*_PLACES].index(place) * len(_BARRIERS) + _BARRIERS.index(barrier)
    done = run_kernel(program, number)
    if barrier:
        assert (done.returncode, done.stderr) == (0, "")
        assert [float(value) for value in done.stdout.split()] == _PLACES[place]
    else:
        assert done.returncode == 3
        assert "the order in which the threads of a block run changes its results" in done.stderr
