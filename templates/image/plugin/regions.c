/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU plugin: counts what a core executes between two marks in the program of an emulated machine. A mark is an
   instruction of 16 bits without effect, which compilers never write: `mov r9, r9` begins a region, `mov r10, r10` ends
   it. Each end adds one record to the file named by the argument "records", so what the program prints has no
   influence; one that opens this file itself by semihosting is not stopped. Neither mark is in its count. The counters
   are all instructions, and those of each class, by which a target estimates cycles.

   Debian has no header of this interface, so the few prototypes are here; QEMU 7 to 9 have versions 1 to 3 of it. */
#include <fcntl.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <unistd.h>

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_plugin_insn;
struct qemu_info_t;
typedef void (*on_translate)(uint64_t id, struct qemu_plugin_tb *tb);
typedef void (*on_execute)(unsigned vcpu, void *user);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, on_translate call);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int add, void *value, uint64_t amount);
void qemu_plugin_register_vcpu_insn_exec_inline(struct qemu_plugin_insn *insn, int add, void *value, uint64_t amount);
void qemu_plugin_register_vcpu_insn_exec_cb(struct qemu_plugin_insn *insn, on_execute call, int flags, void *user);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);
struct qemu_plugin_insn *qemu_plugin_tb_get_insn(const struct qemu_plugin_tb *tb, size_t index);
const void *qemu_plugin_insn_data(const struct qemu_plugin_insn *insn);
size_t qemu_plugin_insn_size(const struct qemu_plugin_insn *insn);

EXPORT extern int qemu_plugin_version;
int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int count, char **values);

enum { ADD = 0, NO_REGISTERS = 0 };
enum { BEGIN = 0x46C9, END = 0x46D2, MOST_RECORDS = 1 << 16 };
#define RECORD 0x5244434E54474E45u /* in front of each record */

/* Words that move count, not the instructions that move them. The order is that of edgetune/target/cycles.py. */
enum counter { INSTRUCTIONS, LOADS, STORES, BRANCHES, MULTIPLIES, DIVIDES, FLOATS, VECTORS, COUNTERS };

static uint64_t executed[COUNTERS], began[COUNTERS];
static int records = -1;
static uint32_t written;
static bool open_region;

static unsigned ones(uint32_t bits)
{
    return (unsigned)__builtin_popcount(bits);
}

/* An instruction of 16 bits (ARMv7-M A5.2). */
static void note_narrow(uint32_t word, uint64_t amounts[COUNTERS])
{
    static const bool loads[8] = {[3] = true, [4] = true, [5] = true, [6] = true, [7] = true}; /* by register offset */
    const uint32_t top = word >> 11;

    if (top >> 1 == 5) /* 0101: STR to LDRSH with a register */
        amounts[loads[word >> 9 & 7] ? LOADS : STORES]++;
    else if (top == 9) /* 01001: LDR of a literal */
        amounts[LOADS]++;
    else if (top >= 12 && top <= 19) /* 011xx, 100xx: with an immediate; bit 11 says which */
        amounts[word >> 11 & 1 ? LOADS : STORES]++;
    else if (top == 24 || top == 25) /* 1100x: STM, LDM */
        amounts[top == 25 ? LOADS : STORES] += ones(word & 0xFF);
    else if (word >> 9 == 0x5A) /* PUSH */
        amounts[STORES] += ones(word & 0x1FF);
    else if (word >> 9 == 0x5E) { /* POP */
        amounts[LOADS] += ones(word & 0x1FF);
        amounts[BRANCHES] += word >> 8 & 1;
    } else if (word >> 6 == 0x10D) /* MUL */
        amounts[MULTIPLIES]++;
    else if (word >> 8 == 0x47 || top == 28 || (word & 0xF500) == 0xB100) /* BX and BLX, B, CBZ and CBNZ */
        amounts[BRANCHES]++;
    else if (word >> 12 == 13 && (word >> 9 & 7) != 7) /* B with a condition */
        amounts[BRANCHES]++;
}

/* An instruction of 32 bits, whose first half is the higher one here (ARMv7-M A5.3, Armv8.1-M C2.4). */
static void note_wide(uint32_t word, uint64_t amounts[COUNTERS])
{
    const bool loads = word >> 20 & 1;
    const uint32_t group = word >> 24;
    const bool of_float = (word >> 9 & 7) == 5; /* 101 in bits 9 to 11 */
    const bool divides = group == 0xEE && (((word >> 20 & 0xB) == 8 && (word >> 6 & 1) == 0) /* VDIV */
                                           || ((word >> 16 & 0xBF) == 0xB1 && (word >> 6 & 3) == 3)); /* VSQRT */

    if ((word & 0xFFF0FFE0) == 0xE8D0F000) { /* TBB, TBH */
        amounts[LOADS]++;
        amounts[BRANCHES]++;
    } else if (word >> 25 == 0x74) { /* 1110100: LDM, STM; LDRD, STRD and exclusive ones */
        const bool several = (word >> 22 & 1) == 0;
        amounts[loads ? LOADS : STORES] += several ? ones(word & 0xFFFF) : 2;
        amounts[BRANCHES] += several && loads ? word >> 15 & 1 : 0;
    } else if (word >> 25 == 0x7C) /* 1111100: one word, half a word or a byte */
        amounts[loads ? LOADS : STORES]++;
    else if (word >> 23 == 0x1F6) /* 111110110: multiplies of 32 bits */
        amounts[MULTIPLIES]++;
    else if (word >> 23 == 0x1F7) /* 111110111: of 64 bits; SDIV and UDIV */
        amounts[(word >> 20 & 5) == 1 ? DIVIDES : MULTIPLIES]++;
    else if (word >> 27 == 0x1E && (word >> 15 & 1) != 0) { /* branches; loops of Armv8.1-M (bits 15, 14 and 12: 110) cost none */
        const uint32_t kind = word >> 12 & 13;
        amounts[BRANCHES] += kind == 9 || kind == 13 || (kind == 8 && (word >> 23 & 7) != 7);
    } else if ((group & 0xEE) == 0xEC) { /* 111x110x: of floats in words, and of whole vectors */
        const bool single = (word >> 24 & 1) != 0 && (word >> 21 & 1) == 0; /* an offset, and no register written back */
        if (word >> 21 != 0x762 || !of_float) /* VMOV of two registers moves nothing from memory */
            amounts[loads ? LOADS : STORES] += of_float && !single ? word & 0xFF : 1;
    } else if ((group & 0xEF) == 0xEE && of_float)
        amounts[divides ? DIVIDES : FLOATS]++;
    else if ((group & 0xEE) == 0xEE) /* vectors (Helium) */
        amounts[VECTORS]++;
}

/* Add what one instruction counts for. */
static void note(const struct qemu_plugin_insn *insn, uint64_t amounts[COUNTERS])
{
    uint16_t halves[2] = {0, 0};
    const size_t size = qemu_plugin_insn_size(insn);

    amounts[INSTRUCTIONS]++;
    if (size < sizeof halves[0])
        return;
    memcpy(halves, qemu_plugin_insn_data(insn), size < sizeof halves ? sizeof halves[0] : sizeof halves);
    if (halves[0] >> 11 < 29) /* 0b11101 and above begin those of 32 bits */
        note_narrow(halves[0], amounts);
    else
        note_wide((uint32_t)halves[0] << 16 | halves[1], amounts);
}

/* QEMU adds what it reads ahead to the bytes of an instruction: at the end of a page, a mark seems to have four. No
   instruction of 32 bits begins as a mark does (ARMv7-M A5.3: they begin with 0b11101, 0b11110 or 0b11111). */
static unsigned mark_of(const struct qemu_plugin_insn *insn)
{
    uint16_t bits;

    if (qemu_plugin_insn_size(insn) < sizeof bits)
        return 0;
    memcpy(&bits, qemu_plugin_insn_data(insn), sizeof bits); /* both are little endian */
    return bits == BEGIN || bits == END ? bits : 0;
}

static void begin(unsigned vcpu, void *user)
{
    (void)vcpu, (void)user;
    memcpy(began, executed, sizeof began);
    open_region = true;
}

static void end(unsigned vcpu, void *user)
{
    uint64_t record[2 + COUNTERS] = {RECORD, COUNTERS};

    (void)vcpu, (void)user;
    if (!open_region || written == MOST_RECORDS)
        return;
    open_region = false;
    for (unsigned i = 0; i < COUNTERS; i++)
        record[2 + i] = executed[i] - began[i];
    if (write(records, record, sizeof record) == (ssize_t)sizeof record)
        written++; /* who reads the file notices what is missing */
}

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    const size_t count = qemu_plugin_tb_n_insns(tb);
    uint64_t whole[COUNTERS] = {0};
    bool marked = false;

    (void)id;
    for (size_t i = 0; i < count; i++) {
        const struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        marked = marked || mark_of(insn) != 0;
        note(insn, whole);
    }
    if (!marked) {
        for (unsigned i = 0; i < COUNTERS; i++)
            if (whole[i] != 0)
                qemu_plugin_register_vcpu_tb_exec_inline(tb, ADD, &executed[i], whole[i]);
        return;
    }
    for (size_t i = 0; i < count; i++) {
        struct qemu_plugin_insn *insn = qemu_plugin_tb_get_insn(tb, i);
        const unsigned mark = mark_of(insn);
        uint64_t own[COUNTERS] = {0};
        if (mark != 0) {
            qemu_plugin_register_vcpu_insn_exec_cb(insn, mark == BEGIN ? begin : end, NO_REGISTERS, NULL);
            continue;
        }
        note(insn, own);
        for (unsigned j = 0; j < COUNTERS; j++)
            if (own[j] != 0)
                qemu_plugin_register_vcpu_insn_exec_inline(insn, ADD, &executed[j], own[j]);
    }
}

int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int count, char **values)
{
    static const char name[] = "records=";

    (void)info;
    for (int i = 0; i < count; i++)
        if (strncmp(values[i], name, sizeof name - 1) == 0)
            records = open(values[i] + sizeof name - 1, O_WRONLY | O_CREAT | O_TRUNC | O_APPEND | O_CLOEXEC, 0600);
    if (records < 0)
        return -1;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    return 0;
}
