"""Queues as definitions: what SQS keeps of them comes along into another namespace."""

from __future__ import annotations

import json
from typing import Any

import pytest

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Role
from mqservice.accounts.scopes import Grant, Scope, parse_grant
from mqservice.definitions.documents import export, read_document
from mqservice.definitions.importing import import_definitions
from mqservice.lib.problem import Problem
from mqservice.topics.models import Topic
from tests.mqservice.sqs.conftest import Desk, Sqs
from tests.mqservice.sqs.test_queues import attributes_of
from tests.people import People

OF_ITS_PLACE = {"QueueArn", "CreatedTimestamp", "LastModifiedTimestamp", "RedrivePolicy"}


def imported(people: People, body: bytes, *grants: Grant) -> tuple[int, int, int]:
    """How many were created, changed, and stay as they are."""
    by = Principal(
        key_id="k",
        tenant_id=people.rival.tenant_id,
        tenant="rival",
        namespace_id=None,
        namespace=None,
        scopes=frozenset() if grants else frozenset(Scope),
        grants=grants,
        role=Role.OWNER,
    )
    plan = import_definitions(people.rival, read_document(body), by=by)
    done = plan.shown(is_dry_run=False)
    return done.created, done.changed, done.unchanged


def test_a_queue_is_the_same_after_an_import(desk: Desk, sqs: Sqs, queue: str, fifo: str) -> None:
    letters = sqs.create_queue(QueueName="letters", tags={"team": "shop"})["QueueUrl"]
    arn = attributes_of(sqs, letters)["QueueArn"]
    policy = {"deadLetterTargetArn": arn, "maxReceiveCount": 3}
    wanted = {
        "DelaySeconds": "7",
        "ReceiveMessageWaitTimeSeconds": "9",
        "VisibilityTimeout": "0",
        "RedrivePolicy": json.dumps(policy),
        "Policy": json.dumps({"Version": "2012-10-17"}),
        "KmsMasterKeyId": "alias/aws/sqs",
    }
    sqs.set_queue_attributes(QueueUrl=queue, Attributes=wanted)
    scope = {"DeduplicationScope": "messageGroup", "FifoThroughputLimit": "perMessageGroupId"}
    sqs.set_queue_attributes(QueueUrl=fifo, Attributes=scope)
    people = desk.people
    document = export(people.acme).model_dump_json().encode()

    assert imported(people, document) == (6, 0, 0)
    assert imported(people, document) == (0, 0, 6)
    assert export(people.rival).model_dump_json().encode() == document
    rival = desk.client(key=desk.key(people.rival))
    for name in ("orders", "orders.fifo", "letters"):
        own = attributes_of(sqs, sqs.get_queue_url(QueueName=name)["QueueUrl"])
        other = rival.get_queue_url(QueueName=name)["QueueUrl"]
        others = attributes_of(rival, other)
        assert {each: others[each] for each in others if each not in OF_ITS_PLACE} == {
            each: own[each] for each in own if each not in OF_ITS_PLACE
        }
    there = rival.get_queue_url(QueueName="letters")["QueueUrl"]
    assert rival.list_queue_tags(QueueUrl=there)["Tags"] == {"team": "shop"}
    (source,) = rival.list_dead_letter_source_queues(QueueUrl=there)["queueUrls"]
    found = json.loads(attributes_of(rival, source)["RedrivePolicy"])
    assert found == policy | {"deadLetterTargetArn": attributes_of(rival, there)["QueueArn"]}


@pytest.mark.parametrize(
    "options",
    [
        "x",
        {"colour": "blue"},
        {"delay_s": 901},
        {"dead_letter_queue": "a b"},
        {"letter_sources": ["orders"]},
        {"attributes": {"QueueArn": "x"}},
        {"attributes": {"Policy": "{"}},
        {"attributes": {"KmsMasterKeyId": "\0"}},
        {"tags": {"": "x"}},
        {"tags": {str(number): "" for number in range(51)}},
    ],
)
def test_options_that_no_queue_has_are_refused(options: Any) -> None:  # Any: JSON
    body = json.dumps({"version": 1, "topics": [{"name": "orders", "sqs": options}]})
    with pytest.raises(Problem) as refused:
        read_document(body.encode())
    assert refused.value.errors[0].pointer == "/topics/0/sqs"


def test_dead_letters_are_given_only_to_a_topic_that_the_key_manages(
    people: People, engine: str
) -> None:
    def body(letters: str) -> bytes:
        options = {"dead_letter_queue": letters}
        return json.dumps(
            {"version": 1, "topics": [{"name": "mine-1", "sqs": options}, {"name": "mine-2"}]}
        ).encode()

    mine = parse_grant("manage:topic/mine-*")
    with pytest.raises(Problem) as refused:
        imported(people, body("other"), mine)
    assert (refused.value.code, refused.value.errors[0].pointer) == ("FORBIDDEN", "/topics/0")
    assert imported(people, body("mine-2"), mine) == (2, 0, 0)
    assert Topic.objects.get(name="mine-2").letter_sources == ["mine-1"]
