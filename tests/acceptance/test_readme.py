"""What the README and the panel tell a stranger to type, typed."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from mqservice.supervisor.quickstart import curl_line
from tests.services import Service, consume

pytestmark = pytest.mark.acceptance
ROOT = Path(__file__).resolve().parents[2]
COMMAND_TIMEOUT_S = 180


def _block(language: str, containing: str) -> str:
    """The one code block of the README that contains a text."""
    blocks = re.findall(
        rf"^```{language}\n(.*?)^```", (ROOT / "README.md").read_text(), re.M | re.S
    )
    found = [block for block in blocks if containing in block]
    assert len(found) == 1, found
    return str(found[0])


def _typed(service: Service, argv: list[str]) -> str:
    """Output of a command on the machine of ``service``; fails with it unless it ends well."""
    env = {
        **os.environ,
        "MQ_BASE_URL": service.facts.base_url,
        "MQ_API_KEY": service.facts.api_key,
        "MQ_DATA_DIR": str(service.data_dir),
    }
    env.pop("MQ_NAMESPACE", None)
    done = subprocess.run(
        argv,
        cwd=ROOT,
        env=env,
        capture_output=True,
        text=True,
        timeout=COMMAND_TIMEOUT_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture(autouse=True)
def _nothing_waits(service: Service) -> None:
    """Other tests of the same service may have left messages where the README's are looked for."""
    consume(service.facts, service.facts.topic, service.facts.group, wait="100ms")


def test_curl_line_of_the_panel_stores_a_message(service: Service) -> None:
    answer = json.loads(_typed(service, ["sh", "-c", curl_line(service.facts)]))

    assert len(answer["id"]) == 34
    assert answer["topic"] == service.facts.topic


def test_curl_lines_produce_receive_and_settle(service: Service) -> None:
    output = _typed(service, ["sh", "-ec", _block("sh", "billing:settle")])
    produced, end = json.JSONDecoder().raw_decode(output)
    received, settled = map(json.loads, output[end:].splitlines())

    assert len(produced["id"]) == 34
    assert [message["body_json"] for message in received["messages"]] == [{"order": 42}]
    assert settled["acked"] == 1


def test_command_lines_produce_and_consume(service: Service) -> None:
    program = f"{sys.executable} -m mqservice.cli.main"
    block = _block("sh", "mqservice consume").replace(".venv/bin/mqservice", program)
    output = _typed(service, ["sh", "-ec", block])

    assert "first" in output
    assert "second" in output


def test_python_lines_print_a_message(service: Service) -> None:
    output = _typed(service, [sys.executable, "-c", _block("python", "mqservice_client")])

    assert output == '{"order":42}\n'
