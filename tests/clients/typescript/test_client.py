"""The TypeScript client against the real service in Node, and as an installed package."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history.events import Delivered, History
from tests.acceptance.nemesis.processes import Kill
from tests.acceptance.nemesis.run import Clients, run_faults
from tests.clients.typescript.node_clients import NodeConsumer, NodeProducer
from tests.clients.typescript.package import SOURCE, WORK, environment_for, pack, run
from tests.services import Service
from tests.storage_engine.faults.machine import need_node

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
SEED = 20_261
HERE = Path(__file__).resolve().parent


@pytest.fixture(autouse=True, scope="session")
def node() -> None:
    need_node()


@pytest.fixture(scope="module")
def archive(node: None, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return pack(tmp_path_factory.mktemp("packed"))


def test_the_client_does_what_its_page_promises(service: Service) -> None:
    run(["node", "--test", "contract.test.mjs"], cwd=HERE, env=environment_for(service.facts))


def test_faults_lose_nothing_and_leave_nothing_open(service: Service) -> None:
    run(["node", "--test", "faults.test.mjs"], cwd=HERE, env=environment_for(service.facts))


@pytest.mark.torture
def test_kills_of_engine_and_web_lose_nothing_and_store_nothing_twice(service: Service) -> None:
    load = run_faults(
        service,
        [Kill("engine"), Kill("web-1")],
        seed=SEED,
        name="typescript",
        is_ordered=False,
        is_thorough=False,
        clients=node_clients,
    )

    verdict = load.verdict
    print(
        f"{verdict.accepted_count} accepted, {verdict.delivered_count} deliveries, "
        f"again because {dict(verdict.explained)}"
    )
    assert load.anomalies == []
    assert verdict.accepted_count > 200
    assert verdict.explained["given back"] > 0
    places: dict[str, set[tuple[int, int]]] = {}
    for event in load.history.of(Delivered):
        assert isinstance(event, Delivered)
        if event.attempt == 1:
            places.setdefault(event.body, set()).add((event.queue, event.offset))
    assert {body: found for body, found in places.items() if len(found) > 1} == {}


def node_clients(facts: Quickstart, history: History, seed: int) -> Clients:
    return Clients(
        [NodeProducer(f"p{n}", facts, history) for n in range(2)],
        [
            NodeConsumer("rest", facts, history, "rest"),
            NodeConsumer("socket-1", facts, history, "websocket"),
            NodeConsumer("socket-2", facts, history, "auto"),
        ],
    )


@pytest.mark.torture
def test_the_package_works_where_it_is_installed(
    service: Service, archive: Path, tmp_path: Path
) -> None:
    """In a project with the strictest types, and without those of Node."""
    project = tmp_path
    (project / "package.json").write_text(json.dumps({"name": "elsewhere", "type": "module"}))
    (project / "main.ts").write_text((HERE / "elsewhere.ts").read_text())
    run(["npm", "install", "--offline", "--no-audit", "--no-fund", str(archive)], cwd=project)
    compiler = str(WORK / "node_modules" / ".bin" / "tsc")
    options = ["--strict", "--exactOptionalPropertyTypes", "--noUncheckedIndexedAccess"]
    target = ["--target", "es2022", "--module", "nodenext", "--types", ""]

    run([compiler, *options, *target, "main.ts"], cwd=project)
    said = run(["node", "main.js"], cwd=project, env=environment_for(service.facts))

    assert said == "hello from elsewhere\n"
    assert [path.name for path in (project / "node_modules").iterdir() if path.name[0] != "."] == [
        "@mqservice"
    ]


def test_the_package_has_its_code_its_licence_and_no_dependencies(archive: Path) -> None:
    with tarfile.open(archive) as packed:
        names = {name.removeprefix("package/") for name in packed.getnames()}
    modules = {path.relative_to(SOURCE / "src").as_posix() for path in SOURCE.glob("src/**/*.ts")}
    compiled = {
        f"dist/{name.removesuffix('.ts')}{ending}"
        for name in modules
        for ending in (".js", ".js.map", ".d.ts")
    }

    assert names == compiled | {f"src/{name}" for name in modules} | {
        "package.json", "README.md", "LICENSE",
    }  # fmt: skip
    described = json.loads((SOURCE / "package.json").read_text())
    assert not described.keys() & {"dependencies", "peerDependencies", "optionalDependencies"}
