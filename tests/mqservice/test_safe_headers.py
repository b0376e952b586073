"""Walks every route: the headers that limit browsers, tokens of forms, and what cookies open."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator

import httpx
import pytest
from django.test import Client
from pytest_django import Settings

from mqservice.console.assets import version
from mqservice.lib.middleware import CONTENT_SECURITY_POLICY
from mqservice.lib.safe_headers import api_headers, refusal_headers
from tests.mqservice.delivery.serving import Server, serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.reference.test_openapi import django_paths, filled, operations
from tests.people import People
from tests.sizes import sized

DATA_PLANE = re.compile(r".*/(messages|scheduled|dlq|queues)\b.*|.*:(receive|settle)")
SAFE = {
    "Content-Security-Policy": CONTENT_SECURITY_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "same-origin",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "X-Frame-Options": "DENY",
}
OTHER_METHODS = ("HEAD", "PUT", "DELETE", "PATCH", "OPTIONS")


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with serving(StoreDouble()) as running:
        yield running


def django_routes() -> list[str]:
    found = sorted({re.sub(r"{(\w+:)?\w+}", "acme", path) for path in django_paths()})
    assert len(found) > 30
    return found


def test_content_policy_is_the_strict_one() -> None:
    policy = dict(part.split(" ", 1) for part in CONTENT_SECURITY_POLICY.split("; "))
    assert policy["default-src"] == policy["frame-ancestors"] == policy["base-uri"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == policy["form-action"] == "'self'"
    assert policy["require-trusted-types-for"] == "'script'"
    assert "unsafe" not in CONTENT_SECURITY_POLICY
    assert "*" not in CONTENT_SECURITY_POLICY


@pytest.mark.sized
def test_every_answer_of_every_route_has_the_headers(people: People) -> None:
    signed_in = Client()
    signed_in.force_login(people.alice)
    wrong = []
    count = sized(1, torture=len(OTHER_METHODS))
    for client, others in ((Client(), 0), (signed_in, count)):
        for number, path in enumerate(django_routes()):
            in_turn = [
                OTHER_METHODS[(number + each) % len(OTHER_METHODS)] for each in range(others)
            ]
            for method in ("GET", "POST", *in_turn):
                answer = client.generic(method, path)
                lacks = {name for name, value in SAFE.items() if answer.get(name) != value}
                if lacks or "Permissions-Policy" not in answer or "Cache-Control" not in answer:
                    wrong.append((method, path, answer.status_code, lacks))
                if "Access-Control-Allow-Origin" in answer or answer.get("Vary") == "*":
                    wrong.append((method, path, answer.status_code, {"open to other origins"}))
    assert wrong == []


def test_answers_to_members_and_keys_are_not_kept(people: People) -> None:
    client = Client(headers={"authorization": f"Bearer {people.acme_key}"})
    client.force_login(people.alice)
    for path in ("/console/acme/", "/v1/ns/acme/topics", "/v1/ns/acme/nothing"):
        assert client.get(path)["Cache-Control"] == "no-store"


def test_files_have_the_headers_too(server: Server) -> None:
    # On one connection, and the one that is no file last: whoever leaves while a file is being
    # sent leaves its closing to the garbage collector, which warns.
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for path in ("/static/build/console.css", "/static/js/reference.js", "/static/nothing.css"):
            headers = http.get(path).headers
            assert headers["x-content-type-options"] == "nosniff"
            assert headers["content-security-policy"] == CONTENT_SECURITY_POLICY
            assert headers["referrer-policy"] == "same-origin"


def test_built_files_of_this_version_alone_are_kept_for_a_year(server: Server) -> None:
    kept = {
        f"/static/build/console.css?v={version()}": "max-age=31536000, public, immutable",
        # A page of another version asks: what it gets is not what that version has.
        "/static/build/console.css?v=0123456789ab": "max-age=300, public",
        "/static/build/console.css": "max-age=300, public",
        f"/static/js/reference.js?v={version()}": "max-age=300, public",
    }
    with httpx.Client(base_url=server.url, timeout=60) as http:
        found = {path: http.get(path).headers["cache-control"] for path in kept}
        missing = http.get(f"/static/build/nothing.css?v={version()}")
    assert found == kept
    assert "immutable" not in missing.headers["cache-control"]


def test_every_answer_of_the_data_plane_has_its_headers(server: Server) -> None:
    server.topic("orders")
    server.group("billing")
    key = server.key()
    seen = set()
    with httpx.Client(base_url=server.url, timeout=60) as http:
        for method, path, _ in operations():
            if DATA_PLANE.fullmatch(path) is None or "trace" in path or "dlq:" in path:
                continue
            url = filled(path).replace("/topic", "/orders", 1).replace("orderss", "topics")
            url = url.replace("/ns/demo", "/ns/-").replace("/groups/group", "/groups/billing")
            for headers in ({}, {"authorization": key}):
                answer = http.request(method, url, headers=headers, json={"wait": "0s"})
                seen.add(answer.status_code)
                assert answer.headers["x-content-type-options"] == "nosniff", url
                assert answer.headers["cache-control"] == "no-store"
                assert "x-request-id" in answer.headers
                if answer.status_code >= 400:
                    assert "frame-ancestors 'none'" in answer.headers["content-security-policy"]
        http.post("/v1/-/topics/orders/messages", headers={"authorization": key}, content=b"x")
    assert {200, 400, 401, 404} <= seen


def test_strict_transport_security_goes_with_https(settings: Settings, client: Client) -> None:
    assert "Strict-Transport-Security" not in client.get("/healthz")
    assert b"strict-transport-security" not in dict(api_headers())

    settings.SECURE_HSTS_SECONDS = 31_536_000

    # Also on a request that came by plain HTTP from the proxy that ends TLS.
    assert client.get("/healthz")["Strict-Transport-Security"] == "max-age=31536000"
    for headers in (api_headers(), refusal_headers()):
        assert dict(headers)[b"strict-transport-security"] == b"max-age=31536000"


def test_deployment_check_of_the_framework_has_nothing_to_say() -> None:
    done = subprocess.run(
        [sys.executable, "manage.py", "check", "--deploy", "--fail-level", "WARNING"],
        env={
            **{name: value for name, value in os.environ.items() if not name.startswith("MQ_")},
            "DJANGO_SETTINGS_MODULE": "mqservice.settings",
            "MQ_SECRET_KEY": "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ",
            "MQ_BASE_URL": "https://mq.example.com",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def test_every_form_of_the_console_needs_its_token(people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people.alice)
    paths = [path for path in django_routes() if path.startswith("/console/")]
    assert "/console/login" in paths
    for path in paths:
        for method in ("POST", "PUT", "PATCH", "DELETE"):
            answer = client.generic(method, path, b"{}", content_type="application/json")
            # Before anything is looked up: 404 would only say that this topic is not there.
            assert answer.status_code == 403, (method, path)
    for kind in ("application/x-www-form-urlencoded", "text/plain"):
        assert client.post("/console/login", b"{}", content_type=kind).status_code == 403


def test_another_sessions_token_is_no_token(people: People) -> None:
    other, client = Client(enforce_csrf_checks=True), Client(enforce_csrf_checks=True)
    other.get("/account/login/")
    foreign = other.cookies["mq_csrf"].value
    client.force_login(people.alice)
    client.get("/console/acme/")
    answer = client.post("/console/logout", {"csrfmiddlewaretoken": foreign})
    assert answer.status_code == 403


def test_form_from_another_origin_is_refused(people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    page = client.get("/account/login/").content.decode()
    found = re.search(r'csrfmiddlewaretoken" value="(\w+)"', page)
    assert found is not None
    form = {"login": "alice", "password": "wrong", "csrfmiddlewaretoken": found[1]}
    assert client.post("/account/login/", form).status_code == 200
    for origin in ("https://evil.example", "null", "http://testserver.evil.example"):
        assert client.post("/account/login/", form, headers={"origin": origin}).status_code == 403


def test_session_of_the_console_opens_nothing_of_the_api(people: People) -> None:
    client = Client()
    client.force_login(people.alice)
    for path in django_routes():
        if path.startswith("/v1/ns/"):
            for method in ("GET", "POST", "PUT", "DELETE"):
                assert client.generic(method, path).status_code in (401, 405), (method, path)
