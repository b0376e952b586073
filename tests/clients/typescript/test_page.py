"""Every TypeScript snippet of the documentation, compiled with strict types and run."""

from __future__ import annotations

import os
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Final

import httpx
import pytest

from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history.asking import is_drained, make_topic_and_group
from tests.clients.snippets import consumed_group, snippets_of, with_own_names
from tests.clients.typescript.package import SOURCE, WORK, dist, environment_for, run
from tests.docs.markdown import DOCS
from tests.services import Service, wait_until
from tests.storage_engine.faults.machine import need_node

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
PAGES: Final = (
    DOCS / "typescript.md", DOCS / "guide.md", DOCS / "quickstart.md", SOURCE / "README.md",
)  # fmt: skip
WAIT_S: Final = 60
# What a page leaves to its readers.
BEFORE: Final = """import { Client } from "@mqservice/client";
const mq = new Client();
"""
STOP: Final = 'process.once("SIGTERM", () => mq.close());\n'
HELPERS: Final = "const bill = async (_: unknown) => undefined;\n"


@pytest.fixture(autouse=True, scope="session")
def node() -> None:
    need_node()


@pytest.mark.torture
def test_snippets_compile_and_run(service: Service, tmp_path: Path) -> None:
    snippets = snippets_of(PAGES, "ts")
    assert len(snippets) > len(PAGES)
    for name, snippet in snippets.items():
        _write(tmp_path / f"{name}.ts", snippet, name)
    _compile(tmp_path)

    facts = service.facts
    for name, snippet in snippets.items():
        make_topic_and_group(facts, name, {})
        _send(facts, name)
        process = subprocess.Popen(
            ["node", f"{name}.js"],
            cwd=tmp_path,
            env={**os.environ, **environment_for(facts)},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        with process:
            try:
                if (group := consumed_group(snippet, name)) is not None:
                    what = f"{name} has consumed all"
                    wait_until(partial(is_drained, facts, group), WAIT_S, what)
                    process.send_signal(signal.SIGTERM)
                _, complaint = process.communicate(timeout=WAIT_S)
            finally:
                process.kill()
        assert process.returncode == 0, f"{name}: {complaint}"


def _write(path: Path, snippet: str, name: str) -> None:
    """As a module; a topic and a group of its own take the place of those of the page."""
    own = with_own_names(snippet, name).replace(
        '"https://mq.example.com"', "process.env.MQ_BASE_URL!"
    )
    if "new Client" not in snippet or "mq." in snippet.partition("new Client")[0]:
        own = BEFORE + STOP + own
    elif "SIGTERM" not in snippet:
        own = STOP + own
    path.write_text(HELPERS + own)


def _compile(folder: Path) -> None:
    modules = folder / "node_modules"
    (modules / "@mqservice").mkdir(parents=True)
    (folder / "package.json").write_text('{"type": "module"}')
    dist()
    (modules / "@mqservice" / "client").symlink_to(WORK)
    (modules / "@types").symlink_to(WORK / "node_modules" / "@types")
    compiler = str(WORK / "node_modules" / ".bin" / "tsc")
    options = ["--strict", "--target", "es2022", "--module", "nodenext", "--types", "node"]
    run([compiler, *options, *(path.name for path in folder.glob("*.ts"))], cwd=folder)


def _send(facts: Quickstart, topic: str) -> None:
    url = f"{facts.base_url}/v1/ns/{facts.namespace}/topics/{topic}/messages:batch"
    bodies = [{"body_json": {"order": number}} for number in range(20)]
    headers = {"authorization": f"Bearer {facts.api_key}"}
    httpx.post(url, json=bodies, headers=headers, timeout=WAIT_S).raise_for_status()
