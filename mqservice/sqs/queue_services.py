"""Actions of SQS on queues, through the services that REST and the console use.

    Asked ──▶ ACTIONS[action] ──▶ topics, groups: rows, audit, engine ──▶ Reply

Called on a thread of the control plane. What a queue has beyond the settings of its topic and group
is written in the transaction that writes those.
"""

from __future__ import annotations

import base64
import binascii
import contextlib
import functools
import re
from collections.abc import Callable
from typing import Any, Final

import msgspec
from django.conf import settings
from django.db import transaction

from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.scopes import Kind, Scope
from mqservice.errors import problem_from_store
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.services import GroupChange, delete_group, put_group
from mqservice.lib.json_logs import client_address_var, request_id_var, user_agent_var
from mqservice.lib.names import engine_name, name_fault
from mqservice.lib.problem import Problem
from mqservice.quotas.control_rate import ControlRate
from mqservice.sqs.asked import Asked, name_of
from mqservice.sqs.errors import SqsError, invalid_value, missing_parameter
from mqservice.sqs.move_tasks import (
    cancel_move_task,
    list_move_tasks,
    purge_letters,
    start_move_task,
)
from mqservice.sqs.queue_attributes import (
    COUNT_NAMES,
    FIFO,
    REDRIVE,
    Counts,
    QueueChange,
    RedrivePolicy,
    attributes_of,
    checked,
    defaults_of,
    group_defaults,
    names_wanted,
    plain_attributes,
    read_attributes,
)
from mqservice.sqs.queue_names import (
    FIFO_ENDING,
    QueueName,
    check_name,
    queue_of_arn,
    require_own,
    topic_name,
)
from mqservice.sqs.replies import (
    QueueAttributes,
    QueueList,
    QueueTags,
    QueueUrl,
    Reply,
    SourceQueueList,
)
from mqservice.sqs.requests import (
    AddPermission,
    CreateQueue,
    GetQueueAttributes,
    GetQueueUrl,
    ListDeadLetterSourceQueues,
    ListQueues,
    Paged,
    RemovePermission,
    SetQueueAttributes,
    TagQueue,
    UntagQueue,
)
from mqservice.store import (
    DeadLettersRequest,
    GroupNotFound,
    GroupRef,
    ScheduledListRequest,
    StoreClient,
    StoreError,
    TopicRef,
    blocking_client,
)
from mqservice.topics.models import Topic
from mqservice.topics.purging import purge_topic
from mqservice.topics.queries import get_topic
from mqservice.topics.queue_options import (
    TAG_CHARS_MAX,
    TAG_KEY_CHARS_MAX,
    TAGS_MAX,
    QueueOptions,
    queue_options_of,
)
from mqservice.topics.services import TopicChange, delete_topic, put_topic
from mqservice.topics.settings import MessageType

PAGE_MAX: Final = 1_000
_LABEL: Final = re.compile(r"[\w-]{1,80}", re.ASCII)
# What AddPermission can allow to others.
_PERMITTED: Final = frozenset({
    "*", "ChangeMessageVisibility", "DeleteMessage", "GetQueueAttributes", "GetQueueUrl",
    "ListDeadLetterSourceQueues", "PurgeQueue", "ReceiveMessage", "SendMessage",
})  # fmt: skip
_PERMITTED_MAX: Final = 7  # at once
DELAYED_COUNT_MAX: Final = 256  # that are counted: their bodies are read for it
_DELAYED_PAGES_MAX: Final = 4
_DELAYED_BYTES_MAX: Final = 1024 * 1024
_NO_COUNTS: Final = Counts(0, 0, 0)


def create_queue(asked: Asked) -> QueueUrl:
    """CreateQueue: a new one, or the one that is there with the same attributes."""
    wanted: CreateQueue = asked.wanted
    check_name(wanted.queue_name)
    is_fifo = wanted.queue_name.endswith(FIFO_ENDING)
    given = plain_attributes(wanted.attributes)
    if is_fifo is not (given.get(FIFO) == "true"):
        raise invalid_value(
            "QueueName" if FIFO not in given else FIFO,
            wanted.queue_name,
            "The name of a FIFO queue, and of no other, ends in .fifo, with FifoQueue true.",
        )
    name = topic_name(wanted.queue_name)
    asked.principal.require(Scope.MANAGE, Kind.TOPIC, name)
    asked.principal.require(Scope.MANAGE, Kind.GROUP, name)
    asked.changing()
    _check_tags(wanted.queue_name, wanted.tags)
    change = read_attributes(given, QueueOptions(), is_fifo=is_fifo)
    namespace = asked.namespace
    with transaction.atomic():
        lock_namespace(namespace, with_tenant=True)  # nobody else creates it meanwhile
        existing = Topic.objects.filter(namespace=namespace, name=name).first()
        if existing is not None:
            existing.namespace = namespace
            _require_same(asked, existing, wanted.queue_name, given)
            _put_missing_group(asked, existing)
            return QueueUrl(queue_url=asked.url_of(existing))
        topic_values, group_values = defaults_of(is_fifo=is_fifo)
        options = _with_dead_letters(asked, change, is_fifo=is_fifo)
        sqs = msgspec.structs.replace(options, tags=wanted.tags)
        row, _ = put_topic(
            namespace, name, TopicChange(sqs=sqs, **topic_values | change.topic), by=asked.principal
        )
        group = GroupChange(**group_values | change.group)
        put_group(namespace, name, group, by=asked.principal)
    return QueueUrl(queue_url=asked.url_of(row))


def _require_same(asked: Asked, topic: Topic, name: str, given: dict[str, str]) -> None:
    """Raises SqsError unless a queue that is there is what a repeated CreateQueue asks for."""
    if name_of(topic) != name:
        detail = "A queue whose topic has the same name exists already: "
        raise SqsError("QueueNameExists", f"{detail}{name_of(topic)}.")
    present = attributes_of(topic, _group_of(topic), _NO_COUNTS, asked.account, asked.region)
    for attribute, text in given.items():
        if attribute != REDRIVE and present.get(attribute, "") != text:
            detail = "A queue already exists with the same name and a different value for attribute"
            raise SqsError("QueueNameExists", f"{detail} {attribute}")


def delete_queue(asked: Asked) -> Reply:
    """DeleteQueue: the topic with its messages, and its group with all that failed in it."""
    topic = asked.topic(Scope.MANAGE)
    asked.principal.require(Scope.MANAGE, Kind.GROUP, topic.name)
    asked.changing()
    with transaction.atomic():
        delete_topic(topic.namespace, topic.name, by=asked.principal)
        if _group_of(topic) is not None:
            delete_group(topic.namespace, topic.name, by=asked.principal)
    return Reply()


def get_queue_url(asked: Asked) -> QueueUrl:
    """GetQueueUrl."""
    wanted: GetQueueUrl = asked.wanted
    require_own(wanted.owner or asked.account, asked.principal)
    queue = QueueName(asked.account, wanted.queue_name)
    return QueueUrl(queue_url=asked.url_of(asked.topic_of(queue)))


def list_queues(asked: Asked) -> QueueList:
    """ListQueues, by name. Without MaxResults the first 1,000, and no token."""
    wanted: ListQueues = asked.wanted
    prefix = wanted.queue_name_prefix
    if "\0" in prefix:
        raise invalid_value("QueueNamePrefix", prefix, "It is not how names of queues begin.")
    rows = asked.namespace.topics.filter(name__gt=_after(wanted))
    stem, dot, _ = prefix.partition(".")
    rows = (
        rows.filter(name=topic_name(stem + FIFO_ENDING))
        if dot
        else rows.filter(name__startswith=stem)
    )
    # One more than decides about the next page: "orders_f" is not how orders.fifo begins.
    found = rows.order_by("name")[: _limit(wanted) + 2]
    topics, token = _page([each for each in found if name_of(each).startswith(prefix)], wanted)
    return QueueList(queue_urls=[asked.url_of(topic) for topic in topics], next_token=token)


def list_sources(asked: Asked) -> SourceQueueList:
    """ListDeadLetterSourceQueues: queues whose RedrivePolicy names this one."""
    wanted: ListDeadLetterSourceQueues = asked.wanted
    target = asked.topic()
    rows = asked.namespace.topics.filter(name__gt=_after(wanted), name__in=target.letter_sources)
    topics, token = _page(list(rows.order_by("name")[: _limit(wanted) + 1]), wanted)
    return SourceQueueList(queue_urls=[asked.url_of(each) for each in topics], next_token=token)


def get_queue_attributes(asked: Asked) -> QueueAttributes:
    """GetQueueAttributes: those that are named, which may be All."""
    wanted: GetQueueAttributes = asked.wanted
    is_wanted = names_wanted(wanted.attribute_names)
    topic = asked.topic()
    counts = _counts_of(topic) if any(map(is_wanted, COUNT_NAMES)) else _NO_COUNTS
    found = attributes_of(topic, _group_of(topic), counts, asked.account, asked.region)
    return QueueAttributes(attributes={name: found[name] for name in found if is_wanted(name)})


def set_queue_attributes(asked: Asked) -> Reply:
    """SetQueueAttributes."""
    wanted: SetQueueAttributes = asked.wanted
    topic = asked.topic(Scope.MANAGE)
    asked.principal.require(Scope.MANAGE, Kind.GROUP, topic.name)
    asked.changing()
    is_fifo = topic.message_type == MessageType.FIFO
    given = plain_attributes(wanted.attributes)
    with transaction.atomic():
        topic = _locked(topic)
        change = read_attributes(given, queue_options_of(topic.sqs), is_fifo=is_fifo)
        options = change.options
        if REDRIVE in wanted.attributes:
            options = _with_dead_letters(asked, change, is_fifo=is_fifo)
        _save_options(asked, topic, options, **change.topic)
        _put_missing_group(asked, topic)
        if change.group:
            values = GroupChange(**change.group)
            put_group(topic.namespace, topic.name, values, by=asked.principal)
    return Reply()


def purge_queue(asked: Asked) -> Reply:
    """PurgeQueue: what is in the queue now, in flight, delayed and waiting for another try too. Its
    dead letters go by tasks, within seconds.
    """
    topic = asked.topic(Scope.MANAGE)
    asked.changing()
    purge_letters(asked, topic)
    purge_topic(asked.principal, topic, has_scheduled=True)
    return Reply()


def list_queue_tags(asked: Asked) -> QueueTags:
    """ListQueueTags."""
    return QueueTags(tags=queue_options_of(asked.topic().sqs).tags)


def tag_queue(asked: Asked) -> Reply:
    """TagQueue: new tags, or new values of those that are there."""
    wanted: TagQueue = asked.wanted
    if not wanted.tags:
        raise missing_parameter("Tags")
    return _change_tags(asked, lambda tags: {**tags, **wanted.tags})


def untag_queue(asked: Asked) -> Reply:
    """UntagQueue."""
    wanted: UntagQueue = asked.wanted
    if not all(1 <= len(key) <= TAG_KEY_CHARS_MAX for key in wanted.tag_keys or [""]):
        detail = f"Tag keys must be between 1 and {TAG_KEY_CHARS_MAX} characters in length."
        raise SqsError("InvalidParameterValue", detail)
    gone = set(wanted.tag_keys)
    return _change_tags(
        asked, lambda tags: {key: value for key, value in tags.items() if key not in gone}
    )


def add_permission(asked: Asked) -> Reply:
    """AddPermission: a statement of the policy, which is kept and has no effect."""
    wanted: AddPermission = asked.wanted
    _check_permission(wanted)
    if not _LABEL.fullmatch(wanted.label):
        raise invalid_value("Label", wanted.label, "Up to 80 of A-Z, a-z, 0-9, - and _.")

    def added(statements: list[Any], arn: str) -> list[Any]:  # Any: JSON
        if any(_is_labelled(each, wanted.label) for each in statements):
            raise invalid_value("Label", wanted.label, "Already exists.")
        return [
            *statements,
            {
                "Sid": wanted.label,
                "Effect": "Allow",
                "Principal": {
                    "AWS": _one_or_all([f"arn:aws:iam::{each}:root" for each in wanted.account_ids])
                },
                "Action": _one_or_all([f"SQS:{each}" for each in wanted.actions]),
                "Resource": arn,
            },
        ]

    return _change_policy(asked, added)


def _check_permission(wanted: AddPermission) -> None:
    """Raises SqsError unless these may be allowed to somebody."""
    if not wanted.actions:
        raise missing_parameter("Actions")
    if not wanted.account_ids:
        raise invalid_value("PrincipalId", "[]", "Unable to verify.")
    if len(wanted.actions) > _PERMITTED_MAX:
        found = f"{len(wanted.actions)} Actions were found"
        raise SqsError("OverLimit", f"{found}, maximum allowed is {_PERMITTED_MAX}.")
    for action in wanted.actions:
        if action not in _PERMITTED:
            reason = "Only the queue owner is allowed to invoke this action."
            raise invalid_value("ActionName", f"SQS:{action}", reason)


def _one_or_all(texts: list[str]) -> str | list[str]:
    """As AWS writes them in policies."""
    return texts[0] if len(texts) == 1 else texts


def remove_permission(asked: Asked) -> Reply:
    """RemovePermission."""
    wanted: RemovePermission = asked.wanted

    def removed(statements: list[Any], arn: str) -> list[Any]:  # Any: JSON
        left = [each for each in statements if not _is_labelled(each, wanted.label)]
        if len(left) == len(statements):
            raise invalid_value("Label", wanted.label, "can't find label.")
        return left

    return _change_policy(asked, removed)


Action = Callable[[Asked], msgspec.Struct]
ACTIONS: Final[dict[str, Action]] = {
    "AddPermission": add_permission,
    "CancelMessageMoveTask": cancel_move_task,
    "CreateQueue": create_queue,
    "DeleteQueue": delete_queue,
    "GetQueueAttributes": get_queue_attributes,
    "GetQueueUrl": get_queue_url,
    "ListDeadLetterSourceQueues": list_sources,
    "ListMessageMoveTasks": list_move_tasks,
    "ListQueueTags": list_queue_tags,
    "ListQueues": list_queues,
    "PurgeQueue": purge_queue,
    "RemovePermission": remove_permission,
    "SetQueueAttributes": set_queue_attributes,
    "StartMessageMoveTask": start_move_task,
    "TagQueue": tag_queue,
    "UntagQueue": untag_queue,
}


def ensure_group(asked: Asked) -> Reply:
    """Give a queue whose topic another face has made its group."""
    with transaction.atomic():
        _put_missing_group(asked, asked.topic())
    return Reply()


def run_action(
    action: Action, asked: Asked, request_id: str, address: str, agent: bytes
) -> msgspec.Struct:
    """What an action replies, within the rate of the control plane. Blocks.

    The rest is for the audit and the log. Raises SqsError or Problem.
    """
    taken = _rate().take(asked.principal.tenant_id)
    if not taken.is_taken:
        raise SqsError("RequestThrottled", "The rate of requests on queues is used up.")
    known = (
        (request_id_var, request_id),
        (client_address_var, address),
        (user_agent_var, agent.decode("latin-1")),
    )
    tokens = [(variable, variable.set(text)) for variable, text in known]
    try:
        return action(asked)
    finally:
        for variable, token in tokens:
            variable.reset(token)


@functools.cache
def _rate() -> ControlRate:
    return ControlRate(settings.MQ_VALKEY_URL)


# Parts -------------------------------------------------------------------------------------------


def _group_of(topic: Topic) -> ConsumerGroup | None:
    return ConsumerGroup.objects.filter(namespace=topic.namespace, name=topic.name).first()


def _put_missing_group(asked: Asked, topic: Topic) -> None:
    if _group_of(topic) is None:
        values = group_defaults(is_fifo=topic.message_type == MessageType.FIFO)
        put_group(topic.namespace, topic.name, GroupChange(**values), by=asked.principal)


def _locked(topic: Topic) -> Topic:
    """The row as it is now; nobody else changes it before the caller's transaction ends."""
    lock_namespace(topic.namespace, with_tenant=True)
    return get_topic(topic.namespace, topic.name)


def _save_options(asked: Asked, topic: Topic, options: QueueOptions, **values: object) -> None:
    """In the caller's transaction."""
    change = TopicChange(sqs=options, **values)
    put_topic(topic.namespace, topic.name, change, by=asked.principal)


def _with_dead_letters(asked: Asked, change: QueueChange, *, is_fifo: bool) -> QueueOptions:
    """The options with the queue that the RedrivePolicy names, or none. Raises SqsError."""
    name = "" if change.redrive is None else _target_of(asked, change.redrive, is_fifo=is_fifo)
    return msgspec.structs.replace(change.options, dead_letter_queue=name)


def _target_of(asked: Asked, policy: RedrivePolicy, *, is_fifo: bool) -> str:
    arn = policy.dead_letter_target_arn
    try:
        target = asked.topic_of(queue_of_arn(arn, REDRIVE, asked.principal))
    except (SqsError, Problem) as exc:
        raise invalid_value(REDRIVE, arn, "Dead letter target does not exist.") from exc
    if (target.message_type == MessageType.FIFO) is not is_fifo:
        detail = "Dead-letter queue must be same type of queue as the source."
        raise invalid_value(REDRIVE, arn, detail)
    # Whoever consumes from the target receives these dead letters.
    asked.principal.require(Scope.MANAGE, Kind.TOPIC, target.name)
    return target.name


def _counts_of(topic: Topic) -> Counts:
    """As far as the engine knows, dead letters included. A few calls to it. Raises Problem."""
    namespace = topic.namespace.name
    groups = [engine_name(namespace=namespace, name=each) for each in topic.letter_sources]
    try:
        with blocking_client(topic.namespace.shard) as client:
            delayed = _delayed_count(client, topic.engine_name)
            letters = 0
            if groups:
                counts = client.dead_letters(DeadLettersRequest(groups=groups)).counts
                letters = sum(each.count for each in counts)
            own = _own_counts(client, topic.engine_name)
    except StoreError as exc:
        raise problem_from_store(exc) from exc
    return Counts(own.visible + letters, own.hidden, own.delayed + delayed)


def _own_counts(client: StoreClient, topic: str) -> Counts:
    """Without letters, and without messages that were sent to come later."""
    with contextlib.suppress(GroupNotFound):
        for lag in client.group_stats(GroupRef(group=topic)).topics:
            if lag.topic == topic:
                visible = lag.ready_count + lag.retry_waiting_count
                return Counts(visible, lag.inflight_count, lag.retry_scheduled_count or 0)
    # The group has not received from it yet, and will get all that is there.
    queues = client.topic_stats(TopicRef(topic=topic)).queues
    return Counts(sum(each.max_offset - each.min_offset for each in queues), 0, 0)


def _delayed_count(client: StoreClient, topic: str) -> int:
    """Messages that wait for their time, as far as they are counted."""
    count = queue_id = queue_offset = 0
    for _ in range(_DELAYED_PAGES_MAX):
        head, _records = client.scheduled_list(
            ScheduledListRequest(
                topic=topic,
                queue_id=queue_id,
                queue_offset=queue_offset,
                messages_max=DELAYED_COUNT_MAX,
                bytes_max=_DELAYED_BYTES_MAX,
            )
        )
        count += len(head.due_ms)
        if head.is_end or count >= DELAYED_COUNT_MAX:
            break
        queue_id, queue_offset = head.queue_id, head.queue_offset
    return min(count, DELAYED_COUNT_MAX)


def _change_tags(asked: Asked, changed: Callable[[dict[str, str]], dict[str, str]]) -> Reply:
    topic = asked.topic(Scope.MANAGE)
    asked.changing()
    with transaction.atomic():
        row = _locked(topic)
        options = queue_options_of(row.sqs)
        tags = changed(options.tags)
        _check_tags(name_of(topic), tags)
        _save_options(asked, row, msgspec.structs.replace(options, tags=tags))
    return Reply()


def _check_tags(name: str, tags: dict[str, str]) -> None:
    """Raises SqsError unless the queue of that name may have these."""
    if len(tags) > TAGS_MAX:
        raise SqsError("InvalidParameterValue", f"Too many tags added for queue {name}.")
    for key, value in tags.items():
        is_too_long = len(key) > TAG_KEY_CHARS_MAX or len(value) > TAG_CHARS_MAX
        if not key or is_too_long or "\0" in key + value:
            detail = f"A tag has 1 to {TAG_KEY_CHARS_MAX} characters, and its value at most "
            raise SqsError("InvalidParameterValue", f"{detail}{TAG_CHARS_MAX}; none is NUL.")


def _is_labelled(statement: Any, label: str) -> bool:  # Any: JSON
    return isinstance(statement, dict) and statement.get("Sid") == label


def _change_policy(
    asked: Asked,
    changed: Callable[[list[Any], str], list[Any]],  # Any: JSON
) -> Reply:
    """Change the statements of a queue's policy; ``changed`` takes the queue's ARN too."""
    topic = asked.topic(Scope.MANAGE)
    asked.changing()
    arn = asked.arn_of(topic)
    with transaction.atomic():
        row = _locked(topic)
        options = queue_options_of(row.sqs)
        kept = dict(options.attributes)
        document: Any = msgspec.json.decode(kept.get("Policy", "{}"))  # Any: JSON
        statements = document.get("Statement", [])
        statements = changed(statements if isinstance(statements, list) else [statements], arn)
        if statements:
            new = {"Version": "2008-10-17", "Id": f"{arn}/SQSDefaultPolicy"}
            policy = {**(document or new), "Statement": statements}
            kept["Policy"] = checked("Policy", msgspec.json.encode(policy).decode())
        else:
            kept.pop("Policy", None)
        _save_options(asked, row, msgspec.structs.replace(options, attributes=kept))
    return Reply()


def _limit(wanted: Paged) -> int:
    if wanted.max_results is None:
        if wanted.next_token is not None:
            raise missing_parameter("MaxResults")
        return PAGE_MAX
    if not 1 <= wanted.max_results <= PAGE_MAX:
        reason = f"MaxResults must be an integer between 1 and {PAGE_MAX}."
        raise invalid_value("MaxResults", wanted.max_results, reason)
    return wanted.max_results


def _after(wanted: Paged) -> str:
    """The name behind which a page begins."""
    if wanted.next_token is None:
        return ""
    try:
        name = base64.b64decode(wanted.next_token, altchars=b"-_", validate=True).decode()
        if (fault := name_fault(name)) is not None:
            raise ValueError(fault)
        return name
    except (binascii.Error, ValueError) as exc:
        raise invalid_value("NextToken", wanted.next_token, "It is not a token.") from exc


def _page(topics: list[Topic], wanted: Paged) -> tuple[list[Topic], str | None]:
    limit = _limit(wanted)
    if len(topics) <= limit or wanted.max_results is None:
        return topics[:limit], None
    return topics[:limit], base64.urlsafe_b64encode(topics[limit - 1].name.encode()).decode()
