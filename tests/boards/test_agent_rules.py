"""The agent's rules for sampling are those of the local runner: the same C against the same Python."""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from edgetune.boards.agent.build import agent_folder
from edgetune.boards.agent.messages import STOPS
from edgetune.boards.sampling import TimingPolicy, sample
from edgetune.boards.statistics import summarise


class Policy(ctypes.Structure):
    _fields_ = [
        *((name, ctypes.c_double) for name in ("budget", "sample", "warm_up", "min_sampling", "narrow", "hopeless")),
        *((name, ctypes.c_uint32) for name in ("min_samples", "max_samples", "few_samples")),
    ]


class Taken(ctypes.Structure):
    _fields_ = [("count", ctypes.c_uint32), ("repeat", ctypes.c_uint32), ("stopped", ctypes.c_int)]


DOUBLES = ctypes.POINTER(ctypes.c_double)
TAKE = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32, DOUBLES)
WATCH = ctypes.CFUNCTYPE(ctypes.c_bool, ctypes.c_void_p, DOUBLES)


class Calls(ctypes.Structure):
    _fields_ = [("take", TAKE), ("watch", WATCH), ("user", ctypes.c_void_p)]


@pytest.fixture(scope="module")
def rules(tmp_path_factory: pytest.TempPathFactory) -> ctypes.CDLL:
    library = tmp_path_factory.mktemp("rules") / "rules.so"
    source = str(agent_folder() / "sampling.c")
    subprocess.run(["gcc", "-std=gnu11", "-O2", "-fPIC", "-shared", "-o", str(library), source], check=True)
    found = ctypes.CDLL(str(library))
    found.relative_width.restype = ctypes.c_double
    found.relative_width.argtypes = [DOUBLES, ctypes.c_uint32]
    found.sample.restype = ctypes.c_bool
    return found


@given(st.lists(st.floats(1.0, 1e9), min_size=1, max_size=400))
def test_the_width_of_the_interval_is_the_same(rules: ctypes.CDLL, samples: list[float]) -> None:
    found = rules.relative_width((ctypes.c_double * len(samples))(*samples), len(samples))
    assert found == pytest.approx(summarise(samples).relative_width, rel=1e-12, abs=1e-15)


@given(
    st.lists(st.floats(0.5, 2.0), min_size=1, max_size=30),
    st.floats(0.2, 5e8),
    st.sampled_from([0.0, 0.1, 1.0, 10.0]),
    st.sampled_from([(), (3,), (8, 20)]),
    st.integers(0, (1 << 64) - 1),
)
def test_sampling_stops_alike(
    rules: ctypes.CDLL, factors: list[float], kernel_ns: float, best_share: float, few: Sequence[int], seed: int
) -> None:
    policy = TimingPolicy() if not few else TimingPolicy(min_samples=few[0], max_samples=few[-1])
    times = Times(factors, kernel_ns)
    wanted = sample(times.take, times.watch, policy, best_share * kernel_ns, seed)
    wanted_calls = times.calls

    times = Times(factors, kernel_ns)

    def watch(_: object, out: ctypes._Pointer[ctypes.c_double]) -> bool:
        out[0] = times.watch()
        return True

    def take(_: object, repeat: int, count: int, out: ctypes._Pointer[ctypes.c_double]) -> bool:
        for index, value in enumerate(times.take(repeat, count)):
            out[index] = value
        return True

    limits = [policy.budget_ns, policy.sample_ns, policy.warm_up_ns, policy.min_sampling_ns, policy.narrow]
    counts = [policy.min_samples, policy.max_samples, policy.few_samples]
    samples = (ctypes.c_double * 1000)()
    taken = Taken()
    done = rules.sample(
        ctypes.byref(Calls(TAKE(take), WATCH(watch), None)),
        ctypes.byref(Policy(*limits, policy.hopeless, *counts)),
        ctypes.c_double(best_share * kernel_ns),
        ctypes.c_bool(False),
        ctypes.c_uint64(seed),
        samples,
        ctypes.byref(taken),
    )
    assert done
    assert (taken.count, taken.repeat, STOPS[taken.stopped]) == (len(wanted.samples), wanted.repeat, wanted.stopped)
    assert tuple(samples[: taken.count]) == wanted.samples
    assert times.calls == wanted_calls


class Times:
    """A kernel of known time, off by the factors in turn."""

    def __init__(self, factors: list[float], kernel_ns: float) -> None:
        self._factors = factors
        self._kernel_ns = kernel_ns
        self._turn = 0
        self.calls: list[tuple[int, int]] = []

    def watch(self) -> float:
        self.calls.append((0, 0))
        self._turn += 1
        return self._kernel_ns * self._factors[self._turn % len(self._factors)]

    def take(self, repeat: int, count: int) -> list[float]:
        self.calls.append((repeat, count))
        self._turn += count
        return [self._kernel_ns * self._factors[(self._turn + i) % len(self._factors)] for i in range(count)]
