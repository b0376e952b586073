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
from mqservice.supervisor.config import SupervisorConfig
from mqservice.supervisor.config import config_from_env as supervisor_config_from_env
from mqservice.supervisor.data_dir import DataDir
from mqservice.supervisor.processes import (
    ENGINE_START_MS,
    engine_metrics_ports,
    separate_worker_specs,
)
from mqservice.supervisor.shard_engines import read_places
from storage_engine.config import config_from_env
from storage_engine.server.metrics_server import Health, MetricsServer

ROOT = Path(__file__).resolve().parents[3]
ENGINE = ["-m", "storage_engine"]
WEB = ["-m", "mqservice.web"]
MIGRATE = ["-m", "django", "migrate", "--no-input"]
# What an installation says and no process of ours reads by itself.
OTHERS = {
    "DJANGO_SETTINGS_MODULE", "MQ_BIND", "MQ_WEB_REUSE_PORT", "FORWARDED_ALLOW_IPS", "POD_IP",
}  # fmt: skip

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


def cluster_compose() -> dict[str, Process]:
    services = yaml.safe_load((ROOT / "compose.cluster.yaml").read_text())["services"]
    ours = {name: each for name, each in services.items() if "mqservice" in each["image"]}
    return {name: (each["command"], dict(each["environment"])) for name, each in ours.items()}


def cluster_objects() -> list[dict[str, Any]]:  # Any: Kubernetes' own shapes
    """All that the cluster's manifest makes."""
    documents = yaml.safe_load_all((ROOT / "deploy/kubernetes/cluster.yaml").read_text())
    return [each for document in documents for each in document.get("items", [document])]


def cluster_pods() -> dict[str, dict[str, Any]]:  # Any: as above
    """Pods by the names of what makes them."""
    return {
        each["metadata"]["name"]: each["spec"]["template"]["spec"]
        for each in cluster_objects()
        if each["kind"] in ("Deployment", "Job")
    }


def cluster_kubernetes() -> dict[str, Process]:
    return {
        each["name"]: (
            each["command"],
            {one["name"]: one.get("value", "10.0.0.1") for one in each.get("env", [])},
        )
        for pod in cluster_pods().values()
        for each in pod["containers"]
    }


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
CLUSTERS = {"compose": cluster_compose, "kubernetes": cluster_kubernetes}


def essence(command: list[str]) -> list[str]:
    """Without the interpreter, which is elsewhere on each machine."""
    if command[0] in ("celery", "mqservice"):
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
    for way, processes in {**WAYS, **CLUSTERS}.items():
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
    readers = (
        "settings.py",
        "supervisor/config.py",
        "supervisor/shard_engines.py",
        "lib/replicated_log.py",
    )
    settings = "".join((ROOT / "mqservice" / name).read_text() for name in readers)
    known = OTHERS | {"PATH", "PYTHONUNBUFFERED"} | set(re.findall(r'"([A-Z_]+)"', settings))
    found = list(variables())
    unknown = [
        (where, name)
        for where, name in found
        if name not in known and not name.startswith(("MQ_ENGINE_", "AWS_"))
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


# Several shards -----------------------------------------------------------------------------------


@pytest.mark.parametrize("way", CLUSTERS)
def test_every_process_of_a_cluster_is_run_as_by_the_supervisor(way: str, tmp_path: Path) -> None:
    wanted = {"web": WEB, "migrate": MIGRATE}
    for spec in separate_worker_specs({}, DataDir(tmp_path)):
        wanted[spec.name] = essence(list(spec.argv))
    del wanted["analytics"]  # which needs Java, and so another image
    nodes = ["node"] if way == "kubernetes" else ["node-a", "node-b", "node-c"]
    wanted |= {name: ["-m", "mqservice", "node"] for name in nodes}
    assert {name: essence(command) for name, (command, _) in CLUSTERS[way]().items()} == wanted


@pytest.mark.parametrize("way", CLUSTERS)
def test_every_process_of_django_in_a_cluster_knows_which_it_is(way: str) -> None:
    env = {name: env.get("MQ_PROCESS") for name, (_, env) in CLUSTERS[way]().items()}
    own = {name: which for name, which in env.items() if not name.startswith(("node", "migrate"))}
    assert own == {name: name for name in own}


def nodes_of(way: str) -> dict[str, Env]:
    """The environment of each node of three, as its container has it."""
    if way == "compose":
        return {
            env["MQ_NODE"]: env for name, (_, env) in cluster_compose().items() if "node-" in name
        }
    [shared] = [each["data"] for each in cluster_objects() if each["kind"] == "ConfigMap"]
    env = {**shared, **cluster_kubernetes()["node"][1]}
    return {
        f"pod-{number}": {
            name: value.replace("$(POD_IP)", f"10.0.0.{number}") for name, value in env.items()
        }
        for number in range(3)
    }


@pytest.mark.parametrize("way", CLUSTERS)
def test_any_node_of_a_cluster_may_be_lost(way: str, tmp_path: Path) -> None:
    """Each shard is at home on one, and could be taken over by all others."""
    places = {
        node: {
            place.name: place
            for place in read_places(config_of_node(env), DataDir(tmp_path / node), env)
        }
        for node, env in nodes_of(way).items()
    }
    shards = {name for each in places.values() for name in each}
    assert len(places) == 3
    assert shards == {"main", "s2", "s3"}
    assert all(set(each) == shards for each in places.values())
    at_home = [name for each in places.values() for name in each if each[name].is_home]
    assert set(at_home) == shards
    addresses = [place.address for each in places.values() for place in each.values()]
    assert len(set(addresses)) == 9, "each engine answers at an address of its own"
    for node, env in nodes_of(way).items():
        for place in places[node].values():
            listens = place.engine_env(env)["MQ_ENGINE_LISTEN"]
            assert listens == f"tcp://0.0.0.0:{place.address.rpartition(':')[2]}"


@pytest.mark.parametrize("way", CLUSTERS)
def test_all_of_a_cluster_have_the_same_log_and_secret_and_only_nodes_its_credentials(
    way: str,
) -> None:
    if way == "kubernetes":
        pods = cluster_pods().values()
        given = [each["envFrom"] for pod in pods for each in pod["containers"]]
        assert all(each == given[0] for each in given)
        text = (ROOT / "deploy/kubernetes/secret-cluster.example.yaml").read_text()
        assert "MQ_ENGINE_SECRET" in yaml.safe_load(text)["stringData"]
        return
    processes = {name: env for name, (_, env) in cluster_compose().items()}
    for name in ("MQ_REPLICATED_LOG", "MQ_ENGINE_SECRET", "DATABASE_URL"):
        assert len({env[name] for env in processes.values()}) == 1, name
    with_key = {name for name, env in processes.items() if "AWS_SECRET_ACCESS_KEY" in env}
    assert with_key == {"node-a", "node-b", "node-c"}


def test_every_process_of_a_cluster_comes_from_the_image_with_the_libraries_of_the_log() -> None:
    services = yaml.safe_load((ROOT / "compose.cluster.yaml").read_text())["services"]
    ours = [each for each in services.values() if "mqservice" in each["image"]]
    assert {each["image"] for each in ours} == {"mqservice-cluster"}
    assert {each["build"]["target"] for each in ours} == {"cluster"}
    images = {each["image"] for pod in cluster_pods().values() for each in pod["containers"]}
    assert images == {"mqservice-cluster:1"}
    [install] = [rest for word, rest in stages()["cluster"] if word == "RUN"]
    assert "requirements-cluster.lock" in install
    assert "obstore==" in (ROOT / "requirements-cluster.lock").read_text()


def test_a_node_is_asked_whether_it_is_ready_in_its_own_environment() -> None:
    check = ["python", "-P", "-m", "mqservice.supervisor.node_ready"]
    services = yaml.safe_load((ROOT / "compose.cluster.yaml").read_text())["services"]
    for name in ("node-a", "node-b", "node-c"):
        assert services[name]["healthcheck"]["test"] == ["CMD", *check]
    [node] = cluster_pods()["mqservice-node"]["containers"]
    assert node["readinessProbe"]["exec"]["command"] == check


def test_the_nodes_of_a_cluster_are_replaced_one_at_a_time_and_keep_nothing() -> None:
    [node] = [each for each in cluster_objects() if each["metadata"]["name"] == "mqservice-node"
              and each["kind"] == "Deployment"]  # fmt: skip
    assert node["spec"]["strategy"]["rollingUpdate"] == {"maxUnavailable": 1, "maxSurge": 0}
    assert all("emptyDir" in each for each in node["spec"]["template"]["spec"]["volumes"])
    assert not [each for each in cluster_objects() if each["kind"] == "StatefulSet"]
    [budget] = [each for each in cluster_objects() if each["kind"] == "PodDisruptionBudget"]
    assert budget["spec"]["maxUnavailable"] == 1


def test_who_selects_pods_of_a_cluster_finds_some() -> None:
    labels = [
        each["spec"]["template"]["metadata"]["labels"]
        for each in cluster_objects()
        if each["kind"] in ("Deployment", "Job")
    ]
    selectors = [
        each["spec"].get("selector", each["spec"].get("podSelector"))
        for each in cluster_objects()
        if each["kind"] in ("Deployment", "Service", "PodDisruptionBudget", "NetworkPolicy")
    ]
    assert len(selectors) == 6
    for selector in selectors:
        wanted = selector.get("matchLabels", selector).items()
        assert [each for each in labels if wanted <= each.items()], selector
    [policy] = [each for each in cluster_objects() if each["kind"] == "NetworkPolicy"]
    ports = [each for rule in policy["spec"]["ingress"] for each in rule["ports"]]
    assert [(each["port"], each["endPort"]) for each in ports] == [(7_701, 7_703), (9_101, 9_103)]


@pytest.mark.parametrize("way", CLUSTERS)
def test_prometheus_finds_every_engine_of_a_cluster(way: str) -> None:
    for env in nodes_of(way).values():
        assert env["MQ_ENGINE_METRICS_BIND"] == "0.0.0.0"
        ports = engine_metrics_ports(env, {"main": 0, "s2": 0, "s3": 0})
        assert list(ports.values()) == [9_101, 9_102, 9_103]


def config_of_node(env: Env) -> SupervisorConfig:
    return supervisor_config_from_env({**env, "DATABASE_URL": "postgresql://postgres/mqservice"})


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
        "cluster": ["root", "mqservice"],
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


def test_every_container_of_a_cluster_is_locked_and_bounded() -> None:
    for pod in cluster_pods().values():
        assert pod["securityContext"]["runAsNonRoot"] is True
        for container in pod["containers"]:
            assert container["securityContext"]["readOnlyRootFilesystem"] is True
            assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
            assert "memory" in container["resources"]["limits"]


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
