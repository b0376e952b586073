"""``make clean`` on a data directory: what the service has made goes, all else stays."""

from __future__ import annotations

import os
import shutil
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


def test_a_machine_without_a_suitable_python_is_told_which_were_found(tmp_path: Path) -> None:
    folder, programs = tmp_path / "checkout", tmp_path / "bin"
    folder.mkdir()
    programs.mkdir()
    (folder / "requirements-bootstrap.lock").touch()
    (folder / "requirements.lock").touch()
    for program in ("sh", "make"):
        (programs / program).symlink_to(str(shutil.which(program)))
    for name, version in (("python3", "3.10"), ("python3.14", "3.15"), ("python3.11", "3.11")):
        has_venv = 'case "$2" in *version*) echo ' + version + ";; *) exit 1;; esac"
        (programs / name).write_text(f"#!{programs}/sh\n{has_venv}\n")
        (programs / name).chmod(0o755)

    done = subprocess.run(
        ["make", "-f", str(ROOT / "Makefile"), "run"],
        cwd=folder, env={"PATH": str(programs)}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 2
    assert done.stderr.splitlines()[:2] == [
        "Python 3.11 to 3.14 is needed. Looked for python3 (is 3.10), python3.14 (is 3.15), "
        "python3.13 (not found), python3.12 (not found), python3.11 (3.11 without venv; on Debian: "
        "apt-get install python3.11-venv), python (not found).",
        "Install one of them, or name it: make PYTHON=/path/to/python3 …",
    ]
    assert not (folder / ".venv").exists()


def run_tests(folder: Path, *, mypy: str, pytest: str) -> subprocess.CompletedProcess[str]:
    """``make test`` with an environment whose programs do nothing else than what is given here."""
    programs = folder / ".venv" / "bin"
    programs.mkdir(parents=True)
    scripts = {
        "python": f'case "$*" in *collect-only*) ;; *"pytest -n"*) {pytest};; esac',
        "mypy": mypy, "ruff": "true", "lint-imports": "true",
    }  # fmt: skip
    for name, script in scripts.items():
        (programs / name).write_text(f"#!/bin/sh\n{script}\n")
        (programs / name).chmod(0o755)
    # What a make that runs these tests was given is not for this one.
    env = {name: value for name, value in os.environ.items() if "MAKE" not in name}
    return subprocess.run(
        ["make", "-f", str(ROOT / "Makefile"), "-o", ".venv/.test-ready", "test"],
        cwd=folder, env=env, capture_output=True, text=True, check=False,
    )  # fmt: skip


def test_mypy_runs_beside_the_tests_and_what_it_finds_is_the_last_that_is_shown(
    tmp_path: Path,
) -> None:
    ends_with_tests = "until [ -f tested ]; do sleep 0.01; done"
    good = run_tests(
        tmp_path / "good", mypy=f"{ends_with_tests}; echo no issues", pytest="touch tested"
    )
    assert good.returncode == 0, good.stdout
    assert good.stdout.splitlines()[-1] == "no issues"

    bad = run_tests(tmp_path / "bad", mypy="echo wrong type; exit 1", pytest="echo all passed")
    assert bad.returncode == 2
    assert bad.stdout.splitlines()[-2:] == ["mypy failed:", "wrong type"]
    assert "all passed" in bad.stdout

    failed = run_tests(tmp_path / "failed", mypy="true", pytest="exit 1")
    assert failed.returncode == 2
