"""Creates the rows of imported topics and groups: ``define_imported [--check] REPORT``.

    report of storage_engine.tools.transfer ──▶ namespace, topics, groups ──▶ rows in PostgreSQL

The engine is not told: its store has them already. Run by ``mqservice import-store``, whose store
is new, so that a database with any other topic belongs to another one. Rows that are as they would
be written are left: an import that was killed behind its commit is done again.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import msgspec
from django.core.management.base import CommandError, CommandParser
from django.db import transaction

from mqservice.accounts.models import Namespace
from mqservice.accounts.services import get_or_create_namespace, get_or_create_tenant
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.services import GroupChange, PlannedGroup, plan_group, write_groups
from mqservice.lib.commands import ServiceCommand
from mqservice.lib.problem import Problem
from mqservice.topics.models import Topic
from mqservice.topics.services import PlannedTopic, TopicChange, plan_topic, write_topics
from mqservice.topics.settings import MessageType


class _TopicOut(msgspec.Struct, frozen=True):
    name: str
    type: str
    queues: int
    retention_ms: int


class _GroupOut(msgspec.Struct, frozen=True):
    name: str
    max_reconsume_times: int
    ordered: bool
    paused: bool


class _Imported(msgspec.Struct, frozen=True):
    namespace: str
    topics: list[_TopicOut]
    groups: list[_GroupOut]


class Command(ServiceCommand):
    help = "Create the rows of imported topics and groups. Run by mqservice import-store."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("report", type=Path)
        parser.add_argument(
            "--check", action="store_true", help="Only check whether it can be done."
        )

    def handle(self, *args: Any, **options: Any) -> None:  # Any: Django's own signature
        imported = msgspec.json.decode(options["report"].read_bytes(), type=_Imported)
        try:
            with transaction.atomic():
                define_imported(imported)
                transaction.set_rollback(options["check"])
        except Problem as exc:
            raise CommandError(exc.detail) from exc


def define_imported(imported: _Imported) -> Namespace:
    """Write what is missing. In a transaction. Raises Problem, or CommandError: there is more."""
    namespace = Namespace.objects.filter(name=imported.namespace).first()
    if namespace is None:
        tenant = get_or_create_tenant(imported.namespace)
        namespace = get_or_create_namespace(tenant, imported.namespace)
    _reject_other_definitions(imported)
    topics = [_planned_topic(namespace, topic) for topic in imported.topics]
    groups = [_planned_group(namespace, group) for group in imported.groups]
    others = [each.row.name for each in topics if each.is_different and not each.is_new]
    others += [each.row.name for each in groups if each.is_different and not each.is_new]
    if others:
        raise CommandError(
            f"the database has {others[0]} in namespace {namespace.name} with other "
            "settings: an import needs its own database, name an empty one in "
            "DATABASE_URL"
        )
    write_topics(topics, by=None)
    write_groups(groups, by=None)
    return namespace


def _reject_other_definitions(imported: _Imported) -> None:
    """Topics and groups of any namespace whose messages the new store does not have."""
    of_topics = {(imported.namespace, topic.name) for topic in imported.topics}
    of_groups = {(imported.namespace, group.name) for group in imported.groups}
    topics = Topic.objects.values_list("namespace__name", "name")
    groups = ConsumerGroup.objects.values_list("namespace__name", "name")
    others = [row for row in topics.iterator() if row not in of_topics]
    others += [row for row in groups.iterator() if row not in of_groups]
    if others:
        some = ", ".join("/".join(row) for row in sorted(others)[:3])
        raise CommandError(
            f"the database already has topics or groups ({some}), whose messages are "
            "in another store: an import needs its own database, name an empty one "
            "in DATABASE_URL"
        )


def _planned_topic(namespace: Namespace, topic: _TopicOut) -> PlannedTopic:
    change = TopicChange(
        message_type=MessageType(topic.type),
        queue_count=topic.queues,
        retention_age_ms=topic.retention_ms,
    )
    row = Topic.objects.filter(namespace=namespace, name=topic.name).first()
    return plan_topic(namespace, topic.name, row, change)


def _planned_group(namespace: Namespace, group: _GroupOut) -> PlannedGroup:
    change = GroupChange(
        max_reconsume_times=group.max_reconsume_times,
        is_ordered=group.ordered,
        is_paused=group.paused,
    )
    row = ConsumerGroup.objects.filter(namespace=namespace, name=group.name).first()
    return plan_group(namespace, group.name, row, change)
