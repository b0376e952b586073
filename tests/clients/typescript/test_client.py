"""The TypeScript client against the real service in Node, and as an installed package."""

from __future__ import annotations

import json
import tarfile
from pathlib import Path

import pytest

from tests.clients.typescript.package import SOURCE, WORK, environment_for, pack, run
from tests.services import Service
from tests.storage_engine.faults.machine import need_node

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
HERE = Path(__file__).resolve().parent


@pytest.fixture(autouse=True, scope="session")
def node() -> None:
    need_node()


def test_the_client_does_what_its_page_promises(service: Service) -> None:
    run(["node", "--test", "contract.test.mjs"], cwd=HERE, env=environment_for(service.facts))


def test_faults_lose_nothing_and_leave_nothing_open(service: Service) -> None:
    run(["node", "--test", "faults.test.mjs"], cwd=HERE, env=environment_for(service.facts))


def test_the_package_works_where_it_is_installed(service: Service, tmp_path: Path) -> None:
    """In a project with the strictest types, and without those of Node."""
    archive = pack(tmp_path)
    project = tmp_path / "project"
    project.mkdir()
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


def test_the_package_has_its_code_its_licence_and_no_dependencies(tmp_path: Path) -> None:
    with tarfile.open(pack(tmp_path)) as archive:
        names = {name.removeprefix("package/") for name in archive.getnames()}
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
