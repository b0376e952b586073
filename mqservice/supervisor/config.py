"""The supervisor's settings from the environment, with every limit it works under."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from mqservice.supervisor.errors import ConfigInvalid

PORT_MAX: Final = 65_535
WEB_WORKERS_MAX: Final = 64
WEB_WORKERS_DEFAULT_MAX: Final = (
    2  # more is a decision about memory and connections, so it is asked for
)


@dataclass(frozen=True, slots=True, kw_only=True)
class SupervisorConfig:
    """One run of the service. A URL that is given means: do not start that server."""

    data_dir: Path
    bind: str = "127.0.0.1"
    port: int = 8000
    web_worker_count: int = 1
    has_separate_workers: bool = False
    database_url: str | None = None
    valkey_url: str | None = None
    public_base_url: str | None = None
    shards: str = ""  # MQ_SHARDS; empty: the main one, and nobody is told of it
    standby: str = ""  # MQ_STANDBY: those that it could take over
    node: str = ""  # what others know this machine by; empty: its host name

    @property
    def base_url(self) -> str:
        """Where clients of this machine reach the service, without a slash at the end."""
        if self.public_base_url is not None:
            return self.public_base_url.rstrip("/")
        return self.own_url

    @property
    def own_url(self) -> str:
        """Our own port, which a public base URL may lead to only through a proxy."""
        host = "127.0.0.1" if self.bind in ("0.0.0.0", "::", "") else self.bind
        return f"http://{host}:{self.port}"


def data_dir_from_env(env: Mapping[str, str]) -> Path:
    """The absolute path of ``MQ_DATA_DIR``; ``./var`` by default. Need not exist."""
    return Path(env.get("MQ_DATA_DIR") or "var").expanduser().absolute()


def config_from_env(env: Mapping[str, str]) -> SupervisorConfig:
    """Raises ConfigInvalid, naming the variable, when one cannot be used."""
    # One core is the engine's: measured on two, a second web process only makes both switch more.
    default_workers = min(WEB_WORKERS_DEFAULT_MAX, max(1, (os.cpu_count() or 1) - 1))
    return SupervisorConfig(
        data_dir=data_dir_from_env(env),
        bind=env.get("MQ_BIND") or "127.0.0.1",
        port=_number(env, "MQ_PORT", default=8000, highest=PORT_MAX),
        web_worker_count=_number(
            env, "MQ_WEB_WORKERS", default=default_workers, highest=WEB_WORKERS_MAX
        ),
        has_separate_workers=_flag(env, "MQ_SEPARATE_WORKERS"),
        database_url=_url(env, "DATABASE_URL", ("postgresql://", "postgres://")),
        valkey_url=_url(env, "VALKEY_URL", ("redis://", "rediss://", "unix://")),
        public_base_url=_url(env, "MQ_BASE_URL", ("http://", "https://")),
        shards=env.get("MQ_SHARDS", ""),
        standby=env.get("MQ_STANDBY", ""),
        node=env.get("MQ_NODE", ""),
    )


def _number(env: Mapping[str, str], name: str, *, default: int, highest: int) -> int:
    text = env.get(name) or str(default)
    if not text.isascii() or not text.isdigit() or not 1 <= int(text) <= highest:
        raise ConfigInvalid(f"{name} must be a whole number from 1 to {highest}, not {text!r}.")
    return int(text)


def _flag(env: Mapping[str, str], name: str) -> bool:
    text = env.get(name) or "0"
    if text not in ("0", "1"):
        raise ConfigInvalid(f"{name} must be 1 or 0, not {text!r}.")
    return text == "1"


def _url(env: Mapping[str, str], name: str, schemes: tuple[str, ...]) -> str | None:
    text = env.get(name)
    if not text:
        return None
    if not text.startswith(schemes):
        # The value may hold a password, so it is not repeated.
        raise ConfigInvalid(f"{name} must begin with {' or '.join(schemes)}.")
    return text
