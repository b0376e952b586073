"""Commands that run to their end between two stages: migrations, and the demo tenant.

manage.py migrate ──▶ tables          manage.py bootstrap_demo ──▶ one JSON line ──▶ DemoFacts
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping
from typing import Final

import msgspec

from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import StartFailed
from mqservice.supervisor.output import Output
from mqservice.supervisor.secrets_file import Secrets

COMMAND_TIMEOUT_S: Final = 180
TAIL_LINES_MAX: Final = 15


class DemoFacts(msgspec.Struct, frozen=True, kw_only=True):
    """What ``bootstrap_demo`` made or found."""

    namespace: str
    topic: str
    group: str
    api_key: str
    username: str
    password: str


async def migrate(env: Mapping[str, str], data_dir: DataDir, output: Output) -> None:
    """Brings the database to this version's tables. Raises StartFailed."""
    await _run_command("migrate", ("--no-input",), env, data_dir, output)


async def bootstrap_demo(
    env: Mapping[str, str], data_dir: DataDir, output: Output, secrets: Secrets
) -> DemoFacts:
    """Makes the demo tenant, or finds that of an earlier start. Raises StartFailed."""
    extended = {
        **env,
        "MQ_BOOTSTRAP_PASSWORD": secrets.admin_password,
        "MQ_BOOTSTRAP_API_KEY": secrets.api_key,
    }
    text = await _run_command("bootstrap_demo", (), extended, data_dir, output)
    last_line = text.strip().rpartition("\n")[2]
    try:
        return msgspec.json.decode(last_line, type=DemoFacts)
    except msgspec.DecodeError as error:
        raise StartFailed(f"bootstrap_demo printed something unexpected: {error}") from error


async def _run_command(
    command: str,
    arguments: tuple[str, ...],
    env: Mapping[str, str],
    data_dir: DataDir,
    output: Output,
) -> str:
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-P",
        "-m",
        "django",
        command,
        *arguments,
        env=dict(env),
        cwd=data_dir.path,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        start_new_session=True,
    )
    try:
        async with asyncio.timeout(COMMAND_TIMEOUT_S):
            stdout, stderr = await process.communicate()
    except TimeoutError:
        raise StartFailed(f"{command} did not end within {COMMAND_TIMEOUT_S} s.") from None
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    lines = stderr.decode("utf-8", "replace").splitlines()
    for line in lines:
        output.write(command, line)
    if process.returncode != 0:
        tail = "\n".join(f"  {line}" for line in lines[-TAIL_LINES_MAX:])
        raise StartFailed(f"{command} ended with exit code {process.returncode}.\n{tail}")
    return stdout.decode("utf-8", "replace")
