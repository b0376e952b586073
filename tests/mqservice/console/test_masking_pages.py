"""Masking in the console: the page, what pages get to show, what stands in files and the tail."""

from __future__ import annotations

import csv
import io
import json
from typing import Any  # JSON

import pytest
from asgiref.sync import sync_to_async
from django.http import HttpRequest
from django.test import Client

from mqservice.accounts.models import AuditEntry, Member, Role
from mqservice.accounts.session_access import find_session_principal
from mqservice.console.messages.exports import csv_of, json_of
from mqservice.console.shared import data_plane
from mqservice.console.shared.bodies import preview, shown_body
from mqservice.console.shared.data_plane import DataPlaneResponse, call_data_plane, call_for_stream
from mqservice.console.tail.rows import row_of
from mqservice.groups.models import ConsumerGroup
from mqservice.masking.json_fields import MASK
from mqservice.masking.masks import masks_of
from mqservice.masking.models import MaskPolicy, MaskRule
from mqservice.store import Record
from mqservice.topics.models import Topic
from tests.mqservice.console.reading import why_not
from tests.mqservice.console.test_exports import letter, pages
from tests.people import People

ROOT = "/console/acme"
MESSAGES = f"{ROOT}/topics/payments/messages"
FORM = {
    "name": "cards", "topics": "pay*", "part": "field", "path": "/card", "clear_for": "admin",
}  # fmt: skip
SECRET = "4111-1111"
PATHS = (
    "/v1/ns/acme/topics/payments/messages",
    "/v1/ns/acme/topics/payments/scheduled",
    "/v1/ns/acme/scheduled",
    "/v1/ns/acme/groups/billing/dlq",
)


def stored(**fields: object) -> dict[str, Any]:  # Any: JSON
    text = json.dumps({"id": 1, "card": SECRET})
    return {
        **letter(body_json=json.loads(text), body_text=text), "topic": "payments", "queue": 0,
        "offset": 0, "born_at": "2026-11-22T09:00:00.000Z", "properties": {"pin": SECRET}, **fields,
    }  # fmt: skip


@pytest.fixture
def answer(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:  # Any: JSON
    """What the data plane would answer whoever asks, whatever they ask for."""
    data: dict[str, Any] = {"messages": [stored()], "next_cursor": None, "is_complete": True}

    async def answered(*_arguments: object) -> DataPlaneResponse:
        return DataPlaneResponse(status=200, data=data)

    monkeypatch.setattr(data_plane, "_call", answered)
    monkeypatch.setattr(data_plane, "_plane_of", lambda _request: None)
    return data


@pytest.fixture
def alice(people: People, client: Client) -> Client:
    """A developer."""
    for name in ("payments", "orders"):
        Topic.objects.create(namespace=people.acme, name=name)
    ConsumerGroup.objects.create(namespace=people.acme, name="billing")
    client.force_login(people.alice)
    become(people, Role.DEVELOPER)
    return client


def become(people: People, role: Role) -> None:
    Member.objects.filter(user=people.alice).update(role=role.value)


def hide(people: People, **fields: str) -> None:
    name = f"rule{MaskRule.objects.count()}"
    MaskRule.objects.create(namespace=people.acme, name=name, **{"topics": "pay*", **fields})


def asked(people: People, path: str, query: dict[str, str] | None = None) -> DataPlaneResponse:
    person = find_session_principal(people.alice, people.acme)
    assert person is not None
    return call_data_plane(HttpRequest(), person, "GET", path, query=query)


def test_rule_is_made_changed_and_deleted_by_an_admin(people: People, alice: Client) -> None:
    assert alice.post(f"{ROOT}/new-mask", FORM).status_code == 403
    page = alice.get(f"{ROOT}/masking").content.decode()
    assert "New rule" in why_not(page)
    assert "/new-mask" not in page
    become(people, Role.ADMIN)
    assert alice.post(f"{ROOT}/new-mask", {**FORM, "path": "card"}).status_code == 422
    assert alice.post(f"{ROOT}/new-mask", FORM).status_code == 302
    assert "already" in alice.post(f"{ROOT}/new-mask", FORM).content.decode()
    page = alice.get(f"{ROOT}/masking").content.decode()
    assert '<code class="wrap-anywhere">/card</code>' in page
    changed = {**FORM, "path": "/other", "clear_for": "owner", "revision": "1"}
    assert alice.post(f"{ROOT}/masking/cards/edit", changed).status_code == 302
    late = alice.post(f"{ROOT}/masking/cards/edit", changed)
    assert late.status_code == 422
    assert "only an owner can change it" in alice.get(f"{ROOT}/masking").content.decode()
    gone = alice.post(f"{ROOT}/masking/cards/delete", {"confirm": "cards"})
    assert "only the role owner" in gone.content.decode()
    become(people, Role.OWNER)
    assert alice.post(f"{ROOT}/masking/cards/delete", {"confirm": "cards"}).status_code == 302
    assert not MaskRule.objects.exists()


def test_switch_for_bodies_is_an_admins(people: People, alice: Client) -> None:
    wanted = {"bodies_for": "owner"}
    assert alice.post(f"{ROOT}/masking-bodies", wanted).status_code == 403
    become(people, Role.ADMIN)
    assert alice.post(f"{ROOT}/masking-bodies", {"bodies_for": "nobody"}).status_code == 404
    assert alice.post(f"{ROOT}/masking-bodies", wanted).status_code == 302
    assert MaskPolicy.objects.get().bodies_for == "owner"
    alice.post(f"{ROOT}/masking-bodies", {"bodies_for": "admin"})
    assert MaskPolicy.objects.get().bodies_for == "owner"


@pytest.mark.parametrize("path", PATHS)
def test_no_road_to_messages_shows_what_is_hidden(
    people: People, alice: Client, answer: dict[str, Any], path: str
) -> None:
    hide(people, part="field", path="/card")
    hide(people, part="property", path="pin")
    [message] = asked(people, path).data["messages"]
    assert SECRET not in json.dumps(message)
    assert message["body_json"] == {"id": 1, "card": MASK}
    assert preview(message, None) == json.dumps({"id": 1, "card": MASK}, ensure_ascii=False)
    body = shown_body(message, None)
    assert body.masked == "fields"
    assert SECRET not in f"{body.text}{body.tree}{body.hex}"
    assert (message["properties"], message["masked_properties"]) == ({"pin": MASK}, ["pin"])
    become(people, Role.ADMIN)
    [message] = asked(people, path).data["messages"]
    assert message == answer["messages"][0]


@pytest.mark.parametrize(
    "forms",
    [{"body": SECRET}, {"body_b64": "NDExMS0xMTEx"}, {"body": f'{{"card": "{SECRET}'}],
)
def test_what_is_no_json_is_hidden_as_a_whole(
    people: People, alice: Client, answer: dict[str, Any], forms: dict[str, str]
) -> None:
    hide(people, part="field", path="/card")
    bare = {name: value for name, value in stored().items() if not name.startswith("body")}
    answer["messages"] = [{**bare, **forms}]
    [message] = asked(people, PATHS[0]).data["messages"]
    assert not [name for name in message if name in ("body", "body_b64", "body_json", "body_text")]
    assert preview(message, None) == "hidden from your role"
    body = shown_body(message, None)
    assert (body.is_hidden, body.text, body.tree, body.hex) == (True, None, None, "")
    assert body.size_bytes > 0


def test_pages_and_files_of_a_hidden_body_hold_none_of_it(
    people: People, alice: Client, answer: dict[str, Any]
) -> None:
    MaskPolicy.objects.create(namespace=people.acme, bodies_for="admin")
    one = stored()
    answer.clear()
    answer |= one
    page = alice.get(f"{MESSAGES}/01AB").content.decode()
    assert "hidden from your role by masking" in page
    assert f"card&quot;: &quot;{SECRET}" not in page
    assert "Download body" not in page
    assert alice.get(f"{MESSAGES}/01AB/body").status_code == 403
    assert alice.get(f"{ROOT}/dead-letters/billing/messages/01AB/body").status_code == 403
    form = alice.get(f"{ROOT}/topics/payments/publish?from=01AB").content.decode()
    assert "card&quot;" not in form
    assert "were left out" in form
    become(people, Role.ADMIN)
    assert SECRET in alice.get(f"{MESSAGES}/01AB/body").content.decode()


def test_file_of_a_body_with_hidden_fields_has_them_hidden_too(
    people: People, alice: Client, answer: dict[str, Any]
) -> None:
    hide(people, part="field", path="/card")
    hide(people, part="property", path="pin")
    one = stored()
    answer.clear()
    answer |= one
    file = alice.get(f"{MESSAGES}/01AB/body")
    assert json.loads(file.content) == {"id": 1, "card": MASK}
    assert "-masked.bin" in file["Content-Disposition"]
    page = alice.get(f"{MESSAGES}/01AB").content.decode()
    assert SECRET not in page
    form = alice.get(f"{ROOT}/topics/payments/publish?from=01AB").content.decode()
    assert SECRET not in form
    assert MASK not in form  # it would become part of the new message


async def test_exports_say_what_is_hidden() -> None:
    hidden = {**letter(), "masked": "body", "body_bytes": 7}
    del hidden["body"]
    fields = letter(body_json={"card": MASK}, body_text=f'{{"card": "{MASK}"}}', masked="fields")
    text = "".join([chunk async for chunk in csv_of(pages(([hidden, fields], False)), "to")])
    _head, one, other = csv.reader(io.StringIO(text))
    assert one[-2:] == ["", "hidden"]
    assert other[-2:] == [f'{{"card": "{MASK}"}}', "json, masked"]
    text = "".join([chunk async for chunk in json_of("billing", pages(([hidden, fields], False)))])
    assert [each["masked"] for each in json.loads(text)["messages"]] == ["body", "fields"]


@pytest.mark.parametrize("name", ["contains", "filter"])
def test_a_search_is_no_oracle(
    people: People, alice: Client, answer: dict[str, Any], name: str
) -> None:
    hide(people, part="field", path="/card")
    hide(people, part="property", path="pin")
    query = {name: "pin = '4'"}
    assert asked(people, PATHS[0], query).status == 403
    page = alice.get(MESSAGES, query, follow=True)  # to the explorer
    assert page.status_code == 403
    assert "hidden from your role" in page.content.decode()
    for token in ("body:4", "body.card = 4", "pin = 4", 'sql:"PIN IS NULL"'):
        page = alice.get(f"{ROOT}/messages", {"q": f"topic:payments {token}"})
        assert page.status_code == 403, token
    assert asked(people, PATHS[0].replace("payments", "orders"), query).status == 200
    become(people, Role.ADMIN)
    assert asked(people, PATHS[0], query).status == 200


def test_dead_letters_are_not_redriven_to_where_they_would_be_shown(
    people: People, alice: Client
) -> None:
    hide(people, part="body")
    url = f"{ROOT}/dead-letters/billing/redrive?all=1"
    form = {"all": "1", "target": "orders", "rate": "10"}
    page = alice.post(url, form)
    assert page.status_code == 422
    assert "would be visible in orders" in page.content.decode()
    page = alice.post(url, {**form, "target": "payments"})
    assert "would be visible" not in page.content.decode()


def test_who_sees_what_others_do_not_is_in_the_audit(
    people: People, alice: Client, answer: dict[str, Any]
) -> None:
    hide(people, part="field", path="/card")
    asked(people, PATHS[0])
    seen = AuditEntry.objects.filter(action="messages.unmasked")
    assert not seen.exists()
    become(people, Role.ADMIN)
    answer["messages"] = [stored(), stored(), stored(topic="orders")]
    asked(people, PATHS[3])
    entry = seen.get()
    assert (entry.target, entry.actor) == ("topics/payments", "user:alice")
    answer["messages"] = []
    asked(people, PATHS[0])
    assert seen.count() == 1


def record(body: bytes) -> Record:
    return Record(
        topic="acme%payments", queue_id=0, queue_offset=0, physical_offset=0,
        born_timestamp_ms=1, store_timestamp_ms=1, reconsume_times=0, body=body, tag=None,
        keys=[], message_group=None, message_id="01AB", properties={},
    )  # fmt: skip


def test_rows_of_the_tail_are_masked(people: People) -> None:
    hide(people, part="field", path="/card")
    mask = masks_of(people.acme.tenant_id, "acme", Role.DEVELOPER).of_topic("payments")
    row = row_of(record(b'{"card": "4111-1111"}'), mask, None)
    assert (row.text, row.masked) == (f'{{"card": "{MASK}"}}', "fields")
    row = row_of(record(b"4111-1111"), mask, None)
    assert (row.text, row.masked, row.body_bytes) == (None, "body", 9)
    assert row_of(record(b'{"a": 1}'), mask, None).masked == ""


async def test_further_pages_of_an_export_are_masked_and_audited_like_the_first(
    people: People, alice: Client, answer: dict[str, Any]
) -> None:
    await sync_to_async(hide)(people, part="field", path="/card")
    for role in (Role.DEVELOPER, Role.ADMIN):
        await sync_to_async(become)(people, role)
        person = await sync_to_async(find_session_principal)(people.alice, people.acme)
        assert person is not None
        request = HttpRequest()
        answer["messages"] = []
        await sync_to_async(call_data_plane)(request, person, "GET", PATHS[3])
        answer["messages"] = [stored(), stored()]
        page = await call_for_stream(request, person, PATHS[3], {"cursor": "c"})
        assert (SECRET in json.dumps(page.data["messages"][1]["body_json"])) == (role == Role.ADMIN)
    seen = AuditEntry.objects.filter(action="messages.unmasked")
    assert [entry.target async for entry in seen] == ["topics/payments"]
