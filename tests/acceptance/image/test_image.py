"""The image is built from this checkout and does what compose.yaml and a person ask of it."""

from __future__ import annotations

import datetime as dt
import json
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest
import yaml

from deploy.image.__main__ import MB, SBOM, size_bytes
from mqservice import __version__
from mqservice.lib.api_keys import generate_api_key
from mqservice.lib.clock import SystemClock
from mqservice.supervisor.quickstart import Quickstart, find_quickstart
from tests.acceptance.image.containers import ROOT, UID, Container, Image, built_image
from tests.ports import find_steady_port
from tests.servers import TestServers
from tests.services import START_WAIT_S, client_of, consume, wait_until
from tests.storage_engine.faults.machine import need_image

# Building takes a minute or two, once; nothing else here takes longer than a start.
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(1_200), pytest.mark.xdist_group("image")]
SIZE_MB_MAX = 350
REPORT_WAIT_S = 300  # Spark starts, on two cores beside all the others
DAY_MS = 86_400_000
SECRET = "a-secret-of-tests-with-enough-characters"


@pytest.fixture(scope="module")
def image() -> Iterator[Image]:
    need_image()
    with built_image("service") as built:
        yield built


@pytest.fixture(scope="module")
def analytics_image(image: Image) -> Iterator[Image]:
    with built_image("analytics") as built:
        yield built


@pytest.fixture
def servers() -> Iterator[TestServers]:
    """PostgreSQL and Valkey, as compose has them beside the service."""
    running = TestServers()
    try:
        running.start_postgres()
        running.start_valkey()
        yield running
    finally:
        running.close()


def test_the_image_is_small_and_holds_no_build_tools(image: Image) -> None:
    names = {path.name for path in (image.root / "opt/venv/bin").iterdir()}
    packages = {path.name for path in (image.root / "opt/venv/lib").glob("*/site-packages/*")}

    assert {"python", "mqservice", "celery"} <= names
    assert names.isdisjoint({"pip", "uv"})
    assert packages.isdisjoint({"pip", "uv", "pytest", "pyspark"})
    assert {path.name for path in (image.root / "app").iterdir()} - {"__pycache__"} == {
        "analytics", "docs", "frontend", "manage.py", "mkdocs.yml", "mqservice", "storage_engine",
    }  # fmt: skip
    assert not list((image.root / "var/lib/apt/lists").glob("*Packages*"))
    assert size_bytes("buildah", image.tag) / MB <= SIZE_MB_MAX


def test_the_image_says_what_it_is(image: Image) -> None:
    prefix = "org.opencontainers.image"
    labels = image.config["Labels"]
    assert labels[f"{prefix}.title"] == "mqservice"
    assert labels[f"{prefix}.licenses"] == "Apache-2.0"
    assert labels[f"{prefix}.version"] == __version__
    assert len(labels[f"{prefix}.revision"].removesuffix("-modified")) == 40
    assert labels.get(f"{prefix}.source", "https://").startswith("https://")
    assert image.config["User"] == "mqservice"
    assert f"mqservice:x:{UID}:" in (image.root / "etc/passwd").read_text()
    assert image.config["StopSignal"] == "SIGTERM"
    assert list(image.config["Volumes"]) == ["/data"]


def test_nothing_of_this_machine_is_kept_in_the_image(image: Image) -> None:
    secrets = [path for path in (image.root / "run/secrets").rglob("*") if path.is_file()]
    assert [path.read_bytes() for path in secrets] == [b""] * len(secrets)
    assert not [each for each in image.config["Env"] if each.startswith(("PIP_", "UV_", "SSL_"))]


def test_the_bill_of_materials_has_every_package(image: Image) -> None:
    bill = json.loads((image.root / SBOM.lstrip("/")).read_text())
    purls = {component["purl"] for component in bill["components"]}
    installed = {
        path.name.removesuffix(".dist-info").rpartition("-")
        for path in image.root.glob("opt/venv/lib/*/site-packages/*.dist-info")
    }
    wanted = {
        f"pkg:pypi/{name.replace('_', '-').replace('.', '-').lower()}@{version}"
        for name, _, version in installed
    }

    assert bill["bomFormat"] == "CycloneDX"
    assert bill["metadata"]["component"]["version"] == __version__
    assert len(wanted) > 50
    assert {purl for purl in purls if purl.startswith("pkg:pypi/")} == wanted
    assert any(purl.startswith("pkg:deb/debian/python3.13@") for purl in purls)
    assert any(purl.startswith("pkg:deb/debian/libc6@") for purl in purls)


def test_the_whole_service_runs_on_a_read_only_root(image: Image, tmp_path: Path) -> None:
    port = find_steady_port()
    env = {"MQ_PORT": str(port), "MQ_BIND": "127.0.0.1", "MQ_WEB_WORKERS": "1"}
    data = tmp_path / "data"
    with image.running(data, env=env) as container:
        _wait_healthy(container, image.health_check)
        refused = container.execute("touch", "/app/file", "/home/mqservice/file", "/etc/file")
        allowed = container.execute("touch", "/data/file", "/tmp/file")
        users = container.execute("sh", "-c", "stat --format=%u /proc/1; id -u")
        rights = container.execute("grep", "-E", "^(CapEff|CapBnd|NoNewPrivs)", "/proc/self/status")
        facts = find_quickstart(data / "quickstart.json")
        assert facts is not None
        received = _through(f"http://127.0.0.1:{port}", facts)
        exit_code = container.stop()
        text = container.log_text

    assert refused.stderr.count("Read-only file system") == 3
    assert allowed.returncode == 0
    assert users.stdout.split() == [str(UID), str(UID)]
    assert rights.stdout.split()[1::2] == ["0" * 16, "0" * 16, "1"]
    assert received == ["through the image"]
    assert exit_code == 0, text
    # Nothing else has been written by anybody else.
    assert {path.lstat().st_uid for path in data.rglob("*")} == {UID}
    assert stat.S_IMODE((data / "secrets.toml").stat().st_mode) == 0o600


def test_a_health_check_fails_without_a_service(image: Image, tmp_path: Path) -> None:
    env = {"MQ_PORT": str(find_steady_port())}
    with image.running(tmp_path / "data", ("sleep", "600"), env) as container:
        assert not container.is_healthy(*image.health_check)


class Compose:
    """The compose file's services, each command, variable and health check as it stands there.

    Ports and databases are ours, since the network is this machine's own.
    """

    def __init__(self, servers: TestServers, data: Path) -> None:
        self.started: dict[str, Container] = {}
        self._services = _compose_services()
        self._data = data
        self._web_port, self._metrics_port = find_steady_port(), find_steady_port()
        self.url = f"http://127.0.0.1:{self._web_port}"
        self._ours = {
            **{name: servers.environment()[name] for name in ("DATABASE_URL", "VALKEY_URL")},
            "MQ_SECRET_KEY": SECRET, "MQ_BASE_URL": self.url, "MQ_BIND": "127.0.0.1",
            "MQ_PORT": str(self._web_port), "MQ_SIGN_UP": "invited", "MQ_EMAIL_URL": "",
            "MQ_WEB_WORKERS": "1",
        }  # fmt: skip

    def start(self, stack: ExitStack, image: Image, *names: str) -> None:
        """One after the other, each once the one before it is healthy."""
        for name in names:
            container = stack.enter_context(self._running(name, image))
            self.started[name] = container
            if "test" in self._services[name]["healthcheck"]:
                _wait_healthy(container, self._check_of(name))

    def migrate(self, image: Image) -> None:
        with self._running("migrate", image) as container:
            assert container.wait(START_WAIT_S) == 0, container.log_text

    def stop(self) -> dict[str, int]:
        """Exit codes, of the last started first."""
        return {name: self.started[name].stop() for name in reversed(self.started)}

    def _running(self, name: str, image: Image) -> AbstractContextManager[Container]:
        env = {**self._services[name]["environment"], **self._ours}
        if name == "engine":
            env["MQ_ENGINE_METRICS_PORT"] = str(self._metrics_port)
        return image.running(self._data, self._services[name]["command"], env)

    def _check_of(self, name: str) -> list[str]:
        return [
            word.replace("9100", str(self._metrics_port)).replace("8000", str(self._web_port))
            for word in self._services[name]["healthcheck"]["test"][1:]
        ]


def test_composes_processes_run_one_by_one(
    image: Image, servers: TestServers, tmp_path: Path
) -> None:
    compose = Compose(servers, tmp_path / "data")
    with ExitStack() as stack:
        compose.migrate(image)
        compose.start(stack, image, "engine", "web", "clock", "worker", "beat")
        facts = _demo(compose)
        received = _through(compose.url, facts)
        exit_codes = compose.stop()
        texts = {name: each.log_text[-2_000:] for name, each in compose.started.items()}

    assert received == ["through the image"]
    assert exit_codes == dict.fromkeys(("beat", "worker", "clock", "web", "engine"), 0), texts


def test_the_analytics_image_makes_a_report(
    image: Image, analytics_image: Image, servers: TestServers, tmp_path: Path
) -> None:
    compose = Compose(servers, tmp_path / "data")
    today = SystemClock().now_ms() // DAY_MS
    days = {"from": _date_of(today), "to": _date_of(today + 1)}
    with ExitStack() as stack:
        compose.migrate(image)
        compose.start(stack, image, "engine", "web", "clock", "worker", "beat")
        compose.start(stack, analytics_image, "analytics")
        facts = _demo(compose)
        _through(compose.url, facts)
        client = stack.enter_context(_client(compose.url, facts))
        ordered = client.post(f"/v1/ns/{facts.namespace}/reports:run", json=days)
        assert ordered.status_code == 202, ordered.text
        address = ordered.headers["Location"]

        def has_ended() -> bool:
            return client.get(address).json()["state"] in ("done", "failed")

        try:
            wait_until(has_ended, REPORT_WAIT_S, "the report has ended")
        except AssertionError as exc:
            logs = [f"{name}:\n{each.log_text[-4_000:]}" for name, each in compose.started.items()]
            raise AssertionError("\n".join([str(exc), *logs])) from exc
        run = client.get(address).json()
        exit_codes = compose.stop()
        text = compose.started["analytics"].log_text[-4_000:]

    assert run["state"] == "done", (run, text)
    assert run["done"] == run["total"] > 0
    assert exit_codes["analytics"] == 0, text
    lake = list((tmp_path / "data").rglob("*.parquet"))
    assert lake, "Spark has written nothing"
    assert analytics_image.config["User"] == "mqservice"
    assert analytics_image.config["Healthcheck"]["Test"] == ["NONE"]


def test_every_service_of_compose_says_how_its_health_is_checked() -> None:
    """The image's own check is that of `mqservice up`: a worker would never be healthy by it."""
    checks = {name: each.get("healthcheck") for name, each in _compose_services().items()}
    assert {name for name, check in checks.items() if check == {"disable": True}} == {
        "migrate", "clock", "worker", "beat", "analytics",
    }  # fmt: skip
    assert {name for name, check in checks.items() if check and "test" in check} == {
        "engine", "web",
    }  # fmt: skip


def _compose_services() -> dict[str, dict[str, Any]]:  # Any: the compose file's own shapes
    services = yaml.safe_load((ROOT / "compose.yaml").read_text())["services"]
    return {name: each for name, each in services.items() if "mqservice" in each["image"]}


def _wait_healthy(container: Container, check: list[str]) -> None:
    try:
        wait_until(lambda: container.is_healthy(*check), START_WAIT_S, "the container is healthy")
    except AssertionError as exc:
        raise AssertionError(f"{exc}:\n{container.log_text[-4_000:]}") from exc


def _demo(compose: Compose) -> Quickstart:
    """A tenant with a topic, made in the container of a web process as an operator does."""
    secrets = (
        f"MQ_BOOTSTRAP_PASSWORD={SECRET}",
        f"MQ_BOOTSTRAP_API_KEY={generate_api_key()}",
    )
    web = compose.started["web"]
    made = web.execute("env", *secrets, "python", "-P", "-m", "django", "bootstrap_demo")
    assert made.returncode == 0, made.stderr
    facts = json.loads(made.stdout.strip().rpartition("\n")[2])
    url = compose.url
    return Quickstart(base_url=url, ws_url=url, console_url=url, pids={}, **facts)


def _client(url: str, facts: Quickstart) -> httpx.Client:
    headers = {"Authorization": f"Bearer {facts.api_key}"}
    return httpx.Client(base_url=url, headers=headers, trust_env=False, timeout=60)


def _through(url: str, facts: Quickstart) -> list[str]:
    """Sends one message and receives it. Returns the bodies received."""
    there = msgspec.structs.replace(facts, base_url=url)
    with client_of(there) as mq:
        mq.send(facts.topic, "through the image")
    return [each.text for each in consume(there, facts.topic, facts.group, count=1, wait="20s")]


def _date_of(day: int) -> str:
    """Of days since 1970."""
    return (dt.date(1970, 1, 1) + dt.timedelta(days=day)).isoformat()
