"""The built package, installed into an empty environment elsewhere, is the whole service."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import tomllib
import zipfile
from pathlib import Path

import httpx
import mqservice_client
import pytest

from mqservice import __version__
from tests.pythons import InstalledPython, installed_pythons
from tests.services import started_service

pytestmark = pytest.mark.acceptance
ROOT = Path(__file__).resolve().parents[2]
UV = Path(sys.executable).with_name("uv")
# Brought by the wheel beside modules; of the console only what runs, not what it is built from.
FRONTEND = ("locale", "static", "templates")
GUIDES = ("docs", "mkdocs.yml")


def built_wheel(folder: Path, project: Path = ROOT) -> Path:
    """A wheel of the checkout as it is, built in ``folder`` without fetching anything."""
    _run(sys.executable, "-m", "hatchling", "build", "-t", "wheel", "-d", str(folder), cwd=project)
    [wheel] = folder.glob("*.whl")
    return wheel


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return built_wheel(tmp_path_factory.mktemp("wheel"))


def test_two_builds_of_one_tree_are_the_same_bytes(first: Path, tmp_path: Path) -> None:
    second = built_wheel(tmp_path)

    assert first.name == f"mqservice-{__version__}-py3-none-any.whl"
    assert first.read_bytes() == second.read_bytes()


def test_the_wheel_holds_every_tracked_file_that_runs(first: Path) -> None:
    listed = _run(
        "git", "ls-files", "mqservice", "storage_engine", "analytics", "frontend", *GUIDES
    ).split()
    wanted = {
        f"mqservice/{name}" if name.startswith(("frontend/", *GUIDES)) else name
        for name in listed
        if not name.startswith("frontend/") or name.split("/")[1] in FRONTEND
    }

    with zipfile.ZipFile(first) as wheel:
        names = set(wheel.namelist())

    assert wanted <= names
    assert {name.rpartition("/")[2] for name in names if "/licenses/" in name} == {
        "LICENSE", "NOTICE",
    }  # fmt: skip


@pytest.mark.torture
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    "python",
    [
        pytest.param(python, id=python.version, marks=[pytest.mark.torture] if index else [])
        for index, python in enumerate(installed_pythons())
    ],
)
def test_an_empty_environment_gets_the_whole_service(
    first: Path, tmp_path: Path, python: InstalledPython
) -> None:
    environment = tmp_path / "environment"
    _run(str(python.path), "-m", "venv", "--without-pip", str(environment))
    install = (str(UV), "pip", "install", "--quiet", "--python", str(environment / "bin/python"))
    _run(*install, "--require-hashes", "-r", str(ROOT / "requirements.lock"))
    library = built_wheel(tmp_path / "client", ROOT / "clients" / "python")
    _run(*install, "--no-deps", str(library), str(first))
    _run(str(UV), "pip", "check", "--python", str(environment / "bin/python"))
    program = str(environment / "bin/mqservice")
    assert _run(program, "--version").strip() == f"mqservice {__version__}"

    with started_service(tmp_path / "data", (program,)) as service:
        facts = service.facts
        headers = {"Authorization": f"Bearer {facts.api_key}"}
        with httpx.Client(
            base_url=facts.base_url, trust_env=False, timeout=60, follow_redirects=True
        ) as client:
            base = f"/v1/ns/{facts.namespace}/topics/{facts.topic}"
            sent = client.post(f"{base}/messages", headers=headers, json={"body": "by wheel"})
            received = client.post(
                f"{base}/groups/{facts.group}:receive", headers=headers, json={"wait": "20s"}
            )
            page = client.get("/")
            parts = [
                client.get(link)
                for link in re.findall(r'(?:href|src)="(/static/[^"]+)"', page.text)
            ]
            guide = client.get("/guide/concepts")
            chinese = client.get("/", headers={"Accept-Language": "zh-hans"})
        command = ("consume", facts.topic, "--group", facts.group, "--ack", "--count", "1", "-q")
        environ = {"MQ_BASE_URL": facts.base_url, "MQ_API_KEY": facts.api_key}
        _run(program, "produce", facts.topic, "by command", environ=environ)
        assert _run(program, *command, environ=environ) == "by command\n"
        assert service.stop() == 0

    assert sent.status_code == 201
    assert [message["body"] for message in received.json()["messages"]] == ["by wheel"]
    assert page.status_code == 200
    assert '<h2 id="groups-and-leases">' in guide.text
    assert parts
    assert {part.status_code for part in parts} == {200}
    assert "登录" in chinese.text
    shutil.rmtree(environment)


def test_the_service_asks_for_the_client_of_its_own_version() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]

    assert mqservice_client.__version__ == __version__
    assert f"mqservice-client=={__version__}" in project["dependencies"]


def _run(*argv: str, cwd: Path = ROOT, environ: dict[str, str] | None = None) -> str:
    done = subprocess.run(
        argv,
        cwd=cwd,
        env=None if environ is None else {**os.environ, **environ},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout
