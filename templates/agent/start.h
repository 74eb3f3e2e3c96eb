/* SPDX-License-Identifier: Apache-2.0 */
/* The oldest version of a symbol that glibc has on this machine. */
#ifndef EDGETUNE_AGENT_START_H
#define EDGETUNE_AGENT_START_H

#if defined EDGETUNE_OWN_START
#if defined __x86_64__
#define OLDEST_GLIBC "GLIBC_2.2.5"
#elif defined __aarch64__
#define OLDEST_GLIBC "GLIBC_2.17"
#elif defined __arm__
#define OLDEST_GLIBC "GLIBC_2.4"
#elif defined __riscv
#define OLDEST_GLIBC "GLIBC_2.27"
#else
#error "no entry for this machine: build without EDGETUNE_OWN_START"
#endif
#define OLD_SYMBOL(name) __asm__(".symver " #name "," #name "@" OLDEST_GLIBC)
#else
#define OLD_SYMBOL(name) typedef int edgetune_old_symbol_##name
#endif

#endif
