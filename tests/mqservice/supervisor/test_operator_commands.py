"""In which environment the operator's commands run."""

from __future__ import annotations

import os
import socket
from pathlib import Path

import pytest

from mqservice.supervisor.errors import ConfigInvalid, StartFailed
from mqservice.supervisor.operator_commands import run_command, stream_command

URL = "postgresql://somebody:secret@db.example:5432/queue"
SAY = [
    "shell",
    "--no-imports",
    "-c",
    "from django.conf import settings as s; print(s.MQ_DATABASE_URL)",
]


def environment(url: str) -> dict[str, str]:
    return {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": os.environ.get("PYTHONPATH", ""),
        "MQ_SECRET_KEY": "k" * 40,
        "DATABASE_URL": url,
    }


def test_in_a_container_what_the_environment_says_is_enough(tmp_path: Path) -> None:
    url_file = tmp_path / "url"
    url_file.write_text(URL)
    told = environment("") | {"DATABASE_URL_FILE": str(url_file)}
    assert run_command(told, tmp_path, SAY).strip() == URL


def test_a_directory_of_no_service_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigInvalid, match="mqservice up"):
        run_command({"MQ_SECRET_KEY": "k" * 40}, tmp_path, SAY)


def test_a_database_that_does_not_respond_is_what_the_command_names(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        env = environment(f"postgresql://mq:x@127.0.0.1:{port}/mq?connect_timeout=2")
        with pytest.raises(StartFailed, match=r"^cannot use PostgreSQL now: .*time"):
            run_command(env, tmp_path, ["shard", "list"])
    split = ["split_shard", "main", "s2", "--namespace=demo"]
    with pytest.raises(StartFailed, match=f"^cannot use PostgreSQL now: .* port {port} failed"):
        list(stream_command(env, tmp_path, split))


def test_a_command_that_is_killed_says_so(tmp_path: Path) -> None:
    killed = ["shell", "--no-imports", "-c", "import os; os.kill(os.getpid(), 9)"]
    with pytest.raises(StartFailed, match="shell was killed by SIGKILL"):
        run_command(environment(URL), tmp_path, killed)
    quiet = ["shell", "--no-imports", "-c", "import os; os._exit(3)"]
    with pytest.raises(StartFailed, match="shell ended with exit code 3 and printed no reason"):
        list(stream_command(environment(URL), tmp_path, quiet))
