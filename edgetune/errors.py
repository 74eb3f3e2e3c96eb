"""Error classes of edgetune, each with its exit code and a message that says what to do.

Each class has its own exit code, so that scripts can distinguish failures by number. The message (``args[0]``) is one
sentence: what is wrong, where, and what to do about it. Code 2 is click's own, for a wrong command line.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar, Final, Literal

TVM_REFUSALS: Final = (RuntimeError, ValueError, TypeError, IndexError)
"""Exceptions of TVM when a pass rejects a program: InternalError, a RuntimeError, and others directly from C++."""


class EdgetuneError(Exception):
    """Base of all errors that edgetune raises on purpose (exit code 1)."""

    exit_code: ClassVar[int] = 1
    lines: tuple[str, ...] = ()
    """Lines of Python that the sentence announces, each to be printed as a line of its own."""

    @property
    def message(self) -> str:
        """The sentence for the user, without the class name."""
        return str(self.args[0]) if self.args else type(self).__name__


class UsageError(EdgetuneError):
    """The command line is wrong, or requests something impossible (click uses this code as well)."""

    exit_code = 2


class ConfigError(EdgetuneError):
    """``edgetune.yaml``, a target file, a user file or an environment variable is wrong: names file and line."""

    exit_code = 3


class ModelError(EdgetuneError):
    """The model file is missing, truncated, empty, or not a model: names the file."""

    exit_code = 4

    def __init__(self, message: str = "", *, lines: Sequence[str] = (), of_inputs: bool = False) -> None:
        super().__init__(message)
        self.lines = tuple(lines)
        self.of_inputs = of_inputs  # what was said of the inputs does not fit the model, which is right

    def __str__(self) -> str:
        return "\n".join((self.message, *(f"    {line}" for line in self.lines)))


class UnsupportedOperator(EdgetuneError):
    """The model uses an operator that cannot be imported: names operator, node and what to do."""

    exit_code = 5


class DynamicShape(EdgetuneError):
    """An input has a dimension that is not fixed: names each one, and the ``--shape`` or ``--dim`` that fixes it."""

    exit_code = 6


class UnknownBoard(EdgetuneError):
    """There is no target file of that name: names the nearest ones."""

    exit_code = 7


class BoardUnavailable(EdgetuneError):
    """The board is known, but cannot be measured on from here: names the verb that works without it."""

    exit_code = 8


class BoardLost(BoardUnavailable):
    """A board stopped answering during a run: names the board, the step and its deadline."""

    exit_code = 20


class HostUnknown(BoardUnavailable):
    """The address of a board has no host, or its port refuses: names host and port."""

    exit_code = 21


class AuthenticationRefused(BoardUnavailable):
    """The board does not accept the key: names the user, the keys that were tried and the command that installs one."""

    exit_code = 22


class HostKeyRefused(BoardUnavailable):
    """The host key is unknown or has changed: names the fingerprint and `edgetune boards trust`."""

    exit_code = 23


class BoardUnfit(BoardUnavailable):
    """The board is not what its target file says: another architecture, 32-bit userland, a libc too old."""

    exit_code = 24


class BoardFull(BoardUnavailable):
    """The board has no folder for files and programs, or no space: names the folders tried."""

    exit_code = 25


class BoardBusy(BoardUnavailable):
    """Another run has the board: names the owner and when the lock expires."""

    exit_code = 26


class ProtocolViolation(BoardUnavailable):
    """A board sent bytes that break the protocol: names the board and the fault of the frame."""

    exit_code = 27


class ToolchainMissing(EdgetuneError):
    """A compiler or an emulator that the target needs is not installed: names the command that installs it."""

    exit_code = 9


class ToolHung(EdgetuneError):
    """A compiler, make or another tool did not end in its time: names the tool, the file and the time.

    `printed` is what it had written to its standard output.
    """

    exit_code = 32

    def __init__(self, message: str, printed: str = "") -> None:
        super().__init__(message)
        self.printed = printed


class CompileFailed(EdgetuneError):
    """The C compiler refused emitted code: names the file and the first diagnostic."""

    exit_code = 10


class WrongResult(EdgetuneError):
    """Outputs differ from the reference by more than the tolerance: names the output and the difference.

    Where `build` or `tune` end so, no package is written.
    """

    exit_code = 11


class OutputRefused(EdgetuneError):
    """The output folder cannot be written, or holds something that is not a package."""

    exit_code = 12


class DatabaseError(EdgetuneError):
    """The records database cannot be opened, or was written by another version."""

    exit_code = 13


class MemoryLimitExceeded(EdgetuneError):
    """The package would need more RAM or flash than the limit allows: names the largest tensors.

    `excess` is by how many bytes of which memory, where that is known.
    """

    exit_code = 14

    def __init__(self, message: str, excess: tuple[Literal["ram", "flash"], int] | None = None) -> None:
        super().__init__(message)
        self.excess = excess


class DiskFull(EdgetuneError):
    """No space is left on the device that is written to."""

    exit_code = 15


class StackMismatch(EdgetuneError):
    """The installed versions of TVM are not the pinned ones: names the pip command that repairs it."""

    exit_code = 16


class PackageInvalid(EdgetuneError):
    """A folder that should be a package lacks files or was changed: names the file."""

    exit_code = 17


class KernelFailed(EdgetuneError):
    """Lowering or printing of a kernel failed: names the kernel and the construct."""

    exit_code = 18


class SelfTestFailed(EdgetuneError):
    """The self-test of a package did not end with ``PASS``: gives its last line.

    Where `build` or `tune` end so, no package is written.
    """

    exit_code = 19


class NightFault(EdgetuneError):
    """A night cannot begin or go on, or none has run for too long: says why, and which command is next."""

    exit_code = 28


class NightChanged(EdgetuneError):
    """The last night found a cell slower or larger: names the cells."""

    exit_code = 29


class BundleInvalid(EdgetuneError):
    """A folder is not a bundle of this version, was changed, or its runner refused: names the file or the reason."""

    exit_code = 30


class NothingRunsIt(BoardUnavailable):
    """Nothing on this machine runs the programs of a board: says what would, and what runs them on the board."""

    exit_code = 31


class Interrupted(EdgetuneError):
    """The user pressed Ctrl-C; what was measured is kept, and the same command continues."""

    exit_code = 130


class Terminated(Interrupted):
    """The process received SIGTERM; the run ends as after Ctrl-C."""

    exit_code = 143
