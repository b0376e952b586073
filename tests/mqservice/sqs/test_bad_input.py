"""Requests that AWS refuses: its code, status and form in each protocol."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import botocore.auth
import httpx
import pytest
from botocore.awsrequest import AWSRequest
from botocore.credentials import Credentials
from botocore.exceptions import ClientError

from mqservice.sqs.plane import is_sqs_request
from tests.mqservice.sqs.conftest import JSON, QUERY, REGION, Desk, Sqs
from tests.mqservice.sqs.test_messages import code_of

Call = Callable[[Sqs, str], Any]  # Any: what nobody looks at
STRING = {"DataType": "String", "StringValue": "x"}


def entries(*ids: str) -> list[dict[str, str]]:
    return [{"Id": each, "MessageBody": "x"} for each in ids]


def send(**more: Any) -> Call:  # Any: parameters of boto3
    return lambda sqs, queue: sqs.send_message(QueueUrl=queue, **{"MessageBody": "x"} | more)


def attribute(**value: Any) -> Call:  # Any: as above
    return send(MessageAttributes={"a": value})


BAD: dict[str, tuple[Call, str]] = {
    "no body": (send(MessageBody=""), "MissingParameter"),
    "a character that XML has not": (send(MessageBody="a\x01"), "InvalidMessageContents"),
    "too late": (send(DelaySeconds=901), "InvalidParameterValue"),
    "too early": (send(DelaySeconds=-1), "InvalidParameterValue"),
    "dedup id of a standard queue": (send(MessageDeduplicationId="1"), "InvalidParameterValue"),
    "group of 129": (send(MessageGroupId="x" * 129), "InvalidParameterValue"),
    "type with an empty label": (
        attribute(DataType="String.", StringValue="x"),
        "InvalidParameterValue",
    ),
    "type of no kind": (attribute(DataType="Text", StringValue="x"), "InvalidParameterValue"),
    "no value": (attribute(DataType="String"), "InvalidParameterValue"),
    "empty value": (attribute(DataType="String", StringValue=""), "InvalidParameterValue"),
    "no number": (attribute(DataType="Number", StringValue="x"), "InvalidParameterValue"),
    "bytes as text": (attribute(DataType="String", BinaryValue=b"x"), "InvalidParameterValue"),
    "name of AWS": (send(MessageAttributes={"AWS.x": STRING}), "InvalidParameterValue"),
    "name of our types": (send(MessageAttributes={"__MQ_SQS": STRING}), "InvalidParameterValue"),
    "name of the trace": (
        send(MessageAttributes={"AWSTraceHeader": STRING}),
        "InvalidParameterValue",
    ),
    "name with two dots": (send(MessageAttributes={"a..b": STRING}), "InvalidParameterValue"),
    "eleven attributes": (
        send(MessageAttributes={f"a{number}": STRING for number in range(11)}),
        "InvalidParameterValue",
    ),
    "system attribute": (
        send(MessageSystemAttributes={"Other": STRING}),
        "InvalidParameterValue",
    ),
    "empty batch": (
        lambda sqs, queue: sqs.send_message_batch(QueueUrl=queue, Entries=[]),
        "EmptyBatchRequest",
    ),
    "batch of eleven": (
        lambda sqs, queue: sqs.send_message_batch(
            QueueUrl=queue, Entries=entries(*(str(number) for number in range(11)))
        ),
        "TooManyEntriesInBatchRequest",
    ),
    "batch with one id twice": (
        lambda sqs, queue: sqs.send_message_batch(QueueUrl=queue, Entries=entries("1", "1")),
        "BatchEntryIdsNotDistinct",
    ),
    "batch with a wrong id": (
        lambda sqs, queue: sqs.send_message_batch(QueueUrl=queue, Entries=entries("a b")),
        "InvalidBatchEntryId",
    ),
    "batch that is too long": (
        lambda sqs, queue: sqs.send_message_batch(
            QueueUrl=queue,
            Entries=[{"Id": each, "MessageBody": "x" * 600_000} for each in "12"],
        ),
        "BatchRequestTooLong",
    ),
    "receive of none": (
        lambda sqs, queue: sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=0),
        "InvalidParameterValue",
    ),
    "receive of eleven": (
        lambda sqs, queue: sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=11),
        "InvalidParameterValue",
    ),
    "long wait": (
        lambda sqs, queue: sqs.receive_message(QueueUrl=queue, WaitTimeSeconds=21),
        "InvalidParameterValue",
    ),
    "long visibility": (
        lambda sqs, queue: sqs.receive_message(QueueUrl=queue, VisibilityTimeout=43_201),
        "InvalidParameterValue",
    ),
    "unknown system attribute": (
        lambda sqs, queue: sqs.receive_message(QueueUrl=queue, AttributeNames=["Colour"]),
        "InvalidAttributeName",
    ),
    "attempt of a standard queue": (
        lambda sqs, queue: sqs.receive_message(QueueUrl=queue, ReceiveRequestAttemptId="x"),
        "InvalidParameterValue",
    ),
    "unknown queue attribute": (
        lambda sqs, queue: sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=["Colour"]),
        "InvalidAttributeName",
    ),
    "system attribute that XML has not": (
        lambda sqs, queue: sqs.receive_message(QueueUrl=queue, AttributeNames=["\0"]),
        "InvalidAttributeName",
    ),
    "prefix with NUL": (
        lambda sqs, queue: sqs.list_queues(QueueNamePrefix="\0"),
        "InvalidParameterValue",
    ),
    "token with NUL": (
        lambda sqs, queue: sqs.list_queues(MaxResults=1, NextToken="AA=="),
        "InvalidParameterValue",
    ),
    "handle with NUL": (
        lambda sqs, queue: sqs.cancel_message_move_task(TaskHandle="AAAA"),
        "InvalidParameterValue",
    ),
    "tag with NUL": (
        lambda sqs, queue: sqs.tag_queue(QueueUrl=queue, Tags={"a": "\0"}),
        "InvalidParameterValue",
    ),
    "label of 81": (
        lambda sqs, queue: sqs.add_permission(
            QueueUrl=queue, Label="x" * 81, AWSAccountIds=["1"], Actions=["*"]
        ),
        "InvalidParameterValue",
    ),
    "policy that is too long": (
        lambda sqs, queue: sqs.add_permission(
            QueueUrl=queue, Label="x", AWSAccountIds=["1" * 40_000], Actions=["*"]
        ),
        "InvalidAttributeValue",
    ),
    "permission of eight actions": (
        lambda sqs, queue: sqs.add_permission(
            QueueUrl=queue, Label="x", AWSAccountIds=["1"], Actions=["SendMessage"] * 8
        ),
        "OverLimit",
    ),
    "permission of what owners do": (
        lambda sqs, queue: sqs.add_permission(
            QueueUrl=queue, Label="x", AWSAccountIds=["1"], Actions=["DeleteQueue"]
        ),
        "InvalidParameterValue",
    ),
    "no tags": (
        lambda sqs, queue: sqs.tag_queue(QueueUrl=queue, Tags={}),
        "MissingParameter",
    ),
    "receipt of nothing": (
        lambda sqs, queue: sqs.delete_message(QueueUrl=queue, ReceiptHandle="x"),
        "ReceiptHandleIsInvalid",
    ),
    "visibility of nothing": (
        lambda sqs, queue: sqs.change_message_visibility(
            QueueUrl=queue, ReceiptHandle="x", VisibilityTimeout=1
        ),
        "ReceiptHandleIsInvalid",
    ),
    "queue that is not there": (
        lambda sqs, queue: sqs.send_message(QueueUrl=f"{queue}2", MessageBody="x"),
        "NonExistentQueue",
    ),
    "queue that is no URL": (
        lambda sqs, queue: sqs.purge_queue(QueueUrl="sqs/orders"),
        "InvalidAddress",
    ),
    "name that is not there": (
        lambda sqs, queue: sqs.get_queue_url(QueueName="nothing"),
        "NonExistentQueue",
    ),
    "token of nobody": (
        lambda sqs, queue: sqs.list_queues(MaxResults=1, NextToken="?"),
        "InvalidParameterValue",
    ),
}


@pytest.mark.parametrize("protocol", [JSON, QUERY])
def test_bad_requests_get_the_code_of_aws(desk: Desk, protocol: str) -> None:
    sqs = desk.client(protocol)
    queue = sqs.create_queue(QueueName="orders")["QueueUrl"]
    found = {}
    for name, (call, _) in BAD.items():
        with pytest.raises(ClientError) as error:
            call(sqs, queue)
        found[name] = code_of(error).removeprefix("AWS.SimpleQueueService.")
    assert found == {name: code for name, (_, code) in BAD.items()}
    assert "Messages" not in sqs.receive_message(QueueUrl=queue)


def test_empty_lists_are_given_and_wrong(desk: Desk) -> None:
    """In JSON; the query protocol cannot write them, so that they are missing."""
    sqs = desk.client(JSON)
    queue = sqs.create_queue(QueueName="orders", tags={"a": "1"})["QueueUrl"]
    with pytest.raises(ClientError) as error:
        sqs.untag_queue(QueueUrl=queue, TagKeys=[])
    assert code_of(error) == "InvalidParameterValue"
    with pytest.raises(ClientError) as error:
        sqs.add_permission(QueueUrl=queue, Label="x", AWSAccountIds=[], Actions=["*"])
    assert code_of(error) == "InvalidParameterValue"
    with pytest.raises(ClientError) as error:
        sqs.add_permission(QueueUrl=queue, Label="x", AWSAccountIds=["1"], Actions=[])
    assert code_of(error) == "MissingParameter"
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"a": "1"}


def test_fifo_queues_take_what_is_theirs_only(sqs: Sqs) -> None:
    queue = sqs.create_queue(QueueName="a.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    for more, code in (
        ({"MessageDeduplicationId": "1"}, "MissingParameter"),
        ({"MessageGroupId": "a"}, "InvalidParameterValue"),
        (
            {"MessageGroupId": "a", "MessageDeduplicationId": "1", "DelaySeconds": 5},
            "InvalidParameterValue",
        ),
    ):
        with pytest.raises(ClientError) as error:
            sqs.send_message(QueueUrl=queue, MessageBody="x", **more)
        assert code_of(error) == code


# Requests that no SDK would send -----------------------------------------------------------------


class Raw:
    """Requests that are signed as they are."""

    def __init__(self, desk: Desk) -> None:
        self._url = f"{desk.server.url}/sqs/"
        self._credentials = Credentials(*desk.key())

    def __call__(
        self, body: str, *, path: str = "", target: str | None = None, **headers: str
    ) -> httpx.Response:
        if target is not None:
            headers |= {"X-Amz-Target": target, "Content-Type": "application/x-amz-json-1.0"}
        request = AWSRequest("POST", self._url + path, headers, body)
        botocore.auth.SigV4Auth(self._credentials, "sqs", REGION).add_auth(request)
        return httpx.post(self._url + path, content=body, headers=dict(request.headers.items()))


@pytest.fixture
def raw(desk: Desk) -> Raw:
    return Raw(desk)


@pytest.mark.parametrize(
    ("target", "body", "status", "name", "code"),
    [
        ("AmazonSQS.Fly", "{}", 400, "InvalidAction", "InvalidAction"),
        ("Other.SendMessage", "{}", 400, "InvalidAction", "InvalidAction"),
        (
            "AmazonSQS.CreateQueue",
            "{}",
            400,
            "MissingRequiredParameterException",
            "MissingParameter",
        ),
        ("AmazonSQS.CreateQueue", "{", 400, "SerializationException", "SerializationException"),
        (
            "AmazonSQS.CreateQueue",
            "Action=CreateQueue&QueueName=x",
            400,
            "SerializationException",
            "SerializationException",
        ),
        (
            "AmazonSQS.CreateQueue",
            '{"QueueName": 5}',
            400,
            "SerializationException",
            "SerializationException",
        ),
        (
            "AmazonSQS.GetQueueUrl",
            '{"QueueName": "nothing"}',
            400,
            "QueueDoesNotExist",
            "AWS.SimpleQueueService.NonExistentQueue",
        ),
    ],
)
def test_errors_in_json(
    raw: Raw, target: str, body: str, status: int, name: str, code: str
) -> None:
    answer = raw(body, target=target)
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "application/x-amz-json-1.0"
    assert answer.headers["x-amzn-query-error"] == f"{code};Sender"
    assert answer.headers["x-amzn-requestid"]
    assert answer.json()["__type"] == f"com.amazonaws.sqs#{name}"
    assert answer.json()["message"]


@pytest.mark.parametrize(
    ("body", "status", "code"),
    [
        ("Action=Fly", 400, "InvalidAction"),
        ("Action=CreateQueue", 400, "MissingParameter"),
        ("Action=CreateQueue&QueueName=a&QueueName.b=c", 404, "MalformedQueryString"),
        (f"Action=TagQueue&Tag.{'9' * 5_000}.Key=a", 400, "MissingParameter"),
        ("Action=CreateQueue&QueueName=%FF", 400, "InvalidParameterValue"),
        ("Action=CreateQueue&QueueName=a&Attribute.1.Value=1", 400, "MissingParameter"),
        ("Action=GetQueueUrl&QueueName=n", 400, "AWS.SimpleQueueService.NonExistentQueue"),
        ('{"QueueName": "x"}', 400, "MissingAction"),
    ],
)
def test_errors_in_xml(raw: Raw, body: str, status: int, code: str) -> None:
    form = "application/x-www-form-urlencoded"
    answer = raw(body, **{"Content-Type": form})
    assert answer.status_code == status, answer.text
    assert answer.headers["content-type"] == "text/xml"
    assert f"<Type>Sender</Type><Code>{code}</Code>" in answer.text
    assert "<RequestId>" in answer.text


@pytest.mark.parametrize("body", ["", "X-Amz-Date=20261126T000000Z"])
def test_a_request_without_parameters_is_an_unknown_operation(raw: Raw, body: str) -> None:
    answer = raw(body, **{"Content-Type": "application/x-www-form-urlencoded"})
    assert (answer.status_code, answer.text) == (404, "<UnknownOperationException/>")


def test_what_is_of_no_queue_is_refused_at_the_url_of_one(raw: Raw, desk: Desk) -> None:
    queue = desk.client().create_queue(QueueName="orders")["QueueUrl"]
    path = queue.partition("/sqs/")[2]
    for action in ("ListQueues", "CreateQueue&QueueName=other"):
        answer = raw(f"Action={action}", path=path)
        assert (answer.status_code, "<Code>InvalidAction</Code>" in answer.text) == (400, True)
    assert raw("Action=ListQueues").text.count("<QueueUrl>") == 1


def test_the_queue_may_be_named_by_the_path(raw: Raw, desk: Desk) -> None:
    queue = desk.client().create_queue(QueueName="orders")["QueueUrl"]
    path = queue.partition("/sqs/")[2]
    sent = raw("Action=SendMessage&MessageBody=1&Version=2012-11-05", path=path)
    assert sent.status_code == 200, sent.text
    assert "<MD5OfMessageBody>c4ca4238a0b923820dcc509a6f75849b</MD5OfMessageBody>" in sent.text
    answer = raw("{}", path=path, target="AmazonSQS.ReceiveMessage")
    assert answer.json()["Messages"][0]["Body"] == "1"


def test_a_request_without_a_good_signature_is_refused(desk: Desk) -> None:
    for key in (("MQAKNOBODY000000", "secret"), (desk.key()[0], "wrong")):
        with pytest.raises(ClientError) as error:
            desk.client(key=key).list_queues()
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    answer = httpx.post(f"{desk.server.url}/sqs/", content=b"Action=ListQueues")
    assert (answer.status_code, "MissingAuthenticationToken" in answer.text) == (403, True)


@pytest.mark.parametrize(
    ("path", "authorization", "is_sqs"),
    [
        ("/sqs", b"", True),
        ("/sqs/1/orders", b"", True),
        ("/sqsx", b"", False),
        ("/", b"AWS4-HMAC-SHA256 Credential=x", True),
        ("/", b"Bearer mqk_x", False),
        ("/v1/ns/acme/topics", b"AWS4-HMAC-SHA256 Credential=x", False),
    ],
)
def test_which_requests_are_of_sqs(path: str, authorization: bytes, is_sqs: bool) -> None:
    assert is_sqs_request(path, b"", {b"authorization": authorization}) is is_sqs


def test_a_request_that_is_signed_in_its_query_is_of_sqs() -> None:
    signed = b"Action=ListQueues&X-Amz-Algorithm=AWS4-HMAC-SHA256"
    assert is_sqs_request("/", signed, {})
    assert not is_sqs_request("/", b"Action=ListQueues", {})
    assert not is_sqs_request("/account/", signed, {})


@pytest.mark.parametrize("url", ["http://[", "http://nowhere", "https://h/sqs/1/a.b"])
def test_a_url_that_is_no_queue_s_is_of_one_that_does_not_exist(raw: Raw, url: str) -> None:
    answer = raw(json.dumps({"QueueUrl": url}), target="AmazonSQS.GetQueueAttributes")
    assert (answer.status_code, answer.json()["__type"]) == (
        400,
        "com.amazonaws.sqs#QueueDoesNotExist",
    )


@pytest.mark.parametrize("url", ["", "/", "1/a b", "x" * 2_000])
def test_what_is_no_url_of_a_queue(raw: Raw, url: str) -> None:
    answer = raw(json.dumps({"QueueUrl": url}), target="AmazonSQS.PurgeQueue")
    assert (answer.status_code, answer.json()["__type"]) == (
        404,
        "com.amazonaws.sqs#InvalidAddress",
    )
