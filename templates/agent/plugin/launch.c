/* SPDX-License-Identifier: Apache-2.0 */
/* Starts the emulator so that orphans of candidates come back to the agent in it, which ends them: emulators do not pass
   that wish of the agent on, and the kernel keeps it across execve. */
#include <sys/prctl.h>
#include <unistd.h>

int main(int count, char **values)
{
    if (count < 2 || prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) != 0)
        return 125;
    execvp(values[1], values + 1);
    return 127;
}
