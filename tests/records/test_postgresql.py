"""The records on a PostgreSQL server: what is refused and how, several hosts at once, and a server that goes away."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from edgetune.config.database_location import DatabaseUrl, database_location
from edgetune.errors import DatabaseError
from edgetune.pipeline.database import findings_of
from edgetune.records import RecordStore
from edgetune.records.database import database_exists
from edgetune.records.exchange import copy
from tests.postgresql_server import PostgresqlServer
from tests.records.test_records import KEY, candidate, failure, record

WRITERS, EACH = 6, 40


def write(url: str, first: int) -> None:
    """A writer: adds all records, beginning with another one than the other writers, and measures each again."""
    with RecordStore.open(DatabaseUrl(url)) as store:
        for step in range(EACH):
            number = (first + step) % EACH
            store.log_start(KEY, candidate(number))
            store.add_again(record(number, 1000.0 + first, board="shared"))
            store.add(record(number, board=f"own-{first}"))
        store.log_ends([KEY])


@pytest.mark.long
def test_writers_of_several_hosts_lose_and_double_nothing(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    code = "import sys; from tests.records.test_postgresql import write; write(sys.argv[1], int(sys.argv[2]))"
    writers = [
        subprocess.Popen([sys.executable, "-c", code, url.text, str(7 * n)], stderr=subprocess.PIPE, text=True)
        for n in range(WRITERS)
    ]
    for writer in writers:
        _, words = writer.communicate(timeout=120)
        assert writer.returncode == 0, words
    with RecordStore.open(url, create=False) as store:
        rows = store.list()
        assert len(rows) == EACH * (1 + WRITERS)
        shared = [store.get(row["id"]) for row in rows if row["board"] == "shared"]
        assert len(shared) == EACH
        from edgetune.records.history import statuses

        assert all(len(statuses(one)) == WRITERS for one in shared), "each measurement of a candidate is kept"


def test_a_server_that_is_too_old_is_refused_before_anything_is_written_there(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    url = postgresql.new_database()
    monkeypatch.setattr("edgetune.records.postgresql_database.LEAST_VERSION", 99)
    with pytest.raises(DatabaseError, match=r"runs PostgreSQL \d+: edgetune needs 99 or later"):
        RecordStore.open(url)
    assert not database_exists(url)


def test_both_engines_export_the_same_bytes_and_copy_both_ways(postgresql: PostgresqlServer, tmp_path: Path) -> None:
    url, back = postgresql.new_database(), tmp_path / "back.db"
    with RecordStore.open(tmp_path / "db") as file, RecordStore.open(url) as server, RecordStore.open(back) as again:
        for number in range(30):
            file.add(record(number, 100.0 + number, workload_name=["a_b", "aB", "a-b", "Zz", "\u00e9"][number % 5]))
        file.add(failure(30, target="B", target_fingerprint="b"))
        file.add(failure(30, target="a", target_fingerprint="A"))
        assert copy(file.database, server.database).imported == 32
        assert copy(server.database, again.database).imported == 32
        assert copy(file.database, again.database).duplicates == 32
        texts = []
        for number, store in enumerate((file, server, again)):
            store.export_jsonl(tmp_path / str(number))
            texts.append((tmp_path / str(number)).read_bytes())
    assert texts[0] == texts[1] == texts[2]


@pytest.mark.long
def test_a_restart_of_the_server_is_survived_and_a_stopped_one_is_named() -> None:
    server = PostgresqlServer()
    try:
        url = server.new_database()
        with RecordStore.open(url) as store:
            store.add(record(0))
            server.stop()
            with pytest.raises(DatabaseError, match="cannot be reached"):
                store.add(record(1))
            server.start()
            store.add(record(1))
            assert store.count([KEY]) == 2
    finally:
        server.remove()


def test_an_empty_database_is_filled_only_when_asked(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    assert not database_exists(url)
    with pytest.raises(DatabaseError, match="no records yet: run `edgetune tune`"):
        RecordStore.open(url, create=False)
    assert not database_exists(url)
    RecordStore.open(url).close()
    assert database_exists(url)


@pytest.fixture
def limited(postgresql: PostgresqlServer) -> Iterator[str]:
    """A user who may read only."""
    postgresql.execute("CREATE ROLE reader LOGIN")
    yield "reader"
    postgresql.execute("DROP OWNED BY reader")
    postgresql.execute("DROP ROLE reader")


def test_a_user_without_rights_is_refused(postgresql: PostgresqlServer, limited: str) -> None:
    url = postgresql.new_database()
    own = DatabaseUrl(url.text.replace("postgres@", f"{limited}@"))
    with pytest.raises(DatabaseError, match=r"permission denied.*grant the user the rights"):
        RecordStore.open(own)


def test_what_must_be_written_and_is_readable_alone_is_a_fault(postgresql: PostgresqlServer, limited: str) -> None:
    url = postgresql.new_database()
    RecordStore.open(url).close()
    name = url.text.rpartition("/records")[2].partition("?")[0]
    postgresql.execute(f"GRANT SELECT ON ALL TABLES IN SCHEMA public TO {limited}", f"records{name}")
    own = DatabaseUrl(url.text.replace("postgres@", f"{limited}@"))

    def faults(location: DatabaseUrl, *, written: bool) -> list[str]:
        return [one.detail for one in findings_of(location, written=written) if one.required and not one.ok]

    try:
        assert faults(own, written=False) == faults(url, written=True) == []
        (fault,) = faults(own, written=True)
        assert "permission denied" in fault
    finally:
        postgresql.execute(f"DROP OWNED BY {limited}", f"records{name}")


def test_names_and_schemas_that_are_not_ours_are_refused(postgresql: PostgresqlServer) -> None:
    with pytest.raises(DatabaseError, match="does not exist on this server: create it with `createdb`"):
        RecordStore.open(postgresql.url("missing"))
    with pytest.raises(DatabaseError, match="refused the user"):
        RecordStore.open(postgresql.url("postgres", user="nobody-there"))
    other = postgresql.new_database()
    name = other.text.rpartition("/records")[2].partition("?")[0]
    postgresql.execute("CREATE TABLE records (id integer)", f"records{name}")
    with pytest.raises(DatabaseError, match="is a database of another program"):
        RecordStore.open(other)
    ours = postgresql.new_database()
    RecordStore.open(ours).close()
    name = ours.text.rpartition("/records")[2].partition("?")[0]
    postgresql.execute("UPDATE edgetune SET schema_version = 99", f"records{name}")
    with pytest.raises(DatabaseError, match="has schema version 99"):
        RecordStore.open(ours)


def test_an_option_that_postgresql_does_not_know_is_named(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    with pytest.raises(DatabaseError, match="an option 'sslmod' that PostgreSQL does not know"):
        RecordStore.open(DatabaseUrl(f"{url.text}&sslmod=require"))
    with pytest.raises(DatabaseError, match="invalid sslmode value"):
        RecordStore.open(DatabaseUrl(f"{url.text}&sslmode=requird"))


def test_more_threads_than_connections_get_a_sentence(
    postgresql: PostgresqlServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("edgetune.records.postgresql_database.CONNECTION_WAIT_SECONDS", 0.1)
    monkeypatch.setattr("edgetune.records.postgresql_database.MOST_CONNECTIONS", 2)
    url = postgresql.new_database()
    with RecordStore.open(url) as store, store.database.reading(), store.database.reading():  # noqa: SIM117
        with pytest.raises(DatabaseError, match="answers too slowly: no connection of this process was free"):
            store.count([KEY])


def test_only_what_is_known_already_counts_as_known(postgresql: PostgresqlServer) -> None:
    url = postgresql.new_database()
    with RecordStore.open(url) as store:
        name = "records" + url.text.rpartition("/records")[2].partition("?")[0]
        postgresql.execute("ALTER TABLE records ADD CONSTRAINT never CHECK (board <> 'shelf')", name)
        with pytest.raises(DatabaseError, match="never"):
            store.add(record(0, board="shelf"))
        assert [store.add_new(record(0))[1] for _ in range(2)] == [True, False]


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(DatabaseError, match=r"cannot be reached .*start the server"):
        RecordStore.open(DatabaseUrl(f"postgresql:///records?host={tmp_path}"))


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("postgresql://u:secret@h/r", "must not have a password"),
        ("postgresql://h/r?password=secret", "must not have a password"),
        ("postgresql://h/r?sslpassword=secret", "must not have a password"),
        ("~no-such-user/r.db", "a user who does not exist"),
        ("postgresql://h", "must name a database"),
        ("mysql://h/r", "not mysql://"),
        ("sqlite:///r.db", "not sqlite://"),
    ],
)
def test_a_url_that_cannot_be_used_is_refused_without_its_password(text: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason) as caught:
        database_location(text, Path("/"))
    assert "secret" not in str(caught.value)
