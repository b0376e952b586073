"""A backup of an engine and a database: made, found damaged, refused, brought back elsewhere."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import msgspec
import psycopg
import pytest

from mqservice.backups import database, restoring
from mqservice.backups.checking import check
from mqservice.backups.errors import BackupDamaged, BackupError, BackupRejected
from mqservice.backups.files import entry_of
from mqservice.backups.manifest import MANIFEST, MANIFEST_SUM, read_manifest, write_manifest
from mqservice.backups.new_directory import new_directory
from mqservice.backups.restoring import restore
from mqservice.supervisor.binaries import PostgresClients, find_postgres_clients
from mqservice.supervisor.data_dir import DataDir
from tests.mqservice.backups.making import (
    TABLES,
    backup_of,
    environment,
    fill,
    ignored,
    scratch_database,
    topic_names,
)
from tests.services import wait_until
from tests.storage_engine.engines import Engine, engine_with_topic, pull_all


class Made(NamedTuple):
    engine: Engine
    url: str
    bodies: list[bytes]
    backup: Path


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory, postgres_server: str) -> Iterator[Made]:
    """An installation and a backup of it, which tests copy before they harm it."""
    with (
        scratch_database(postgres_server, TABLES) as url,
        engine_with_topic(queues=1) as engine,
    ):
        bodies = fill(engine, 40)
        backup = tmp_path_factory.mktemp("made") / "backup"
        backup_of(engine, url, backup)
        yield Made(engine, url, bodies, backup)


def command(*arguments: str) -> list[str]:
    return [sys.executable, "-m", "mqservice.cli.main", "backup", *arguments]


def restored(backup: Path, data_dir: Path, url: str) -> None:
    restore({**os.environ, "DATABASE_URL": url}, data_dir, backup, on_progress=ignored)


def flip_bit(path: Path, at: int = 0) -> None:
    content = bytearray(path.read_bytes())
    content[at] ^= 1
    path.write_bytes(content)


def test_a_backup_is_private_whole_and_comes_back_elsewhere(
    made: Made, tmp_path: Path, postgres_server: str
) -> None:
    manifest, faults = check(made.backup, on_progress=ignored)
    assert faults == []
    for path in (made.backup, *made.backup.rglob("*")):
        assert stat.S_IMODE(path.stat().st_mode) == (0o700 if path.is_dir() else 0o600)
    assert {file.path for file in manifest.files} >= {"database.dump", "secrets.toml"}
    with scratch_database(postgres_server) as url:
        restored(made.backup, tmp_path / "data", url)
        assert topic_names(url) == topic_names(made.url)
    assert (tmp_path / "data" / "secrets.toml").read_text() == 'django_key = "secret"\n'
    assert sorted(path.name for path in (tmp_path / "data").iterdir()) == [
        "lock", "secrets.toml", "store",
    ]  # fmt: skip
    engine = Engine()
    shutil.move(tmp_path / "data" / "store", engine.store_dir)
    with engine, engine.client() as client:
        assert pull_all(client, 0) == made.bodies


def test_the_second_backup_links_what_the_first_has(made: Made, tmp_path: Path) -> None:
    base = made.backup
    more = backup_of(made.engine, made.url, base.with_name("second"), base=base)
    linked = [file for file in more.files if file.is_linked]
    assert len(linked) == len(list((base / "store" / "commitlog").iterdir())) - 1
    for file in linked:
        assert (base.with_name("second") / file.path).samefile(base / file.path)
    assert check(base.with_name("second"), on_progress=ignored)[1] == []
    shutil.rmtree(base.with_name("second"))


@pytest.mark.parametrize(
    "path",
    ["store/commitlog/00000000000000000000", "store/checkpoint", "store/config/topics.json",
     "database.dump", "secrets.toml", MANIFEST],
)  # fmt: skip
def test_one_flipped_bit_is_found_and_named_and_nothing_of_it_comes_back(
    made: Made, tmp_path: Path, postgres_server: str, path: str
) -> None:
    backup = shutil.copytree(made.backup, tmp_path / "backup")
    flip_bit(backup / path, at=200 if "commitlog" in path else 3)
    try:
        faults = check(backup, on_progress=ignored)[1]
    except BackupDamaged as error:
        faults = [str(error)]
    assert any(Path(path).name in fault for fault in faults)
    with scratch_database(postgres_server) as url:
        with pytest.raises(BackupDamaged, match=Path(path).name):
            restored(backup, tmp_path / "data", url)
        database.require_empty(url)
    assert not (tmp_path / "data").exists() or list((tmp_path / "data").iterdir()) == []


def test_a_restore_that_was_killed_behind_its_commit_is_done_again(
    made: Made, tmp_path: Path, postgres_server: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    with scratch_database(postgres_server) as url:
        with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
            patch.setattr(restoring, "sync_directory", killed)
            patch.setattr(restoring, "reserved_data_dir", _unmarked)
            restored(made.backup, tmp_path / "data", url)
        assert topic_names(url)
        shutil.rmtree(tmp_path / "data")
        restored(made.backup, tmp_path / "data", url)
        assert len(topic_names(url)) == 1_000
        assert database.restored_from(url) is None
        with pytest.raises(BackupRejected, match="is not empty, it was filled: create another one"):
            restored(made.backup, tmp_path / "other", url)


def test_a_database_that_another_restore_has_filled_is_refused_with_what_to_do(
    made: Made, tmp_path: Path, postgres_server: str
) -> None:
    with scratch_database(postgres_server) as url:
        clients = find_postgres_clients(database.server_version(url))
        database.restore(clients, url, made.backup / "database.dump", stamp="abc")
        assert database.restored_from(url) == "abc"
        with pytest.raises(
            BackupRejected, match="by a restore of another backup: create another one"
        ):
            restored(made.backup, tmp_path / "data", url)


@contextlib.contextmanager
def _unmarked(place: DataDir, store: Path, *, command: str) -> Iterator[Path]:
    """As a process that is killed: nothing is tidied up."""
    assert command == "backup restore"
    store.parent.mkdir(parents=True)
    yield store.with_name("aside")


def test_files_that_are_missing_or_too_many_are_named(
    made: Made, tmp_path: Path, postgres_server: str
) -> None:
    backup = shutil.copytree(made.backup, tmp_path / "backup")
    (backup / "store" / "config" / "topics.json").unlink()
    (backup / "store" / "commitlog" / "00000000000009999999").write_bytes(b"")
    faults = "\n".join(check(backup, on_progress=ignored)[1])
    assert "store/config/topics.json: No such file" in faults
    assert "store/commitlog/00000000000009999999: not listed in the manifest" in faults
    with (
        scratch_database(postgres_server) as url,
        pytest.raises(BackupDamaged, match=r"topics\.json is missing"),
    ):
        restored(backup, tmp_path / "data", url)


def test_damage_in_the_source_is_found_by_the_stores_own_check(made: Made, tmp_path: Path) -> None:
    backup = shutil.copytree(made.backup, tmp_path / "backup")
    segment = backup / "store" / "commitlog" / f"{0:020d}"
    flip_bit(segment, at=200)
    manifest = read_manifest(backup)
    name = str(segment.relative_to(backup))
    files = [entry_of(backup, name) if file.path == name else file for file in manifest.files]
    for old in (MANIFEST, MANIFEST_SUM):
        (backup / old).unlink()
    write_manifest(backup, msgspec.structs.replace(manifest, files=files))
    (fault,) = check(backup, on_progress=ignored)[1]
    assert name in fault


def test_what_is_no_backup_or_of_a_newer_format_is_refused(made: Made, tmp_path: Path) -> None:
    with pytest.raises(BackupRejected, match="not a backup, or was never finished"):
        check(tmp_path, on_progress=ignored)
    backup = shutil.copytree(made.backup, tmp_path / "backup")
    manifest = msgspec.structs.replace(read_manifest(backup), format_version=2)
    for old in (MANIFEST, MANIFEST_SUM):
        (backup / old).unlink()
    write_manifest(backup, manifest)
    with pytest.raises(BackupRejected, match="format version 2"):
        restored(backup, tmp_path / "data", "postgresql://nobody@127.0.0.1:1/none")
    assert not (tmp_path / "data").exists()


def test_a_manifest_that_leads_out_of_the_backup_is_damaged(made: Made, tmp_path: Path) -> None:
    backup = shutil.copytree(made.backup, tmp_path / "backup")
    manifest = read_manifest(backup)
    files = [msgspec.structs.replace(manifest.files[0], path="store/../../out")]
    for old in (MANIFEST, MANIFEST_SUM):
        (backup / old).unlink()
    write_manifest(backup, msgspec.structs.replace(manifest, files=files))
    with pytest.raises(BackupDamaged, match="outside"):
        read_manifest(backup)


def test_places_that_are_not_empty_are_refused_and_left_alone(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine").write_text("mine")
    with pytest.raises(BackupRejected, match="is not empty"):
        restored(made.backup, tmp_path / "data", made.url)
    monkeypatch.setattr(database, "require_empty", lambda url: None)
    with pytest.raises(BackupRejected, match="is not empty"):
        restored(made.backup, tmp_path, made.url)
    with pytest.raises(BackupRejected, match="already exists"):
        backup_of(made.engine, made.url, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]
    monkeypatch.setattr(database, "server_version", lambda url: 13)
    with pytest.raises(BackupRejected, match="the server has version 13"):
        restored(made.backup, tmp_path / "data", made.url)


def test_a_place_that_someone_fills_is_refused_and_what_a_killed_one_left_is_removed(
    tmp_path: Path,
) -> None:
    with (
        new_directory(tmp_path / "b"),
        pytest.raises(BackupRejected, match="another process is writing"),
        new_directory(tmp_path / "b"),
    ):
        raise AssertionError("two fill it")
    (tmp_path / "c.partial" / "store").mkdir(parents=True)
    (tmp_path / "c.partial" / "store" / "old").touch()
    with new_directory(tmp_path / "c") as place:
        assert list(place.iterdir()) == []
        (place / "new").touch()
    assert [path.name for path in (tmp_path / "c").iterdir()] == ["new"]
    assert not (tmp_path / "c.partial").exists()


def test_topics_and_groups_that_are_being_changed_are_waited_for(
    made: Made, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(database, "LOCK_WAIT_MS", 100)
    with psycopg.connect(made.url) as changing:
        changing.execute("INSERT INTO topics_topic (name) VALUES ('half done')")
        with pytest.raises(BackupError, match="lock timeout"):
            backup_of(made.engine, made.url, tmp_path / "backup")
        changing.rollback()
    assert list(tmp_path.iterdir()) == []
    backup_of(made.engine, made.url, tmp_path / "backup")


def test_a_disk_without_room_is_named_and_nothing_is_left(made: Made, tmp_path: Path) -> None:
    def few_bytes() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (32_768, 32_768))

    env = environment(made.engine, made.url)
    done = subprocess.run(
        command("create", str(tmp_path / "backup")),
        env=env, preexec_fn=few_bytes, capture_output=True, text=True, timeout=180, check=False,
    )  # fmt: skip
    assert done.returncode == 1
    assert "File too large" in done.stderr
    assert done.stderr.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_backup_that_is_killed_is_none_and_the_next_one_takes_its_place(
    made: Made, tmp_path: Path
) -> None:
    env = environment(made.engine, made.url)
    target = tmp_path / "backup"
    killed = subprocess.Popen(command("create", str(target), "--rate=1KiB"), env=env)
    try:
        segments = target.with_name("backup.partial") / "store" / "commitlog"
        wait_until(lambda: segments.is_dir() and any(segments.iterdir()), 60, "it copies")
    finally:
        killed.send_signal(signal.SIGKILL)
        killed.wait(60)
    assert not target.exists()
    with pytest.raises(BackupRejected, match="not a backup"):
        check(target.with_name("backup.partial"), on_progress=ignored)
    # Its children die with it: else one of them would still hold the log.
    wait_until(lambda: not _processes_with(str(target)), 60, "nothing is left of it")
    backup_of(made.engine, made.url, target)
    assert check(target, on_progress=ignored)[1] == []
    assert [path.name for path in tmp_path.iterdir()] == ["backup"]


def test_an_engine_that_does_not_run_is_named(made: Made, tmp_path: Path) -> None:
    with Engine() as other:
        other.stop()
        with pytest.raises(BackupError, match="could not copy the store"):
            backup_of(other, made.url, tmp_path / "backup")
    assert list(tmp_path.iterdir()) == []


def _processes_with(word: str) -> list[int]:
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                if word.encode() in (entry / "cmdline").read_bytes():
                    found.append(int(entry.name))
            except OSError:
                continue
    return found


def _program(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o700)
    return path


@pytest.mark.parametrize(("version", "is_set"), [(15, False), (17, True)])
def test_a_server_is_asked_for_no_setting_that_it_does_not_know(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, version: int, is_set: bool
) -> None:
    monkeypatch.setattr(database, "server_version", lambda url: version)
    clients = PostgresClients(
        pg_dump=Path("/bin/false"),
        pg_restore=_program(tmp_path / "r", "echo 'SET transaction_timeout = 0;'; echo 'rows;'"),
        psql=_program(tmp_path / "psql", f"cat > {tmp_path}/script"),
    )
    database.restore(clients, "postgresql://u@h/d", tmp_path / "dump", stamp="abc")
    setting = ["SET transaction_timeout = 0;"] if is_set else []
    script = (tmp_path / "script").read_text().splitlines()
    wanted = ["BEGIN;", *setting, "rows;"]
    assert script[: len(wanted)] == wanted
    assert script[-2:] == ["INSERT INTO public.mqservice_restored VALUES ('abc');", "COMMIT;"]


def test_a_dump_that_cannot_be_read_to_its_end_is_not_committed(
    made: Made, tmp_path: Path, postgres_server: str
) -> None:
    clients = PostgresClients(
        pg_dump=Path("/bin/false"),
        pg_restore=_program(tmp_path / "r", "echo 'CREATE TABLE half (id int);'; exit 3"),
        psql=find_postgres_clients(read_manifest(made.backup).postgres_version).psql,
    )
    with scratch_database(postgres_server) as url:
        with pytest.raises(BackupError, match="r failed"):
            database.restore(clients, url, tmp_path / "dump", stamp="abc")
        database.require_empty(url)


def test_a_backup_that_would_lack_other_shards_is_refused(
    made: Made, postgres_server: str, tmp_path: Path
) -> None:
    shards = (
        "CREATE TABLE shards_shard (name text);"
        "INSERT INTO shards_shard VALUES ('s3'), ('main'), ('s2');"
    )
    with scratch_database(postgres_server, TABLES + shards) as url:
        with pytest.raises(BackupRejected, match=r"other shards here: s2, s3\..* pg_dump"):
            backup_of(made.engine, url, tmp_path / "backup")
        assert not list(tmp_path.iterdir())
        with psycopg.connect(url) as connection:
            connection.execute("DELETE FROM shards_shard WHERE name <> 'main'")
        backup_of(made.engine, url, tmp_path / "backup")
    assert check(tmp_path / "backup", on_progress=ignored)[1] == []
