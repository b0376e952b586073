"""In which environment the operator's commands run."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from mqservice.supervisor.errors import ConfigInvalid
from mqservice.supervisor.operator_commands import run_command

URL = "postgresql://somebody:secret@db.example:5432/queue"
SAY = [
    "shell",
    "--no-imports",
    "-c",
    "from django.conf import settings as s; print(s.MQ_DATABASE_URL)",
]


def test_in_a_container_what_the_environment_says_is_enough(tmp_path: Path) -> None:
    url_file = tmp_path / "url"
    url_file.write_text(URL)
    told = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "MQ_SECRET_KEY": "k" * 40,
        "DATABASE_URL_FILE": str(url_file),
    }
    assert run_command(told, tmp_path, SAY).strip() == URL


def test_a_directory_of_no_service_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="mqservice up"):
        run_command({"MQ_SECRET_KEY": "k" * 40}, tmp_path, SAY)
