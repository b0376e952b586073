"""One owner for a data directory, and files that only that owner can read."""

from __future__ import annotations

import os
import stat
import subprocess
import tomllib
from pathlib import Path

import pytest

from mqservice.lib.api_keys import parse_api_key
from mqservice.supervisor.data_dir import (
    DATABASES_BYTES,
    SOCKET_PATH_BYTES_MAX,
    DataDir,
    DataDirLock,
    find_owner_pid,
    write_private,
)
from mqservice.supervisor.errors import ConfigInvalid, DataDirInUse
from mqservice.supervisor.secrets_file import load_or_create_secrets
from tests.storage_engine.faults import machine


@pytest.fixture
def data_dir(tmp_path: Path) -> DataDir:
    data_dir = DataDir(tmp_path / "data")
    data_dir.create()
    return data_dir


def test_a_directory_that_holds_something_else_is_refused_and_untouched(tmp_path: Path) -> None:
    (tmp_path / "letters").mkdir()
    with pytest.raises(ConfigInvalid, match="not empty"):
        DataDir(tmp_path).create()
    assert [path.name for path in tmp_path.iterdir()] == ["letters"]


def test_directories_are_private(data_dir: DataDir) -> None:
    assert stat.S_IMODE(data_dir.path.stat().st_mode) == 0o700
    assert stat.S_IMODE(data_dir.run.stat().st_mode) == 0o700


def test_a_file_in_the_place_of_the_directory_is_refused_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "file"
    path.write_text("somebody's")
    with pytest.raises(ConfigInvalid, match=r"file is a file\. Set MQ_DATA_DIR to a directory"):
        DataDir(path).create()
    assert path.read_text() == "somebody's"


def test_a_directory_of_before_is_closed_to_others(data_dir: DataDir) -> None:
    open_to_others = (data_dir.path, data_dir.logs, data_dir.store, data_dir.mail)
    data_dir.lock.touch()
    for directory in open_to_others:
        directory.chmod(0o755)
    data_dir.create()
    for directory in open_to_others:
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700


def test_second_lock_is_refused_by_the_owners_pid(data_dir: DataDir) -> None:
    owner = DataDirLock(data_dir)
    owner.acquire()

    with pytest.raises(DataDirInUse) as refused:
        DataDirLock(data_dir).acquire()

    assert refused.value.pid == os.getpid()
    assert str(data_dir.path) in str(refused.value)
    assert find_owner_pid(data_dir) == os.getpid()
    owner.release()


def test_released_lock_can_be_taken_and_names_nobody(data_dir: DataDir) -> None:
    first, second = DataDirLock(data_dir), DataDirLock(data_dir)
    first.acquire()
    first.release()
    assert find_owner_pid(data_dir) is None

    second.acquire()

    assert find_owner_pid(data_dir) == os.getpid()
    second.release()


def test_pid_left_in_the_lock_file_by_a_killed_owner_means_nothing(data_dir: DataDir) -> None:
    data_dir.lock.write_text("1\n")

    assert find_owner_pid(data_dir) is None


def test_long_path_moves_the_socket_to_a_short_private_directory(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / ("long" * 30))

    data_dir.create()

    assert len(os.fsencode(data_dir.engine_socket)) <= SOCKET_PATH_BYTES_MAX
    assert not data_dir.run.is_relative_to(data_dir.path)
    assert stat.S_IMODE(data_dir.run.stat().st_mode) == 0o700
    data_dir.run.rmdir()


def test_the_directory_of_another_user_is_named_as_that(
    data_dir: DataDir, monkeypatch: pytest.MonkeyPatch
) -> None:
    owner = os.getuid()
    data_dir.lock.touch()
    monkeypatch.setattr(os, "getuid", lambda: 54_321)

    with pytest.raises(ConfigInvalid, match=f"data directory of user {owner}, not of 54321"):
        data_dir.create()


def test_short_directory_that_is_a_link_is_refused(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / ("link" * 30))
    data_dir.run.symlink_to(tmp_path)

    with pytest.raises(ConfigInvalid, match="another user"):
        data_dir.create()

    data_dir.run.unlink()


def test_a_full_disk_is_refused_before_anything_is_made(tmp_path: Path) -> None:
    machine.need_mounts()
    with machine.tmpfs(DATABASES_BYTES + machine.MIB) as disk:
        data_dir = DataDir(disk / "below" / "data")
        with pytest.raises(ConfigInvalid, match="129 MiB free; a first start needs 1152 MiB"):
            data_dir.create()
        with pytest.raises(ConfigInvalid, match="129 MiB free; a first start needs 130 MiB"):
            data_dir.create(segment_bytes=2 * machine.MIB)
        assert not (disk / "below").exists()
        data_dir.create(segment_bytes=machine.MIB)


def test_a_read_only_disk_is_named_with_the_way_out(tmp_path: Path) -> None:
    machine.need_mounts()
    with machine.tmpfs(machine.MIB) as disk:
        subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
        with pytest.raises(ConfigInvalid) as refused:
            DataDir(disk / "data").create()
    assert str(refused.value) == (
        f"Cannot use the data directory {disk}/data: Read-only file system. Set MQ_DATA_DIR to a "
        "directory that this user can write."
    )


def test_path_that_is_a_file_is_refused(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(ConfigInvalid):
        DataDir(tmp_path / "file").create()


def test_private_file_is_replaced_whole_and_leaves_nothing_beside_it(tmp_path: Path) -> None:
    path = tmp_path / "facts.json"

    write_private(path, "first")
    write_private(path, "second")

    assert path.read_text() == "second"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_secrets_are_made_once_and_read_ever_after(data_dir: DataDir) -> None:
    made = load_or_create_secrets(data_dir.secrets)

    assert load_or_create_secrets(data_dir.secrets) == made
    assert stat.S_IMODE(data_dir.secrets.stat().st_mode) == 0o600
    assert parse_api_key(made.api_key) is not None
    content = tomllib.loads(data_dir.secrets.read_text())
    assert len(set(content.values())) == len(content)


def test_secrets_open_to_others_are_refused(data_dir: DataDir) -> None:
    load_or_create_secrets(data_dir.secrets)
    data_dir.secrets.chmod(0o644)

    with pytest.raises(ConfigInvalid, match="chmod 600"):
        load_or_create_secrets(data_dir.secrets)


@pytest.mark.parametrize("content", ["", "api_key = 1\n", "not toml"])
def test_damaged_secrets_are_refused_by_path(data_dir: DataDir, content: str) -> None:
    write_private(data_dir.secrets, content)

    with pytest.raises(ConfigInvalid, match=str(data_dir.secrets)):
        load_or_create_secrets(data_dir.secrets)
