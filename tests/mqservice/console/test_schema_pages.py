"""Schemas of topics in the console: the page, its form, and bodies that are shown decoded."""

from __future__ import annotations

import base64
import json
from typing import Any  # JSON

import pytest
from django.core.files.uploadedfile import SimpleUploadedFile
from django.test import Client

from mqservice.accounts.models import Member, Role
from mqservice.console.shared import data_plane
from mqservice.console.shared.bodies import TreeForm, previews, shown_body
from mqservice.console.shared.data_plane import DataPlaneResponse
from mqservice.console.tail import consumer
from mqservice.masking.models import MaskRule
from mqservice.topic_schemas.limits import DEFINITION_BYTES_MAX, LINE_BYTES_MAX, NESTING_MAX
from mqservice.topic_schemas.models import TopicSchema
from mqservice.topics.models import Topic
from tests.mqservice.console.reading import why_not
from tests.mqservice.console.tail_sockets import CountedStore, Sockets, signed_in
from tests.mqservice.console.test_exports import letter
from tests.mqservice.topic_schemas.descriptors import LEGACY, ORDER, message_class, set_of
from tests.people import People

PAGE = "/console/acme/topics/orders/schema"
FORM = f"{PAGE}/edit"
RECORD = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
            {"name": "note", "type": "string"},
        ],
    }
)
BODY = b"\x02\x00\x0c<b>\xc3\xa9!"  # 1, the epoch, a text
NODE = '{"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}'


@pytest.fixture
def topic(people: People) -> Topic:
    return Topic.objects.create(namespace=people.acme, name="orders")


def text_of(answer: Any) -> str:  # Any: a response of the test client
    return str(answer.content.decode())


def schema_of(topic: Topic, definition: str = RECORD) -> TopicSchema:
    return TopicSchema.objects.create(topic=topic, kind="avro", definition=definition)


def file_of(content: bytes) -> SimpleUploadedFile:
    return SimpleUploadedFile("schema", content)


def stored(body: bytes) -> dict[str, Any]:  # Any: JSON
    bare = {name: value for name, value in letter().items() if name != "body"}
    return {
        **bare, "body_b64": base64.b64encode(body).decode(), "topic": "orders", "queue": 0,
        "offset": 0, "born_at": "2026-11-22T09:00:00.000Z", "properties": {},
    }  # fmt: skip


@pytest.fixture
def message(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:  # Any: JSON
    """What the data plane answers whoever asks for a message."""
    data = stored(BODY)

    async def answered(*_arguments: object) -> DataPlaneResponse:
        return DataPlaneResponse(status=200, data=data)

    monkeypatch.setattr(data_plane, "_call", answered)
    monkeypatch.setattr(data_plane, "_plane_of", lambda _request: None)
    return data


def test_a_schema_is_uploaded_shown_replaced_and_removed(topic: Topic, alice: Client) -> None:
    assert "This topic has no schema" in text_of(alice.get(PAGE))
    saved = alice.post(FORM, {"kind": "avro", "text": RECORD, "message": ""}, follow=True)
    assert "The schema of orders was saved." in text_of(saved)
    assert "timestamp-millis" in text_of(saved)
    assert "timestamp-millis" in text_of(alice.get(FORM))

    pb = base64.b64decode(set_of(ORDER, LEGACY))
    given = {"kind": "protobuf", "file": file_of(pb), "message": " Legacy ", "revision": "1"}
    assert alice.post(FORM, given).status_code == 302
    row = TopicSchema.objects.get(topic=topic)
    assert (row.kind, row.message, row.revision) == ("protobuf", "Legacy", 2)
    assert "Protobuf · Legacy" in text_of(alice.get(PAGE))

    stale = alice.post(FORM, {"kind": "avro", "text": RECORD, "revision": "1"})
    assert stale.status_code == 422
    assert "Someone else has changed this schema" in text_of(stale)
    removed = alice.post(f"{PAGE}/remove", follow=True)
    assert "The schema of orders was removed." in text_of(removed)
    assert "has no schema" in text_of(alice.post(f"{PAGE}/remove", follow=True))
    assert not TopicSchema.objects.exists()


@pytest.mark.usefixtures("topic")
@pytest.mark.parametrize(
    ("given", "told"),
    [
        ({"kind": "avro"}, "Choose a file or paste its contents"),
        ({"kind": "avro", "text": RECORD, "file": b"{}"}, "Choose a file or paste its contents"),
        ({"kind": "avro", "text": "{"}, "not valid JSON"),
        ({"kind": "avro", "file": b"\xff\xfe"}, "The file is not text."),
        ({"kind": "protobuf", "file": b'syntax = "proto3";'}, "not a descriptor set"),
        ({"kind": "protobuf", "text": "é"}, "must be base64"),
        (
            {"kind": "protobuf", "text": set_of(ORDER), "message": "x.Y"},
            "has no message &#x27;x.Y&#x27;",
        ),
        ({"kind": "avro", "file": b" " * (DEFINITION_BYTES_MAX + 2)}, "must have at most 262144"),
        ({"kind": "protobuf", "file": b" " * DEFINITION_BYTES_MAX}, "must have at most 262144"),
        ({"kind": "thrift", "text": "{}"}, "not one of the available choices"),
    ],
)
def test_what_is_no_schema_comes_back_with_its_fault(
    alice: Client, given: dict[str, Any], told: str
) -> None:
    if isinstance(given.get("file"), bytes):
        given = {**given, "file": file_of(given["file"])}
    answer = alice.post(FORM, given)
    assert answer.status_code == 422
    assert told in text_of(answer)
    assert not TopicSchema.objects.exists()


def test_a_viewer_sees_the_schema_and_changes_nothing(
    people: People, topic: Topic, client: Client
) -> None:
    schema_of(topic)
    client.force_login(people.bob)
    page = text_of(client.get(PAGE))
    assert "timestamp-millis" in page
    assert "/schema/remove" not in page
    assert {"Replace", "Remove"} <= set(why_not(page))
    assert "Avro" in text_of(client.get("/console/acme/topics/orders"))
    for path in (FORM, f"{PAGE}/remove"):
        assert client.post(path, {"kind": "avro", "text": '"int"'}).status_code == 403
    client.force_login(people.charlie)
    for path in (PAGE, FORM):
        assert client.get(path).status_code == 404
    assert TopicSchema.objects.get(topic=topic).definition == RECORD


def test_a_message_is_shown_decoded(topic: Topic, alice: Client, message: dict[str, Any]) -> None:
    schema_of(topic)
    page = alice.get("/console/acme/topics/orders/messages/01AB").content.decode()
    assert '<span class="soft small">Avro</span>' in page
    assert '<span class="figure">1970-01-01T00:00:00.000Z</span>' in page
    assert '<span class="text">&quot;&lt;b&gt;é!&quot;</span>' in page
    assert "does not match" not in page
    message["body_b64"] = "AgAP"
    page = alice.get("/console/acme/topics/orders/messages/01AB").content.decode()
    assert (
        "does not match this body: /note, byte 3: a length must not be negative, found -8" in page
    )
    assert f'href="{PAGE}"' in page


def test_values_as_deep_as_they_may_be_are_shown(
    topic: Topic, alice: Client, message: dict[str, Any]
) -> None:
    schema_of(topic, NODE)
    message["body_b64"] = base64.b64encode(b"\2" * (NESTING_MAX - 1) + b"\0").decode()
    page = alice.get("/console/acme/topics/orders/messages/01AB").content.decode()
    assert page.count('<span class="key">n:</span>') == NESTING_MAX


def test_a_schedule_is_shown_decoded_as_a_message_is(topic: Topic) -> None:
    found = shown_body(stored(BODY), schema_of(topic))
    assert (found.tree_form, found.schema_fault) == ("Avro", "")
    order: Any = message_class(ORDER, "shop.Order")  # Any: a class made of a descriptor
    schema = TopicSchema(kind="protobuf", definition=set_of(ORDER), message="shop.Order")
    found = shown_body(stored(order(i64=2**63 - 1).SerializeToString()), schema)
    assert found.tree_form == "Protobuf · shop.Order"
    assert "9223372036854775807" in str(found.tree)


def test_what_no_schema_matches_is_shown_as_before(topic: Topic) -> None:
    found = shown_body(stored(b'{"a": 1}'), schema_of(topic))
    assert found.tree_form == TreeForm.JSON
    assert found.schema_fault.startswith("/note, byte")


def test_where_fields_are_hidden_no_schema_gives_them_another_name(
    people: People, topic: Topic, client: Client, message: dict[str, Any]
) -> None:
    Member.objects.filter(user=people.bob).update(role=Role.DEVELOPER)
    schema_of(topic)
    MaskRule.objects.create(
        namespace=people.acme, name="notes", topics="orders", part="field", path="/secret"
    )
    client.force_login(people.bob)
    path = "/console/acme/topics/orders/messages/01AB"
    assert "hidden from your role by masking" in text_of(client.get(path))
    message["body_b64"] = base64.b64encode(b'{"secret": 1}').decode()
    schema_of_text = TopicSchema.objects.get(topic=topic)
    schema_of_text.definition = '{"type": "fixed", "name": "F", "size": 13}'
    schema_of_text.save()
    page = client.get(path).content.decode()
    assert "•••••" in page
    assert "does not match" not in page


def test_a_line_of_a_list_is_decoded_by_the_schema_of_its_topic(
    people: People, topic: Topic
) -> None:
    schema_of(topic, '{"type": "record", "name": "R", "fields": [{"name": "b", "type": "bytes"}]}')
    short, large = b"\x04\xff\xfe", b"\x80\x40" + b"\xff" * LINE_BYTES_MAX
    listed = [
        stored(short), stored(large), stored(b"\xff"), stored(b"text"),
        {**stored(short), "masked": "fields"}, {**stored(short), "topic": "payments"},
    ]  # fmt: skip
    line = '{"b": "ff fe"}'
    assert previews(people.acme, listed) == [line, "binary", "binary", "text", "binary", "binary"]
    assert previews(people.acme, [{**stored(short), "topic": None}], "orders") == [line]
    assert previews(people.rival, [stored(short)]) == ["binary"]
    assert previews(people.acme, []) == []


async def test_a_live_tail_shows_bodies_decoded_where_no_field_is_hidden(
    cast_of_tail: People, tailed: CountedStore, sockets: Sockets, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(consumer, "MASK_MS", 0)
    topic = await Topic.objects.aget(namespace=cast_of_tail.acme, name="orders")
    await TopicSchema.objects.acreate(topic=topic, kind="avro", definition=RECORD)
    await Member.objects.filter(user=cast_of_tail.alice).aupdate(role=Role.DEVELOPER.value)
    socket = sockets.new(await signed_in(cast_of_tail.alice))
    await socket.open()
    await socket.say()
    await tailed.add(BODY.decode(), "other")
    rows = (await socket.told("rows"))["rows"]
    line = '{"id": 1, "at": "1970-01-01T00:00:00.000Z", "note": "<b>é!"}'
    assert [row["text"] for row in rows] == [line, "other"]
    await MaskRule.objects.acreate(
        namespace=cast_of_tail.acme, name="notes", topics="orders", part="field", path="/secret"
    )
    await tailed.add(BODY.decode())
    (row,) = (await socket.told("rows"))["rows"]
    assert (row["text"], row["masked"]) == (None, "body")
    await socket.leave()
