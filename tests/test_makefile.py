"""``make clean`` on a data directory: what the service has made goes, all else stays."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

from mqservice.supervisor.data_dir import DataDir

ROOT = Path(__file__).resolve().parents[1]


def cleaned(folder: Path, data_dir: Path) -> None:
    """In ``folder``, which is no checkout: the environment and caches of this one must stay."""
    env = {**os.environ, "MQ_DATA_DIR": str(data_dir)}
    subprocess.run(
        ["make", "-f", str(ROOT / "Makefile"), "clean"],
        cwd=folder, env=env, check=True, capture_output=True,
    )  # fmt: skip


def test_what_is_left_of_a_service_does_not_keep_the_next_one_from_starting(tmp_path: Path) -> None:
    data_dir = DataDir(tmp_path / "var")
    data_dir.create()
    data_dir.lock.touch()
    for name in ("pg", "valkey", "mail", "lake", "reports"):
        (data_dir.path / name).mkdir(exist_ok=True)
        (data_dir.path / name / "file").touch()
    data_dir.secrets.touch()
    cleaned(tmp_path, data_dir.path)
    assert not data_dir.path.exists()
    data_dir.create()


def test_a_directory_of_someone_else_stays_as_it_is(tmp_path: Path) -> None:
    other = tmp_path / "home"
    (other / "store").mkdir(parents=True)
    (other / "store" / "file").touch()
    cleaned(tmp_path, other)
    assert (other / "store" / "file").exists()
