"""Remote processes: runs a command on an exec channel of the board, learns its process id, and kills it at the end."""

from __future__ import annotations

import re
import secrets
import shlex
import time
from contextlib import suppress

import paramiko

from edgetune.boards.reach import CommandResult
from edgetune.boards.round_trip import COMMAND
from edgetune.boards.ssh.connection import Connection
from edgetune.boards.ssh.deadline import Deadline, guarded
from edgetune.errors import BoardLost, BoardUnavailable

_CHUNK = 1 << 16
_MAX_NOISE = 1 << 16  # limit of a login shell's output before our command, in bytes
_MAX_OUTPUT = 1 << 24  # limit of one command's output, in bytes
_POLL_S = 0.02
_NOTICE_S = 0.5
_END_S, _KILL_S = 2.0, 3.0
_DRAIN_S = 2.0  # for output that follows the exit status; what a program left running may keep its output open
_KILLED = 128 + 9  # paramiko does not report the signal; SIGKILL is assumed
# Some servers give a command no process group of its own; then the tree of its children is killed.
_KILL = """
all={pid}
new={pid}
while [ -n "$new" ]; do
next=
for f in /proc/[0-9]*/stat; do
{{ read -r line < "$f"; }} 2>/dev/null || continue
line=${{line##*) ? }}
p=${{f#/proc/}}
for n in $new; do if [ "${{line%% *}}" = "$n" ]; then next="$next ${{p%/stat}}"; fi; done
done
all="$all $next"
new=$next
done
kill -9 -{pid} 2>/dev/null
kill -9 $all 2>/dev/null
exit 0
"""


class RemoteProcess:
    """A shell command that runs on the board. Output of login shells before it is dropped.

    `record` is a file of the board to which the process id is appended.
    """

    def __init__(self, board: str, connection: Connection, command: str, deadline: Deadline, record: str = "") -> None:
        self.board = board
        self._connection = connection
        self.channel = connection.channel(deadline)
        self._link = self.channel.get_transport()  # keep this link, because the connection may replace it later
        self.pid = 0
        self.noise = b""
        self._ended = 0.0  # when the exit status was first seen
        token = f"edgetune-{secrets.token_hex(8)}"
        kept = f"echo $$ >> {shlex.quote(record)}; " if record else ""
        script = f"echo {token} $$; {kept}{command}"
        began = time.monotonic()
        try:
            with guarded(deadline.left, self._link.close):
                self.channel.exec_command(f"exec /bin/sh -c {shlex.quote(script)}")
            self._await_token(token.encode(), deadline)
            connection.noted(began)  # includes the start of a shell, so a slow board counts like a slow link
        except (paramiko.SSHException, OSError, EOFError) as error:
            self.channel.close()
            self._link.join(_NOTICE_S)  # channels learn before the link object that the link is down
            if deadline.over or not self.linked:
                raise BoardLost(f"board '{board}' did not start a command within {deadline.seconds:.0f} s") from error
            raise BoardUnavailable(f"board '{board}' refuses to run commands: its sshd allows none") from error
        except BaseException:
            self.channel.close()
            raise

    def _await_token(self, token: bytes, deadline: Deadline) -> None:
        pattern = re.compile(re.escape(token) + rb" (\d{1,10})\r?\n")
        self.channel.settimeout(max(0.05, deadline.left))
        seen = bytearray()
        while (found := pattern.search(seen, max(0, len(seen) - 80))) is None:
            byte = self.channel.recv(1)  # read only our line: the bytes after it belong to the command
            seen += byte
            if not byte:
                self.channel.status_event.wait(max(0.05, min(1.0, deadline.left)))
                if self.channel.exit_status < 0:  # no exit status, so the command did not end by itself
                    raise BoardLost(f"board '{self.board}': the link went down before a command began")
                words = printable((bytes(seen) + self._errors())[-300:]) or "nothing"
                raise BoardUnavailable(f"board '{self.board}' does not run commands by /bin/sh; it printed: {words}")
            if len(seen) > _MAX_NOISE:
                raise BoardUnavailable(f"board '{self.board}': its login shell prints without end before a command")
            if deadline.over:
                raise BoardLost(f"board '{self.board}' did not start a command within {deadline.seconds:.0f} s")
        self.pid = int(found[1])
        self.noise = bytes(seen[: found.start()])

    def _errors(self) -> bytes:
        with suppress(OSError):
            self.channel.settimeout(1.0)
            return self.channel.recv_stderr(_CHUNK)
        return b""

    def write(self, data: bytes, deadline: Deadline) -> None:
        """Send all of `data` to its standard input; raises BoardLost at the deadline."""
        left = memoryview(data)
        try:
            with guarded(deadline.left, self._link.close):
                while left:
                    self.channel.settimeout(max(0.05, deadline.left))
                    sent = self.channel.send(bytes(left[:_CHUNK]))
                    if sent == 0 or not self.linked:
                        raise BoardLost(f"board '{self.board}': the link went down while {len(data)} bytes were sent")
                    left = left[sent:]
        except (paramiko.SSHException, OSError, EOFError) as error:  # OSError: includes timed out and closed
            taken = f"took {len(data) - len(left)} of {len(data)} bytes"
            if not deadline.over:
                why = "the link went down" if not self.linked else "the program there has ended"
                raise BoardLost(f"board '{self.board}': {why}, it {taken}") from error
            self._link.close()  # as the guard does: the data is sent only in part, so the stream is unusable
            raise BoardLost(f"board '{self.board}' {taken} within {deadline.seconds:.0f} s") from error

    def finish(self, deadline: Deadline, stdin: bytes = b"") -> tuple[int, bytes, bytes]:
        """Send `stdin` and its end, wait; return exit status, output, errors. Raises BoardLost at the deadline."""
        out, err = bytearray(), bytearray()
        try:
            if stdin:
                with suppress(BoardLost):  # a command may end without reading all input; its exit status matters
                    self.write(stdin, deadline)
            if not self.linked:
                raise self._lost(deadline)
            self._end_input(deadline)
            while self._collect(out, err, deadline):
                if deadline.over:
                    raise self._lost(deadline)
                if len(out) + len(err) > _MAX_OUTPUT:
                    raise BoardUnavailable(f"board '{self.board}': a command printed more than {_MAX_OUTPUT} bytes")
            if not self.linked:
                raise self._lost(deadline)
            status = self.channel.exit_status
            return status if status >= 0 else _KILLED, bytes(out), bytes(err)
        finally:
            self.end()

    def _end_input(self, deadline: Deadline) -> None:
        try:
            with guarded(deadline.left, self._link.close):
                self.channel.shutdown_write()
        except (paramiko.SSHException, OSError, EOFError) as error:  # the link may go down at this moment
            raise self._lost(deadline) from error

    def _lost(self, deadline: Deadline) -> BoardLost:
        if deadline.over:
            return BoardLost(f"board '{self.board}': a command did not end within {deadline.seconds:.0f} s")
        return BoardLost(f"board '{self.board}': the link went down while a command ran")

    def _collect(self, out: bytearray, err: bytearray, deadline: Deadline) -> bool:
        """Read the available output; return whether more may come."""
        ended = self.channel.exit_status_ready() and self._drained(deadline)
        taken = False
        while self.channel.recv_stderr_ready() and len(err) <= _MAX_OUTPUT:
            err += self.channel.recv_stderr(_CHUNK)
            taken = True
        while self.channel.recv_ready() and len(out) <= _MAX_OUTPUT:
            out += self.channel.recv(_CHUNK)
            taken = True
        if not taken and not ended:
            self.channel.settimeout(min(_POLL_S, max(0.001, deadline.left)))
            with suppress(TimeoutError):
                data = self.channel.recv(_CHUNK)
                out += data
                if not data:  # the exit status arrives after the end of the output
                    self.channel.status_event.wait(_POLL_S)
        return not ended or taken

    def _drained(self, deadline: Deadline) -> bool:
        """Whether no output follows the exit status.

        OpenSSH sends the status when the program ends, and then what it has not read of the output yet (session.c,
        session_exit_message). So the end of the output is waited for, but not for long.
        """
        if self._ended == 0.0:
            self._ended = time.monotonic()
        limit = min(self.allowed(_DRAIN_S), deadline.seconds / 2)
        over = time.monotonic() - self._ended > limit or deadline.left < _POLL_S
        return bool(self.channel.closed or self.channel.eof_received or over)

    def allowed(self, least_s: float) -> float:
        """Return the seconds that the program may take to read or answer something; see `round_trip.allowed_s`."""
        return self._connection.allowed(least_s)

    @property
    def linked(self) -> bool:
        """Whether the link to the board is up."""
        return self._link.is_active()

    def end(self, patience_s: float = 0.0) -> None:
        """Close its input, wait for it to end, kill it and its children; free the channel.

        It has `patience_s` seconds, plus round trips, to end by itself.
        """
        if self.linked and not self.channel.closed:
            with suppress(paramiko.SSHException, OSError, EOFError):
                with guarded(self.allowed(_END_S), self._link.close):
                    self.channel.shutdown_write()
                if not self.channel.status_event.wait(self.allowed(patience_s) if patience_s else 0.0):
                    self._kill()
        with suppress(paramiko.SSHException, OSError, EOFError), guarded(self.allowed(_END_S), self._link.close):
            self.channel.close()

    def _kill(self) -> None:
        if self.pid == 0:
            return
        deadline = Deadline(self._connection.allowed(_KILL_S, COMMAND))
        with suppress(BoardUnavailable), guarded(deadline.left, self._link.close):
            killer = self._connection.channel(deadline)
            try:
                killer.exec_command(f"exec /bin/sh -c {shlex.quote(_KILL.format(pid=self.pid))}")
                killer.status_event.wait(deadline.left)
            finally:
                killer.close()


def run_command(
    board: str, connection: Connection, command: str, deadline: Deadline, stdin: bytes = b""
) -> tuple[CommandResult, bytes]:
    """Run a command to its end; return its result, and its output as bytes."""
    process = RemoteProcess(board, connection, command, deadline)
    status, out, err = process.finish(deadline, stdin)
    return CommandResult(status, out.decode(errors="replace"), err.decode(errors="replace")), out


def printable(text: bytes) -> str:
    """Return `text` on one line, without terminal control characters."""
    words = " ".join(text.decode(errors="replace").split())
    return "".join(character if character.isprintable() else "?" for character in words)
