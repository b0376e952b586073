"""The documents over HTTP, and the page for people: what they say, and what they do without."""

from __future__ import annotations

import json
import re
from html.parser import HTMLParser
from pathlib import Path

import pytest
from django.test import Client

from mqservice.lib.problem import CODES
from mqservice.lib.prose import prose
from mqservice.reference.openapi import openapi_document
from tests.mqservice.console.test_pages import INLINE

ROOT = Path(__file__).resolve().parents[3]
DOCUMENTS = ["/v1/openapi.json", "/v1/asyncapi.json", "/llms.txt"]


@pytest.mark.parametrize("path", DOCUMENTS)
def test_document_is_served_and_kept_by_caches(client: Client, path: str) -> None:
    first = client.get(path)
    assert first.status_code == 200
    assert first["Cache-Control"] == "public, max-age=300"
    assert client.head(path).status_code == 200
    again = client.get(path, headers={"if-none-match": first["ETag"]})
    assert (again.status_code, again.content) == (304, b"")
    assert client.post(path).status_code == 405


def test_short_addresses_are_the_same_documents(client: Client) -> None:
    for name in ("openapi.json", "asyncapi.json"):
        assert client.get(f"/{name}").content == client.get(f"/v1/{name}").content


def test_openapi_is_json_of_version_3_1(client: Client) -> None:
    answer = client.get("/v1/openapi.json")
    assert answer["Content-Type"] == "application/json"
    assert json.loads(answer.content)["openapi"].startswith("3.1")


def test_llms_text_names_every_operation_and_code(client: Client) -> None:
    text = client.get("/llms.txt").content.decode()
    assert text.startswith("# mqservice\n\n> ")
    for path, methods in openapi_document()["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in text
    assert all(code in text for code in ("TOPIC_NOT_FOUND", "STORAGE_BUSY", "LEASE_EXPIRED"))
    assert len(text) < 13_800


class Page(HTMLParser):
    """Which ids, links and loaded files a page has."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.loads: list[str] = []
        self.labels: set[str] = set()
        self.inputs: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.append(found["href"])
        if tag in ("link", "script", "img"):
            self.loads.append(found.get("href") or found["src"])
        if tag == "label":
            self.labels.add(found["for"])
        if tag in ("input", "textarea"):
            self.inputs.append(found["id"])


@pytest.fixture
def page(client: Client) -> Page:
    answer = client.get("/docs")
    assert answer.status_code == 200
    text = answer.content.decode()
    assert INLINE.search(text.replace("<script src=", "<link src=")) is None
    return Page(text)


def test_page_has_every_operation_once(page: Page) -> None:
    identities = [
        operation["operationId"]
        for methods in openapi_document()["paths"].values()
        for operation in methods.values()
    ]
    assert len(set(page.ids)) == len(page.ids)
    assert set(identities) <= set(page.ids)


def test_links_of_the_page_lead_somewhere(page: Page, client: Client) -> None:
    inner = {link[1:] for link in page.links if link.startswith("#")}
    assert inner <= set(page.ids)
    errors = {link for link in page.links if link.startswith("/errors/")}
    assert len(errors) > 30
    assert errors <= {f"/errors/{code.lower().replace('_', '-')}" for code in CODES}
    for link in set(page.links) - errors:
        if link.startswith("/") and not link.startswith("/console"):
            assert client.get(link).status_code == 200, link


def test_page_loads_only_files_of_the_service(page: Page) -> None:
    assert page.loads
    for load in page.loads:
        assert load.startswith("/static/")
        assert (ROOT / "frontend" / load.removeprefix("/").partition("?")[0]).is_file()


def test_every_input_has_a_label(page: Page) -> None:
    assert page.inputs
    assert set(page.inputs) <= page.labels


def test_script_needs_nothing_that_the_content_policy_forbids() -> None:
    script = (ROOT / "frontend/static/js/reference.js").read_text()
    assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|eval\(|document\.write", script)
    assert "localStorage" not in script  # a key must not outlive the page


def test_descriptions_are_escaped() -> None:
    assert prose("a <b> `x<y`\n\n* one\n* two `z`") == (
        "<p>a &lt;b&gt; <code>x&lt;y</code></p><ul><li>one</li><li>two <code>z</code></li></ul>"
    )
