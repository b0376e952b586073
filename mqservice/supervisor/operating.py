"""Commands of the operator on a service's data directory: Django commands in its environment.

secrets.toml, ports.json, MQ_* ──▶ [run_command] ──▶ python -m django NAME ──▶ its output
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from mqservice.supervisor import postgres, valkey
from mqservice.supervisor.config import config_from_env
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.errors import ConfigInvalid, StartFailed
from mqservice.supervisor.ports import remembered_ports
from mqservice.supervisor.processes import PYTHON, service_env
from mqservice.supervisor.secrets_file import load_or_create_secrets

TIMEOUT_S: Final = 120
_UNSAID: Final = "the command said nothing"


def run_command(
    environ: Mapping[str, str], data_dir: Path, arguments: Sequence[str], **more: str
) -> str:
    """What a Django command prints. PostgreSQL must be running, the rest of the service need not.

    Args:
        more: variables for this command alone, such as a password.

    Raises ConfigInvalid where no service was ever started, or StartFailed with the command's words.
    """
    place = DataDir(data_dir)
    if not place.secrets.exists():
        raise ConfigInvalid(f"no service was started in {data_dir} yet: run `mqservice up` first")
    config = config_from_env({**environ, "MQ_DATA_DIR": str(data_dir)})
    secrets, ports = load_or_create_secrets(place.secrets), remembered_ports(place.ports)
    if config.database_url is None and "postgres" not in ports:
        raise ConfigInvalid(f"{place.ports} names no PostgreSQL: give DATABASE_URL")
    env = service_env(
        environ,
        config,
        secrets,
        database_url=config.database_url
        or postgres.service_url(secrets.postgres_password, ports["postgres"]),
        valkey_url=config.valkey_url
        or valkey.service_url(secrets.valkey_password, ports.get("valkey", 0)),
    )
    try:
        done = subprocess.run(
            [*PYTHON, "django", *arguments],
            env={**env, **more},
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
        said = [line for line in done.stderr.splitlines() if line.strip()]
        raise StartFailed(said[-1] if said else _UNSAID)
    return done.stdout
