"""Rows of an imported store: what the engine has already, and nothing beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from mqservice.accounts.models import AuditEntry, Namespace, Tenant
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.services import ROWS as GROUP_ROWS
from mqservice.topics.models import Topic
from mqservice.topics.services import ROWS as TOPIC_ROWS
from storage_engine.wire.groups import GroupConfig
from storage_engine.wire.topics import TopicConfig

REPORT = {
    "source": "/a/store",
    "namespace": "acme",
    "topics": [{"name": "orders", "type": "fifo", "queues": 8, "retention_ms": 86_400_000}],
    "groups": [{"name": "billing", "max_reconsume_times": 3, "ordered": True, "paused": True}],
}
pytestmark = pytest.mark.django_db


def define(path: Path, *options: str, **changes: Any) -> None:  # Any: as JSON has it
    report = path / "report.json"
    report.write_text(json.dumps({**REPORT, **changes}))
    call_command("define_imported", str(report), *options)


def test_the_rows_say_what_the_imported_store_says(tmp_path: Path) -> None:
    define(tmp_path)
    assert Namespace.objects.get().tenant.name == "acme"
    topic, group = Topic.objects.get(), ConsumerGroup.objects.get()
    assert topic.message_type == "fifo"
    assert TOPIC_ROWS.config_of(topic) == TopicConfig(
        topic="acme%orders", queue_count=8, retention_ms=86_400_000
    )
    assert GROUP_ROWS.config_of(group) == GroupConfig(
        group="acme%billing", max_reconsume_times=3, is_ordered=True, is_paused=True
    )
    assert {(entry.actor, entry.action) for entry in AuditEntry.objects.all()} == {
        ("service", "topic.put"), ("service", "group.put")
    }  # fmt: skip


def test_a_check_writes_nothing(tmp_path: Path) -> None:
    define(tmp_path, "--check")
    assert not Tenant.objects.exists()
    assert not Topic.objects.exists()


def test_an_import_that_was_killed_behind_its_commit_is_done_again(tmp_path: Path) -> None:
    define(tmp_path)
    define(tmp_path)
    assert Topic.objects.get().revision == 1
    assert AuditEntry.objects.count() == 2


def test_a_database_with_other_topics_is_refused(tmp_path: Path) -> None:
    define(tmp_path)
    with pytest.raises(CommandError, match="acme/billing, acme/orders"):
        define(tmp_path, namespace="other")
    with pytest.raises(CommandError, match="orders in namespace acme with other settings"):
        define(tmp_path, topics=[{**REPORT["topics"][0], "queues": 9}])  # type: ignore[dict-item]  # reason: of several types
    assert Tenant.objects.count() == 1
