"""A bound on what a board may send before it is read: paramiko grants a window, but takes what does not keep to it."""

from __future__ import annotations

import paramiko
from paramiko.buffered_pipe import BufferedPipe

MOST_WAITING = 4 << 20  # bytes of each stream of a channel; the window, 2 MiB, bounds what honest servers send


class _BoundedPipe(BufferedPipe):  # type: ignore[type-arg]  # generic in its stubs alone
    def feed(self, data: bytes | str) -> None:
        """Take bytes from the link; raises SSHException, which ends that."""
        if len(self) + len(data) > MOST_WAITING:
            raise paramiko.SSHException("the server sends more than it was allowed to")
        super().feed(data)


def bounded(channel: paramiko.Channel) -> paramiko.Channel:
    """Have the link of `channel` end when far more comes than the channel's window allows; return `channel`."""
    for pipe in (channel.in_buffer, channel.in_stderr_buffer):
        pipe.__class__ = _BoundedPipe  # bytes may have come already: the pipe stays
    return channel
