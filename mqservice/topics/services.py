"""Changes topics; the only writers of their rows, and of topics in the engine.

    put_topic ───── row (locked, not committed) ──▶ engine TOPIC_PUT ──▶ commit
                    plan_topic, write_topic         config_of
    delete_topic ── row (gone, not committed) ────▶ engine TOPIC_DELETE ──▶ commit

The engine is told inside the transaction. A crash in between leaves at most a topic in the engine
that no route leads to, or a row whose topic the engine does not know; the same call made again
finishes the work, because what the engine is told is idempotent.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from django.db import transaction

from mqservice.accounts.access import Principal
from mqservice.accounts.audit import (
    difference,
    entry_of,
    record,
    record_all,
    settings_of,
)
from mqservice.accounts.locks import lock_namespace
from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.errors import problem_from_store
from mqservice.lib.names import name_fault
from mqservice.lib.problem import Problem, ProblemItem
from mqservice.lib.rows import insert, insert_all, update_all
from mqservice.protocol.choices import Durability
from mqservice.quotas.services import require_room
from mqservice.store import Durability as EngineDurability
from mqservice.store import StoreError, TopicConfig, TopicNotFound, TopicRef, blocking_client
from mqservice.topics.models import (
    BODY_BYTES_MAX_MAX,
    BODY_BYTES_MAX_MIN,
    NEW_TYPES,
    QUEUE_COUNT_MAX,
    RETENTION_AGE_MS_MAX,
    RETENTION_AGE_MS_MIN,
    MessageType,
    Topic,
)
from mqservice.topics.queries import TOPICS, get_topic

_SETTINGS: Final = (
    "message_type", "queue_count", "durability", "retention_age_ms", "body_bytes_max",
)  # fmt: skip


@dataclass(frozen=True, slots=True, kw_only=True)
class TopicChange:
    """What to set; None leaves the setting as it is, or at its default on a new topic."""

    message_type: MessageType | None = None
    queue_count: int | None = None
    durability: Durability | None = None
    retention_age_ms: int | None = None
    body_bytes_max: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedTopic:
    """A row as a change makes it, not yet written. ``before``: its settings; None of a new one."""

    topic: Topic
    before: dict[str, object] | None
    is_different: bool

    @property
    def is_new(self) -> bool:
        return self.before is None


@transaction.atomic
def put_topic(
    namespace: Namespace,
    name: str,
    change: TopicChange,
    *,
    revision: int | None = None,
    by: Principal | None = None,
) -> tuple[Topic, bool]:
    """Create or change a topic; the second value says whether it is new. One call to the engine.

    Args:
        revision: refuse with PRECONDITION_FAILED unless the topic exists in this revision.
        by: who asks, for the audit; None: the service itself.

    Raises:
        Problem: ILLEGAL_TOPIC, ILLEGAL_SETTING, PRECONDITION_FAILED, QUOTA_EXCEEDED, or what the
            engine's failure means.
    """
    fault = name_fault(name)
    if fault is not None:
        raise Problem.of("ILLEGAL_TOPIC", fault)
    lock_namespace(namespace, with_tenant=True)  # two creators of one name, or of one too many
    topic = TOPICS.find(namespace.pk, name)
    if revision is not None and (topic is None or topic.revision != revision):
        raise Problem.of(
            "PRECONDITION_FAILED", "the topic has changed since the revision in If-Match"
        )
    if topic is None:
        require_room(namespace.tenant_id, "topic_count_max", Topic)
    planned = plan_topic(namespace, name, topic, change)
    write_topic(planned, by=by)
    put_in_engine(planned.topic)
    return planned.topic, planned.is_new


def plan_topic(
    namespace: Namespace, name: str, topic: Topic | None, change: TopicChange
) -> PlannedTopic:
    """What a change makes of a topic that there is, or of none. The row is changed in memory.

    Raises Problem ILLEGAL_SETTING.
    """
    before = None if topic is None else settings_of(topic, _SETTINGS)
    row = Topic(namespace=namespace, name=name) if topic is None else topic
    _refuse_bad_change(change, 1 if topic is None else row.queue_count)
    _refuse_transactions(change, topic)
    is_changed = _apply(change, row)
    row.namespace = namespace
    return PlannedTopic(topic=row, before=before, is_different=before is None or is_changed)


def write_topic(planned: PlannedTopic, *, by: Principal | None) -> None:
    """The row and its audit entry, where they are different. In a transaction; two queries."""
    if not planned.is_different:
        return
    topic = planned.topic
    if planned.is_new:
        insert(topic)
    else:
        topic.revision += 1
        topic.save()
    record_all([_entry(planned, by)])


def write_topics(planned: Iterable[PlannedTopic], *, by: Principal | None) -> None:
    """``write_topic`` of each, locked all of them; in a query for some hundreds."""
    different = [each for each in planned if each.is_different]
    changed = [each.topic for each in different if not each.is_new]
    for topic in changed:
        topic.revision += 1
    insert_all([each.topic for each in different if each.is_new])
    update_all(changed, (*_SETTINGS, "revision", "updated_at"))
    record_all([_entry(each, by) for each in different])


def _entry(planned: PlannedTopic, by: Principal | None) -> AuditEntry:
    topic = planned.topic
    old, new = difference(planned.before, settings_of(topic, _SETTINGS))
    target = f"topics/{topic.name}"
    return entry_of(by, topic.namespace, "topic.put", target, before=old, after=new)


@transaction.atomic
def delete_topic(
    namespace: Namespace, name: str, *, revision: int | None = None, by: Principal | None = None
) -> None:
    """Delete a topic with its messages. One call to the engine. ``by``: as in ``put_topic``.

    Raises Problem: TOPIC_NOT_FOUND, PRECONDITION_FAILED, or what the engine's failure means.
    """
    lock_namespace(namespace)
    topic = get_topic(namespace, name)
    if revision is not None and topic.revision != revision:
        raise Problem.of(
            "PRECONDITION_FAILED", "the topic has changed since the revision in If-Match"
        )
    engine_name, before = topic.engine_name, settings_of(topic, _SETTINGS)
    topic.delete()
    record(by, namespace, "topic.delete", f"topics/{name}", before=before)
    try:
        with blocking_client() as client:
            client.topic_delete(TopicRef(topic=engine_name))
    except TopicNotFound:
        return  # an earlier call got this far
    except StoreError as exc:
        raise problem_from_store(exc) from exc


def put_in_engine(topic: Topic) -> None:
    """Make the engine know the topic as the row says. Idempotent. Raises Problem."""
    try:
        with blocking_client() as client:
            client.topic_put(config_of(topic))
    except StoreError as exc:
        raise problem_from_store(exc) from exc


def config_of(topic: Topic) -> TopicConfig:
    """What the engine is to know of a topic."""
    return TopicConfig(
        topic=topic.engine_name,
        queue_count=topic.queue_count,
        durability=EngineDurability(topic.durability),
        retention_ms=topic.retention_age_ms,
    )


def _refuse_bad_change(change: TopicChange, queue_count_min: int) -> None:
    """Raises Problem with one item per setting that is out of range."""
    ranges = [
        ("/queues", change.queue_count, queue_count_min, QUEUE_COUNT_MAX),
        ("/retention_ms", change.retention_age_ms, RETENTION_AGE_MS_MIN, RETENTION_AGE_MS_MAX),
        ("/body_bytes_max", change.body_bytes_max, BODY_BYTES_MAX_MIN, BODY_BYTES_MAX_MAX),
    ]
    faults = [
        ProblemItem(pointer, "ILLEGAL_SETTING", f"must be in [{low}, {high}], found {value}")
        for pointer, value, low, high in ranges
        if value is not None and not low <= value <= high
    ]
    if faults:
        raise Problem.of("ILLEGAL_SETTING", "a setting is out of its range", errors=faults)


def _refuse_transactions(change: TopicChange, topic: Topic | None) -> None:
    """Nobody may choose the type before there are transactions. Raises Problem."""
    if change.message_type is not MessageType.TRANSACTION:
        return
    if topic is None or topic.message_type != MessageType.TRANSACTION:
        known = ", ".join(kind.value for kind in NEW_TYPES)
        detail = f"transactions are not supported yet; type must be {known}"
        item = ProblemItem("/type", "ILLEGAL_SETTING", detail)
        raise Problem.of("ILLEGAL_SETTING", f"/type: {detail}", errors=[item])


def _apply(change: TopicChange, topic: Topic) -> bool:
    """Set what ``change`` gives; whether anything became different."""
    is_changed = False
    for field in _SETTINGS:
        value = getattr(change, field)
        if value is not None and value != getattr(topic, field):
            setattr(topic, field, value)
            is_changed = True
    return is_changed
