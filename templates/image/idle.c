/* SPDX-License-Identifier: Apache-2.0 */
/* A candidate that does nothing: its image shows that compiler, linker, emulator and plugin work together. */
void edgetune_call(void *const *buffers);

void edgetune_call(void *const *buffers)
{
    (void)buffers;
}
