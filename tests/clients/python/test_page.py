"""Every Python snippet of the documentation, checked by mypy and run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from functools import cache, partial
from pathlib import Path
from typing import Final

import pytest
from mqservice_client import Client

from clients.generate import PACKAGE
from tests.acceptance.history.asking import is_drained
from tests.clients.python.conftest import Target, make_place
from tests.clients.snippets import consumed_group, snippets_of, with_own_names
from tests.docs.markdown import DOCS
from tests.forked import Starter
from tests.services import wait_until

pytestmark = pytest.mark.acceptance
PAGES: Final = (
    DOCS / "python.md", DOCS / "guide.md", DOCS / "quickstart.md", PACKAGE.parent / "README.md",
)  # fmt: skip
WAIT_S: Final = 60
# What a page leaves to its readers.
BEFORE: Final = """from mqservice_client import Client
mq = Client()
"""
SNIPPET_PROGRAM: Final = "tests.clients.python.snippet_program"
SNIPPETS: Final = snippets_of(PAGES, "python")


@cache
def starter() -> Starter:
    """A process that has imported the client: to import it takes longer than most snippets run."""
    return Starter(SNIPPET_PROGRAM)


@pytest.mark.parametrize("kind", ["sync"])
@pytest.mark.parametrize("name", SNIPPETS)
def test_a_snippet_runs_and_handles_all_messages(
    service: Target, mq: Client, name: str, tmp_path: Path
) -> None:
    assert service.process is not None
    facts = service.process.facts
    place = make_place(mq)
    with mq.batch(place.topic) as batch:
        for number in range(20):
            batch.send({"order": number})
    snippet = SNIPPETS[name]
    path = tmp_path / "snippet.py"
    path.write_text(_whole(snippet, place.topic))
    environ = {**os.environ, "MQ_BASE_URL": service.base_url, "MQ_API_KEY": service.api_key}
    with (tmp_path / "complaint").open("wb") as complaint, Path(os.devnull).open("r+b") as nothing:
        process = starter().start(
            f"{SNIPPET_PROGRAM}:main", "snippet", str(path), environ=environ, directory=tmp_path,
            standard=(nothing.fileno(), nothing.fileno(), complaint.fileno()),
        )  # fmt: skip
    try:
        if (group := consumed_group(snippet, place.topic)) is not None:
            done = partial(is_drained, facts, group)
            wait_until(done, WAIT_S, f"{name} has consumed all")
            if "idle_timeout" not in snippet:
                process.send_signal(signal.SIGTERM)
        code = process.wait(WAIT_S)
    finally:
        process.kill()

    said = (tmp_path / "complaint").read_text()
    is_stopped = code == -signal.SIGTERM and "mq.run(" not in snippet
    assert code == 0 or is_stopped, said
    assert "Traceback" not in said


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
    own = with_own_names(snippet, name).replace(
        'base_url="http://127.0.0.1:8000", api_key="mqk_…"', ""
    )
    has_client = "Client(" in own and "mq." not in own.partition("Client(")[0]
    before = "" if has_client else BEFORE
    return before + own + ("\nmq.close()\n" if "mq = Client()" in before + own else "")
