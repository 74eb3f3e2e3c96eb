/* SPDX-License-Identifier: Apache-2.0 */
/* QEMU plugin: counts instructions between two marks (see count.c). QEMU 7 to 9 speak versions 1 to 3 of this interface;
   Debian ships no header for it, so the few prototypes are here. */
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "../counting.h"

#define EXPORT __attribute__((visibility("default")))

struct qemu_plugin_tb;
struct qemu_info_t;
typedef void (*on_translate)(uint64_t id, struct qemu_plugin_tb *tb);
typedef void (*on_syscall)(uint64_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3,
                           uint64_t a4, uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8);
void qemu_plugin_register_vcpu_tb_trans_cb(uint64_t id, on_translate call);
void qemu_plugin_register_vcpu_syscall_cb(uint64_t id, on_syscall call);
void qemu_plugin_register_vcpu_tb_exec_inline(struct qemu_plugin_tb *tb, int add, void *value, uint64_t amount);
size_t qemu_plugin_tb_n_insns(const struct qemu_plugin_tb *tb);

EXPORT extern int qemu_plugin_version;
int qemu_plugin_version = 1;
EXPORT int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int count, char **values);

static uint64_t executed, began;

static void translated(uint64_t id, struct qemu_plugin_tb *tb)
{
    (void)id;
    qemu_plugin_register_vcpu_tb_exec_inline(tb, 0, &executed, qemu_plugin_tb_n_insns(tb));
}

static void called(uint64_t id, unsigned vcpu, int64_t number, uint64_t a1, uint64_t a2, uint64_t a3, uint64_t a4,
                   uint64_t a5, uint64_t a6, uint64_t a7, uint64_t a8)
{
    (void)id, (void)vcpu, (void)number, (void)a4, (void)a5, (void)a6, (void)a7, (void)a8;
    if (a1 != (uint64_t)COUNTING_MAGIC)
        return;
    if (a2 == (uint64_t)COUNTING_START) {
        began = executed;
    } else if (a2 == (uint64_t)COUNTING_STOP) {
        const uint64_t record[2] = {COUNTING_RECORD, executed - began};
        if (write((int)a3, record, sizeof record) < 0)
            return; /* the agent notices that nothing came */
    }
}

int qemu_plugin_install(uint64_t id, const struct qemu_info_t *info, int count, char **values)
{
    (void)info, (void)count, (void)values;
    qemu_plugin_register_vcpu_tb_trans_cb(id, translated);
    qemu_plugin_register_vcpu_syscall_cb(id, called);
    return 0;
}
