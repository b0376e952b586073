"""Pages of the documentation followed literally: each command of a page, one after the other.

    page ──▶ its fences of sh and Python, in their order, in one shell ──▶ output of each fence

Where the page has tabs, a reader follows one of them, and reads what is outside of tabs. A topic
and a group of its own take the place of the demo's: nobody else sends there.
"""

from __future__ import annotations

import itertools
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.docs.markdown import DOCS, ROOT, Fence, Page
from tests.services import Service, client_of
from tests.sizes import in_torture

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
PAGE_TIMEOUT_S = 500
MARK = "~~~~ fence "
# Not here: what starts a service, what makes people, what needs a package of somebody else.
LEFT_OUT = ("make run", "admin create-owner", "boto3")
NUMBERS = itertools.count(1)


@pytest.fixture
def folder(tmp_path: Path, service: Service) -> Path:
    """As a checkout in which ``make run`` has started the service, as far as pages look at it."""
    programs = tmp_path / ".venv" / "bin"
    programs.mkdir(parents=True)
    starts = {"mqservice": "-m mqservice.cli.main", "python": ""}
    for name, arguments in starts.items():
        program = programs / name
        program.write_text(f'#!/bin/sh\nexec "{sys.executable}" {arguments} "$@"\n')
        program.chmod(0o700)
    (tmp_path / "var").symlink_to(service.data_dir)
    return tmp_path


def own_names(service: Service) -> dict[str, str]:
    """A new topic and a new group."""
    number = next(NUMBERS)
    names = {"orders": f"followed-{number}", "billing": f"followers-{number}"}
    with client_of(service.facts) as mq:
        mq.topics.create(names["orders"])
        mq.groups.create(names["billing"])
    return names


def followed(service: Service, folder: Path, name: str, tab: str = "") -> list[tuple[Fence, str]]:
    """What each fence of the page printed; fails when one ends badly."""
    fences = [
        fence
        for fence in Page(DOCS / name).fences
        if fence.language in ("sh", "python")
        and fence.tab in ("", tab)
        and not any(text in fence.text for text in LEFT_OUT)
    ]
    names = own_names(service)
    lines = ["set -eu"]
    for number, fence in enumerate(fences):
        text = re.sub(r"\b(?:orders|billing)\b", lambda word: names[word[0]], fence.text)
        text = text.replace("http://127.0.0.1:8000", service.facts.base_url)
        if fence.language == "python":
            (folder / f"fence{number}.py").write_text(text)
            text = f".venv/bin/python fence{number}.py"
        lines += [text, f"echo; echo '{MARK}'"]
    env = {name: text for name, text in os.environ.items() if not name.startswith("MQ_")}
    env["PATH"] = f"{folder / '.venv' / 'bin'}{os.pathsep}{env['PATH']}"
    env["PYTHONPATH"] = str(ROOT)
    env |= {"MQ_BASE_URL": service.facts.base_url, "MQ_API_KEY": service.facts.api_key}
    done = subprocess.run(
        ["sh", "-c", "\n".join(lines)],
        cwd=folder, env=env, capture_output=True, text=True, timeout=PAGE_TIMEOUT_S, check=False,
    )  # fmt: skip
    outputs = done.stdout.split(MARK)[:-1]
    assert done.returncode == 0, f"{name}: after {len(outputs)} fences: {done.stderr}"
    found = list(zip(fences, outputs, strict=True))
    refused = [f"{name}:{fence.line}: {text}" for fence, text in found if "/errors/" in text]
    assert refused == []
    return found


@pytest.mark.parametrize(
    ("name", "count_min"),
    [
        ("rest.md", 16),
        ("websocket.md", 1),
        ("access.md", 1),
        pytest.param("coming-from.md", 4, marks=pytest.mark.torture),
    ],
)
def test_every_command_of_the_page_is_taken(
    service: Service, folder: Path, name: str, count_min: int
) -> None:
    assert len(followed(service, folder, name)) >= count_min


@pytest.mark.parametrize(("tab", "count_min"), [("curl", 13), *in_torture(("CLI", 10))])
def test_every_command_of_the_guide_is_taken(
    service: Service, folder: Path, tab: str, count_min: int
) -> None:
    """Its other tabs are run by the tests of the clients, each with messages of its own."""
    outputs = followed(service, folder, "guide.md", tab)
    assert len([fence for fence, _ in outputs if fence.tab == tab]) >= count_min


@pytest.mark.parametrize(
    ("tab", "received", "rest"),
    [
        ("CLI", '{"order": 42}', ["task_"]),
        *in_torture(
            ("curl", '"acked":1', ['"dead_lettered":1', '"redrive"']),
            ("Python", '{"order":42}', ["", "bad schema"]),
        ),
    ],
)
def test_the_quick_start_does_what_it_says(
    service: Service, folder: Path, tab: str, received: str, rest: list[str]
) -> None:
    outputs = followed(service, folder, "quickstart.md", tab)

    sent, *said = [text for fence, text in outputs if fence.tab == tab]
    assert re.search(r"\b[0-9A-F]{34}\b", sent)
    for text, expected in zip(said, [received, *rest], strict=True):
        assert expected in text
