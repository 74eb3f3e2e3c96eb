"""Ctrl-C and SIGTERM come between two pieces of held work, whenever they are sent."""

from __future__ import annotations

import os
import queue
import signal
import threading
from collections.abc import Callable
from concurrent.futures import Future
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

from edgetune.interrupts import held, interrupts_held_back
from edgetune.records import RecordStore
from edgetune.search.measure_queue import Batch, MeasureQueue
from edgetune.search.measuring import MeasureRequest, RequestResult
from tests.search.test_measure_queue import Given
from tests.search.test_remeasure import record


def press(number: int = signal.SIGINT) -> None:
    """Send a signal to this process and give Python the time to run its handler."""
    os.kill(os.getpid(), number)
    for _ in range(1000):
        pass


def press_both() -> None:
    """Ctrl-C, then SIGTERM."""
    press()
    press(signal.SIGTERM)


def fail(first: Callable[[], None]) -> None:
    """Do something, then raise an error."""
    first()
    raise ValueError("full")


def test_what_is_held_is_done_whole_and_interrupted_at_its_end() -> None:
    done = []

    def work() -> None:
        with interrupts_held_back():
            with held():
                with held():
                    press()
                    done.append("inner")
                done.append("outer")
            done.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["inner", "outer"]


def test_outside_held_work_it_comes_at_once_and_handlers_are_put_back() -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), interrupts_held_back():
        press()
    assert signal.getsignal(signal.SIGINT) is before


def test_the_handler_that_was_there_has_its_way() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        with interrupts_held_back():
            with held():
                press(signal.SIGTERM)
                assert not came
            assert came == [signal.SIGTERM]
    finally:
        signal.signal(signal.SIGTERM, before)


def test_an_error_is_not_hidden_and_the_interrupt_comes_with_the_next_held_work() -> None:
    done = []

    def work() -> None:
        with interrupts_held_back():
            with pytest.raises(ValueError, match="full"), held():
                fail(press)
            with held():
                done.append("next")
            done.append("after")

    with pytest.raises(KeyboardInterrupt):
        work()
    assert done == ["next"]


def test_of_two_signals_in_one_held_work_none_hides_the_other() -> None:
    came: list[int] = []
    before = signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_held_back(), held():
            press_both()
    finally:
        signal.signal(signal.SIGTERM, before)
    assert not came, "nothing comes after what ended the work"


def test_other_threads_hold_nothing_back() -> None:
    inside, over = threading.Event(), threading.Event()

    def work() -> None:
        with held():
            inside.set()
            over.wait(10)

    thread = threading.Thread(target=work)
    thread.start()
    inside.wait(10)
    try:
        with pytest.raises(KeyboardInterrupt), interrupts_held_back():
            press()
    finally:
        over.set()
        thread.join()


def test_ctrl_c_while_a_measurement_is_told_loses_no_other_and_tells_none_twice(tmp_path: Path) -> None:
    told: queue.SimpleQueue[str] = queue.SimpleQueue()

    def tell(measurement: RequestResult) -> None:
        press()
        told.put(str(measurement.candidate))

    records = [record(number) for number in range(3)]
    orders = tuple(MeasureRequest(one.workload, f"[{number}]") for number, one in enumerate(records))
    given = Given([replace(one) for one in records])
    with RecordStore.open(tmp_path / "db") as store, closing(MeasureQueue(given, store)) as line:
        line.submit(Batch(0, 1, orders, 0, {})).result()
        never: Future[None] = Future()
        for _ in records:
            with pytest.raises(KeyboardInterrupt), interrupts_held_back():
                line.wait(never, tell, lambda: None)
    assert [told.get() for _ in range(told.qsize())] == [one.candidate for one in records]
