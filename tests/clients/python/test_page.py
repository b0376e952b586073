"""Every Python snippet of the documentation, checked by mypy and run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import partial
from pathlib import Path
from typing import Final

import pytest
from mqservice_client import Client

from clients.generate import PACKAGE
from tests.clients.python.conftest import Target, make_place
from tests.clients.python.test_receiving import lag
from tests.docs.markdown import DOCS, Page
from tests.services import wait_until

pytestmark = pytest.mark.acceptance
PAGES: Final = (DOCS / "python.md", PACKAGE.parent / "README.md")
WAIT_S: Final = 60
# What a page leaves to its readers.
BEFORE: Final = """from mqservice_client import Client
mq = Client()
"""
SNIPPETS: Final = {
    f"{path.stem.lower()}-{fence.line}": fence.text
    for path in PAGES
    for fence in Page(path).fences
    if fence.language == "python"
}


@pytest.mark.parametrize("kind", ["sync"])
@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_runs_and_handles_all_messages(
    service: Target, mq: Client, name: str, tmp_path: Path
) -> None:
    place = make_place(mq)
    with mq.batch(place.topic) as batch:
        for number in range(20):
            batch.send({"order": number})
    snippet = SNIPPETS[name]
    path = tmp_path / "snippet.py"
    path.write_text(_whole(snippet, place.topic))
    process = subprocess.Popen(
        [sys.executable, "-W", "error", str(path)],
        env={**os.environ, "MQ_BASE_URL": service.base_url, "MQ_API_KEY": service.api_key},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    )
    with process:
        try:
            if "mq.run(" in snippet or "for message in" in snippet:
                wait_until(partial(_is_done, mq, place.group), WAIT_S, f"{name} has consumed all")
                if "idle_timeout" not in snippet:
                    process.send_signal(signal.SIGTERM)
            _, complaint = process.communicate(timeout=WAIT_S)
        finally:
            process.kill()

    is_stopped = process.returncode == -signal.SIGTERM and "mq.run(" not in snippet
    assert process.returncode == 0 or is_stopped, complaint
    assert "Traceback" not in complaint


def test_snippets_keep_to_the_types(tmp_path: Path) -> None:
    assert len(SNIPPETS) > len(PAGES)
    for name, snippet in SNIPPETS.items():
        (tmp_path / f"{name.replace('-', '_')}.py").write_text(_whole(snippet, "orders"))

    done = subprocess.run(
        [sys.executable, "-m", "mypy", "--config-file=", "--cache-dir=cache", "."],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(PACKAGE.parent)},
        capture_output=True,
        text=True,
        check=False,
    )

    assert done.returncode == 0, done.stdout + done.stderr


def _whole(snippet: str, name: str) -> str:
    """As a program; a topic and a group of its own take the place of those of the page."""
    own = snippet.replace('"orders"', f'"{name}"').replace('"billing"', f'"{name}"')
    own = own.replace("groups/billing", f"groups/{name}")
    own = own.replace('base_url="http://127.0.0.1:8000", api_key="mqk_…"', "")
    has_client = "Client(" in own and "mq." not in own.partition("Client(")[0]
    return own if has_client else BEFORE + own + "\nmq.close()\n"


def _is_done(mq: Client, group: str) -> bool:
    found = lag(mq, group)
    left: tuple[object, object] = found["lag"], found["retry"]
    return left == (0, {"waiting": 0, "scheduled": 0})
