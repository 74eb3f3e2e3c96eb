"""File staging on a board: finds a folder for files and programs, copies files once per content, cleans up."""

from __future__ import annotations

import hashlib
import re
import shlex
from collections.abc import Callable, Sequence
from pathlib import Path

import paramiko

from edgetune.boards.reach import CommandResult
from edgetune.boards.ssh import sessions
from edgetune.boards.ssh.connection import Connection
from edgetune.boards.ssh.deadline import Deadline, guarded
from edgetune.boards.ssh.remote_process import printable, run_command
from edgetune.errors import BoardFull, BoardLost, BoardUnavailable

FOLDERS = ("/dev/shm", "/tmp", "/var/tmp", "$HOME/.cache", "$HOME")  # noqa: S108 (folders of the board, names are random)
_LEAST_BYTES = 4 << 20  # a folder with less free space is not used
_RAN = 42  # exit status of the test program
_REASONS = {3: "cannot be written", 4: "programs there cannot run (noexec)"}
_WRITE_AT_ONCE = 1 << 15
_KILLED = 128  # an exit status from this on means that a signal ended the command

Announce = Callable[[str], None]


class _FolderUnusableError(Exception):
    """A folder cannot take a file; the argument is the reason."""


class Staging:
    """The folder of one session on a board, and its files."""

    def __init__(self, board: str, connection: Connection, folders: Sequence[str], announce: Announce) -> None:
        self._board = board
        self._connection = connection
        self._candidates = list(folders)
        self._announce = announce
        self._session = sessions.Session()
        self._failed: dict[str, str] = {}
        self._made: list[str] = []  # folders, quoted for a shell
        self._put: dict[str, str] = {}
        self.sftp = True  # until it has failed
        self._base = ""
        self.folder = ""
        self.free_bytes = 0

    @property
    def pids_file(self) -> str:
        """File on the board that lists the ids of our processes."""
        return f"{self.folder}/pids"

    def scan_script(self) -> str:
        """Return the script that finds folders of dead sessions in all candidate folders."""
        return sessions.scan_script(self._candidates)

    def remove_stale(self, output: str, deadline: Deadline) -> None:
        """Remove the folders of dead sessions, given the output of `scan_script`."""
        if not (folders := sessions.stale(output)):
            return
        finished = self._run(sessions.removal_script([shlex.quote(folder) for folder in folders]), deadline)
        named = [folder for folder in folders if any(line.endswith(folder) for line in finished.stdout.splitlines())]
        stuck = [] if finished.status == 0 else named or folders
        if removed := [folder for folder in folders if folder not in stuck]:
            self._announce(f"files of a session that died were removed: {', '.join(removed)}")
        if stuck:
            said = printable(finished.stderr.encode())[:200]
            why = f" ({said})" if said else ""
            self._announce(f"files of a session that died cannot be removed: {', '.join(stuck)}{why}")

    def _run(self, script: str, deadline: Deadline, stdin: bytes = b"") -> CommandResult:
        finished, _ = run_command(self._board, self._connection, script, deadline, stdin)
        if finished.status >= _KILLED:
            raise BoardLost(f"board '{self._board}': a command was killed there while files were prepared")
        return finished

    def prepare(self, deadline: Deadline) -> None:
        """Make the folder. Raises BoardFull, which names the folders tried and why each is unusable."""
        self._session.begin()
        if self.folder:
            if self._still_there(deadline):
                return
            self._failed.clear()  # after a reboot, other folders may be usable
            self._put.clear()
            self.folder = ""
        for base in self._candidates:
            if base in self._failed:
                continue
            reason = self._try(base, deadline)
            if reason is None:
                self._base = base
                self._tell_fallback(base)
                return
            self._failed[base] = reason
        reasons = "; ".join(f"{folder} {reason}" for folder, reason in self._failed.items())
        self._failed.clear()  # a full disk may get space again, so the next call tries all folders
        raise BoardFull(
            f"board '{self._board}' has no folder for edgetune's files ({reasons}): name one as 'folder' in boards.yaml"
        )

    def _still_there(self, deadline: Deadline) -> bool:
        """Whether the folder still exists; after a reboot, folders in memory do not."""
        finished = self._run(f"test -f {shlex.quote(self.pids_file)}", deadline)
        return finished.status == 0

    def _tell_fallback(self, taken: str) -> None:
        before = self._candidates[: self._candidates.index(taken)]
        reasons = [f"{folder} {self._failed[folder]}" for folder in before if folder in self._failed]
        if reasons:
            self._announce(f"files go to {taken}: {'; '.join(reasons)}")

    def _try(self, base: str, deadline: Deadline) -> str | None:
        """Make our folder in `base` and run a program from it; return why that fails, None when it works."""
        word = f"{sessions.quoted(base)}/{self._session.folder_name}"
        self._made = list(dict.fromkeys((*self._made, word)))  # before it is made: the script may fail halfway
        script = f"""
umask 077
d={word}
rm -rf "$d"
mkdir "$d" 2>/dev/null || exit 3
echo {shlex.quote(self._session.owner)} > "$d/owner" && : > "$d/pids" || {{ rm -rf "$d"; exit 3; }}
echo '#!/bin/sh' > "$d/try" && echo 'exit {_RAN}' >> "$d/try" && chmod 700 "$d/try" || {{ rm -rf "$d"; exit 3; }}
"$d/try" 2>/dev/null
ran=$?
rm -f "$d/try"
if [ $ran != {_RAN} ]; then rm -rf "$d"; exit 4; fi
echo "folder=$d"
df -Pk "$d" | tail -n 1
exit 0
"""
        finished = self._run(script, deadline)
        if finished.status != 0:
            self._made.remove(word)
            return _REASONS.get(finished.status, f"failed ({printable(finished.stderr.encode())[:100]})")
        lines = finished.stdout.splitlines()
        folder = lines[0].removeprefix("folder=") if lines else ""
        if not folder.startswith("/") or not folder.endswith(self._session.folder_name):
            return f"was not made ({printable(finished.stdout.encode())[:100]})"
        space = re.search(r"\b([0-9]{1,15})\s+[0-9]+%", lines[-1])
        self.free_bytes = int(space[1]) * 1024 if space else 0
        if space and self.free_bytes < _LEAST_BYTES:
            self._remove([word], deadline)
            return f"has only {self.free_bytes // 1024} KiB free"
        self.folder = folder
        return None

    def put(self, local: Path, deadline: Deadline) -> str:
        """Copy a file to the board, once per content; return its path. Raises BoardFull when no folder takes it."""
        content = local.read_bytes()
        digest = hashlib.sha256(content).hexdigest()
        self.prepare(deadline)
        if digest in self._put:
            return self._put[digest]
        name = f"{digest[:16]}-{re.sub(r'[^A-Za-z0-9._-]', '_', local.name)[-80:]}"
        while True:
            try:
                self._bring(content, digest, f"{self.folder}/{name}", deadline)
            except _FolderUnusableError as error:
                self._move_on(str(error), deadline)
            else:
                self._put[digest] = f"{self.folder}/{name}"
                return self._put[digest]

    def _move_on(self, reason: str, deadline: Deadline) -> None:
        """Use another folder from now on, but keep the current one: programs may run from it. Raises BoardFull."""
        folder, base = self.folder, self._base
        self._failed[base] = reason
        self.folder = ""
        try:
            self.prepare(deadline)
        except BoardFull:
            self.folder, self._base = folder, base
            raise

    def _bring(self, content: bytes, digest: str, path: str, deadline: Deadline) -> None:
        beside = f"{path}.part"
        slow_s = len(content) / _WRITE_AT_ONCE * self._connection.round_trip_s  # each write waits for an answer
        if self.sftp and slow_s < deadline.left / 2 and self._over_sftp(content, beside, path, deadline):
            return
        check = _check_script(content, digest, beside, path)
        command = f"cat > {shlex.quote(beside)} || {{ rm -f {shlex.quote(beside)}; exit 5; }}\n{check}"
        finished = self._run(command, deadline, stdin=content)
        if finished.status != 0:
            said = printable(finished.stderr.encode())[:200]
            raise _FolderUnusableError(
                f"did not accept a file of {len(content)} bytes ({said or 'it arrived damaged'})"
            )

    def _over_sftp(self, content: bytes, beside: str, path: str, deadline: Deadline) -> bool:
        channel = self._connection.channel(deadline)
        part = deadline.part(deadline.seconds / 2)
        try:
            with guarded(part.left, self._connection.abort) as alarm:
                channel.settimeout(max(0.1, part.left))
                channel.invoke_subsystem("sftp")
                with paramiko.SFTPClient(channel) as client:
                    with client.open(beside, "wb") as file:  # not pipelined: that would hide failures
                        for start in range(0, len(content), _WRITE_AT_ONCE):
                            file.write(content[start : start + _WRITE_AT_ONCE])
                    if client.stat(beside).st_size != len(content):
                        self._announce("a file arrived incomplete over SFTP: it is sent through cat")
                        return False
                    client.chmod(beside, 0o700)
                    _rename(client, beside, path)
        except (paramiko.SSHException, paramiko.SFTPError, OSError, EOFError) as error:
            channel.close()
            if alarm.rang:
                self.sftp = False
                self._announce("SFTP does not answer: files are sent through cat from now on")
                raise BoardLost(f"board '{self._board}': SFTP did not answer within {part.seconds:.0f} s") from error
            if not self._connection.alive:
                raise BoardLost(f"board '{self._board}': the link went down while a file was sent") from error
            said = printable(str(error).encode())
            self.sftp = isinstance(error, OSError) and not isinstance(
                error, TimeoutError
            )  # SFTP works, but fails for this file
            self._announce(
                f"SFTP did not accept a file ({said}): it is sent through cat"
                if self.sftp
                else f"no SFTP ({said}): files are sent through cat from now on"
            )
            return False
        return True

    def _remove(self, words: Sequence[str], deadline: Deadline) -> None:
        script = sessions.removal_script(words)
        finished = self._run(script, deadline)
        if finished.status != 0:
            said = printable(finished.stderr.encode())[:200]
            raise BoardUnavailable(f"board '{self._board}': {', '.join(words)} cannot be removed there ({said})")
        self._made = [word for word in self._made if word not in words]

    def remove(self, deadline: Deadline) -> None:
        """Remove all files, kill the processes that run from there. Raises BoardUnavailable when something remains."""
        if self._made:
            self._remove(list(self._made), deadline)
        self.folder = ""
        self._put.clear()

    @property
    def clean(self) -> bool:
        """Whether the board has no file of ours."""
        return not self._made

    def end(self) -> None:
        """Let other sessions remove what remains."""
        self._session.end()


def _rename(client: paramiko.SFTPClient, beside: str, path: str) -> None:
    """Give a file its final name; replaces a file that a broken link left there."""
    try:
        client.posix_rename(beside, path)
    except OSError:  # replacing is an extension of OpenSSH's; without it, the target must not exist
        client.rename(beside, path)


def _check_script(content: bytes, digest: str, beside: str, path: str) -> str:
    part, whole = shlex.quote(beside), shlex.quote(path)
    md5 = hashlib.md5(content, usedforsecurity=False).hexdigest()
    return f"""
if s=$(sha256sum {part} 2>/dev/null); then [ "${{s%% *}}" = {digest} ]
elif s=$(md5sum {part} 2>/dev/null); then [ "${{s%% *}}" = {md5} ]
else [ "$(wc -c < {part})" -eq {len(content)} ]; fi && chmod 700 {part} && mv -f {part} {whole} && exit 0
rm -f {part}
exit 6
"""
