"""A proxy before a PostgreSQL server's socket: it cuts the connections of one host while all others keep theirs."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading
from pathlib import Path

_NAME = ".s.PGSQL.5432"
_CHUNK = 1 << 16


class Proxy:
    """Forwards connections to the server whose socket is in `server`; its own socket is in `folder`."""

    def __init__(self, server: Path, folder: Path) -> None:
        folder.mkdir()
        self.folder = folder
        self._server = server
        self._cut = threading.Event()
        self._over = threading.Event()
        self._listener = socket.socket(socket.AF_UNIX)
        self._listener.bind(str(folder / _NAME))
        self._listener.listen(64)
        self._listener.settimeout(0.2)
        self._threads = [threading.Thread(target=self._listen, daemon=True)]
        self._threads[0].start()

    def cut(self) -> None:
        """End all connections, and each new one at once."""
        self._cut.set()

    def mend(self) -> None:
        """Forward again."""
        self._cut.clear()

    def close(self) -> None:
        """End everything."""
        self._cut.set()
        self._over.set()
        for thread in self._threads:
            thread.join()
        self._listener.close()

    def _listen(self) -> None:
        while not self._over.is_set():
            try:
                client, _ = self._listener.accept()
            except TimeoutError:
                continue
            if self._cut.is_set():
                client.close()
                continue
            thread = threading.Thread(target=self._forward, args=(client,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def _forward(self, client: socket.socket) -> None:
        server = socket.socket(socket.AF_UNIX)
        with client, server, selectors.DefaultSelector() as ready, contextlib.suppress(OSError):
            server.connect(str(self._server / _NAME))
            ready.register(client, selectors.EVENT_READ, server)
            ready.register(server, selectors.EVENT_READ, client)
            while not self._cut.is_set():
                for key, _ in ready.select(0.2):
                    end, other = (client, server) if key.data is server else (server, client)
                    data = end.recv(_CHUNK)
                    if not data:
                        return
                    other.sendall(data)
