"""Queues through boto3, in both protocols: settings, names, tags, dead letters."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from uuid import UUID, uuid4

import pytest
from botocore.exceptions import ClientError
from django.utils import timezone

from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.accounts.scopes import Scope, parse_grant
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.services import GroupChange, delete_group, put_group
from mqservice.store import ClientConfig
from mqservice.tasks.models import Task
from mqservice.topics.models import Topic
from mqservice.topics.services import TopicChange, delete_topic, put_topic
from tests.mqservice.delivery.wait_until import wait_until
from tests.mqservice.sqs.conftest import REGION, Desk, Sqs
from tests.mqservice.sqs.test_messages import code_of, received


def attributes_of(sqs: Sqs, queue: str, *names: str) -> dict[str, str]:
    found = sqs.get_queue_attributes(QueueUrl=queue, AttributeNames=list(names) or ["All"])
    return dict(found.get("Attributes", {}))


def test_a_queue_has_the_defaults_of_aws(sqs: Sqs, queue: str) -> None:
    found = attributes_of(sqs, queue)
    assert found["VisibilityTimeout"] == "30"
    assert found["MaximumMessageSize"] == "1048576"
    assert found["MessageRetentionPeriod"] == "345600"
    assert found["DelaySeconds"] == found["ReceiveMessageWaitTimeSeconds"] == "0"
    assert found["ApproximateNumberOfMessages"] == "0"
    account, name = queue.rsplit("/", 2)[1:]
    assert found["QueueArn"] == f"arn:aws:sqs:{REGION}:{account}:{name}"
    assert int(found["CreatedTimestamp"]) <= int(found["LastModifiedTimestamp"])
    assert set(attributes_of(sqs, queue, "QueueArn")) == {"QueueArn"}


def test_a_queue_of_a_namespace_that_is_moving_is_made_where_it_goes(
    desk: Desk, sqs: Sqs, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqservice.moving_waits._LIMITS", ClientConfig(hold_ms_max=3_600_000))
    caches, acme = desk.server.context.caches, Namespace.objects.filter(name="acme")
    wait_until(lambda: caches.is_listening)
    acme.update(moving_to="s2")
    desk.server.wait_for(caches.hear_own_changes)
    with ThreadPoolExecutor(1) as thread:
        waiting = thread.submit(sqs.create_queue, QueueName="orders")
        wait_until(lambda: desk.server.call(lambda: caches.routes.waiting_changes_count) == 1)
        assert not Topic.objects.exists()
        # what asks no engine does not wait
        assert "QueueUrls" not in sqs.list_queues()
        acme.update(moving_to="")
        assert waiting.result(60)["QueueUrl"].endswith("/orders")


def test_the_account_of_emulators_is_that_of_the_key(sqs: Sqs, queue: str) -> None:
    own = queue.rsplit("/", 2)[1]
    url, arn = (
        text.replace(own, "000000000000") for text in (queue, attributes_of(sqs, queue)["QueueArn"])
    )
    found = sqs.get_queue_url(QueueName="orders", QueueOwnerAWSAccountId="000000000000")
    assert found["QueueUrl"] == queue
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    source = sqs.create_queue(QueueName="source", Attributes={"RedrivePolicy": policy})["QueueUrl"]
    assert sqs.list_dead_letter_source_queues(QueueUrl=url)["queueUrls"] == [source]
    other = queue.replace(own, f"{int(own) + 1:012d}")
    with pytest.raises(ClientError) as error:
        sqs.send_message(QueueUrl=other, MessageBody="x")
    assert code_of(error).endswith(("NonExistentQueue", "QueueDoesNotExist"))
    sqs.send_message(QueueUrl=url, MessageBody="x")
    assert len(received(sqs, queue)) == 1


def test_attributes_are_settings_of_the_topic_and_the_group(sqs: Sqs, queue: str) -> None:
    wanted = {
        "VisibilityTimeout": "45",
        "MaximumMessageSize": "2048",
        "MessageRetentionPeriod": "3600",
        "DelaySeconds": "1",
        "ReceiveMessageWaitTimeSeconds": "7",
        "Policy": json.dumps({"Version": "2012-10-17"}),
        "KmsMasterKeyId": "alias/aws/sqs",
    }
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=wanted)
    found = attributes_of(sqs, queue)
    assert {name: found[name] for name in wanted} == wanted
    keys = {"KmsDataKeyReusePeriodSeconds": "600"}
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=keys)
    assert attributes_of(sqs, queue, *keys) == keys
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"KmsMasterKeyId": ""})
    assert attributes_of(sqs, queue, *keys) == {}
    topic, group = Topic.objects.get(name="orders"), ConsumerGroup.objects.get(name="orders")
    assert (topic.body_bytes_max, topic.retention_age_ms, group.lease_ms) == (
        2048,
        3_600_000,
        45_000,
    )
    actions = set(AuditEntry.objects.values_list("action", flat=True))
    assert {"topic.put", "group.put"} <= actions
    with pytest.raises(ClientError) as error:
        sqs.send_message(QueueUrl=queue, MessageBody="x" * 2049)
    assert code_of(error) == "InvalidParameterValue"
    sqs.send_message(QueueUrl=queue, MessageBody="late")
    assert attributes_of(sqs, queue)["ApproximateNumberOfMessagesDelayed"] == "1"
    assert received(sqs, queue, WaitTimeSeconds=0) == []
    assert len(received(sqs, queue)) == 1
    assert attributes_of(sqs, queue)["ApproximateNumberOfMessagesDelayed"] == "0"
    assert attributes_of(sqs, queue)["ApproximateNumberOfMessagesNotVisible"] == "1"


@pytest.mark.parametrize(
    ("attributes", "code"),
    [
        ({"VisibilityTimeout": "43201"}, "InvalidAttributeValue"),
        ({"VisibilityTimeout": "-1"}, "InvalidAttributeValue"),
        ({"DelaySeconds": "x"}, "InvalidAttributeValue"),
        ({"MessageRetentionPeriod": "59"}, "InvalidAttributeValue"),
        ({"RedrivePolicy": "{"}, "InvalidAttributeValue"),
        ({"QueueArn": "x"}, "InvalidAttributeName"),
        ({"Colour": "blue"}, "InvalidAttributeName"),
        ({"ContentBasedDeduplication": "true"}, "InvalidAttributeName"),
        ({"FifoQueue": "true"}, "InvalidAttributeName"),
    ],
)
def test_wrong_attributes_are_refused(
    sqs: Sqs, queue: str, attributes: dict[str, str], code: str
) -> None:
    before = attributes_of(sqs, queue)
    with pytest.raises(ClientError) as error:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes=attributes)
    assert code_of(error) == code
    assert attributes_of(sqs, queue) == before


def test_to_create_a_queue_again_is_harmless_unless_it_differs(sqs: Sqs, queue: str) -> None:
    assert sqs.create_queue(QueueName="orders")["QueueUrl"] == queue
    with pytest.raises(ClientError) as error:
        sqs.create_queue(QueueName="orders", Attributes={"DelaySeconds": "9"})
    assert code_of(error) in ("QueueAlreadyExists", "QueueNameExists")
    for name in ("with.dot", "x" * 65, "sp ace", "orders.fifo"):
        with pytest.raises(ClientError) as error:
            sqs.create_queue(QueueName=name)
        assert code_of(error) == "InvalidParameterValue"


def test_queues_are_listed_by_prefix_and_page(sqs: Sqs) -> None:
    for name in ("a1", "a2", "a3", "b1"):
        sqs.create_queue(QueueName=name)
    urls = sqs.list_queues(QueueNamePrefix="a")["QueueUrls"]
    assert [url.rsplit("/")[-1] for url in urls] == ["a1", "a2", "a3"]
    page = sqs.list_queues(MaxResults=3)
    rest = sqs.list_queues(MaxResults=3, NextToken=page["NextToken"])
    assert [url.rsplit("/")[-1] for url in page["QueueUrls"] + rest["QueueUrls"]] == [
        "a1", "a2", "a3", "b1",
    ]  # fmt: skip
    assert "NextToken" not in rest
    assert sqs.get_queue_url(QueueName="b1")["QueueUrl"] == rest["QueueUrls"][-1]


def test_a_prefix_is_that_of_the_name_with_its_ending(sqs: Sqs, fifo: str, queue: str) -> None:
    def found(prefix: str, **more: Any) -> list[str]:  # Any: as boto3 takes it
        return list(sqs.list_queues(QueueNamePrefix=prefix, **more).get("QueueUrls", []))

    assert found("orders") == [queue, fifo]
    assert found("orders.") == found("orders.fi") == found("orders.fifo") == [fifo]
    assert found("orders_") == found("orders.x") == found(".") == found("order.fifo") == []
    later = sqs.create_queue(QueueName="orders_fine")["QueueUrl"]
    assert found("orders_fi", MaxResults=1) == [later]


def test_a_deleted_queue_is_gone_and_one_made_again_is_empty(sqs: Sqs, fifo: str) -> None:
    def send() -> Any:  # Any: as boto3 answers
        return sqs.send_message(QueueUrl=fifo, MessageBody="1", MessageGroupId="a")

    send()
    (old,) = received(sqs, fifo)
    sqs.delete_queue(QueueUrl=fifo)
    with pytest.raises(ClientError) as error:
        send()
    assert code_of(error).endswith(("NonExistentQueue", "QueueDoesNotExist"))
    attributes = {"FifoQueue": "true", "ContentBasedDeduplication": "true"}
    assert sqs.create_queue(QueueName="orders.fifo", Attributes=attributes)["QueueUrl"] == fifo
    assert received(sqs, fifo) == []
    first, again = send(), send()
    assert first["MessageId"] == again["MessageId"]
    with pytest.raises(ClientError):
        sqs.delete_message(QueueUrl=fifo, ReceiptHandle=old["ReceiptHandle"])
    (message,) = received(sqs, fifo)
    assert message["MessageId"] == first["MessageId"]


def test_tags_and_permissions(sqs: Sqs, queue: str) -> None:
    sqs.tag_queue(QueueUrl=queue, Tags={"team": "shop", "stage": "test"})
    sqs.untag_queue(QueueUrl=queue, TagKeys=["stage"])
    assert sqs.list_queue_tags(QueueUrl=queue)["Tags"] == {"team": "shop"}
    sqs.add_permission(
        QueueUrl=queue, Label="one", AWSAccountIds=["123456789012"], Actions=["SendMessage"]
    )
    arn = attributes_of(sqs, queue)["QueueArn"]
    assert json.loads(attributes_of(sqs, queue)["Policy"]) == {
        "Version": "2008-10-17",
        "Id": f"{arn}/SQSDefaultPolicy",
        "Statement": [
            {
                "Sid": "one",
                "Effect": "Allow",
                "Principal": {"AWS": "arn:aws:iam::123456789012:root"},
                "Action": "SQS:SendMessage",
                "Resource": arn,
            }
        ],
    }
    sqs.remove_permission(QueueUrl=queue, Label="one")
    assert "Policy" not in attributes_of(sqs, queue)
    with pytest.raises(ClientError) as error:
        sqs.remove_permission(QueueUrl=queue, Label="one")
    assert code_of(error) == "InvalidParameterValue"


def test_a_purged_queue_is_empty(sqs: Sqs, queue: str) -> None:
    for body in "123":
        sqs.send_message(QueueUrl=queue, MessageBody=body)
    sqs.send_message(QueueUrl=queue, MessageBody="delayed", DelaySeconds=1)
    received(sqs, queue)
    sqs.purge_queue(QueueUrl=queue)
    assert attributes_of(sqs, queue)["ApproximateNumberOfMessagesDelayed"] == "0"
    sqs.send_message(QueueUrl=queue, MessageBody="later", DelaySeconds=2)
    assert [each["Body"] for each in received(sqs, queue, WaitTimeSeconds=10)] == ["later"]


def test_dead_letters_are_received_from_the_queue_that_is_named(sqs: Sqs, queue: str) -> None:
    letters = sqs.create_queue(QueueName="letters")["QueueUrl"]
    arn = attributes_of(sqs, letters)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    assert json.loads(attributes_of(sqs, queue)["RedrivePolicy"]) == json.loads(policy)
    assert sqs.list_dead_letter_source_queues(QueueUrl=letters)["queueUrls"] == [queue]

    sqs.send_message(QueueUrl=letters, MessageBody="sent to it")
    sent = sqs.send_message(QueueUrl=queue, MessageBody="poison")
    assert len(received(sqs, queue, VisibilityTimeout=0)) == 1
    assert len(received(sqs, queue, VisibilityTimeout=0, WaitTimeSeconds=5)) == 1
    assert received(sqs, queue) == []
    found: dict[str, dict[str, Any]] = {}  # Any: as boto3 answers
    while len(found) < 2:
        for message in received(sqs, letters, WaitTimeSeconds=10, AttributeNames=["All"]):
            found[message["Body"]] = message
    letter = found["poison"]
    assert letter["MessageId"] == sent["MessageId"]
    source = attributes_of(sqs, queue)["QueueArn"]
    assert letter["Attributes"]["DeadLetterQueueSourceArn"] == source
    assert letter["Attributes"]["ApproximateReceiveCount"] == "3"
    sqs.change_message_visibility(
        QueueUrl=letters, ReceiptHandle=letter["ReceiptHandle"], VisibilityTimeout=0
    )
    (letter,) = received(sqs, letters, WaitTimeSeconds=10)
    assert letter["Body"] == "poison"
    sqs.delete_message(QueueUrl=letters, ReceiptHandle=letter["ReceiptHandle"])
    assert received(sqs, letters) == []
    assert attributes_of(sqs, letters)["ApproximateNumberOfMessages"] == "0"
    sqs.delete_queue(QueueUrl=queue)
    assert not sqs.list_dead_letter_source_queues(QueueUrl=letters).get("queueUrls")


def test_a_receipt_of_a_deleted_queue_settles_nothing_of_its_successor(
    sqs: Sqs, queue: str
) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="old")
    (old,) = received(sqs, queue, WaitTimeSeconds=10)
    sqs.delete_queue(QueueUrl=queue)
    sqs.create_queue(QueueName="orders")
    sqs.send_message(QueueUrl=queue, MessageBody="new")
    receipt = {"QueueUrl": queue, "ReceiptHandle": old["ReceiptHandle"]}
    sqs.delete_message(**receipt)
    with pytest.raises(ClientError, match="does not exist or is not available"):
        sqs.change_message_visibility(**receipt, VisibilityTimeout=5)
    (new,) = received(sqs, queue, WaitTimeSeconds=10)
    sqs.delete_message(**receipt)
    assert new["Body"] == "new"
    assert attributes_of(sqs, queue)["ApproximateNumberOfMessagesNotVisible"] == "1"


def test_a_queue_deleted_elsewhere_feeds_no_dead_letter_queue(
    desk: Desk, sqs: Sqs, queue: str
) -> None:
    acme = desk.people.acme
    letters = sqs.create_queue(QueueName="letters")["QueueUrl"]
    arn = attributes_of(sqs, letters)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})

    def sources() -> Any:  # Any: as boto3 answers
        listed = sqs.list_dead_letter_source_queues(QueueUrl=letters).get("queueUrls")
        assert bool(listed) is bool(Topic.objects.get(name="letters").letter_sources)
        return listed

    steps: list[tuple[Callable[[], object], Callable[[], object]]] = [
        (lambda: delete_group(acme, "orders"), lambda: put_group(acme, "orders", GroupChange())),
        (lambda: delete_topic(acme, "orders"), lambda: put_topic(acme, "orders", TopicChange())),
    ]
    for delete, create in steps:
        sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
        assert sources() == [queue]
        delete()
        assert not sources()
        create()
        assert not sources()
        assert "RedrivePolicy" not in attributes_of(sqs, queue)


def test_a_dead_letter_queue_made_again_gets_the_letters_of_those_that_name_it(
    desk: Desk, sqs: Sqs, queue: str
) -> None:
    letters = sqs.create_queue(QueueName="letters")["QueueUrl"]
    arn = attributes_of(sqs, letters)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    sqs.delete_queue(QueueUrl=letters)
    assert json.loads(attributes_of(sqs, queue)["RedrivePolicy"])["deadLetterTargetArn"] == arn
    sqs.create_queue(QueueName="letters")
    assert sqs.list_dead_letter_source_queues(QueueUrl=letters)["queueUrls"] == [queue]
    sqs.send_message(QueueUrl=queue, MessageBody="poison")
    received(sqs, queue, VisibilityTimeout=0)
    (letter,) = received(sqs, letters, WaitTimeSeconds=10)
    assert letter["Body"] == "poison"


def test_a_move_task_is_a_redrive(sqs: Sqs, queue: str) -> None:
    letters = sqs.create_queue(QueueName="letters")["QueueUrl"]
    arn = attributes_of(sqs, letters)["QueueArn"]
    with pytest.raises(ClientError) as error:
        sqs.start_message_move_task(SourceArn=arn)
    assert code_of(error) == "InvalidParameterValue"
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": "1"})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    sqs.send_message(QueueUrl=queue, MessageBody="poison")
    received(sqs, queue, VisibilityTimeout=0)
    handle = sqs.start_message_move_task(SourceArn=arn, MaxNumberOfMessagesPerSecond=5)[
        "TaskHandle"
    ]
    (task,) = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
    assert (task["Status"], task["TaskHandle"], task["SourceArn"]) == ("RUNNING", handle, arn)
    assert sqs.cancel_message_move_task(TaskHandle=handle)["ApproximateNumberOfMessagesMoved"] == 0
    (task,) = sqs.list_message_move_tasks(SourceArn=arn)["Results"]
    assert task["Status"] == "CANCELLED"
    sqs.purge_queue(QueueUrl=letters)
    assert Task.objects.filter(kind="purge", group_name="orders").count() == 1
    for text, code in (
        ("none", "InvalidParameterValue"),
        (base64.b64encode(b"[" * 100_000).decode(), "InvalidParameterValue"),
        (handle_text(arn), "ResourceNotFoundException"),
        (handle_text(f"{arn}x"), "ResourceNotFoundException"),
        (handle, "ResourceNotFoundException"),
    ):
        with pytest.raises(ClientError) as error:
            sqs.cancel_message_move_task(TaskHandle=text)
        assert code_of(error) == code


def handle_text(arn: str) -> str:
    """The handle of a move task that there is not, in AWS's form."""
    content = {"taskId": str(uuid4()), "sourceArn": arn}
    return base64.b64encode(json.dumps(content).encode()).decode()


def test_redrives_of_several_sources_are_one_move_task(desk: Desk, sqs: Sqs, queue: str) -> None:
    letters = sqs.create_queue(QueueName="letters")["QueueUrl"]
    arn = attributes_of(sqs, letters)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    other = sqs.create_queue(QueueName="other", Attributes={"RedrivePolicy": policy})["QueueUrl"]
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    for each in (queue, other):
        sqs.send_message(QueueUrl=each, MessageBody="poison")
        received(sqs, each, VisibilityTimeout=0)

    def counted() -> bool:
        return attributes_of(sqs, letters)["ApproximateNumberOfMessages"] == "2"

    wait_until(counted)
    target = sqs.create_queue(QueueName="target")["QueueUrl"]
    handle = sqs.start_message_move_task(
        SourceArn=arn, DestinationArn=attributes_of(sqs, target)["QueueArn"]
    )["TaskHandle"]
    stated = json.loads(base64.b64decode(handle))
    assert (str(UUID(stated["taskId"])), stated["sourceArn"]) == (stated["taskId"], arn)
    assert Task.objects.filter(kind="redrive").count() == 2
    (task,) = sqs.list_message_move_tasks(SourceArn=arn, MaxResults=10)["Results"]
    assert (task["TaskHandle"], task["Status"]) == (handle, "RUNNING")
    assert task["ApproximateNumberOfMessagesToMove"] == 2
    assert "MaxNumberOfMessagesPerSecond" not in task
    Task.objects.filter(group_name="orders").update(
        state="failed", error="TOPIC_NOT_FOUND: the topic no longer exists", moved_count=3
    )
    Task.objects.filter(group_name="other").update(state="done", moved_count=4)
    sqs.delete_queue(QueueUrl=target)
    (task,) = sqs.list_message_move_tasks(SourceArn=arn, MaxResults=10)["Results"]
    assert task["Status"] == "FAILED"
    assert task["FailureReason"] == "AWS.SimpleQueueService.NonExistentQueue"
    assert task["ApproximateNumberOfMessagesMoved"] == 7
    assert task["DestinationArn"].endswith(":target")


def test_a_queue_may_be_its_own_dead_letter_queue(sqs: Sqs, queue: str) -> None:
    arn = attributes_of(sqs, queue)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    assert sqs.list_dead_letter_source_queues(QueueUrl=queue)["queueUrls"] == [queue]
    sqs.send_message(QueueUrl=queue, MessageBody="poison")
    received(sqs, queue, VisibilityTimeout=0)
    (letter,) = received(sqs, queue, WaitTimeSeconds=10)
    assert letter["Body"] == "poison"
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=letter["ReceiptHandle"])
    assert received(sqs, queue) == []
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": ""})
    assert "RedrivePolicy" not in attributes_of(sqs, queue)
    sqs.delete_queue(QueueUrl=queue)


def test_of_move_tasks_that_start_at_once_one_runs(sqs: Sqs, queue: str) -> None:
    letters = sqs.create_queue(QueueName="letters")["QueueUrl"]
    arn = attributes_of(sqs, letters)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    sqs.send_message(QueueUrl=queue, MessageBody="poison")
    received(sqs, queue, VisibilityTimeout=0)

    def start(_: int) -> str:
        try:
            sqs.start_message_move_task(SourceArn=arn)
        except ClientError as exc:
            return str(exc.response["Error"]["Code"])
        return "started"

    with ThreadPoolExecutor(8) as pool:
        found = sorted(pool.map(start, range(8)))
    assert found == ["InvalidParameterValue"] * 7 + ["started"]


def test_of_queues_that_are_created_at_once_with_other_settings_one_is_there(sqs: Sqs) -> None:
    def create(number: int) -> str:
        attributes = {"VisibilityTimeout": str(number)}
        try:
            sqs.create_queue(QueueName="orders", Attributes=attributes)
        except ClientError as exc:
            return str(exc.response["Error"]["Code"])
        return str(number)

    with ThreadPoolExecutor(8) as pool:
        created, *others = sorted(pool.map(create, range(10, 26)))
    assert others == ["QueueAlreadyExists"] * 15
    assert attributes_of(sqs, "orders")["VisibilityTimeout"] == created


def test_a_queue_made_again_has_no_move_tasks_of_the_one_before(sqs: Sqs, queue: str) -> None:
    letters = sqs.create_queue(QueueName="letters")["QueueUrl"]
    arn = attributes_of(sqs, letters)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 1})
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    handle = sqs.start_message_move_task(SourceArn=arn)["TaskHandle"]
    sqs.cancel_message_move_task(TaskHandle=handle)
    assert len(sqs.list_message_move_tasks(SourceArn=arn)["Results"]) == 1
    sqs.delete_queue(QueueUrl=letters)
    sqs.create_queue(QueueName="letters")
    assert sqs.list_message_move_tasks(SourceArn=arn).get("Results", []) == []


def test_queues_that_come_and_go_at_once_are_there_for_who_made_them(sqs: Sqs) -> None:
    letters = sqs.create_queue(QueueName="letters")["QueueUrl"]
    arn = attributes_of(sqs, letters)["QueueArn"]
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})

    def live(number: int) -> None:
        for _ in range(3):
            made = sqs.create_queue(
                QueueName=f"queue-{number}", Attributes={"RedrivePolicy": policy}
            )
            queue = made["QueueUrl"]
            sent = sqs.send_message(QueueUrl=queue, MessageBody="x")
            (message,) = received(sqs, queue, WaitTimeSeconds=5)
            assert message["MessageId"] == sent["MessageId"]
            sqs.delete_queue(QueueUrl=queue)

    with ThreadPoolExecutor(6) as pool:
        list(pool.map(live, range(6)))
    assert not sqs.list_dead_letter_source_queues(QueueUrl=letters).get("queueUrls")


@pytest.mark.parametrize("statement", ['["x", 5, {"Sid": 1}]', "5", '{"Sid": "one"}'])
def test_permissions_beside_a_policy_of_any_form(sqs: Sqs, queue: str, statement: str) -> None:
    policy = f'{{"Statement": {statement}}}'
    sqs.set_queue_attributes(QueueUrl=queue, Attributes={"Policy": policy})
    sqs.add_permission(QueueUrl=queue, Label="two", AWSAccountIds=["1"], Actions=["*"])
    *before, added = json.loads(attributes_of(sqs, queue)["Policy"])["Statement"]
    assert added["Sid"] == "two"
    sqs.remove_permission(QueueUrl=queue, Label="two")
    assert json.loads(attributes_of(sqs, queue)["Policy"])["Statement"] == before


def test_a_topic_made_elsewhere_is_a_queue(desk: Desk, sqs: Sqs) -> None:
    put_topic(desk.people.acme, "made-by-rest", TopicChange(queue_count=2))
    queue = sqs.get_queue_url(QueueName="made-by-rest")["QueueUrl"]
    sqs.send_message(QueueUrl=queue, MessageBody="1")
    (message,) = received(sqs, queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    assert ConsumerGroup.objects.filter(name="made-by-rest").exists()


def test_a_key_reaches_its_own_namespace_only(desk: Desk, sqs: Sqs, queue: str) -> None:
    sqs.send_message(QueueUrl=queue, MessageBody="1")
    (message,) = received(sqs, queue)
    rival = desk.client(key=desk.key(desk.people.rival))
    own = rival.create_queue(QueueName="orders")["QueueUrl"]
    calls: tuple[Callable[[], Any], ...] = (  # Any: what nobody looks at
        lambda: rival.send_message(QueueUrl=queue, MessageBody="2"),
        lambda: rival.receive_message(QueueUrl=queue),
        lambda: rival.get_queue_attributes(QueueUrl=queue, AttributeNames=["All"]),
        lambda: rival.delete_queue(QueueUrl=queue),
        lambda: rival.get_queue_url(
            QueueName="orders", QueueOwnerAWSAccountId=queue.rsplit("/", 2)[1]
        ),
    )
    for call in calls:
        with pytest.raises(ClientError) as error:
            call()
        assert code_of(error).endswith(("NonExistentQueue", "QueueDoesNotExist"))
    with pytest.raises(ClientError) as error:
        rival.delete_message(QueueUrl=own, ReceiptHandle=message["ReceiptHandle"])
    assert code_of(error) == "ReceiptHandleIsInvalid"


def test_a_key_does_what_its_scopes_allow(desk: Desk, sqs: Sqs, queue: str) -> None:
    reader = desk.client(key=desk.key(scopes=frozenset({Scope.CONSUME})))
    assert received(reader, queue) == []
    calls: tuple[Callable[[], Any], ...] = (  # Any: what nobody looks at
        lambda: reader.send_message(QueueUrl=queue, MessageBody="1"),
        lambda: reader.delete_queue(QueueUrl=queue),
        lambda: reader.create_queue(QueueName="more"),
        lambda: reader.purge_queue(QueueUrl=queue),
    )
    for call in calls:
        with pytest.raises(ClientError) as error:
            call()
        assert code_of(error) == "AccessDenied"
        assert error.value.response["ResponseMetadata"]["HTTPStatusCode"] == 403
    whole = desk.client(key=desk.key(is_of_namespace=False))
    with pytest.raises(ClientError) as error:
        whole.list_queues()
    assert code_of(error) == "AccessDenied"


def test_a_dead_letter_queue_is_named_only_by_who_may_manage_it(
    desk: Desk, sqs: Sqs, queue: str
) -> None:
    sqs.create_queue(QueueName="private")
    arn = attributes_of(sqs, queue)["QueueArn"].replace("orders", "private")
    policy = json.dumps({"deadLetterTargetArn": arn, "maxReceiveCount": 2})
    grants = (parse_grant("manage:orders"),)
    limited = desk.client(key=desk.key(scopes=frozenset(), grants=grants))
    limited.set_queue_attributes(QueueUrl=queue, Attributes={"VisibilityTimeout": "40"})
    with pytest.raises(ClientError) as error:
        limited.set_queue_attributes(QueueUrl=queue, Attributes={"RedrivePolicy": policy})
    assert code_of(error) == "AccessDenied"
    assert "RedrivePolicy" not in attributes_of(sqs, queue)


def test_a_queue_is_changed_only_by_who_manages_its_group_too(
    desk: Desk, sqs: Sqs, queue: str
) -> None:
    limited = desk.client(
        key=desk.key(scopes=frozenset(), grants=(parse_grant("manage:topic/orders"),))
    )
    limited.tag_queue(QueueUrl=queue, Tags={"a": "b"})
    calls: tuple[Callable[[], Any], ...] = (  # Any: what nobody looks at
        lambda: limited.set_queue_attributes(
            QueueUrl=queue, Attributes={"VisibilityTimeout": "40"}
        ),
        lambda: limited.delete_queue(QueueUrl=queue),
    )
    for call in calls:
        with pytest.raises(ClientError) as error:
            call()
        assert code_of(error) == "AccessDenied"
    assert attributes_of(sqs, queue)["VisibilityTimeout"] == "30"


def test_tags_and_attributes_that_change_at_once_are_all_kept(sqs: Sqs, queue: str) -> None:
    def change(number: int) -> None:
        if number % 2:
            sqs.tag_queue(QueueUrl=queue, Tags={str(number): "x"})
        else:
            sqs.set_queue_attributes(QueueUrl=queue, Attributes={"DelaySeconds": str(number)})

    numbers = range(1, 41)
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(change, numbers))

    odd = {str(number) for number in numbers if number % 2}
    assert set(sqs.list_queue_tags(QueueUrl=queue)["Tags"]) == odd
    even = {str(number) for number in numbers if number % 2 == 0}
    assert attributes_of(sqs, queue)["DelaySeconds"] in even


def test_a_fifo_queue_has_one_name(sqs: Sqs, fifo: str) -> None:
    other = fifo.removesuffix(".fifo") + "_fifo"
    calls: tuple[Callable[[], Any], ...] = (  # Any: what nobody looks at
        lambda: sqs.send_message(QueueUrl=other, MessageBody="1", MessageGroupId="a"),
        lambda: sqs.receive_message(QueueUrl=other),
        lambda: sqs.delete_message(QueueUrl=other, ReceiptHandle="x"),
        lambda: sqs.get_queue_url(QueueName="orders_fifo"),
        lambda: sqs.purge_queue(QueueUrl=other),
    )
    for call in calls:
        with pytest.raises(ClientError) as error:
            call()
        assert code_of(error).endswith(("NonExistentQueue", "QueueDoesNotExist"))
    with pytest.raises(ClientError) as error:
        sqs.create_queue(QueueName="orders_fifo")
    assert code_of(error) in ("QueueAlreadyExists", "QueueNameExists")
    assert sqs.list_queues()["QueueUrls"] == [fifo]


def test_a_read_only_namespace_takes_messages_and_no_changes(
    desk: Desk, sqs: Sqs, queue: str
) -> None:
    Namespace.objects.filter(pk=desk.people.acme.pk).update(read_only_since=timezone.now())
    sqs.send_message(QueueUrl=queue, MessageBody="1")
    (message,) = received(sqs, queue)
    sqs.delete_message(QueueUrl=queue, ReceiptHandle=message["ReceiptHandle"])
    arn = attributes_of(sqs, queue)["QueueArn"]
    calls: tuple[Callable[[], Any], ...] = (  # Any: what nobody looks at
        lambda: sqs.create_queue(QueueName="more"),
        lambda: sqs.set_queue_attributes(QueueUrl=queue, Attributes={"DelaySeconds": "1"}),
        lambda: sqs.tag_queue(QueueUrl=queue, Tags={"a": "b"}),
        lambda: sqs.purge_queue(QueueUrl=queue),
        lambda: sqs.delete_queue(QueueUrl=queue),
        lambda: sqs.cancel_message_move_task(TaskHandle=handle_text(arn)),
    )
    for call in calls:
        with pytest.raises(ClientError) as error:
            call()
        assert code_of(error) == "AccessDenied"
    assert sqs.list_queues()["QueueUrls"] == [queue]
