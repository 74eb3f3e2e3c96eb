"""What the proof of the farm counts: idle boards, and pages that differ in times and hosts alone."""

from __future__ import annotations

from benchmarks.nightly.farm import boards_of, idle_of, without_times
from edgetune.farm.cells import Cell
from edgetune.farm.night_store import Night, NightCell


def utc(minute: float) -> str:
    return f"2026-01-01T00:{int(minute):02}:{int(minute % 1 * 60):02}+00:00"


def test_a_board_is_idle_while_a_cell_that_it_may_run_has_no_verdict_and_none_runs() -> None:
    night = Night(1, "f", "2026-01-01", utc(0), None, None, "h", "1", "", 0.02)
    searching = NightCell(1, 0, Cell("m", "a", "a", searches=True, settings="s"), 1, None)
    twin = NightCell(2, 1, Cell("m", "b", "a", searches=False, settings="s"), 2, None)
    done = [(1, "h", utc(1), utc(10)), (2, "h", utc(12), utc(13)), (2, "h", utc(13), utc(20))]
    assert idle_of(night, [searching, twin], done) == {"a": 0.1, "b": 0.2}


def test_pages_that_differ_in_times_and_hosts_alone_are_the_same() -> None:
    pages = [
        f'<p>{time} on {host}</p><td class="number">{span}</td><td>{cell}@a</td><th>m0@a</th><td>7 of 8</td>'
        for time, host, span, cell in (
            ("2026-01-01 22:00", "host-1", "1 h 05 min", "m0"),
            ("2026-01-02T22:10:11.5Z", "host-3", "45 s", "m1"),
        )
    ]
    assert without_times(pages[0]) == without_times(pages[1])
    assert without_times(pages[0]) != without_times(pages[0].replace("7 of 8", "8 of 8"))
    assert without_times(pages[0]) != without_times(pages[0].replace("<th>m0", "<th>m1"))


def test_boards_are_of_two_kinds_in_equal_numbers() -> None:
    assert list(boards_of(4)) == ["aarch64-1", "aarch64-2", "armv7-1", "armv7-2"]
