"""Cycles of a call by the counters of a core, which no emulator has: the text of images, with counters of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.boards.image.emulated_program import emulated_program

# Each access to a register takes a cycle. At the end of a round of SysTick its interrupt is pending, and comes after so
# many more accesses.
_PROGRAM = """
static uint32_t cells[6];
static uint64_t now, started;
static unsigned pending;
static void pass(uint64_t cycles)
{
    const uint64_t before = (now - started) >> 24;

    now += cycles;
    if (pending && --pending == 0)
        image_tick();
    if ((cells[0] & 1) && (now - started) >> 24 > before)
        pending = @late@ + 1;
    if (pending == 1) {
        pending = 0;
        image_tick();
    }
}
static uint32_t *accessed(uint32_t address)
{
    pass(1);
    switch (address) {
    case 0xE000E010u: started = cells[0] & 1 ? started : now; return &cells[0];
    case 0xE000E018u: cells[2] = 0xFFFFFFu - (uint32_t)((now - started) & 0xFFFFFFu); return &cells[2];
    case 0xE000ED04u: cells[3] = pending ? 1u << 26 : 0; return &cells[3];
    case 0xE0001004u: cells[4] = @unit@ ? (uint32_t)now : 0; return &cells[4];
    default: return &cells[5];
    }
}
#define REGISTER(address) (*accessed(address))
#include "cycles.c"
void *const image_pointers[1] = {0};
static uint64_t left;
static void call(void *const *buffers)
{
    (void)buffers;
    for (uint64_t step; left > 0; left -= step)
        pass(step = left < 1u << 20 ? left : 1u << 20);
}
void run(void)
{
    count_start();
    const uint32_t empty = count(call);
    left = @cycles@u;
    const uint32_t words[] = {has_cycles, empty, count(call)};
    report(words, 3);
}
"""


@pytest.mark.parametrize("unit", [True, False])
@pytest.mark.parametrize("late", [0, 1, 3])
@pytest.mark.parametrize("cycles", [1, 1000, 0xFFFFF0, 0xFFFFFF, 0x1000000, 0x5000000, 0xFFFFFF00, 0x100000005])
def test_a_call_has_its_cycles_by_either_counter(unit: bool, late: int, cycles: int, tmp_path: Path) -> None:
    """Also where SysTick begins anew, where its interrupt is late, and where a word is too short for the cycles."""
    places = {"@unit@": str(int(unit)), "@late@": str(late), "@cycles@": f"0x{cycles:x}ul"}
    text = _PROGRAM
    for place, value in places.items():
        text = text.replace(place, value)
    done = emulated_program("mps2-an386", text.replace("ulu;", "ull;"), tmp_path)
    _, _, has_unit, empty, whole = (
        int(word, 16) for word in ["0", *done.last_words.removeprefix("edgetune: ").split()]
    )
    assert has_unit == unit
    assert empty <= 8
    if cycles > 0xFFFFFFFF:
        assert whole == 0xFFFFFFFF
    else:
        assert whole - empty == pytest.approx(cycles, abs=4)
