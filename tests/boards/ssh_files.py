"""The SFTP side of the tests' SSH server: the folders of one board, with a disk that fills on command."""

from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import TYPE_CHECKING

import paramiko
from paramiko.sftp import SFTP_FAILURE, SFTP_OK, SFTP_PERMISSION_DENIED

if TYPE_CHECKING:
    from _typeshed import ReadableBuffer as Buffer

    from tests.boards.ssh_server import Session


class BoardFile(paramiko.SFTPHandle):
    """An open file of the board."""

    def __init__(self, descriptor: int, flags: int, files: BoardFiles) -> None:
        super().__init__(flags)
        self._descriptor = descriptor
        self._files = files

    def read(self, offset: int, length: int) -> bytes | int:
        try:
            return os.pread(self._descriptor, length, offset)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    def write(self, offset: int, data: Buffer) -> int:
        try:
            self._files.take_space(len(memoryview(data)))
            os.pwrite(self._descriptor, data, offset)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        return SFTP_OK

    def stat(self) -> paramiko.SFTPAttributes | int:
        return paramiko.SFTPAttributes.from_stat(os.fstat(self._descriptor))

    def close(self) -> None:
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1


class BoardFiles(paramiko.SFTPServerInterface):
    """Absolute paths of this machine, but only below the board's folder."""

    def __init__(self, server: Session, *_: object) -> None:
        super().__init__(server)
        self._board = server.board

    def take_space(self, size: int) -> None:
        """Raise OSError when the board's disk is full."""
        faults = self._board.faults
        if faults.disk_bytes is not None:
            if size > faults.disk_bytes:
                raise OSError(errno.ENOSPC, "No space left on device")
            faults.disk_bytes -= size

    def _inside(self, path: str) -> bool:
        return Path(path).resolve().is_relative_to(self._board.root.resolve())

    def open(self, path: str, flags: int, attr: paramiko.SFTPAttributes) -> paramiko.SFTPHandle | int:
        if not self._inside(path):
            return SFTP_PERMISSION_DENIED
        try:
            descriptor = os.open(path, flags | os.O_CLOEXEC, attr.st_mode or 0o600)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        return BoardFile(descriptor, flags, self)

    def stat(self, path: str) -> paramiko.SFTPAttributes | int:
        try:
            return paramiko.SFTPAttributes.from_stat(Path(path).stat())
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    def lstat(self, path: str) -> paramiko.SFTPAttributes | int:
        try:
            return paramiko.SFTPAttributes.from_stat(Path(path).lstat())
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)

    def remove(self, path: str) -> int:
        if not self._inside(path):
            return SFTP_PERMISSION_DENIED
        try:
            Path(path).unlink()
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        return SFTP_OK

    def rename(self, oldpath: str, newpath: str) -> int:
        if not (self._inside(oldpath) and self._inside(newpath)):
            return SFTP_PERMISSION_DENIED
        if Path(newpath).exists():
            return SFTP_FAILURE
        Path(oldpath).rename(newpath)
        return SFTP_OK

    def chattr(self, path: str, attr: paramiko.SFTPAttributes) -> int:
        if not self._inside(path):
            return SFTP_PERMISSION_DENIED
        if any(Path(path).is_relative_to(self._board.root / name) for name in self._board.faults.noexec):
            attr.st_mode = 0o600
        try:
            paramiko.SFTPServer.set_file_attr(path, attr)
        except OSError as error:
            return paramiko.SFTPServer.convert_errno(error.errno or 0)
        return SFTP_OK
