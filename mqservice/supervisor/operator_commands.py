"""Operator commands on a service's data directory: Django commands in its environment.

MQ_SECRET_KEY, DATABASE_URL, or     ──▶ [run_command] ──▶ python -m django NAME ──▶ its output
secrets.toml, ports.json of ``up``
"""

from __future__ import annotations

import signal
import subprocess
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from mqservice.supervisor import postgres, valkey
from mqservice.supervisor.config import config_from_env
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import ConfigInvalid, StartFailed
from mqservice.supervisor.first_run import REFUSAL
from mqservice.supervisor.ports import remembered_ports
from mqservice.supervisor.processes import PYTHON, service_env
from mqservice.supervisor.secrets_file import load_or_create_secrets

TIMEOUT_S: Final = 120
SETTINGS: Final = "mqservice.settings"


def run_command(
    environ: Mapping[str, str], data_dir: Path, arguments: Sequence[str], **more: str
) -> str:
    """What a Django command prints. PostgreSQL must be running, the rest of the service need not.

    Args:
        more: variables for this command alone, such as a password.

    Raises ConfigInvalid where no service was ever started, or StartFailed with the command's words.
    """
    env = service_environment(environ, data_dir)
    try:
        done = subprocess.run(
            [*PYTHON, "django", *arguments],
            env={"DJANGO_SETTINGS_MODULE": SETTINGS, **env, **more},
            cwd=data_dir,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise StartFailed(f"{arguments[0]} did not end within {TIMEOUT_S} s.") from None
    if done.returncode != 0:
        raise _failure(arguments[0], done.returncode, done.stderr)
    return done.stdout


def stream_command(
    environ: Mapping[str, str], data_dir: Path, arguments: Sequence[str]
) -> Iterator[str]:
    """The lines of a Django command that may take long, as it prints them. Raises as
    ``run_command``, at the end.
    """
    env = service_environment(environ, data_dir)
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            [*PYTHON, "django", *arguments],
            env={"DJANGO_SETTINGS_MODULE": SETTINGS, **env},
            cwd=data_dir,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            text=True,
        ) as process,
    ):
        assert process.stdout is not None
        yield from process.stdout
        if (code := process.wait()) != 0:
            errors.seek(0)
            raise _failure(arguments[0], code, errors.read().decode("utf-8", "replace"))


def _failure(command: str, code: int, stderr: str) -> StartFailed:
    """How the command ended, and its last words if it had any."""
    said = [line.strip() for line in stderr.splitlines() if line.strip()]
    if code < 0:
        return StartFailed(f"{command} was killed by {signal.Signals(-code).name}.")
    if not said:
        return StartFailed(f"{command} ended with exit code {code} and printed no reason.")
    return StartFailed(said[-1].removeprefix(REFUSAL))


def service_environment(environ: Mapping[str, str], data_dir: Path) -> dict[str, str]:
    """That of a process of the service. Raises ConfigInvalid where no service was ever started."""
    return dict(environ) if _has_service_environment(environ) else _env_of_up(environ, data_dir)


def _has_service_environment(environ: Mapping[str, str]) -> bool:
    """Whether the environment is that of a process of the service, as in a container."""
    return all(
        environ.get(name) or environ.get(f"{name}_FILE")
        for name in ("MQ_SECRET_KEY", "DATABASE_URL")
    )


def _env_of_up(environ: Mapping[str, str], data_dir: Path) -> dict[str, str]:
    """That of the processes that ``mqservice up`` starts. Raises ConfigInvalid."""
    place = DataDir(data_dir)
    if not place.secrets.exists():
        raise ConfigInvalid(f"no service was started in {data_dir} yet: run `mqservice up` first")
    config = config_from_env({**environ, "MQ_DATA_DIR": str(data_dir)})
    secrets, ports = load_or_create_secrets(place.secrets), remembered_ports(place.ports)
    if config.database_url is None and "postgres" not in ports:
        raise ConfigInvalid(f"{place.ports} does not say where PostgreSQL is: set DATABASE_URL")
    return service_env(
        environ,
        config,
        secrets,
        database_url=config.database_url
        or postgres.service_url(secrets.postgres_password, ports["postgres"]),
        valkey_url=config.valkey_url
        or valkey.service_url(secrets.valkey_password, ports.get("valkey", 0)),
    )
