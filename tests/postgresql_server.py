"""A PostgreSQL server for tests: a cluster in a folder of its own, reached by a Unix socket only, so nothing listens.

`initdb` refuses root, so root runs it as Debian's user `postgres`.
"""

from __future__ import annotations

import errno
import os
import pwd
import shutil
import subprocess
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import psycopg

from edgetune.config.database_location import DatabaseLocation, DatabaseUrl

Place: TypeAlias = Callable[[str], DatabaseLocation]
"""The location of a test's database by name; the same name gives the same location."""

ADMINISTRATOR = "postgres"
_INSTALLED = Path("/usr/lib/postgresql")
_PROGRAMS = max(_INSTALLED.glob("*/bin"), key=lambda folder: int(folder.parent.name), default=None)


class PostgresqlServer:
    """A running server with no database of edgetune's yet.

    Raises FileNotFoundError where PostgreSQL is not installed.
    """

    def __init__(self) -> None:
        if _PROGRAMS is None:
            raise FileNotFoundError(errno.ENOENT, "PostgreSQL is not installed", str(_INSTALLED))
        self._programs = _PROGRAMS
        self.folder = Path(tempfile.mkdtemp(prefix="edgetune-pg-"))
        self._user = ADMINISTRATOR if os.geteuid() == 0 else None
        if self._user is not None:
            owner = pwd.getpwnam(self._user)
            os.chown(self.folder, owner.pw_uid, owner.pw_gid)
        self._made = 0
        self._run("initdb", "--auth=trust", f"--username={ADMINISTRATOR}", "--no-sync", "--encoding=UTF8", "--locale=C")
        self.start()

    def start(self, *settings: str) -> None:
        """Start the server; `settings` such as ``log_connections=on`` hold until it stops."""
        given = ("listen_addresses=", f"unix_socket_directories={self.folder}", "fsync=off", *settings)
        options = " ".join(f"-c {setting}" if "=" in setting else setting for setting in given)
        self._run("pg_ctl", "--wait", "--silent", f"--log={self.folder / 'log'}", f"--options={options}", "start")

    def stop(self) -> None:
        """Stop the server; connections are cut."""
        self._run("pg_ctl", "--wait", "--silent", "--mode=immediate", "stop")

    def remove(self) -> None:
        """Stop the server and delete its folder."""
        self.stop()
        shutil.rmtree(self.folder)

    def url(self, database: str, user: str = ADMINISTRATOR) -> DatabaseUrl:
        """The URL of a database of this server."""
        return DatabaseUrl(f"postgresql://{user}@/{database}?host={self.folder}")

    def new_database(self) -> DatabaseUrl:
        """The URL of a new, empty database."""
        self._made += 1
        name = f"records{self._made}"
        self.execute(f'CREATE DATABASE "{name}"')
        return self.url(name)

    def execute(self, statement: str, database: str = "postgres") -> None:
        """Run one statement as the administrator."""
        with psycopg.connect(self.url(database).text, autocommit=True) as connection:
            connection.execute(statement.encode())

    def _run(self, program: str, *arguments: str) -> None:
        environment = {**os.environ, "PGDATA": str(self.folder / "data"), "LC_ALL": "C"}
        done = subprocess.run(
            [self._programs / program, *arguments], user=self._user, env=environment, capture_output=True, text=True,
            check=False, cwd="/", timeout=60, stdin=subprocess.DEVNULL,
        )  # fmt: skip
        assert done.returncode == 0, f"{program}: {done.stdout}{done.stderr}"
