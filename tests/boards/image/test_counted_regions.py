"""The emulator's plugin counts each marked region, wherever its marks lie in a page of memory."""

from __future__ import annotations

from pathlib import Path

import pytest

from edgetune.target.cycles import COUNTERS
from tests.boards.image.emulated_program import emulated_program

PAGE = 1024
"""Bytes of the smallest page of an emulated Cortex-M."""
PLACES = range(PAGE - 14, PAGE + 4, 2)
# A region of two instructions, one of 16 bits and one of 32, whose first mark lies in that place of a page.
_FUNCTION = """
static __attribute__((naked, aligned({page}))) void at_{place}(void)
{{
    __asm__ volatile("b 1f\\n .space {before}\\n"
                     "1: .inst.n 0x46c9\\n nop.n\\n nop.w\\n .inst.n 0x46d2\\n nop.w\\n bx lr");
}}
"""


@pytest.mark.parametrize("name", ["mps2-an386", "mps3-an547"])
def test_a_mark_at_the_end_of_a_page_is_seen(name: str, tmp_path: Path) -> None:
    """The instruction behind it is read ahead there, and its bytes were taken for those of the mark."""
    functions = "".join(_FUNCTION.format(page=PAGE, place=place, before=place - 2) for place in PLACES)
    calls = "".join(f"at_{place}(); " for place in PLACES)
    done = emulated_program(
        name, f"{functions}\nvoid run(void) {{ uint32_t word = 0; {calls}report(&word, 1); }}\n", tmp_path
    )
    assert done.last_words == "edgetune: 00000007 00000000"
    assert [instructions for instructions, *_ in done.counts] == [2] * len(PLACES)


M4, M0, M55 = "mps2-an386", "cortex-m0plus", "mps3-an547"


@pytest.mark.parametrize(
    ("name", "lines", "classes"),
    [
        (M4, ["nop", "adds r0, #1", "add.w r0, r0, r1", "movw r0, #7"], {}),
        (M4, ["ldr r0, [sp]", "ldrb r0, [r7]", "ldrsh r0, [r7, r6]", "ldr.w r0, [r7, #200]"], {"loads": 4}),
        (M4, ["str r0, [sp, #4]", "strh r0, [r7]", "strb r0, [r7, r6]", "str.w r0, [r7, #200]"], {"stores": 4}),
        (M4, ["push {r0-r3}", "pop {r0-r3}", "push.w {r0, r8, r9}", "pop.w {r0, r8, r9}"], {"stores": 7, "loads": 7}),
        (M4, ["ldmia r7!, {r0, r1}", "stmia r5!, {r0, r1}", "ldrd r0, r1, [r7]"], {"stores": 2, "loads": 4}),
        (
            M4,
            [
                "b 2f",
                "2: beq 3f",
                "3: bne.w 4f",
                "4: movs r0, #1",
                "cbz r0, 5f",
                "nop",
                "5: bl 6f",
                "6: b.w 7f",
                "7: nop",
            ],
            {"branches": 6},
        ),
        (
            M4,
            ["mul r0, r1", "mla r0, r1, r2, r3", "smlad r0, r1, r2, r3", "smull r0, r1, r2, r3"],
            {"multiplications": 4},
        ),
        (M4, ["umlal r0, r1, r2, r3", "smmla r0, r1, r2, r3", "smlalbb r0, r1, r2, r3"], {"multiplications": 3}),
        (M4, ["mov r1, #3", "sdiv r0, r0, r1", "udiv r0, r0, r1", "vdiv.f32 s0, s1, s2"], {"divisions": 3}),
        (
            M4,
            ["vadd.f32 s0, s1, s2", "vfma.f32 s0, s1, s2", "vldr s0, [r7]", "vstr s0, [r7]"],
            {"floats": 2, "loads": 1, "stores": 1},
        ),
        (M4, ["mrs r0, ipsr", "dsb", "isb", "sxtb16 r0, r1", "ssat r0, #8, r1"], {}),
        (
            M0,
            ["ldr r0, [sp]", "mul r0, r1", "push {r0-r1}", "pop {r0-r1}"],
            {"loads": 3, "stores": 2, "multiplications": 1},
        ),
        (
            M55,
            ["vldrb.u8 q0, [r7]", "vmladav.s8 r0, q0, q0", "vstrb.8 q0, [r7]"],
            {"loads": 1, "stores": 1, "vectors": 1},
        ),
        (
            M55,
            ["vldrw.u32 q1, [r7], #16", "vqrdmulh.s32 q0, q1, r0", "vadd.i32 q0, q0, q1"],
            {"loads": 1, "vectors": 2},
        ),
        (M55, ["mov r0, #1", "dls lr, r0", "2: nop", "le lr, 2b"], {}),
        (M55, ["vadd.f32 s0, s1, s2", "sdiv r0, r0, r6"], {"floats": 1, "divisions": 1}),
    ],
)
def test_instructions_are_counted_by_class(
    name: str, lines: list[str], classes: dict[str, int], tmp_path: Path
) -> None:
    """Words that are loaded and stored count, not the instructions; registers r5 and r7 hold addresses, r6 one."""
    body = "\\n".join([".inst.n 0x46c9", *lines, ".inst.n 0x46d2"])
    clobbers = ", ".join(f'"{one}"' for one in ("r0", "r1", "r2", "r3", "r8", "r9", "lr", "cc", "memory"))
    text = f"""
static uint32_t area[128];
__attribute__((noinline)) static void marked(void)
{{
    register uint32_t *r7 __asm__("r7") = area, *r5 __asm__("r5") = area + 64;
    register uint32_t r6 __asm__("r6") = 2;
    __asm__ volatile("sub sp, #16\\n{body}\\nadd sp, #16" : "+r"(r7), "+r"(r5), "+r"(r6) : : {clobbers});
}}
void run(void) {{ uint32_t word = 0; marked(); report(&word, 1); }}
"""
    done = emulated_program(name, text, tmp_path)
    assert done.last_words == "edgetune: 00000007 00000000"
    assert len(done.counts) == 1
    executed = [line for line in lines if line]
    told = dict(zip(COUNTERS, done.counts[0], strict=True))
    assert told == {**dict.fromkeys(COUNTERS, 0), "instructions": len(executed), **classes}
