"""One message, two faces: what SQS sends REST receives, and the other way round."""

from __future__ import annotations

import base64
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from mqservice.topics.services import TopicChange, put_topic
from tests.mqservice.sqs.conftest import Desk, Sqs
from tests.mqservice.sqs.test_messages import received


@pytest.fixture
def rest(desk: Desk) -> Iterator[httpx.Client]:
    key = desk.server.key(tenant_id=desk.people.acme.tenant_id)
    with desk.server.client(key) as client:
        yield client


def taken(rest: httpx.Client, name: str) -> list[dict[str, Any]]:  # Any: JSON
    path = f"/v1/ns/acme/topics/{name}/groups/{name}:receive"
    answer = rest.post(path, json={"wait": "0s"})
    assert answer.status_code == 200, answer.text
    return list(answer.json()["messages"])


def test_what_sqs_sends_rest_receives(sqs: Sqs, queue: str, rest: httpx.Client) -> None:
    sqs.send_message(
        QueueUrl=queue,
        MessageBody="hello",
        MessageAttributes={
            "colour": {"DataType": "String", "StringValue": "blue"},
            "size": {"DataType": "Number", "StringValue": "42"},
            "photo": {"DataType": "Binary", "BinaryValue": b"\x00\xff"},
        },
    )
    (message,) = taken(rest, "orders")
    assert message["body"] == "hello"
    assert message["properties"] == {"colour": "blue", "size": "42", "photo": "AP8="}


def test_what_rest_sends_sqs_receives(desk: Desk, sqs: Sqs, rest: httpx.Client) -> None:
    put_topic(desk.people.acme, "by-rest", TopicChange(queue_count=1))
    queue = sqs.get_queue_url(QueueName="by-rest")["QueueUrl"]
    path = "/v1/ns/acme/topics/by-rest/messages"
    sent = [
        rest.post(path, json={"body_json": {"a": 1}, "properties": {"colour": "blue"}}),
        rest.post(path, content=b"\xff\x00", headers={"content-type": "image/png"}),
        rest.post(path, json={"body": "with a \u0001 in it"}),
    ]
    assert [each.status_code for each in sent] == [201, 201, 201]
    found = received(sqs, queue, MaxNumberOfMessages=10, MessageAttributeNames=["All"])
    ids = [f"01{uuid.UUID(each['MessageId']).hex.upper()}" for each in found]
    assert ids == [each.json()["id"] for each in sent]
    document, picture, odd = found
    assert document["Body"] == '{"a":1}'
    assert document["MessageAttributes"] == {
        "colour": {"DataType": "String", "StringValue": "blue"}
    }
    marked = {"mq-body-encoding": {"DataType": "String", "StringValue": "base64"}}
    for message, body in ((picture, b"\xff\x00"), (odd, b"with a \x01 in it")):
        assert base64.b64decode(message["Body"]) == body
        assert message["MessageAttributes"] == marked
    for message in found:
        sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert taken(rest, "by-rest") == []


def test_users_cannot_set_the_types_of_attributes(rest: httpx.Client, sqs: Sqs, queue: str) -> None:
    answer = rest.post(
        "/v1/ns/acme/topics/orders/messages",
        json={"body": "x", "properties": {"__MQ_SQS": "{}"}},
    )
    assert (answer.status_code, answer.json()["code"]) == (400, "ILLEGAL_PROPERTY")
