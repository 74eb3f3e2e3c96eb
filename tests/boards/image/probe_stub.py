"""Stands in for the tools of debug probes: writes no flash, but runs the image under QEMU, and prints as the tools do.

python -m tests.boards.image.probe_stub TOOL MACHINE IMAGE [--fault FILE] [--released FILE]

TOOL is probe-rs (ends with the image, with its exit status, and says so on standard output), or pyocd or openocd (go on
until they are interrupted, then write the file `released`). QEMU counts instructions as time, one a nanosecond, so
SysTick counts the same cycles each time; the cycle counter of the debug unit is not there.
"""

from __future__ import annotations

import argparse
import re
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import TextIO

PROGRESS = "\r      Erasing ✔ 100% [####################]  64.00 KiB @  82.10 KiB/s (took 1s)\n"
BEFORE = {
    "probe-rs": [PROGRESS, "     Finished in 1.52s\n"],
    "pyocd": [
        "0000712 I Target type is cortex_m [board]\n",
        "[==================================================] 100%\n",
    ],
    "openocd": ["Open On-Chip Debugger 0.12.0\n", "** Programming Started **\n", "** Verified OK **\n"],
}
AFTER = {
    "probe-rs": b"Firmware exited successfully\n",
    "pyocd": b"",
    "openocd": b"semihosting: *** application exited normally ***\n",
}
FAULT = re.compile(rb"edgetune: [0-9a-f]{8} 00000008")
GO_ON = ("pyocd", "openocd")
STALE = "edgetune: 00000001 00000000 00000002 00000000 00000000 00000000 00000000 00000010\n"


def say(text: str, stream: TextIO = sys.stdout) -> None:
    """Write it at once."""
    stream.write(text)
    stream.flush()


def main() -> int:
    """Run the image as the tool would."""
    parser = argparse.ArgumentParser()
    parser.add_argument("tool", choices=BEFORE)
    parser.add_argument("machine")
    parser.add_argument("image", type=Path)
    parser.add_argument("--fault", type=Path, help="a file that names what goes wrong; nothing does where it is absent")
    parser.add_argument("--released", type=Path, help="a file that openocd writes when it is interrupted")
    words = parser.parse_args()
    fault = words.fault.read_text().strip() if words.fault and words.fault.exists() else ""
    if fault == "absent":
        say("Error: No connected probes were found.\n", sys.stderr)
        return 1
    for line in BEFORE[words.tool]:
        say(line, sys.stderr)
    if fault == "silent":
        time.sleep(600)
    while fault == "endless":
        say("WARN: target voltage is low\n")
    if fault == "stale":
        say(STALE)
        return 0
    emulator = ["qemu-system-arm", "-machine", words.machine, "-nographic", "-icount", "shift=0"]
    semihosting = ["-semihosting-config", "enable=on,target=native", "-kernel", str(words.image)]
    command = [*emulator, *semihosting]  # QEMU prints what an image says to its standard error
    if words.tool in GO_ON:
        subprocess.run(command, stdin=subprocess.DEVNULL, stderr=subprocess.STDOUT, check=False)
        sys.stdout.buffer.write(AFTER[words.tool])
        sys.stdout.flush()
        signal.sigwait({signal.SIGINT})
        if words.released:
            words.released.write_text("1")
        return 0
    done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, check=False)
    said, status = done.stderr + done.stdout, done.returncode
    if fault == "catches" and FAULT.match(said):
        return 1
    sys.stdout.buffer.write(said + AFTER[words.tool])  # in one piece
    sys.stdout.flush()
    return status


if __name__ == "__main__":
    signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    sys.exit(main())
