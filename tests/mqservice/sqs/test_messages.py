"""Messages through boto3, in both protocols: what a program sees of a queue."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.sqs.conftest import JSON, QUERY, Desk, Sqs
from tests.sizes import in_torture


@pytest.fixture(params=[JSON, *in_torture(QUERY)])
def sqs(desk: Desk, request: pytest.FixtureRequest) -> Sqs:
    return desk.client(request.param)


def body_of(message: dict[str, Any]) -> str:  # Any: as boto3 answers
    return str(message["Body"])


def received(sqs: Sqs, queue: str, **options: Any) -> list[dict[str, Any]]:  # Any: as above
    return list(sqs.receive_message(QueueUrl=queue, **options).get("Messages", []))


def code_of(error: pytest.ExceptionInfo[ClientError]) -> str:
    return str(error.value.response["Error"]["Code"])


def test_a_message_is_sent_received_and_deleted(sqs: Sqs, queue: str) -> None:
    sent = sqs.send_message(QueueUrl=queue, MessageBody="hello")
    (message,) = received(sqs, queue)
    assert (message["Body"], message["MessageId"]) == ("hello", sent["MessageId"])
    assert sent["MD5OfMessageBody"] == message["MD5OfBody"] == hashlib.md5(b"hello").hexdigest()
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert received(sqs, queue) == []
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])


def test_attributes_of_all_types_come_back(sqs: Sqs, queue: str) -> None:
    attributes = {
        "colour": {"DataType": "String", "StringValue": "blue"},
        "lines": {"DataType": "String", "StringValue": "a\nb\tc"},
        "size": {"DataType": "Number", "StringValue": "42.5"},
        "price": {"DataType": "Number.float", "StringValue": "-1e3"},
        "photo": {"DataType": "Binary.png", "BinaryValue": bytes(range(256))},
        "name.with-dots_1": {"DataType": "String.custom", "StringValue": "grüße"},
    }
    sent = sqs.send_message(QueueUrl=queue, MessageBody="hello", MessageAttributes=attributes)
    (message,) = received(sqs, queue, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == attributes
    assert message["MD5OfMessageAttributes"] == sent["MD5OfMessageAttributes"]


def test_only_attributes_that_are_named_are_received(sqs: Sqs, queue: str) -> None:
    attributes = {
        name: {"DataType": "String", "StringValue": "x"} for name in ("a.one", "a.two", "b", "c")
    }
    sqs.send_message(QueueUrl=queue, MessageBody="1", MessageAttributes=attributes)
    (message,) = received(sqs, queue, MessageAttributeNames=["a.*", "b"], VisibilityTimeout=0)
    assert set(message["MessageAttributes"]) == {"a.one", "a.two", "b"}
    (message,) = received(sqs, queue)
    assert "MessageAttributes" not in message


def test_system_attributes(sqs: Sqs, queue: str) -> None:
    trace = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=1-5759e988"}}
    sqs.send_message(QueueUrl=queue, MessageBody="1", MessageSystemAttributes=trace)
    (message,) = received(sqs, queue, AttributeNames=["All"], VisibilityTimeout=0)
    found = message["Attributes"]
    assert found["AWSTraceHeader"] == "Root=1-5759e988"
    assert found["ApproximateReceiveCount"] == "1"
    assert found["SenderId"].isdecimal()
    sent_ms, first_ms = int(found["SentTimestamp"]), int(found["ApproximateFirstReceiveTimestamp"])
    assert sent_ms <= first_ms
    (message,) = received(sqs, queue, AttributeNames=["ApproximateReceiveCount"])
    assert message["Attributes"] == {"ApproximateReceiveCount": "2"}


def test_a_batch_says_what_became_of_each(sqs: Sqs, queue: str) -> None:
    answer = sqs.send_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "good", "MessageBody": "1"},
            {"Id": "late", "MessageBody": "2", "DelaySeconds": 901},
            {"Id": "bad", "MessageBody": "\x00"},
        ],
    )
    assert [each["Id"] for each in answer["Successful"]] == ["good"]
    failed = {each["Id"]: (each["Code"], each["SenderFault"]) for each in answer["Failed"]}
    assert failed == {
        "late": ("InvalidParameterValue", True),
        "bad": ("InvalidMessageContents", True),
    }
    (message,) = received(sqs, queue, MaxNumberOfMessages=10)
    answer = sqs.delete_message_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "1", "ReceiptHandle": message["ReceiptHandle"]},
            {"Id": "2", "ReceiptHandle": "nonsense"},
        ],
    )
    assert [each["Id"] for each in answer["Successful"]] == ["1"]
    assert [each["Code"] for each in answer["Failed"]] == ["ReceiptHandleIsInvalid"]


def test_a_message_of_a_mebibyte(sqs: Sqs, queue: str) -> None:
    body = "ü%" * 349_525 + "x"
    assert len(body.encode()) == 1_048_576
    sqs.send_message(QueueUrl=queue, MessageBody=body)
    (message,) = received(sqs, queue)
    assert message["Body"] == body
    with pytest.raises(ClientError) as error:
        sqs.send_message(QueueUrl=queue, MessageBody=body + "x")
    assert code_of(error) == "InvalidParameterValue"


def test_visibility(sqs: Sqs, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="1")
    (message,) = received(sqs, queue, VisibilityTimeout=0)
    (message,) = received(sqs, queue)
    assert received(sqs, queue) == []
    handle = message["ReceiptHandle"]
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=40_000)
    assert received(sqs, queue) == []
    sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=0)
    (message,) = received(sqs, queue, WaitTimeSeconds=5)
    with pytest.raises(ClientError) as error:
        sqs.change_message_visibility(QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=9)
    assert code_of(error) == "InvalidParameterValue"
    answer = sqs.change_message_visibility_batch(
        QueueUrl=queue,
        Entries=[
            {"Id": "1", "ReceiptHandle": message["ReceiptHandle"], "VisibilityTimeout": 0},
            {"Id": "2", "ReceiptHandle": handle, "VisibilityTimeout": 43_201},
        ],
    )
    assert [each["Id"] for each in answer["Successful"]] == ["1"]
    assert [each["Id"] for each in answer["Failed"]] == ["2"]
    assert len(received(sqs, queue, WaitTimeSeconds=5)) == 1


def test_a_message_can_be_hidden_again_once_it_is_visible(sqs: Sqs, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="1")
    (message,) = received(sqs, queue, WaitTimeSeconds=5)
    handle = message["ReceiptHandle"]

    def hide(seconds: int) -> None:
        sqs.change_message_visibility(
            QueueUrl=queue, ReceiptHandle=handle, VisibilityTimeout=seconds
        )

    hide(0)
    wait_until(lambda: _is_done(lambda: hide(60)))
    assert received(sqs, queue) == []
    hide(0)
    hide(60)
    assert received(sqs, queue) == []
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=handle)
    with pytest.raises(ClientError) as error:
        hide(60)
    assert code_of(error) == "InvalidParameterValue"
    assert handle in str(error.value)


def _is_done(call: Callable[[], None]) -> bool:
    """Whether a message that is given back can be hidden again yet: it is on its way a moment."""
    try:
        call()
    except ClientError as exc:
        if exc.response["Error"]["Code"] != "InvalidParameterValue":
            raise
        return False
    return True


def test_a_delayed_message_comes_later(sqs: Sqs, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="late", DelaySeconds=1)
    sqs.send_message(QueueUrl=queue, MessageBody="now")
    (message,) = received(sqs, queue, MaxNumberOfMessages=10)
    assert body_of(message) == "now"
    (message,) = received(sqs, queue, WaitTimeSeconds=10)
    assert body_of(message) == "late"


def test_a_fifo_queue_keeps_order_and_drops_duplicates(sqs: Sqs, fifo: str) -> None:
    def send(body: str, group: str, **more: str) -> dict[str, Any]:  # Any: as boto3 answers
        sent = sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId=group, **more)
        return dict(sent)

    first, again = send("1", "a"), send("1", "a")
    assert first["MessageId"] == again["MessageId"]
    assert first["SequenceNumber"] == again["SequenceNumber"]
    second = send("2", "a")
    assert second["SequenceNumber"] > first["SequenceNumber"]
    send("other", "b", MessageDeduplicationId="id")
    send("another", "b", MessageDeduplicationId="id")
    messages = received(sqs, fifo, MaxNumberOfMessages=10, AttributeNames=["All"])
    by_group: dict[str, list[str]] = {}
    for message in messages:
        by_group.setdefault(message["Attributes"]["MessageGroupId"], []).append(message["Body"])
    assert by_group == {"a": ["1", "2"], "b": ["other"]}
    numbers = {each["Body"]: each["Attributes"]["SequenceNumber"] for each in messages}
    assert numbers["1"] == first["SequenceNumber"]
    ids = {each["Body"]: each["Attributes"]["MessageDeduplicationId"] for each in messages}
    assert ids == {
        "1": hashlib.sha256(b"1").hexdigest(),
        "2": hashlib.sha256(b"2").hexdigest(),
        "other": "id",
    }


def test_a_message_in_flight_holds_back_its_group_only(sqs: Sqs, fifo: str) -> None:
    for body, group in (("1", "a"), ("2", "a"), ("3", "b")):
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId=group)
    held = received(sqs, fifo, MaxNumberOfMessages=1)
    rest = received(sqs, fifo, MaxNumberOfMessages=10)
    assert sorted([*map(body_of, held), *map(body_of, rest)]) in (["1", "3"], ["1", "2", "3"])
    assert body_of(held[0]) != "2"


def test_a_receive_of_a_fifo_queue_can_be_repeated(sqs: Sqs, fifo: str) -> None:
    sqs.send_message(QueueUrl=fifo, MessageBody="1", MessageGroupId="a")
    (first,) = received(sqs, fifo, ReceiveRequestAttemptId="once")
    (again,) = received(sqs, fifo, ReceiveRequestAttemptId="once")
    assert first["ReceiptHandle"] == again["ReceiptHandle"]
    assert received(sqs, fifo, ReceiveRequestAttemptId="twice") == []
