"""SSH connection to a board over all jump hosts: verifies host keys, logs in, sends keep-alives, closes completely.

It also bounds the bytes that a board may send before they are read: paramiko grants a window, but does not enforce it.
"""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import paramiko
from paramiko.buffered_pipe import BufferedPipe

from edgetune.boards.round_trip import ANSWER, LOGIN, MOST_ROUND_TRIP_S, RoundTrip, allowed_s
from edgetune.boards.ssh.authentication import authenticate
from edgetune.boards.ssh.deadline import Deadline, guarded
from edgetune.boards.ssh.dial import Proxy, dial
from edgetune.boards.ssh.known_hosts import KnownHosts, preferred
from edgetune.boards.ssh.route import Hop, Route
from edgetune.errors import BoardLost, BoardUnavailable, HostUnknown

MOST_WAITING = 4 << 20  # unread bytes per stream of a channel; a correct server keeps to the window of 2 MiB


class _BoundedPipe(BufferedPipe):  # type: ignore[type-arg]  # generic in its stubs alone
    def feed(self, data: bytes | str) -> None:
        """Take bytes from the link; raises SSHException when too many are unread, which ends the link."""
        if len(self) + len(data) > MOST_WAITING:
            raise paramiko.SSHException("the server sends more than it was allowed to")
        super().feed(data)


def bounded(channel: paramiko.Channel) -> paramiko.Channel:
    """Make the link of `channel` end when far more arrives than the channel's window allows; return `channel`."""
    for pipe in (channel.in_buffer, channel.in_stderr_buffer):
        pipe.__class__ = _BoundedPipe  # keeps the pipe, because it may already contain bytes
    return channel


_NOTICE_S = 1.5
_RETRY_S = 0.05
_LOOK_S = 0.01

KeyCheck = Callable[[Hop, paramiko.PKey], None]


class Connection:
    """A connection to a board. `open` may be called again after the link went down."""

    def __init__(self, board: str, route: Route) -> None:
        self._board = board
        self._route = route
        self._proxy: Proxy | None = None
        self._transports: list[paramiko.Transport] = []
        self._ended = threading.Event()
        self._round_trip = RoundTrip()

    @property
    def round_trip_s(self) -> float:
        """Latest round-trip time to the board in seconds, over all links so far."""
        return self._round_trip.seconds

    def noted(self, began: float) -> None:
        """Record the round trip of a request sent at `began` (of `time.monotonic`) whose answer arrives now."""
        self._round_trip.add(time.monotonic() - began)

    def allowed(self, least_s: float, trips: int = ANSWER) -> float:
        """Return the seconds that a step on the board may take; see `round_trip.allowed_s`."""
        return allowed_s(least_s, self.round_trip_s, trips)

    @property
    def alive(self) -> bool:
        """Whether all links are up, as far as is known."""
        return len(self._transports) == len(self._route.hops) and all(link.is_active() for link in self._transports)

    def open(self, timeout_s: float, check: KeyCheck | None = None, *, login: bool = True) -> None:
        """Connect within `timeout_s` seconds, over every hop, each verified by `check` (known_hosts files by default).

        The first answer of each hop gives its round-trip time; the rest of its login gets time for its round trips too.
        `login=False` stops at the last host once its key has been checked. Raises the classes of `edgetune.errors`:
        HostUnknown, HostKeyRefused, AuthenticationRefused, BoardLost (no answer in time, or the link went down).
        """
        self.close()
        deadline = Deadline(timeout_s)
        self._ended = threading.Event()
        try:
            for hop in self._route.hops:
                transport = self._handshake(hop, self._stream(hop, deadline), deadline)
                if check is None:
                    known = KnownHosts(hop.settings.known_hosts)
                    known.check(self._board, hop.known_as, transport.get_remote_server_key())
                else:
                    check(hop, transport.get_remote_server_key())
                if login or hop is not self._route.board:
                    authenticate(self._board, hop, transport, deadline)
        except BaseException:  # includes Ctrl-C: no link may stay open
            self.close()
            raise
        if login:
            self._watch()

    def _stream(self, hop: Hop, deadline: Deadline) -> socket.socket | paramiko.Channel:
        if self._transports:
            return self._forwarded(hop, deadline)
        if self._route.proxy_command:
            self._proxy = Proxy(self._route.proxy_command)
            return self._proxy.stream
        settings = self._route.board.settings
        return dial(self._board, hop, deadline.part(settings.connect_timeout_s or deadline.seconds), self._ended)

    def _forwarded(self, hop: Hop, deadline: Deadline) -> paramiko.Channel:
        before = self._transports[-1]
        jump = self._route.hops[len(self._transports) - 1]
        try:
            with guarded(deadline.left, before.close):
                return before.open_channel(
                    "direct-tcpip", (hop.host, hop.port), ("127.0.0.1", 0), timeout=deadline.left
                )
        except paramiko.ChannelException as error:
            raise HostUnknown(f"board '{self._board}': {jump.host} cannot reach {hop}: {error.text}") from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            raise self._lost(f"{jump.host} did not answer on the way to {hop}", error) from error

    def _handshake(self, hop: Hop, stream: socket.socket | paramiko.Channel, deadline: Deadline) -> paramiko.Transport:
        try:
            transport = paramiko.Transport(stream)
        except (paramiko.SSHException, OSError) as error:
            stream.close()
            raise self._lost(f"the link to {hop} broke", error) from error
        self._transports.append(transport)
        transport.banner_timeout = max(0.1, deadline.left)
        transport.handshake_timeout = allowed_s(transport.banner_timeout, MOST_ROUND_TRIP_S, LOGIN)  # ours is earlier
        options = transport.get_security_options()
        kinds = KnownHosts(hop.settings.known_hosts).kinds(hop.known_as)
        options.key_types = tuple(preferred(kinds, tuple(options.key_types)))
        try:
            self._negotiate(transport, deadline)
            transport.get_remote_server_key()  # raises if the handshake is not complete
        except paramiko.ssh_exception.IncompatiblePeer as error:
            raise HostUnknown(
                f"board '{self._board}': {hop} knows only methods that are no longer safe ({error}): "
                "update its SSH server"
            ) from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            if deadline.over:
                problem = f"{hop} accepted the connection but did not answer as an SSH server"
                raise self._lost(f"{problem} within {deadline.seconds:.0f} s", None) from error
            if self._proxy is not None and len(self._transports) == 1:
                raise HostUnknown(
                    f"board '{self._board}': the ProxyCommand of {hop} reached no SSH server: try it in a shell"
                ) from error
            raise self._lost(f"{hop} broke off the handshake (is that an SSH server?)", error) from error
        return transport

    def _negotiate(self, transport: paramiko.Transport, deadline: Deadline) -> None:
        """Do the handshake; the time of the first answer, the banner, sets the extra time for the rest of the login."""
        began, heard, done = time.monotonic(), False, threading.Event()
        transport.start_client(event=done)
        while not done.wait(_LOOK_S) and transport.is_active() and not deadline.over:
            if not heard and transport.remote_version:
                heard = True
                self.noted(began)
                deadline.allow(allowed_s(0.0, time.monotonic() - began, LOGIN))
        if not transport.is_active():
            raise transport.get_exception() or paramiko.SSHException("the link was closed")

    def _lost(self, what: str, error: Exception | None) -> BoardLost:
        detail = f" ({error})" if error is not None and str(error) else ""
        return BoardLost(f"board '{self._board}': {what}{detail}")

    def _watch(self) -> None:
        settings = self._route.board.settings
        threading.Thread(
            target=_pulse,
            args=(self._transports[-1], self._ended, settings.alive_interval_s, settings.alive_count, self.noted),
            name=f"keep-alive {self._board}",
            daemon=True,
        ).start()

    def channel(self, deadline: Deadline, destination: tuple[str, int] | None = None) -> paramiko.Channel:
        """Open a session, or a stream to a `destination` that the board itself reaches.

        A refusal is retried for a while, because a server with few sessions may notice late that one has ended. Raises
        BoardLost, and BoardUnavailable when the server still refuses.
        """
        patience = deadline.part(_NOTICE_S)
        while True:
            try:
                return self._channel(deadline, destination)
            except BoardLost:
                raise
            except BoardUnavailable:
                if destination is not None or patience.over:
                    raise
                time.sleep(_RETRY_S)

    def _channel(self, deadline: Deadline, destination: tuple[str, int] | None) -> paramiko.Channel:
        if not self.alive:
            raise self._lost("the link is down", None)
        link = self._transports[-1]
        kind = "session" if destination is None else "direct-tcpip"
        try:
            with guarded(deadline.left, self.abort) as alarm:
                began = time.monotonic()
                channel = link.open_channel(kind, destination, ("127.0.0.1", 0), timeout=max(0.1, deadline.left))
                self.noted(began)
                return bounded(channel)
        except paramiko.ChannelException as error:
            raise BoardUnavailable(f"board '{self._board}' refuses another {kind} channel: {error.text}") from error
        except (paramiko.SSHException, OSError, EOFError) as error:
            if alarm.rang or deadline.over:
                self.abort()  # paramiko may time out before the guard; a late answer would leave a channel open
                raise self._lost(f"no {kind} channel within {deadline.seconds:.0f} s", None) from error
            raise self._lost("the link went down", error) from error

    def abort(self) -> None:
        """Cut the link at once, from any thread; blocked calls of other threads end."""
        self._ended.set()
        for link in reversed(self._transports):
            link.close()

    def close(self) -> None:
        """Disconnect, the board first. May be called twice."""
        self._ended.set()
        while self._transports:
            link = self._transports.pop()
            link.close()
            link.join(2.0)
            with suppress(OSError):
                link.sock.close()
        if self._proxy is not None:
            self._proxy.close()
            self._proxy = None


def _pulse(
    link: paramiko.Transport, ended: threading.Event, interval_s: float, count: int, noted: Callable[[float], None]
) -> None:
    """Send keep-alive requests; cut a link that does not answer, so that waiting threads are woken."""
    while not ended.wait(interval_s) and link.is_active():
        with suppress(paramiko.SSHException, OSError, EOFError), guarded(interval_s * count, link.close):
            began = time.monotonic()
            link.global_request("keepalive@openssh.com", wait=True)
            if link.is_active():  # otherwise the call ended with the link, without an answer to measure
                noted(began)
