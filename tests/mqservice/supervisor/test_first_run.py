"""The command between the databases and the web: what it is told, and how its failures are said."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

from mqservice.supervisor import first_run
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import StartFailed
from mqservice.supervisor.first_run import Preparation
from mqservice.supervisor.output import Output
from mqservice.supervisor.secrets_file import load_or_create_secrets

GONE = "postgresql://nobody:none@127.0.0.1:1/none"


class Program:
    """A directory in which ``python -m django prepare`` is a script of the test's."""

    def __init__(self, directory: Path) -> None:
        self.data_dir = DataDir(directory / "data")
        self.data_dir.create()
        self.output = Output(self.data_dir.logs, is_quiet=True)
        self._modules = directory / "modules"
        self._modules.mkdir()

    def env(self, script: str) -> Mapping[str, str]:
        (self._modules / "django.py").write_text("import os, sys\n" + script)
        return {**os.environ, "PYTHONPATH": str(self._modules)}

    async def start(self, env: Mapping[str, str]) -> Preparation:
        preparation = Preparation(self.output)
        await preparation.start(env, self.data_dir, load_or_create_secrets(self.data_dir.secrets))
        return preparation


@pytest.fixture
def program(tmp_path: Path) -> Iterator[Program]:
    made = Program(tmp_path)
    yield made
    made.output.close()


FACTS = (
    '{"namespace": "demo", "topic": "orders", "group": "billing", "username": "admin", '
    '"password": "p", "api_key": "%s"}'
)


async def test_it_begins_when_told_and_says_what_it_made(program: Program) -> None:
    env = program.env(
        "assert sys.stdin.readline() == 'go\\n'\n"
        "print('tables', flush=True)\n"
        "assert sys.stdin.readline() == 'go\\n'\n"
        f"print({FACTS!r} % os.environ['MQ_BOOTSTRAP_API_KEY'])\n"
    )
    preparation = await program.start(env)
    await preparation.tables()
    await preparation.demo()
    facts = await preparation.facts()
    assert facts.api_key == load_or_create_secrets(program.data_dir.secrets).api_key
    assert facts.topic == "orders"


async def test_a_failure_is_reported_with_its_last_lines(program: Program) -> None:
    preparation = await program.start(program.env("sys.exit('no such column: colour')"))
    with pytest.raises(StartFailed, match=r"prepare ended with exit code 1.\n  no such column"):
        await preparation.tables()
    await preparation.end()
    log = program.data_dir.logs / "prepare.log"
    assert log.read_text() == "no such column: colour\n"


async def test_a_refusal_written_for_the_user_is_all_that_is_shown(program: Program) -> None:
    preparation = await program.start(program.env("sys.exit('CommandError: Start the newer one.')"))
    with pytest.raises(StartFailed) as failure:
        await preparation.tables()
    await preparation.end()
    assert str(failure.value) == "Start the newer one."


async def test_a_database_that_is_gone_is_named(program: Program) -> None:
    """The real command, with the name under which ``mqservice up`` starts it: web processes say of
    a database only that they got no connection.
    """
    env = {
        **os.environ,
        "MQ_PROCESS": "manage",
        "DATABASE_URL": GONE,
        "MQ_DATA_DIR": str(program.data_dir.path),
    }
    preparation = await program.start(env)
    with pytest.raises(StartFailed, match="cannot use PostgreSQL now") as failure:
        await preparation.tables()
    assert "127.0.0.1" in str(failure.value), str(failure.value)


async def test_one_that_does_not_continue_is_ended(
    program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(first_run, "TIMEOUT_S", 0.1)
    preparation = await program.start(program.env("sys.stdin.readlines()"))
    with pytest.raises(StartFailed, match="prepare made no progress"):
        await preparation.tables()
    await preparation.end()


async def test_it_ends_unasked_when_the_start_is_given_up(program: Program) -> None:
    preparation = await program.start(program.env("sys.stdin.readlines()"))
    await preparation.end()
    await preparation.end()  # a second time does no harm
