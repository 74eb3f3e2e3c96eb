"""Asynchronous copies and atomic functions in the CPU check: a copy is there after its wait, and not before."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cuda.small_kernels import compiled_kernels, run_kernel

_COPY = "__pipeline_memcpy_async(&held[4 * i], &x[4 * i], 16);"
_WAIT, _BARRIER, _COMMIT = "__pipeline_wait_prior(0);", "__syncthreads();", "__pipeline_commit();"
_PADDED = _COPY.replace("&x[4 * i], 16", "&x[4 * i - 4], 16, i < 1 ? 16 : 0")
_ONE = f"{_COPY} {_COMMIT}"
_NARROW = "__pipeline_memcpy_async(&held[i + 32], &x[i + 32], 4);"
_TWO = f"{_NARROW} {_COMMIT} __pipeline_memcpy_async(&held[i], &x[64 + i], 4); {_COMMIT}"

_RIGHT = {
    f"{_ONE} {_WAIT} {_BARRIER} y[i] = held[127 - i];": [127 - i for i in range(32)],
    f"{_TWO} __pipeline_wait_prior(1); y[i] = held[i + 32]; {_WAIT}": [i + 32 for i in range(32)],  # the older group
    f"{_PADDED} {_COMMIT} {_WAIT} y[i] = held[4 * i + 1];": [
        0,
        *(4 * i - 3 for i in range(1, 32)),
    ],  # zeroes, for which nothing is read
    "if (i < 2) atomicAdd(&y[0], 2.0f);": [4],
    "atomicMax(&y[0], x[i]);": [31],
    "atomicExch(&y[i], x[i]);": [0, 1],
    f"if (i == 0) held[0] = 5.0f; {_BARRIER} atomicAdd(&held[0], 1.0f); {_BARRIER} y[i] = held[0];": [37],
    "atomicCAS(&y[i], 0.0f, 1.0f);": [1, 1],
}
"""By body of a kernel, the first values that it writes."""

_WRONG = [
    (f"{_ONE} y[i] = held[4 * i]; {_WAIT}", "that a copy still fills"),  # also for the thread that copies
    (f"{_ONE} {_BARRIER} y[i] = held[127 - i]; {_WAIT}", "that a copy still fills"),
    (f"{_ONE} held[4 * i] = 1.0f; {_WAIT}", "that a copy still fills"),
    (f"{_NARROW} {_COMMIT} {_WAIT} y[i] = held[63 - i];", "without a barrier in between|that a copy still fills"),
    (f"y[i] = held[127 - i]; {_ONE} {_WAIT}", "without a barrier in between|that a copy still fills"),
    (f"{_TWO} __pipeline_wait_prior(1); {_BARRIER} y[i] = held[i]; {_WAIT}", "that a copy still fills"),
    (_ONE, "ends before it has waited"),
    (f"{_COPY} {_WAIT}", "ends before it has waited"),  # the group is open
    (_ONE.replace("&held[4 * i]", "&y[4 * i]"), "what is not shared memory"),
    (_ONE.replace("&x[4 * i]", "&x[4 * i + 1]"), "no multiple of its size"),
    (_ONE.replace("&held[4 * i]", "&held[4 * i + 2]"), "no multiple of its size"),
    (f"{_ONE.replace('&x[4 * i]', '&x[4 * i + 4]')} {_WAIT}", "outside of its buffer"),
    (_ONE.replace(", 16)", ", 2)"), "4, 8 or 16 bytes"),
    ("atomicAdd(&y[0], 1.0f); if (i == 3) y[0] = 1.0f;", "nothing orders them"),
    ("if (i == 3) y[0] = 1.0f; atomicAdd(&y[0], 1.0f);", "nothing orders them"),
    ("atomicAdd(&y[0], 1.0f); y[i + 1] = y[0];", "nothing orders them"),
    ("if (i == 0) held[0] = 0.0f; atomicAdd(&held[0], 1.0f);", "without a barrier in between"),
    ("y[i] = atomicAdd(&y[64], 1.0f);", "the order in which the threads of a block run"),
]
"""Bodies of kernels, and why they are stopped: one of several reasons, which depends on the order of the threads."""

_BODIES = [*_RIGHT, *(body for body, _ in _WRONG)]


@pytest.fixture(scope="module")
def programs(tmp_path_factory: pytest.TempPathFactory) -> dict[bool, Path]:
    """A program of all kernels, each by its number: watched by the shadow, and not."""
    folder = tmp_path_factory.mktemp("copies")
    return {watched: compiled_kernels(_BODIES, folder, watched=watched) for watched in (True, False)}


def said(program: Path, body: str, blocks: int = 1) -> str:
    """What the kernel with that body wrote, or why it was stopped."""
    done = run_kernel(program, _BODIES.index(body), blocks)
    return done.stdout if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("watched", [True, False])
@pytest.mark.parametrize("body", _RIGHT)
def test_waits_barriers_and_atomic_functions_are_enough(body: str, watched: bool, programs: dict[bool, Path]) -> None:
    wanted = [str(value) for value in _RIGHT[body]]
    assert said(programs[watched], body).split()[: len(wanted)] == wanted


@pytest.mark.parametrize(("body", "fault"), _WRONG)
def test_what_does_not_wait_is_stopped(body: str, fault: str, programs: dict[bool, Path]) -> None:
    words = said(programs[True], body)
    assert any(one in words for one in fault.split("|")), words


def test_atomic_functions_of_two_blocks_need_no_order(programs: dict[bool, Path]) -> None:
    assert said(programs[True], "if (i < 2) atomicAdd(&y[0], 2.0f);", blocks=2).split()[0] == "8"


def test_without_the_shadow_a_copy_that_nobody_waits_for_leaves_nan(programs: dict[bool, Path]) -> None:
    assert {value.lstrip("-") for value in said(programs[False], _WRONG[0][0]).split()} == {"nan"}
