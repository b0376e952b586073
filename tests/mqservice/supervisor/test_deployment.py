"""Image, compose file, systemd units and Kubernetes manifests run what the supervisor runs."""

from __future__ import annotations

import asyncio
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from mqservice.celery import QUEUES
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.processes import ENGINE_START_MS, separate_worker_specs
from storage_engine.config import config_from_env
from storage_engine.server.metrics_server import Health, MetricsServer

ROOT = Path(__file__).resolve().parents[3]
ENGINE = ["-m", "storage_engine"]
WEB = ["-m", "mqservice.web"]
MIGRATE = ["-m", "django", "migrate", "--no-input"]
# What an installation says and no process of ours reads by itself.
OTHERS = {"DJANGO_SETTINGS_MODULE", "MQ_BIND", "MQ_WEB_REUSE_PORT", "FORWARDED_ALLOW_IPS"}

Env = dict[str, str]
Process = tuple[list[str], Env]


def compose() -> dict[str, Process]:
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    ours = {name: each for name, each in services.items() if "mqservice" in each["image"]}
    return {name: (each["command"], dict(each["environment"])) for name, each in ours.items()}


def systemd() -> dict[str, Process]:
    found = {}
    for path in (ROOT / "deploy/systemd").glob("*.service"):
        lines = path.read_text().splitlines()
        [command] = [line.partition("=")[2] for line in lines if line.startswith("ExecStart=")]
        settings = [line.partition("=")[2] for line in lines if line.startswith("Environment=")]
        env = dict(each.split("=", 1) for line in settings for each in line.split())
        name = path.stem.removeprefix("mqservice-").rstrip("@")
        found[name] = shlex.split(command.replace("%%", "%")), env
    return found


def kubernetes() -> dict[str, Process]:
    [pod] = [
        each["spec"]["template"]["spec"]
        for each in yaml.safe_load_all((ROOT / "deploy/kubernetes/mqservice.yaml").read_text())
        if each["kind"] == "StatefulSet"
    ]
    return {
        each["name"].removesuffix("-1").replace("web-2", "web"): (
            each["command"],
            {one["name"]: one["value"] for one in each.get("env", [])},
        )
        for each in [*pod["initContainers"], *pod["containers"]]
    }


def shared_of_pod() -> Env:
    """What all containers of the Pod are given."""
    text = (ROOT / "deploy/kubernetes/mqservice.yaml").read_text()
    [shared] = [each for each in yaml.safe_load_all(text) if each["kind"] == "ConfigMap"]
    return dict(shared["data"])


WAYS = {"compose": compose, "systemd": systemd, "kubernetes": kubernetes}


def essence(command: list[str]) -> list[str]:
    """Without the interpreter, which is elsewhere on each machine."""
    if command[0] == "celery":
        return ["-m", *command]
    return command[command.index("-m") :]


@pytest.mark.parametrize("way", WAYS)
def test_every_process_is_run_as_by_the_supervisor(way: str, tmp_path: Path) -> None:
    commands = {name: essence(command) for name, (command, _) in WAYS[way]().items()}
    wanted = {"engine": ENGINE, "web": WEB, "migrate": MIGRATE}
    for spec in separate_worker_specs({}, DataDir(tmp_path)):
        wanted[spec.name] = essence(list(spec.argv))
    assert commands == wanted


@pytest.mark.parametrize("way", WAYS)
def test_every_process_of_django_knows_which_it_is(way: str) -> None:
    env = {name: env.get("MQ_PROCESS") for name, (_, env) in WAYS[way]().items()}
    assert {name: name for name in env if name not in ("engine", "migrate")} == {
        name: which for name, which in env.items() if which is not None
    }


def test_the_supervisors_workers_take_every_queue_once(tmp_path: Path) -> None:
    queues = [
        queue
        for spec in separate_worker_specs({}, DataDir(tmp_path))
        for argument in spec.argv
        if argument.startswith("--queues=")
        for queue in argument.removeprefix("--queues=").split(",")
    ]
    assert sorted(queues) == sorted(QUEUES)


def test_what_the_image_says_of_workers_names_every_queue_once() -> None:
    text = (ROOT / "Dockerfile").read_text()
    queues = [
        queue for names in re.findall(r"^#.* -Q (\S+)", text, re.M) for queue in names.split(",")
    ]
    assert sorted(queues) == sorted(QUEUES)


def variables() -> Iterator[tuple[str, str]]:
    """Each variable that is set anywhere, and where."""
    for way, processes in WAYS.items():
        for name, (_, env) in processes().items():
            yield from ((f"{way} {name}", key) for key in env)
    text = (ROOT / "deploy/systemd/mqservice.env.example").read_text()
    yield from (("mqservice.env", key) for key in re.findall(r"^(\w+)=", text, re.M))
    for path in sorted((ROOT / "deploy/kubernetes").glob("*.yaml")):
        for each in yaml.safe_load_all(path.read_text()):
            keys = {**each.get("data", {}), **each.get("stringData", {})}
            yield from ((path.name, key) for key in keys)
    for line in re.findall(r"^ENV (.+(?:\\\n.+)*)", (ROOT / "Dockerfile").read_text(), re.M):
        yield from (("Dockerfile", key) for key in re.findall(r"(\w+)=", line))


def test_every_variable_is_one_that_is_read() -> None:
    settings = (ROOT / "mqservice/settings.py").read_text()
    known = OTHERS | {"PATH", "PYTHONUNBUFFERED"} | set(re.findall(r'"([A-Z_]+)"', settings))
    found = list(variables())
    unknown = [
        (where, name)
        for where, name in found
        if name not in known and not name.startswith("MQ_ENGINE_")
    ]
    assert len(found) > 50
    assert unknown == []


@pytest.mark.parametrize("way", WAYS)
def test_the_engine_takes_what_it_is_given(way: str) -> None:
    _, env = WAYS[way]()["engine"]
    if way == "kubernetes":
        env = {**shared_of_pod(), **env}
    config = config_from_env(env)
    assert config.socket.endswith("/engine.sock")
    assert config.metrics_port == 9_100


def engine_probes() -> dict[str, tuple[list[str], int]]:
    """What asks whether the engine is up, and for how many seconds it may say no at its start."""
    engine = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]["engine"]
    [pod] = [
        each["spec"]["template"]["spec"]
        for each in yaml.safe_load_all((ROOT / "deploy/kubernetes/mqservice.yaml").read_text())
        if each["kind"] == "StatefulSet"
    ]
    [probe] = [each["startupProbe"] for each in pod["initContainers"] if "startupProbe" in each]
    hours = int(engine["healthcheck"]["start_period"].removesuffix("h"))
    return {
        "compose": (engine["healthcheck"]["test"], hours * 3_600),
        "kubernetes": (
            probe["exec"]["command"],
            probe["failureThreshold"] * probe["periodSeconds"],
        ),
    }


@pytest.mark.parametrize("way", ["compose", "kubernetes"])
def test_an_engine_has_the_time_to_read_its_whole_log(way: str) -> None:
    _, seconds = engine_probes()[way]
    assert seconds * 1_000 >= ENGINE_START_MS


@pytest.mark.parametrize("way", ["compose", "kubernetes"])
async def test_an_engine_on_a_full_disk_counts_as_up_and_a_dead_one_does_not(way: str) -> None:
    command, _ = engine_probes()[way]
    full = MetricsServer(lambda: b"", lambda: Health(False, "the disk is full"))
    port = await full.start(0)
    argv = [each.replace("9100", str(port)) for each in command if each != "CMD"]

    async def asked() -> int:
        probe = await asyncio.create_subprocess_exec(
            sys.executable, *argv[1:], stderr=asyncio.subprocess.DEVNULL
        )
        return await probe.wait()

    assert await asked() == 0
    await full.stop()
    assert await asked() == 1


@pytest.mark.parametrize("way", ["systemd", "kubernetes"])
def test_web_processes_find_what_the_engine_measures(way: str) -> None:
    name = "MQ_ENGINE_METRICS_PORT"
    env = WAYS[way]()["web"][1]
    if way == "kubernetes":
        env = {**shared_of_pod(), **env}
    assert env[name] == "9100"


@pytest.mark.parametrize("name", ["analytics", "beat", "clock", "worker"])
def test_only_the_main_process_of_celery_is_told_to_stop(name: str) -> None:
    """By itself systemd tells each process: a mail half sent would be lost."""
    unit = (ROOT / f"deploy/systemd/mqservice-{name}.service").read_text()
    assert "KillMode=mixed\n" in unit


def test_migrations_wait_for_a_database_that_is_not_up_yet() -> None:
    unit = (ROOT / "deploy/systemd/mqservice-migrate.service").read_text()
    assert "ExecStartPre=/opt/mqservice/.venv/bin/python -P -m mqservice.supervisor.waiting" in unit
    assert "TimeoutStartSec=infinity" in unit


# The image ----------------------------------------------------------------------------------------


def stages() -> dict[str, list[tuple[str, str]]]:
    """Instructions of each stage, continued lines joined."""
    text = re.sub(r"\\\n\s*", "", (ROOT / "Dockerfile").read_text())
    found: dict[str, list[tuple[str, str]]] = {}
    for line in text.splitlines():
        if not line or line.startswith("#"):
            continue
        word, _, rest = line.partition(" ")
        if line.startswith("ARG BASE="):
            continue  # before the first stage
        if word == "FROM":
            _, _, name = rest.partition(" AS ")
            found[name] = []
        found[name].append((word, rest))
    return found


def test_every_stage_has_a_name_and_a_fixed_base() -> None:
    all_stages = stages()
    bases = [rest.partition(" AS ")[0] for each in all_stages.values() for _, rest in each[:1]]
    assert "" not in all_stages
    assert list(all_stages)[-1] == "service", "what is built when nothing is said"
    assert {base for base in bases if base not in all_stages} == {"${BASE}"}
    assert "\nARG BASE=debian:trixie-slim\n" in (ROOT / "Dockerfile").read_text()


def test_no_process_of_the_image_is_root() -> None:
    users = {
        name: [rest for word, rest in each if word == "USER"] for name, each in stages().items()
    }
    assert users == {
        "system": [],
        "packages": [],
        "base": ["mqservice"],
        "analytics": ["root", "mqservice"],
        "service": [],
    }


def test_everything_copied_into_the_image_is_there_and_pinned() -> None:
    for each in stages().values():
        for word, rest in each:
            assert word != "ADD"
            if word == "COPY" and not rest.startswith("--from"):
                *sources, _ = rest.split()
                assert all((ROOT / source).exists() for source in sources), rest
            if word == "RUN":
                for install in re.findall(r"pip install [^&]+", rest):
                    assert "--require-hashes" in install
                    assert "no-cache" in install
                for _ in re.findall(r"apt-get install", rest):
                    assert "--no-install-recommends" in rest
                    assert rest.endswith("rm -rf /var/lib/apt/lists/*")
            if word == "CMD":
                command: list[Any] = yaml.safe_load(rest)
                assert isinstance(command, list), "a shell would not pass SIGTERM on"


def test_every_container_of_the_pod_is_locked_and_bounded() -> None:
    text = (ROOT / "deploy/kubernetes/mqservice.yaml").read_text()
    [pod] = [
        each["spec"]["template"]["spec"]
        for each in yaml.safe_load_all(text)
        if each["kind"] == "StatefulSet"
    ]
    assert pod["securityContext"]["runAsNonRoot"] is True
    for container in [*pod["initContainers"], *pod["containers"]]:
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert "memory" in container["resources"]["limits"]
    engine = next(each for each in pod["initContainers"] if each["name"] == "engine")
    assert engine["restartPolicy"] == "Always", "a sidecar starts before the others and stops last"
