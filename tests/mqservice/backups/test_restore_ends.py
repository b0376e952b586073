"""However a restore ends: what it leaves is whole, nothing, or refused by a start."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from mqservice.backups import database, restoring
from mqservice.backups.errors import BackupRejected
from mqservice.backups.files import entry_of
from mqservice.backups.manifest import Manifest, write_manifest
from mqservice.backups.new_directory import new_directory
from mqservice.backups.restoring import restore
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import ConfigInvalid
from tests.mqservice.backups.making import ignored

FILES = ("store/config/topics.json", "database.dump", "secrets.toml")
URL = "postgresql://u@h/d"


class Interrupted(BaseException):
    """Somebody pressed Ctrl-C."""


def interrupt(*_: object, **__: object) -> None:
    raise Interrupted


def nothing(*_: object, **__: object) -> None:
    """In place of an engine, a database, or a file system that is not read-only."""


@pytest.fixture
def backup(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A backup of a few bytes."""
    for name in ("adopt", "_clients_for"):
        monkeypatch.setattr(restoring, name, nothing)
    for name in ("restore", "restored_from", "forget_restore"):
        monkeypatch.setattr(database, name, nothing)
    directory = tmp_path / "backup"
    for name in FILES:
        (directory / name).parent.mkdir(parents=True, exist_ok=True)
        (directory / name).write_text(name)
    files = [entry_of(directory, name) for name in FILES]
    write_manifest(
        directory,
        Manifest(
            format_version=1, made_at="", start_offset=0, end_offset=0, segment_bytes=4_096,
            postgres_version=16, files=files,
        ),
    )  # fmt: skip
    return directory


def restored(backup: Path, place: DataDir, **env: str) -> None:
    restore({"DATABASE_URL": URL, **env}, place.path, backup, on_progress=ignored)


def names(directory: Path) -> list[str]:
    return sorted(path.name for path in directory.iterdir())


def test_one_that_was_killed_before_its_marker_went_is_done_again(
    backup: Path, tmp_path: Path
) -> None:
    place = DataDir(tmp_path / "data")
    restored(backup, place)
    (place.store / "config" / "topics.json").unlink()
    place.restoring.touch()
    with pytest.raises(ConfigInvalid, match="is incomplete"):
        place.create()
    restored(backup, place)
    assert (place.store / "config" / "topics.json").read_text() == "store/config/topics.json"
    assert not place.restoring.exists()


def test_a_store_elsewhere_that_is_not_empty_is_left_alone(backup: Path, tmp_path: Path) -> None:
    place = DataDir(tmp_path / "data")
    place.path.mkdir()
    place.restoring.touch()
    store = tmp_path / "elsewhere"
    (store / "mine").mkdir(parents=True)
    with pytest.raises(BackupRejected, match="elsewhere is not empty"):
        restored(backup, place, MQ_ENGINE_STORE_DIR=str(store))
    assert names(store) == ["mine"]


def test_a_mount_is_refused_before_anything_is_done(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mount = tmp_path / "mounted"
    mount.mkdir()
    monkeypatch.setattr(os.path, "ismount", lambda path: path == mount)
    with pytest.raises(BackupRejected, match="is a mount"):
        restored(backup, DataDir(tmp_path / "data"), MQ_ENGINE_STORE_DIR=str(mount))
    with pytest.raises(BackupRejected, match="is a mount"), new_directory(mount):
        raise AssertionError("it is filled")
    assert names(tmp_path) == ["backup", "mounted"]


def test_one_that_fails_leaves_nothing_of_it_and_what_is_not_its_own(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = DataDir(tmp_path / "data")
    (place.path / "lost+found").mkdir(parents=True)
    place.lock.touch()  # all that one leaves which was killed as it began
    monkeypatch.setattr(database, "restore", interrupt)
    with pytest.raises(Interrupted):
        restored(backup, place)
    assert names(place.path) == ["lost+found"]


@pytest.mark.parametrize("remove", [interrupt, nothing], ids=["interrupted", "read-only"])
def test_one_that_cannot_tidy_up_is_refused_by_a_start_and_starts_over(
    backup: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, remove: Callable[..., None]
) -> None:
    place = DataDir(tmp_path / "data")
    with monkeypatch.context() as patch:
        patch.setattr(database, "restore", interrupt)
        patch.setattr(shutil, "rmtree", remove)
        with pytest.raises(Interrupted):
            restored(backup, place)
    with pytest.raises(ConfigInvalid, match="is incomplete"):
        place.create()
    restored(backup, place)
    assert names(place.path) == ["lock", "secrets.toml", "store"]
