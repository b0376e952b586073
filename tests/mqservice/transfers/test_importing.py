"""An import with a database that is not ours to make: whole, done again, or refused."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import ConfigInvalid, StartFailed
from mqservice.transfers import importing
from mqservice.transfers.errors import TransferRejected
from storage_engine.tools.transfer.report import ImportReport
from tests.mqservice.backups.making import ignored, scratch_database
from tests.storage_engine.rocketmq_store import RocketmqStore
from tests.storage_engine.tools.test_store_import import hashes

RETENTION_MS = 86_400_000
SEGMENT_BYTES = 1 << 16


@pytest.fixture
def url(postgres_server: str) -> Iterator[str]:
    with scratch_database(postgres_server) as found:
        yield found


@pytest.fixture
def source(tmp_path: Path) -> Path:
    theirs = RocketmqStore(segment_bytes=SEGMENT_BYTES)
    for number in range(5):
        theirs.add(b"%d" % number, topic="orders")
    theirs.offsets = {"orders@billing": {0: 2}}
    return theirs.write(tmp_path / "source")


def environ(url: str) -> dict[str, str]:
    return {"DATABASE_URL": url, "MQ_ENGINE_SEGMENT_BYTES": str(SEGMENT_BYTES), "PATH": "/usr/bin"}


def imported(source: Path, place: Path, url: str, namespace: str = "acme") -> ImportReport:
    env = environ(url)
    report = importing.inspect_store(env, source, namespace, RETENTION_MS, on_progress=ignored)
    return importing.import_store(env, place, source, report, RETENTION_MS, on_progress=ignored)


def topics(url: str) -> list[str]:
    with psycopg.connect(url) as connection:
        return [row[0] for row in connection.execute("SELECT name FROM topics_topic").fetchall()]


def test_rows_and_store_come_together(source: Path, tmp_path: Path, url: str) -> None:
    report = imported(source, tmp_path / "data", url)
    assert report.verified_messages == 5
    assert topics(url) == ["orders"]
    place = DataDir(tmp_path / "data")
    assert (place.store / "config" / "topics.json").exists()
    assert not place.restoring.exists()
    assert {path.name for path in place.path.iterdir()} == {"store", "lock", "secrets.toml"}


@pytest.mark.torture
def test_one_that_was_killed_behind_its_commit_is_done_again(
    source: Path, tmp_path: Path, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def killed(path: Path) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(importing, "sync_directory", killed)
        imported(source, tmp_path / "data", url)
    assert topics(url) == ["orders"]
    assert imported(source, tmp_path / "data", url).verified_messages == 5


@pytest.mark.torture
def test_a_database_of_another_store_is_refused_and_nothing_is_left(
    source: Path, tmp_path: Path, url: str
) -> None:
    imported(source, tmp_path / "data", url)
    with pytest.raises(StartFailed, match="needs its own database"):
        imported(source, tmp_path / "other", url, "other")
    assert list((tmp_path / "other").iterdir()) == []
    assert topics(url) == ["orders"]


@pytest.mark.torture
def test_a_source_that_is_another_one_by_now_is_refused(
    source: Path, tmp_path: Path, url: str
) -> None:
    env = environ(url)
    report = importing.inspect_store(env, source, "acme", RETENTION_MS, on_progress=ignored)
    offsets = source / "config" / "consumerOffset.json"
    offsets.write_text("{}")
    before = hashes(source)
    with pytest.raises(TransferRejected, match="has changed since it was checked"):
        importing.import_store(
            env, tmp_path / "data", source, report, RETENTION_MS, on_progress=ignored
        )
    assert hashes(source) == before
    assert topics(url) == []


def test_a_start_names_the_command_that_was_killed(tmp_path: Path) -> None:
    place = DataDir(tmp_path / "data")
    place.path.mkdir()
    place.restoring.write_text("import-store")
    with pytest.raises(ConfigInvalid, match="wait until `mqservice import-store`"):
        place.create()
