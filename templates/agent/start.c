/* SPDX-License-Identifier: Apache-2.0 */
/* Entry of the program, so that it asks for no symbol newer than glibc 2.17 (2.27 on RISC-V) whatever it is linked
   against: the usual start files of a new glibc ask for __libc_start_main of 2.34. */
#include "start.h"

#if defined EDGETUNE_OWN_START
int __libc_start_main(int (*main)(int, char **, char **), int count, char **values, void (*init)(void),
                      void (*fini)(void), void (*rtld_fini)(void), void *stack_end);
OLD_SYMBOL(__libc_start_main);
int main(int count, char **values, char **environment);
void edgetune_start(long *stack, void (*rtld_fini)(void)) __attribute__((noreturn, used));

#if defined __x86_64__
__asm__(".text\n.global _start\n.type _start,@function\n_start:\n"
        "xor %ebp,%ebp\nmov %rsp,%rdi\nmov %rdx,%rsi\nand $-16,%rsp\ncall edgetune_start\nhlt\n");
#elif defined __aarch64__
__asm__(".text\n.global _start\n.type _start,%function\n_start:\n"
        "mov x29,#0\nmov x30,#0\nmov x1,x0\nmov x0,sp\nb edgetune_start\n");
#elif defined __arm__
__asm__(".text\n.arm\n.global _start\n.type _start,%function\n_start:\n"
        "mov fp,#0\nmov lr,#0\nmov r1,r0\nmov r0,sp\nbic sp,sp,#7\nbl edgetune_start\n");
#elif defined __riscv
__asm__(".text\n.global _start\n.type _start,@function\n_start:\n"
        ".option push\n.option norelax\nlla gp,__global_pointer$\n.option pop\n"
        "mv a1,a0\nmv a0,sp\nandi sp,sp,-16\nli ra,0\ntail edgetune_start\n");
#endif

void edgetune_start(long *stack, void (*rtld_fini)(void))
{
    __libc_start_main(main, (int)stack[0], (char **)(stack + 1), 0, 0, rtld_fini, stack);
    for (;;)
        __builtin_trap();
}
#else
typedef int edgetune_start_is_the_toolchains; /* unknown machine, or static: the usual start files serve */
#endif
