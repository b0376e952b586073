"""Commands to paste: what a stranger chose reaches curl as it is and is never run by the shell."""

from __future__ import annotations

import html
import re
import shlex
import subprocess
from urllib.parse import quote

import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.console.shared.curl_commands import curl_of
from mqservice.groups.models import ConsumerGroup
from mqservice.topics.models import Topic
from tests.people import People

HOSTILE = ["$(id)", "`id`", '"; id; "', "'; id; '", "a\nid", "$HOME", "é 订单", "\\", "!!"]


def arguments_of(command: str) -> list[str]:
    """What a shell hands to curl."""
    script = f'curl() {{ printf "%s\\0" "$@"; }}\nMQ_API_KEY=secret\n{command}'
    done = subprocess.run(["sh", "-c", script], capture_output=True, check=True, timeout=60)
    assert done.stderr == b""
    return done.stdout.decode().split("\0")[:-1]


@pytest.mark.parametrize("text", HOSTILE)
def test_a_shell_reads_what_was_meant(settings: Settings, text: str) -> None:
    settings.MQ_BASE_URL = "http://mq.example"
    given = arguments_of(curl_of("POST", f"/v1/{text}", {"text": text}))
    assert given[:2] == ["-sS", f"http://mq.example/v1/{text}"]
    assert given[2:4] == ["-H", "Authorization: Bearer secret"]
    body = given[given.index("-d") + 1]
    assert body.encode() == b'{"text":"%s"}' % _json_text(text)


def test_only_methods_that_curl_would_not_take_are_named() -> None:
    assert "-X" not in arguments_of(curl_of("GET", "/v1/quotas"))
    assert "-X" not in arguments_of(curl_of("POST", "/v1/keys", {}))
    assert arguments_of(curl_of("DELETE", "/v1/keys/a"))[1:3] == ["-X", "DELETE"]
    assert arguments_of(curl_of("POST", "/v1/keys/a:end"))[1:3] == ["-X", "POST"]


@pytest.mark.parametrize("text", ["$(id)", "`id`", '";id;"'])
def test_a_page_of_a_hostile_id_shows_a_harmless_command(
    people: People, client: Client, engine: str, text: str
) -> None:
    """Found by reading: the id stood within double quotes, where a shell runs ``$(…)``."""
    client.force_login(people.alice)
    page = client.get(f"/console/acme/traces/{quote(text)}").content.decode()
    shown = re.search(r"curl -sS[^<]*", page)
    assert shown is not None
    command = html.unescape(shown[0])
    assert text in arguments_of(command)[1]
    assert shlex.split(command)[2].endswith(f"/messages/{text}/trace")


def _json_text(text: str) -> bytes:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return escaped.encode()


@pytest.mark.parametrize(
    ("page", "path"),
    [
        ("", "/v1/ns/acme/attention"),
        ("topics", "/v1/ns/acme/topics"),
        ("topics/orders", "/v1/ns/acme/topics/orders"),
        ("topics/orders/edit", "-X PUT http://testserver/v1/ns/acme/topics/orders"),
        ("topics/orders/delete", "-X DELETE http://testserver/v1/ns/acme/topics/orders"),
        ("new-topic", "/v1/ns/acme/topics/orders"),
        ("keys", "/v1/keys"),
        ("members", "/v1/members"),
        ("reports", "/v1/ns/acme/reports"),
        ("tasks", "/v1/ns/acme/tasks"),
        ("scheduled", "/v1/ns/acme/scheduled"),
        ("definitions", "/v1/ns/acme/definitions"),
        ("read-only", "/v1/namespaces/acme"),
        ("tail", "/v1/ns/acme/topics"),
        ("search?q=or", "/v1/ns/acme/topics?contains=or'"),
        ("search?q=or", "/v1/ns/acme/groups?contains=or'"),
        ("dead-letters", "/v1/ns/acme/groups"),
        ("dead-letters", "/v1/ns/acme/groups/billing/dlq?limit=50'"),
        (
            "dead-letters/billing/purge?all=1",
            "http://testserver/v1/ns/acme/groups/billing/dlq:purge",
        ),
    ],
)
def test_pages_say_what_they_are_by_curl(
    people: People, client: Client, settings: Settings, page: str, path: str
) -> None:
    settings.MQ_BASE_URL = "http://testserver"
    Topic.objects.create(namespace=people.acme, name="orders")
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    client.force_login(people.alice)
    text = client.get(f"/console/acme/{page}").content.decode()
    shown = html.unescape(text[text.index('class="card curl"') :])
    assert f"{path} \\" in shown, shown[:600]


def test_tail_says_how_to_ask_for_what_is_stored_from_now_on(
    people: People, client: Client
) -> None:
    Topic.objects.create(namespace=people.acme, name="orders")
    client.force_login(people.alice)
    page = client.get("/console/acme/tail?topic=orders").content.decode()
    assert re.search(r"/topics/orders/messages\?from=[0-9-]{10}T[0-9:.]{12}Z", page)


def test_operator_page_says_what_it_is_without_a_key(people: People, client: Client) -> None:
    people.alice.is_superuser = True
    people.alice.save()
    client.force_login(people.alice)
    shown = re.search(r"curl -sS[^<]*", client.get("/console/-/operator").content.decode())
    assert shown is not None
    assert arguments_of(html.unescape(shown[0]))[1].endswith("/readyz")
    assert "API_KEY" not in shown[0]


CALLS = {
    "new-key": "/v1/keys",
    "new-alert": "/v1/ns/acme/alerts/billing-behind",
    "new-schedule": "/v1/ns/acme/schedules/nightly",
    "reports/2026-01-02": "/v1/ns/acme/reports/usage_daily?from=2026-01-02&to=2026-01-03",
}


@pytest.mark.parametrize("path", CALLS)
def test_forms_and_questions_show_their_call_too(
    people: People, engine: str, client: Client, path: str
) -> None:
    client.force_login(people.alice)
    page = client.get(f"/console/acme/{path}").content.decode()
    shown = re.search(r"curl -sS[^<]*", page)
    assert shown is not None
    (url,) = [each for each in arguments_of(html.unescape(shown[0])) if each.startswith("http")]
    assert url.endswith(CALLS[path])
