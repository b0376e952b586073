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
    env = {**os.environ, "KEY": service.facts.api_key, "MQ_DATA_DIR": str(service.data_dir)}
    for name in ("MQ_BASE_URL", "MQ_API_KEY", "MQ_NAMESPACE"):
        env.pop(name, None)
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


def _here(service: Service, text: str) -> str:
    """The text with the address and the programs of this run."""
    program = f"{sys.executable} -m mqservice.cli.main"
    return (
        text.replace("http://127.0.0.1:8000", service.facts.base_url)
        .replace("ws://127.0.0.1:8000/v1/ws", service.facts.ws_url)
        .replace(".venv/bin/mqservice", program)
    )


@pytest.fixture(autouse=True)
def _nothing_waits(service: Service) -> None:
    """Other tests of the same service may have left messages where the README's are looked for."""
    consume(service.facts, service.facts.topic, service.facts.group, wait="100ms")


def test_curl_line_of_the_panel_stores_a_message(service: Service) -> None:
    answer = json.loads(_typed(service, ["sh", "-c", curl_line(service.facts)]))

    assert len(answer["id"]) == 34
    assert answer["topic"] == service.facts.topic


def test_curl_lines_produce_receive_and_settle(service: Service) -> None:
    """In one shell, which keeps what was received: another user may own any file in /tmp."""
    blocks = [_block("sh", "orders/groups/billing:receive"), _block("sh", "billing:settle")]
    output = _typed(service, ["sh", "-ec", _here(service, "".join(blocks))])
    produced, end = json.JSONDecoder().raw_decode(output)
    received, settled = map(json.loads, output[end:].splitlines())

    assert len(produced["id"]) == 34
    bodies = [message.get("body_json") for message in received["messages"]]
    assert {"order": 42} in bodies
    assert settled["acked"] == len(received["messages"])


def test_command_lines_produce_and_consume(service: Service) -> None:
    output = _typed(service, ["sh", "-ec", _here(service, _block("sh", "mqservice consume"))])

    assert "first" in output
    assert "second" in output


def test_websocket_lines_print_a_message(service: Service) -> None:
    output = _typed(service, [sys.executable, "-c", _here(service, _block("python", "websockets"))])

    assert "hello" in output
