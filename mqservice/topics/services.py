"""Changes topics: what a change of one means, and what the engine is to know of it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Mapping

from django.db.models import Q

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Namespace
from mqservice.engine_rows import EngineRows, Planned
from mqservice.lib.settings_table import Change
from mqservice.lib.wire import refused
from mqservice.store import Durability as EngineDurability
from mqservice.store import StoreClient, TopicConfig, TopicNotFound, TopicRef
from mqservice.topics.models import Topic
from mqservice.topics.queries import TOPICS
from mqservice.topics.queue_options import SQS, queue_options_of
from mqservice.topics.settings import SETTINGS, TYPE, MessageType


class TopicChange(Change):
    """What to set."""

    settings = (*SETTINGS, SQS)


class TopicRows(EngineRows[Topic, TopicChange]):
    """See ``engine_rows``."""

    kind = "topic"
    model = Topic
    settings = TopicChange.settings

    def find(self, namespace: Namespace, name: str) -> Topic | None:
        return TOPICS.find(namespace.pk, name)

    def apply(self, change: TopicChange, row: Topic, *, is_new: bool) -> bool:
        if (wrong := change.find_fault()) is not None:
            raise refused(f"/{wrong[0]}", wrong[1], "ILLEGAL_SETTING")
        queue_count = change.find("queue_count")
        if not is_new and queue_count is not None and queue_count < row.queue_count:
            raise refused(
                "/queues",
                f"cannot be decreased: the topic has {row.queue_count}, found {queue_count}",
                "ILLEGAL_SETTING",
            )
        kind = change.find("message_type")
        if kind == MessageType.TRANSACTION and (is_new or kind != row.message_type):
            known = ", ".join(TYPE.offered)
            detail = f"transactions are not supported yet; type must be {known}"
            raise refused("/type", detail, "ILLEGAL_SETTING")
        return bool(change.apply(row))

    def config_of(self, row: Topic) -> TopicConfig:
        return TopicConfig(
            topic=row.engine_name,
            queue_count=row.queue_count,
            durability=EngineDurability(row.durability),
            retention_ms=row.retention_age_ms,
        )

    def list_in_engine(self, client: StoreClient) -> Mapping[str, TopicConfig]:
        return {each.topic: each for each in client.topic_list().topics}

    def put_in_engine(self, client: StoreClient, row: Topic) -> None:
        client.topic_put(self.config_of(row))

    def delete_in_engine(self, client: StoreClient, engine_name: str) -> None:
        with contextlib.suppress(TopicNotFound):
            client.topic_delete(TopicRef(topic=engine_name))

    def write(self, planned: Iterable[Planned[Topic]], *, by: Principal | None) -> None:
        written = list(planned)
        super().write(written, by=by)
        for namespace in {
            each.row.namespace
            for each in written
            if each.before is None or each.before[SQS.key] != each.row.sqs
        }:
            link_dead_letters(namespace)

    def deleted(self, namespace: Namespace, name: str) -> None:
        link_dead_letters(namespace)


ROWS = TopicRows()
put_topic, delete_topic, plan_topic, write_topics = ROWS.put, ROWS.delete, ROWS.plan, ROWS.write
PlannedTopic = Planned[Topic]


def forget_policy(namespace: Namespace, name: str) -> None:
    """A group is deleted: the RedrivePolicy of its queue is too. The namespace is locked."""
    rows = Topic.objects.filter(namespace=namespace, name=name, sqs__has_key="dead_letter_queue")
    for row in rows:
        del row.sqs["dead_letter_queue"]
        row.save(update_fields=["sqs"])
        link_dead_letters(namespace)


def link_dead_letters(namespace: Namespace) -> None:
    """Let each queue of SQS have the dead letters of the groups whose policies name it, and of no
    others. Two queries unless something is different. The namespace is locked.
    """
    rows = Topic.objects.filter(namespace=namespace)
    sources: dict[str, list[str]] = {}
    for row in rows.filter(sqs__has_key="dead_letter_queue").order_by("name"):
        sources.setdefault(queue_options_of(row.sqs).dead_letter_queue, []).append(row.name)
    for row in rows.filter(Q(name__in=sources) | ~Q(letter_sources=[])):
        if row.letter_sources != sources.get(row.name, []):
            row.letter_sources = sources.get(row.name, [])
            row.save(update_fields=["letter_sources"])
