"""A board behind SSH on loopback that can be lost and comes back, in place of the second board of a farm."""

from __future__ import annotations

import paramiko

from tests.boards.ssh_server import AARCH64, SshBoard
from tests.farm.hosts import BOARDS, TestFarm, wait_for

NAME = "shelf-1"


class Shelf:
    """The board, and the home of a user who knows it; programs for it run under user-mode QEMU."""

    def __init__(self, farm: TestFarm) -> None:
        self._farm = farm
        home = farm.folder / "home"
        (home / ".ssh").mkdir(parents=True)
        key = paramiko.ECDSAKey.generate()
        key.write_private_key_file(str(home / ".ssh" / "id_ecdsa"))
        self._board = SshBoard(farm.folder / "board", AARCH64, user_key=key)
        (home / ".ssh" / "known_hosts").write_text(self._board.known_hosts_line)
        address = f"{{target: generic-aarch64, ssh: pi@127.0.0.1:{self._board.port}, folder: {self._board.folders[0]}}}"
        entry = farm.folder / "config" / "edgetune" / "boards.yaml"
        entry.write_text(f"boards:\n  {NAME}: {address}\n")
        path = farm.folder / "farm.yaml"
        path.write_text(path.read_text().replace(f"boards: [{', '.join(BOARDS)}]", f"boards: [{BOARDS[0]}, {NAME}]"))
        self.environment = {"HOME": str(home)}
        self._cell = f"m0@{NAME}"

    def lose(self) -> None:
        """Let nobody reach it any more."""
        self._board.link.refuse()

    def bring_back(self) -> None:
        """Let it be reached again, and wait until it has measured something since, or its cell has its verdict."""
        self._board.link.accept_again()
        before = self.measured()
        wait_for(lambda: self.measured() > before or self._judged())

    def measured(self) -> int:
        """How many candidates the log of its cell tells of."""
        logs = (log.read_text(errors="replace") for log in self._farm.folder.glob(f"out/work/*/{self._cell}/log"))
        return sum(log.count('"candidate"') for log in logs)

    def close(self) -> None:
        """End it and all that it runs."""
        self._board.close()

    def _judged(self) -> bool:
        return any(row.verdict for row in self._farm.rows() if row.cell.board == NAME)
