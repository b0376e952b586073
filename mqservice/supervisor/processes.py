"""Our own programs as the supervisor runs them: engine, web workers, Celery workers and beat."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from mqservice.lib.durations import HOUR_MS
from mqservice.lib.names import MAIN_SHARD
from mqservice.lib.replicated_log import engine_log_env, has_replicated_log
from mqservice.supervisor.child import ChildSpec
from mqservice.supervisor.config import PORT_MAX, SupervisorConfig
from mqservice.supervisor.data_dir import SEGMENT_BYTES, DataDir
from mqservice.supervisor.errors import ConfigInvalid
from mqservice.supervisor.readiness import is_listening, is_running, is_unix_socket_open
from mqservice.supervisor.secrets_file import Secrets
from mqservice.supervisor.shard_engines import ShardPlace

METRICS_PORT_VARIABLE: Final = "MQ_ENGINE_METRICS_PORT"
SHARD_METRICS_PORTS_VARIABLE: Final = "MQ_SHARD_METRICS_PORTS"
# Ticks and sweeps have a process of their own, so that nothing long ever stands before them.
CLOCK_QUEUES: Final = "delay,control"
WORKER_QUEUES: Final = "persist,sampling,tasks,alerts"
# Spark runs for minutes or hours: one at a time, and nothing waits behind it.
ANALYTICS_QUEUES: Final = "analytics"
WORKER_CONCURRENCY: Final = 2
# How long each has to end by itself. A web process gives clients two seconds to settle what they
# hold and ten in all; the runs of `analytics` are repeated, and waiting for one may take hours.
ENGINE_STOP_MS: Final = 20_000
# Without a checkpoint, as after a restore, an engine reads its whole log before it opens its door:
# 1 TiB in messages of 1 KiB takes three hours. One that is ended sooner would begin anew for ever.
ENGINE_START_MS: Final = 6 * HOUR_MS
# Of a shard with a replicated log: it gave it up, or another engine took it over.
ENGINE_ORDERED_EXITS: Final = frozenset({0, 5})
WEB_STOP_MS: Final = 15_000
WORKER_STOP_MS: Final = 10_000
ANALYTICS_STOP_MS: Final = 4_000
_FOR_ANY_PROGRAM: Final = frozenset(
    {"PATH", "HOME", "USER", "LOGNAME", "LANG", "TZ", "TMPDIR", "VIRTUAL_ENV", "LD_LIBRARY_PATH"}
)
_FOR_THE_ENGINE: Final = ("MQ_ENGINE_", "PYTHON", "LC_", "MALLOC_")
# -P: the working directory is the data directory, and nothing in it may be imported.
PYTHON: Final = (sys.executable, "-P", "-m")
# In a container there is often only root, and Celery's advice against it would come each time.
_ROOT_IS_MEANT: Final = "ignore:You're running the worker"


def service_env(
    base: Mapping[str, str],
    config: SupervisorConfig,
    secrets: Secrets,
    *,
    database_url: str,
    valkey_url: str,
) -> dict[str, str]:
    """Environment of every process of ours: the user's own plus what this run decided."""
    data_dir = DataDir(config.data_dir)
    # Compiled modules are kept, whatever the surroundings say: a thousand are compiled otherwise by
    # each process at each start, which takes longer than all else. Where ours may not be written,
    # they are kept with the data.
    kept = {name: value for name, value in base.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if not os.access(Path(__file__).parent, os.W_OK):
        kept.setdefault("PYTHONPYCACHEPREFIX", str(data_dir.path / "pycache"))
    return {
        **kept,
        "PYTHONUNBUFFERED": "1",
        "DJANGO_SETTINGS_MODULE": base.get("DJANGO_SETTINGS_MODULE") or "mqservice.settings",
        "MQ_PROCESS": "manage",
        "MQ_DATA_DIR": str(config.data_dir),
        "MQ_BIND": config.bind,
        "MQ_PORT": str(config.port),
        "MQ_BASE_URL": config.base_url,
        "MQ_SECRET_KEY": base.get("MQ_SECRET_KEY") or secrets.django_key,
        "MQ_ENGINE_STORE_DIR": str(data_dir.store),
        "MQ_ENGINE_SOCKET": str(data_dir.engine_socket),
        "DATABASE_URL": database_url,
        "VALKEY_URL": valkey_url,
    }


def engine_metrics_ports(env: Mapping[str, str], chosen: Mapping[str, int]) -> dict[str, int]:
    """Where the engine of each shard answers Prometheus: ``chosen``, unless the user names the port
    of the first one, which the others follow; 0 for nowhere. The main shard is the first, and the
    others come by name.

    Raises ConfigInvalid.
    """
    text = env.get(METRICS_PORT_VARIABLE)
    if not text:
        return dict(chosen)
    port_max = PORT_MAX - len(chosen) + 1
    if not text.isascii() or not text.isdigit() or int(text) > port_max:
        raise ConfigInvalid(
            f"{METRICS_PORT_VARIABLE} must be a whole number from 0 to {port_max}, not {text!r}."
        )
    first = int(text)
    names = sorted(chosen, key=lambda name: (name != MAIN_SHARD, name))
    return {name: first + at if first else 0 for at, name in enumerate(names)}


def segment_bytes(env: Mapping[str, str]) -> int:
    """Size of a file of the log; of a value that the engine rejects, the usual one."""
    text = env.get("MQ_ENGINE_SEGMENT_BYTES", "")
    return int(text) if text.isascii() and text.isdigit() else SEGMENT_BYTES


def engine_env(env: Mapping[str, str]) -> dict[str, str]:
    """Its own settings and what any program needs: of other servers no address, key or password
    but those of the replicated log.

    Whoever reads the engine's memory or its ``/proc/PID/environ`` finds none there.
    """
    own = {
        name: value
        for name, value in env.items()
        if name in _FOR_ANY_PROGRAM or name.startswith(_FOR_THE_ENGINE)
    }
    return {**own, **engine_log_env(env)}


def engine_name(place: ShardPlace | None) -> str:
    """Of the process: the main one's is what it is without shards."""
    return "engine" if place is None or place.name == MAIN_SHARD else f"engine-{place.name}"


def engine_spec(
    env: Mapping[str, str],
    data_dir: DataDir,
    *,
    metrics_port: int,
    place: ShardPlace | None = None,
) -> ChildSpec:
    """``place``: of one of several shards; None: the only engine."""
    own = {} if place is None else place.engine_env(env)
    path = data_dir.engine_socket if place is None else place.socket
    program = [*PYTHON, "storage_engine"]
    ordered_exits: frozenset[int] = frozenset()
    if place is not None and has_replicated_log(env):
        # It begins as a replica and serves nobody: see ``shard_owners.py``.
        path = place.control
        program.append("follow")
        ordered_exits = ENGINE_ORDERED_EXITS

    async def gate(pid: int) -> bool:
        return await is_unix_socket_open(path)

    return ChildSpec(
        name=engine_name(place),
        argv=tuple(program),
        env={**engine_env(env), METRICS_PORT_VARIABLE: str(metrics_port), **own},
        gate=gate,
        cwd=data_dir.path,
        refusal="storage_engine: ",
        ordered_exits=ordered_exits,
        start_timeout_ms=ENGINE_START_MS,
        stop_timeout_ms=ENGINE_STOP_MS,
    )


def web_specs(
    env: Mapping[str, str], config: SupervisorConfig, *, metrics_ports: Mapping[str, int]
) -> list[ChildSpec]:
    """One spec for each web worker; they share the port and the kernel spreads connections. They
    show operators what the engines say on ``metrics_ports``.
    """
    others = [
        f"{shard}={port}" for shard, port in metrics_ports.items() if port and shard != MAIN_SHARD
    ]
    told = {METRICS_PORT_VARIABLE: str(metrics_ports[MAIN_SHARD])}
    if others:
        told[SHARD_METRICS_PORTS_VARIABLE] = ",".join(others)

    async def gate(pid: int) -> bool:
        return await is_listening(pid, config.port)

    return [
        ChildSpec(
            name=f"web-{number}",
            argv=(*PYTHON, "mqservice.web"),
            env={
                **env,
                "MQ_PROCESS": "web",
                "MQ_WEB_REUSE_PORT": "1",
                "MQ_WEB_WORKERS": str(config.web_worker_count),
                **told,
            },
            gate=gate,
            cwd=config.data_dir,
            stop_timeout_ms=WEB_STOP_MS,
        )
        for number in range(1, config.web_worker_count + 1)
    ]


def worker_spec(env: Mapping[str, str], data_dir: DataDir) -> ChildSpec:
    """All background work in one process."""
    return _background_spec("worker", ("mqservice.worker",), env, data_dir)


def separate_worker_specs(env: Mapping[str, str], data_dir: DataDir) -> list[ChildSpec]:
    """The same work in workers by duty, and beat, as larger installations run them."""
    celery = ("celery", "--quiet", "-A", "mqservice")
    programs = {
        "clock": _worker("clock", CLOCK_QUEUES, concurrency=1),
        "worker": _worker("worker", WORKER_QUEUES, concurrency=WORKER_CONCURRENCY),
        "analytics": _worker("analytics", ANALYTICS_QUEUES, concurrency=1),
        "beat": ("beat", "--loglevel=WARNING"),
    }
    return [
        _background_spec(name, (*celery, *arguments), env, data_dir)
        for name, arguments in programs.items()
    ]


def _background_spec(
    name: str, program: tuple[str, ...], env: Mapping[str, str], data_dir: DataDir
) -> ChildSpec:
    """It gives no sign of readiness that is worth waiting for."""
    return ChildSpec(
        name=name,
        argv=(sys.executable, "-W", _ROOT_IS_MEANT, "-P", "-m", *program),
        env={**env, "MQ_PROCESS": name},
        gate=is_running,
        cwd=data_dir.path,
        stop_timeout_ms=ANALYTICS_STOP_MS if name == "analytics" else WORKER_STOP_MS,
    )


def _worker(name: str, queues: str, *, concurrency: int) -> tuple[str, ...]:
    return (
        "worker",
        f"--hostname={name}@%h",
        f"--queues={queues}",
        f"--concurrency={concurrency}",
        "--without-mingle",
        "--without-gossip",
        "--without-heartbeat",
        "--loglevel=WARNING",  # beat sends several tasks a second; only trouble is news
    )
