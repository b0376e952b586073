"""What AWS does beyond its documents, as test suites of others recorded it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from botocore.exceptions import ClientError

from tests.mqservice.sqs.conftest import Sqs
from tests.mqservice.sqs.test_messages import code_of, received
from tests.mqservice.sqs.test_queues import attributes_of


def refusal(call: Callable[[], Any]) -> tuple[str, str]:  # Any: what nobody looks at
    """Code and message of the error that a call ends with."""
    with pytest.raises(ClientError) as error:
        call()
    return code_of(error), str(error.value.response["Error"]["Message"])


def test_messages_are_counted_before_anybody_has_received(sqs: Sqs, queue: str, fifo: str) -> None:
    for body in "123":
        sqs.send_message(QueueUrl=queue, MessageBody=body)
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId="a")
    for url in (queue, fifo):
        found = attributes_of(sqs, url)
        assert found["ApproximateNumberOfMessages"] == "3"
        assert found["ApproximateNumberOfMessagesNotVisible"] == "0"
    received(sqs, queue)
    assert attributes_of(sqs, queue)["ApproximateNumberOfMessages"] == "2"


def test_messages_of_a_standard_queue_come_as_they_were_sent(sqs: Sqs, queue: str) -> None:
    for number in range(12):
        sqs.send_message(QueueUrl=queue, MessageBody=str(number))
    first = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=3)["Messages"]
    rest = sqs.receive_message(QueueUrl=queue, MaxNumberOfMessages=10)["Messages"]
    assert [each["Body"] for each in [*first, *rest]] == [str(number) for number in range(12)]


def test_receives_of_a_fifo_queue_begin_with_the_oldest_free_message(sqs: Sqs, fifo: str) -> None:
    for number in range(8):  # the groups are in several queues of the topic
        group, body = str(number % 4), str(number)
        sqs.send_message(QueueUrl=fifo, MessageBody=body, MessageGroupId=group)
    asked = {"QueueUrl": fifo, "MaxNumberOfMessages": 1}
    bodies = [sqs.receive_message(**asked)["Messages"][0]["Body"] for _ in range(4)]
    assert bodies == ["0", "1", "2", "3"]


def test_a_queue_may_be_named_without_its_url(sqs: Sqs, queue: str) -> None:
    sqs.send_message(QueueUrl="orders", MessageBody="1")
    assert len(received(sqs, "orders")) == 1
    with pytest.raises(ClientError) as error:
        sqs.send_message(QueueUrl="nothing", MessageBody="1")
    assert code_of(error).endswith(("NonExistentQueue", "QueueDoesNotExist"))


def test_a_batch_without_failures_says_nothing_of_them(sqs: Sqs, queue: str) -> None:
    good, bad = {"Id": "1", "MessageBody": "1"}, {"Id": "2", "MessageBody": "\x00"}
    assert "Failed" not in sqs.send_message_batch(QueueUrl=queue, Entries=[good])
    assert "Successful" not in sqs.send_message_batch(QueueUrl=queue, Entries=[bad])


def test_names_of_attributes_have_letters_of_all_languages(sqs: Sqs, queue: str) -> None:
    attributes = {"größe.日本": {"DataType": "String", "StringValue": "x"}}
    sqs.send_message(QueueUrl=queue, MessageBody="1", MessageAttributes=attributes)
    (message,) = received(sqs, queue, MessageAttributeNames=["All"])
    assert message["MessageAttributes"] == attributes
    for name in ("with§sign", "?", ".x", "x.", "aWs.x"):
        code, _ = refusal(
            lambda name=name: sqs.send_message(  # type: ignore[misc] # mypy: no type of a default
                QueueUrl=queue,
                MessageBody="1",
                MessageAttributes={name: {"DataType": "String", "StringValue": "x"}},
            )
        )
        assert code == "InvalidParameterValue", name


def test_attributes_are_asked_for_by_how_their_names_begin(sqs: Sqs, queue: str) -> None:
    attributes = {
        name: {"DataType": "String", "StringValue": "x"} for name in ("Help.Me", "Hello", "General")
    }
    sqs.send_message(QueueUrl=queue, MessageBody="1", MessageAttributes=attributes)
    for asked, names in (
        (["Hel.*"], {"Help.Me", "Hello"}),
        (["*"], set(attributes)),
        (["Help"], set()),
    ):
        (message,) = received(sqs, queue, MessageAttributeNames=asked, VisibilityTimeout=0)
        assert set(message.get("MessageAttributes", ())) == names


def test_a_value_that_is_empty_or_no_text_is_refused(sqs: Sqs, queue: str) -> None:
    def send(value: str) -> None:
        attributes = {"note": {"DataType": "String", "StringValue": value}}
        sqs.send_message(QueueUrl=queue, MessageBody="1", MessageAttributes=attributes)

    assert refusal(lambda: send("")) == (
        "InvalidParameterValue",
        "Message (user) attribute 'note' must contain a non-empty value of type 'String'.",
    )
    assert refusal(lambda: send("\x08"))[0] == "InvalidParameterValue"


def test_the_trace_of_a_request_is_that_of_its_messages(sqs: Sqs, queue: str) -> None:
    def add_header(request: Any, **_: Any) -> None:  # Any: as botocore calls it
        request.headers["X-Amzn-Trace-Id"] = "Root=1-3152b799"

    for action in ("SendMessage", "SendMessageBatch"):
        sqs.meta.events.register(f"before-send.sqs.{action}", add_header)
    sqs.send_message(QueueUrl=queue, MessageBody="1")
    own = {"AWSTraceHeader": {"DataType": "String", "StringValue": "Root=2"}}
    entry = {"Id": "1", "MessageBody": "2", "MessageSystemAttributes": own}
    sqs.send_message_batch(QueueUrl=queue, Entries=[entry])
    asked = {"MaxNumberOfMessages": 10, "AttributeNames": ["AWSTraceHeader"]}
    found = {each["Body"]: each["Attributes"] for each in received(sqs, queue, **asked)}
    assert found == {
        "1": {"AWSTraceHeader": "Root=1-3152b799"},
        "2": {"AWSTraceHeader": "Root=2"},
    }


def test_a_fifo_batch_without_ids_is_refused_as_a_whole(sqs: Sqs) -> None:
    fifo = sqs.create_queue(QueueName="q.fifo", Attributes={"FifoQueue": "true"})["QueueUrl"]
    good = {"Id": "1", "MessageBody": "1", "MessageGroupId": "a", "MessageDeduplicationId": "1"}
    for missing in ("MessageGroupId", "MessageDeduplicationId"):
        bad = {key: value for key, value in good.items() if key != missing} | {"Id": "2"}
        code, _ = refusal(
            lambda bad=bad: sqs.send_message_batch(  # type: ignore[misc] # as above
                QueueUrl=fifo, Entries=[good, bad]
            )
        )
        assert code == "InvalidParameterValue", missing
    assert received(sqs, fifo) == []


def test_no_delay_in_a_fifo_queue_is_that_of_the_queue(sqs: Sqs, queue: str) -> None:
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true", "DelaySeconds": "60"}
    fifo = sqs.create_queue(QueueName="q.fifo", Attributes=attributes)["QueueUrl"]
    sqs.send_message(QueueUrl=fifo, MessageBody="1", MessageGroupId="a", DelaySeconds=0)
    assert received(sqs, fifo) == []
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"DelaySeconds": "60"})
    sqs.send_message(QueueUrl=queue, MessageBody="1", DelaySeconds=0)
    assert len(received(sqs, queue)) == 1


def test_truth_is_written_in_any_case(sqs: Sqs) -> None:
    attributes = {"FifoQueue": "True", "ContentBasedDeduplication": "False"}
    fifo = sqs.create_queue(QueueName="q.fifo", Attributes=attributes)["QueueUrl"]
    assert sqs.create_queue(QueueName="q.fifo", Attributes=attributes)["QueueUrl"] == fifo
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"ContentBasedDeduplication": "TRUE"})
    found = attributes_of(sqs, fifo)
    assert (found["FifoQueue"], found["ContentBasedDeduplication"]) == ("true", "true")


def test_the_kind_of_a_queue_stays(sqs: Sqs, queue: str, fifo: str) -> None:
    def change(url: str, **attributes: str) -> tuple[str, str]:
        return refusal(lambda: sqs.set_queue_attributes(QueueUrl=url, Attributes=attributes))

    sqs.set_queue_attributes(QueueUrl=fifo, Attributes={"FifoQueue": "true"})
    assert change(fifo, FifoQueue="false") == (
        "InvalidAttributeValue",
        "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.",
    )
    assert change(queue, FifoQueue="true") == (
        "InvalidAttributeName",
        "Unknown Attribute FifoQueue.",
    )
    assert change(queue, DeduplicationScope="queue") == (
        "InvalidAttributeName",
        "You can specify the DeduplicationScope only when FifoQueue is set to true.",
    )


def test_a_move_task_needs_a_destination_that_is_there(sqs: Sqs, queue: str) -> None:
    letters = sqs.create_queue(QueueName="letters")["QueueUrl"]
    arn = attributes_of(sqs, letters)["QueueArn"]
    policy = f'{{"deadLetterTargetArn": "{arn}", "maxReceiveCount": 1}}'
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    for source, target, parameter in (
        (arn, f"{arn}-2", "DestinationArn"),
        (arn.replace(":0", ":9"), arn, "SourceArn"),
    ):
        code, message = refusal(
            lambda source=source, target=target: (  # type: ignore[misc] # as above
                sqs.start_message_move_task(SourceArn=source, DestinationArn=target)
            )
        )
        assert code == "ResourceNotFoundException"
        assert (
            message
            == f"The resource that you specified for the {parameter} parameter doesn't exist."
        )
    assert refusal(lambda: sqs.cancel_message_move_task(TaskHandle="foobared"))[1] == (
        "Value for parameter TaskHandle is invalid."
    )
