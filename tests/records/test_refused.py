"""Databases that cannot be used, and those that doctor warns of: one sentence and the exit code of its class each."""

from __future__ import annotations

import os
import shutil
import socket
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import replace
from pathlib import Path

import pytest

import edgetune
from edgetune.cli.main import run
from edgetune.config.database_location import DatabaseUrl
from edgetune.errors import DatabaseError, DiskFull, EdgetuneError
from edgetune.farm.cell_jobs import prepare
from edgetune.findings import Finding
from edgetune.pipeline import database as findings_module
from edgetune.pipeline.database import findings_of
from edgetune.records import RecordStore
from edgetune.records.database import open_database
from edgetune.records.postgresql_database import ConnectionFacts
from edgetune.records.upgrading import upgrade
from tests.missing_tools import require_mounts
from tests.postgresql_server import PostgresqlServer
from tests.records.test_records import KEY, record
from tests.records.test_upgrading import FIRST, name_of

NOBODY = 65534
WRITER = """
import sys
from edgetune.records import RecordStore
from tests.records.test_records import record
with RecordStore.open(sys.argv[1]) as store:
    store.add(record(1))
    print("added", flush=True)
    sys.stdin.read()
"""


def listed(url: str, capsys: pytest.CaptureFixture[str]) -> str:
    """What `records list` says of a database that it refuses."""
    assert run(["records", "list", "--db", url]) == DatabaseError.exit_code
    (line,) = capsys.readouterr().err.splitlines()
    return line


def free_port() -> int:
    with closing(socket.socket()) as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def test_a_wrong_host_and_a_wrong_port_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    for address in (f"127.0.0.1:{free_port()}", "no-such-host.invalid"):
        said = listed(f"postgresql://me@{address}/records", capsys)
        assert "cannot be reached" in said
        assert "check host and port" in said


@pytest.fixture
def keyed(postgresql: PostgresqlServer) -> Iterator[DatabaseUrl]:
    """A database of a user whom the server asks for a password."""
    postgresql.execute("CREATE ROLE keyed LOGIN SUPERUSER PASSWORD 'right'")
    rules = postgresql.folder / "data" / "pg_hba.conf"
    before = rules.read_text()
    rules.write_text(f"local all keyed scram-sha-256\nhost all keyed 127.0.0.1/32 scram-sha-256\n{before}")
    postgresql.execute("SELECT pg_reload_conf()")
    url = postgresql.new_database()
    yield DatabaseUrl(url.text.replace("postgres@", "keyed@"))
    rules.write_text(before)
    postgresql.execute("SELECT pg_reload_conf()")
    postgresql.execute("REASSIGN OWNED BY keyed TO postgres", name_of(url))
    postgresql.execute("DROP ROLE keyed")


def test_a_wrong_password_is_refused_and_those_of_libpq_are_used(
    keyed: DatabaseUrl, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PGPASSFILE", str(tmp_path / "pass"))
    monkeypatch.delenv("PGPASSWORD", raising=False)
    for given in (None, "wrong"):
        if given:
            monkeypatch.setenv("PGPASSWORD", given)
        assert "refused the password: write it to ~/.pgpass, or set PGPASSWORD" in listed(keyed.text, capsys)
    monkeypatch.setenv("PGPASSWORD", "right")
    RecordStore.open(keyed).close()
    monkeypatch.delenv("PGPASSWORD")
    (tmp_path / "pass").write_text("*:*:*:keyed:right\n")
    (tmp_path / "pass").chmod(0o600)
    RecordStore.open(keyed, create=False).close()


def test_a_server_whose_table_has_our_name_is_another_program_s(
    postgresql: PostgresqlServer, capsys: pytest.CaptureFixture[str]
) -> None:
    url = postgresql.new_database()
    postgresql.execute("CREATE TABLE edgetune (id integer)", name_of(url))
    assert "is a database of another program" in listed(url.text, capsys)
    for create in (lambda: RecordStore.open(url), lambda: upgrade(url)):
        with pytest.raises(DatabaseError, match="is a database of another program"):
            create()


def test_tables_of_an_older_procrastinate_are_named(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    database = open_database(url, create=True)
    postgresql.execute("CREATE TABLE procrastinate_jobs (id bigint)", name_of(url))
    try:
        with pytest.raises(DatabaseError, match=r"older procrastinate: apply the migrations of version 3\.10"):
            prepare(database)
    finally:
        database.close()


@pytest.mark.parametrize(
    ("state", "error", "words"),
    [
        ("25006", DatabaseError, "is read-only: give the URL of the primary server"),
        ("53100", DiskFull, "no space left on the server"),
    ],
)
def test_a_server_that_is_read_only_or_full_is_named_and_loses_nothing(
    postgresql: PostgresqlServer, state: str, error: type[EdgetuneError], words: str
) -> None:
    url = postgresql.new_database()
    body = f"$$ BEGIN RAISE EXCEPTION 'as this server would' USING ERRCODE = '{state}'; END $$"
    with RecordStore.open(url) as store:
        store.add(record(0))
        postgresql.execute(f"CREATE FUNCTION refuse() RETURNS trigger LANGUAGE plpgsql AS {body}", name_of(url))
        trigger = "CREATE TRIGGER refuse BEFORE INSERT ON records FOR EACH ROW EXECUTE FUNCTION refuse()"
        postgresql.execute(trigger, name_of(url))
        with pytest.raises(error, match=words):
            store.add(record(1))
        assert store.count([KEY]) == 1


@pytest.fixture
def open_folder() -> Iterator[Path]:
    """A folder that every user may enter."""
    folder = Path(tempfile.mkdtemp(prefix="edgetune-"))
    folder.chmod(0o755)
    yield folder
    folder.chmod(0o755)
    shutil.rmtree(folder)


def said_by_a_user_without_rights(work: Callable[[], object]) -> tuple[int, str]:
    """Exit code and sentence of the error that `work` raises in a process that may not write everywhere."""
    reading, writing = os.pipe()
    process = os.fork()
    if process == 0:
        code, text = 1, "an assertion failed"
        try:
            if os.geteuid() == 0:
                os.seteuid(NOBODY)
            work()
            code, text = 0, ""
        except EdgetuneError as error:
            code, text = error.exit_code, error.message
        finally:
            os.write(writing, text.encode())
            os._exit(code)
    os.close(writing)
    with os.fdopen(reading) as said:
        text = said.read()
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), text


def test_a_file_or_folder_that_cannot_be_written_is_named(open_folder: Path) -> None:
    path = open_folder / "records.db"
    RecordStore.open(path).close()
    path.chmod(0o444)
    open_folder.chmod(0o555)

    def add() -> None:
        with RecordStore.open(path) as store:
            store.add(record())

    assert said_by_a_user_without_rights(add) == (
        DatabaseError.exit_code,
        f"the records database {path} cannot be written: make the file and its folder writable, or copy it",
    )
    code, said = said_by_a_user_without_rights(lambda: RecordStore.open(open_folder / "new.db"))
    assert code == DatabaseError.exit_code
    assert said.startswith(f"the records database {open_folder / 'new.db'} cannot be ")
    path.chmod(0o000)
    code, said = said_by_a_user_without_rights(lambda: RecordStore.open(path))
    assert (code, said.partition(" cannot be read ")[1]) == (DatabaseError.exit_code, " cannot be read ")


def test_what_may_not_be_written_is_read(open_folder: Path) -> None:
    """By a reader alone, and beside a process that writes."""
    path = open_folder / "records #1%.db"
    with RecordStore.open(path) as store:
        store.add(record(0))
    path.chmod(0o444)
    open_folder.chmod(0o555)

    def read(expected: int) -> None:
        with RecordStore.open(path, create=False) as store:
            assert store.count([KEY]) == expected
            store.best(KEY)

    assert said_by_a_user_without_rights(lambda: read(1)) == (0, "")
    assert [file.name for file in open_folder.iterdir()] == [path.name]
    open_folder.chmod(0o755)
    path.chmod(0o644)
    # In another process: one that forks shares its files with the reader.
    command = [sys.executable, "-c", WRITER, str(path)]
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[2])}
    with subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == "added\n"
        assert len(list(open_folder.iterdir())) == 3
        for file in open_folder.iterdir():
            file.chmod(0o444)
        open_folder.chmod(0o555)
        assert said_by_a_user_without_rights(lambda: read(2)) == (0, "")


@pytest.mark.long
def test_a_file_on_a_read_only_mount_is_read(tmp_path: Path) -> None:
    """Root may write everywhere but there."""
    (tmp_path / "mount").mkdir()
    with RecordStore.open(tmp_path / "mount" / "records.db") as store:
        store.add(record(0))
    mount = 'mount --bind mount mount && mount -o remount,bind,ro mount && exec "$@"'
    require_mounts()
    command = ["unshare", "-rm", "sh", "-c", mount, "sh"]
    database = "mount/records.db"
    for words in (["list", "--db", database], ["export", "out.jsonl", "--db", database], ["copy", database, "new.db"]):
        command_line = [*command, sys.executable, "-m", "edgetune", "records", *words]
        done = subprocess.run(command_line, cwd=tmp_path, capture_output=True, text=True, check=False, timeout=120)
        assert done.returncode == 0, done.stderr
    assert [file.name for file in (tmp_path / "mount").iterdir()] == ["records.db"]


@pytest.mark.long
def test_an_upgrade_on_a_full_disk_leaves_the_old_database(tmp_path: Path) -> None:
    path = tmp_path / "records.db"
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript((FIRST / "sqlite.sql").read_text())
    code = """
import resource, sys
from pathlib import Path
from edgetune.errors import EdgetuneError
from edgetune.records.upgrading import upgrade
resource.setrlimit(resource.RLIMIT_FSIZE, (8192, 8192))
try:
    upgrade(Path(sys.argv[1]))
except EdgetuneError as error:
    sys.exit(error.exit_code)
"""
    environment = os.environ | {"PYTHONPATH": str(Path(edgetune.__file__).parents[1])}
    done = subprocess.run([sys.executable, "-c", code, str(path)], env=environment, check=False, timeout=120)
    assert done.returncode in {DatabaseError.exit_code, DiskFull.exit_code}
    assert upgrade(path).before == 1
    with RecordStore.open(path, create=False) as store:
        assert store.count([KEY]) == 4


# --- what doctor says ---------------------------------------------------------------------------------------------


def found(location: DatabaseUrl | Path) -> dict[str, Finding]:
    return {one.check: one for one in findings_of(location)}


def test_doctor_names_damage_an_older_schema_and_a_large_database(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "records.db"
    assert found(path) == {}
    RecordStore.open(path).close()
    assert found(path)["records size"].ok
    monkeypatch.setattr(findings_module, "LARGE_BYTES", 1000)
    monkeypatch.setattr(findings_module, "LEAST_FREE_BYTES", 1 << 62)
    warned = found(path)
    assert [(one.check, one.ok, one.required) for one in warned.values()] == [
        ("records size", False, False),
        ("records disk", False, False),
    ]
    assert warned["records size"].fix.startswith("edgetune records prune")
    monkeypatch.setattr("edgetune.records.sqlite_database.READ_WHOLE_BYTES", 0)
    with path.open("r+b") as file:
        file.seek(4096 * 2)
        file.write(b"\xa5" * 4096 * 3)
    (fault,) = found(path).values()
    assert (fault.ok, fault.required, fault.exit_code) == (False, True, DatabaseError.exit_code)
    assert "damaged" in fault.detail
    with closing(sqlite3.connect(tmp_path / "old.db")) as connection:
        connection.execute("PRAGMA journal_mode=WAL")
        connection.executescript((FIRST / "sqlite.sql").read_text())
    (fault,) = found(tmp_path / "old.db").values()
    assert "edgetune records upgrade --db" in fault.detail


SAFE = ConnectionFacts(15, tcp=True, remote=True, encrypted=True, asked=True, stored_as="scram-sha-256", bytes=1 << 20)


@pytest.mark.parametrize(
    ("changes", "warned"),
    [
        ({}, []),
        ({"encrypted": False}, ["records TLS"]),
        ({"encrypted": False, "remote": False}, []),
        ({"stored_as": "md5"}, ["records password"]),
        ({"asked": False}, ["records password"]),
        ({"asked": False, "encrypted": False}, ["records TLS", "records password"]),
        ({"asked": False, "tcp": False, "remote": False}, []),
        ({"bytes": 5 << 30}, ["records size"]),
    ],
)
def test_doctor_names_a_server_over_tcp_without_tls_or_scram(
    changes: dict[str, object], warned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    facts = replace(SAFE, **changes)  # type: ignore[arg-type]  # fields by name
    monkeypatch.setattr("edgetune.records.postgresql_database.connection_facts", lambda _: facts)
    told = found(DatabaseUrl("postgresql://me@shelf/records"))
    assert [name for name, one in told.items() if not one.ok] == warned
    assert all(one.fix and not one.required for one in told.values() if not one.ok)


@pytest.mark.long
def test_doctor_knows_whether_a_server_asks_for_a_password(
    keyed: DatabaseUrl, postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGPASSWORD", "right")
    server, port = PostgresqlServer(), free_port()
    try:
        server.stop()
        server.start("listen_addresses=127.0.0.1", f"port={port}")
        told = found(DatabaseUrl(f"postgresql://postgres@127.0.0.1:{port}/postgres"))
        assert told["records server"].ok
        assert "records TLS" not in told, "nothing leaves this host"
        assert "without a password" in told["records password"].detail
    finally:
        server.remove()
    from edgetune.records.postgresql_database import connection_facts

    assert (connection_facts(keyed).asked, connection_facts(postgresql.new_database()).asked) == (True, False)
