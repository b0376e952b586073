"""Definitions in the console: the file, a preview that has to be seen, and what is done of it."""

from __future__ import annotations

import hashlib
import html
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry
from mqservice.console.definitions import preview as definitions
from mqservice.console.shared import signed_previews
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.services import GroupChange, put_group
from mqservice.lib.yaml_text import read_yaml
from mqservice.topic_schemas.models import TopicSchema
from mqservice.topics.models import Topic
from mqservice.topics.services import TopicChange, put_topic
from tests.mqservice.console.reading import why_not
from tests.people import People

PAGE = "/console/acme/definitions"
IMPORT = f"{PAGE}/import"
DOCUMENT: dict[str, Any] = {  # Any: JSON
    "version": 1,
    "topics": [{"name": "orders", "queues": 6}, {"name": "bulk"}],
    "groups": [{"name": "billing", "lease": "45s"}],
}


@pytest.fixture
def alice(people: People, engine: str, client: Client) -> Client:
    put_topic(people.acme, "orders", TopicChange(queue_count=2))
    put_group(people.acme, "billing", GroupChange(lease_ms=45_000))
    client.force_login(people.alice)
    return client


def file_of(content: object, name: str = "definitions.json") -> SimpleUploadedFile:
    return SimpleUploadedFile(name, json.dumps(content, indent=2).replace("\n", "\r\n").encode())


def hidden(page: str) -> dict[str, str]:
    """What the preview's form brings back."""
    return {
        name: html.unescape(value)
        for name, value in re.findall(r'name="(document|token)" value="([^"]*)"', page)
    }


def test_the_file_is_the_document_of_the_api(
    alice: Client, people: People, api: Callable[[str], Client]
) -> None:
    answer = alice.get(f"{PAGE}.json")
    assert answer["Content-Disposition"] == 'attachment; filename="acme-definitions.json"'
    assert answer.content.count(b"\n") > 20
    asked = api(people.acme_key).get("/v1/ns/acme/definitions").json()
    assert json.loads(answer.content) == asked
    some = json.loads(alice.get(f"{PAGE}.json", {"prefix": "bil"}).content)
    assert (some["topics"], [each["name"] for each in some["groups"]]) == ([], ["billing"])


def test_a_preview_shows_what_becomes_different_and_only_it_is_done(alice: Client) -> None:
    entries = AuditEntry.objects.count()
    page = alice.post(IMPORT, {"file": file_of(DOCUMENT)}).content.decode()
    numbers = re.findall(r'stat-label">([^<]*)</span><span class="stat-number">(\d+)<', page)
    assert numbers == [("To create", "1"), ("To change", "1"), ("Unchanged", "1")]
    assert '<span class="soft small">queues</span> <del>2</del>' in page
    assert "<ins>6</ins>" in page
    assert ">billing</span>" not in page
    assert AuditEntry.objects.count() == entries
    assert not Topic.objects.filter(name="bulk").exists()

    done = alice.post(IMPORT, hidden(page), follow=True)

    assert done.redirect_chain[-1][0] == PAGE
    assert "Imported: 1 created, 1 changed, 1 unchanged." in done.content.decode()
    assert dict(Topic.objects.values_list("name", "queue_count")) == {"orders": 6, "bulk": 4}
    assert {each.actor for each in AuditEntry.objects.all()[entries:]} == {"user:alice"}


def test_schemas_are_in_the_file_and_in_the_preview(alice: Client, people: People) -> None:
    schema = {"kind": "avro", "definition": '"long"', "message": None}
    document = {"version": 2, "topics": [{"name": "orders", "schema": schema}]}
    page = alice.post(IMPORT, {"text": json.dumps(document)}).content.decode()
    digest = hashlib.sha256(b'"long"').hexdigest()
    assert '<span class="soft small">schema</span>' in page
    assert digest in page
    assert alice.post(IMPORT, hidden(page)).status_code == 302
    assert TopicSchema.objects.get(topic__name="orders").definition == '"long"'
    (orders,) = alice.get(f"{PAGE}.json").json()["topics"]
    assert orders["schema"] == schema
    assert (
        "All settings already match."
        in alice.post(IMPORT, {"text": json.dumps(document)}).content.decode()
    )


def test_text_is_as_good_as_a_file_and_one_of_both_is_needed(alice: Client) -> None:
    text = json.dumps(DOCUMENT)
    assert hidden(alice.post(IMPORT, {"text": text}).content.decode())["document"]
    for data in ({}, {"text": " \n"}, {"text": text, "file": file_of(DOCUMENT)}):
        answer = alice.post(IMPORT, data)
        assert answer.status_code == 422
        assert "Choose a file or paste its contents" in answer.content.decode()


@pytest.mark.parametrize("text", ["{", "{\xff", '{"a": 1e999}', "[" * 5_000])
def test_what_is_no_json_is_refused_at_the_form(alice: Client, text: str) -> None:
    answer = alice.post(IMPORT, {"text": text})
    assert answer.status_code == 422
    assert "This is not valid JSON" in answer.content.decode()


def test_a_field_that_is_there_twice_is_refused_before_it_is_lost(alice: Client) -> None:
    answer = alice.post(IMPORT, {"text": '{"version": 1, "topics": [{"name": "a"}], "topics": []}'})
    assert answer.status_code == 422
    assert "is given twice" in answer.content.decode()


def test_yaml_of_the_page_comes_back_as_what_it_was(
    alice: Client, people: People, api: Callable[[str], Client]
) -> None:
    answer = alice.get(f"{PAGE}.yaml")
    assert answer["Content-Disposition"] == 'attachment; filename="acme-definitions.yaml"'
    assert answer["Content-Type"] == "application/yaml"
    assert read_yaml(answer.content) == api(people.acme_key).get("/v1/ns/acme/definitions").json()
    changed = answer.content.replace(b"queues: 2", b"queues: 6").replace(b"\n", b"\r\n")

    page = alice.post(IMPORT, {"file": SimpleUploadedFile("mine.YML", changed)}).content.decode()
    pasted = alice.post(IMPORT, {"text": changed.decode()}).content.decode()

    assert "<ins>6</ins>" in page
    assert hidden(page)["document"] == hidden(pasted)["document"]
    assert alice.post(IMPORT, hidden(page)).status_code == 302
    assert Topic.objects.get(name="orders").queue_count == 6


def test_faults_of_yaml_are_reported_with_line_and_column(alice: Client) -> None:
    text = "version: 1\ntopics:\n  - name: orders\n    queues: 0\n"
    answer = alice.post(IMPORT, {"text": text})
    assert answer.status_code == 400
    page = html.unescape(answer.content.decode())
    assert "line 4, column 5: must be in [1, 256], found 0" in page
    answer = alice.post(IMPORT, {"text": "version: 1\ntopics: [\n"})
    assert answer.status_code == 422
    assert "This is not valid YAML: line 3, column 1:" in html.unescape(answer.content.decode())


def test_without_an_engine_nothing_is_imported(alice: Client, settings: Settings) -> None:
    page = alice.post(IMPORT, {"text": json.dumps(DOCUMENT)}).content.decode()
    settings.MQ_ENGINE_SOCKET = "/nonexistent/engine.sock"
    answer = alice.post(IMPORT, hidden(page))
    assert answer.status_code == 503
    assert "the storage engine is not responding" in answer.content.decode()
    assert not Topic.objects.filter(name="bulk").exists()


def test_a_document_too_large_for_the_way_back_is_refused(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "DOCUMENT_BYTES_MAX", 10)
    answer = alice.post(IMPORT, {"text": json.dumps(DOCUMENT)})
    assert answer.status_code == 422
    assert "Split it" in answer.content.decode()


def test_faults_are_shown_with_their_places_and_the_name_there(alice: Client) -> None:
    wrong = {"version": 1, "topics": [{"name": "orders"}, {"name": "a<b", "queues": 0}], "x": 1}
    answer = alice.post(IMPORT, {"text": json.dumps(wrong)})
    page = answer.content.decode()
    assert answer.status_code == 400
    for shown in ("/topics/1/name", "/topics/1/queues", "/x", "Nothing was changed", "a&lt;b"):
        assert shown in page
    assert "a<b" not in page
    assert 'name="token"' not in page


def test_settings_that_moved_on_are_shown_again_before_anything_is_done(
    alice: Client, people: People
) -> None:
    page = alice.post(IMPORT, {"file": file_of(DOCUMENT)}).content.decode()
    put_topic(people.acme, "orders", TopicChange(queue_count=5))

    again = alice.post(IMPORT, hidden(page))

    assert again.status_code == 409
    text = again.content.decode()
    assert "so nothing was applied" in text
    assert "<del>5</del>" in text
    assert Topic.objects.get(name="orders").queue_count == 5
    assert not Topic.objects.filter(name="bulk").exists()
    assert alice.post(IMPORT, hidden(text)).status_code == 302
    assert Topic.objects.get(name="orders").queue_count == 6


def test_what_was_not_previewed_is_not_done(alice: Client, people: People) -> None:
    good = hidden(alice.post(IMPORT, {"file": file_of(DOCUMENT)}).content.decode())
    other = json.dumps({"version": 1, "topics": [{"name": "smuggled"}]})
    for data in (
        good | {"document": other},
        good | {"token": good["token"][:-1]},
        {"token": good["token"]},
        {"document": other, "token": ""},
    ):
        answer = alice.post(IMPORT, data)
        assert answer.status_code == 422
        assert "has expired or belongs to someone else" in answer.content.decode()
    alice.force_login(people.charlie)
    assert alice.post("/console/rival/definitions/import", good).status_code == 422
    assert Topic.objects.count() == 1


def test_a_preview_is_valid_for_ten_minutes(alice: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    good = hidden(alice.post(IMPORT, {"file": file_of(DOCUMENT)}).content.decode())
    monkeypatch.setattr(signed_previews, "PREVIEW_SECONDS_MAX", -1)
    assert alice.post(IMPORT, good).status_code == 422
    assert Topic.objects.count() == 1


def test_of_a_large_import_the_first_are_shown_and_the_rest_counted(
    alice: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(definitions, "SHOWN_MAX", 2)
    many = {"version": 1, "topics": [{"name": f"t{at}"} for at in range(5)]}
    page = alice.post(IMPORT, {"text": json.dumps(many)}).content.decode()
    assert "3 more changes are not shown." in page
    assert page.count(">t") >= 2
    assert ">t2</span>" not in page
    assert alice.post(IMPORT, hidden(page)).status_code == 302
    assert Topic.objects.count() == 6


def test_an_import_that_changes_nothing_has_no_button(alice: Client) -> None:
    same = {"version": 1, "groups": [{"name": "billing", "lease": "45s"}]}
    page = alice.post(IMPORT, {"text": json.dumps(same)}).content.decode()
    assert "All settings already match." in page
    assert ">Import</button>" not in page


def test_a_viewer_downloads_and_is_told_why_not_to_import(people: People, alice: Client) -> None:
    alice.force_login(people.bob)
    page = alice.get(PAGE).content.decode()
    assert "Download JSON" in page
    assert 'type="file"' not in page
    assert "Preview" in why_not(page)
    assert ":import" not in page
    assert alice.get(f"{PAGE}.json").status_code == 200
    for data in ({"text": json.dumps(DOCUMENT)}, {"token": "x", "document": "{}"}):
        assert alice.post(IMPORT, data).status_code == 403
    assert alice.get(IMPORT).status_code == 403
    assert ConsumerGroup.objects.count() == 1


def test_a_stranger_finds_nothing(people: People, alice: Client) -> None:
    alice.force_login(people.charlie)
    for path in (PAGE, f"{PAGE}.json", IMPORT):
        assert alice.get(path).status_code == 404
    assert alice.post(IMPORT, {"text": json.dumps(DOCUMENT)}).status_code == 404
