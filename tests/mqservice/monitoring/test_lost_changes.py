"""After a takeover the engine gets to know what the database has of topics and groups."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from datetime import timedelta

import pytest
from django.db.models import F
from django.test import Client
from django.utils import timezone
from psycopg.conninfo import conninfo_to_dict
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry, Namespace
from mqservice.accounts.services import get_or_create_tenant
from mqservice.groups.services import GroupChange, delete_group, put_group
from mqservice.lib.names import MAIN_SHARD
from mqservice.monitoring.lost_changes import ANY_DUE
from mqservice.monitoring.tasks import restore_lost_changes
from mqservice.shards.models import Shard
from mqservice.shards.queries import forget_shard_names
from mqservice.store import (
    GroupConfig,
    GroupRef,
    StoreClient,
    TopicConfig,
    TopicRef,
    blocking_client,
)
from mqservice.topics.models import Topic
from mqservice.topics.services import TopicChange, delete_topic, put_topic
from tests.mqservice.asked import holds
from tests.mqservice.shards.machines import SECRET, SHARD, WAIT_S, installation
from tests.people import People
from tests.services import wait_until

OLD_EPOCH, NEW_EPOCH = 4, 5


@pytest.fixture
def taken_over(people: People, engine: str) -> Iterator[Shard]:
    """The main shard, whose engine serves with an epoch that was not looked at yet."""
    forget_shard_names()
    yield Shard.objects.create(
        name=MAIN_SHARD,
        owner="here",
        heartbeat_at=timezone.now() + timedelta(hours=1),  # however long a test takes
        served_epoch=NEW_EPOCH,
        checked_epoch=OLD_EPOCH,
    )
    forget_shard_names()


def is_due() -> bool:
    return holds(ANY_DUE, 0)


def restore(shard: Shard) -> None:
    """And nothing is left to do."""
    assert is_due()
    restore_lost_changes()
    assert not is_due()
    shard.refresh_from_db()
    assert shard.checked_epoch == NEW_EPOCH


def topics_of(store: StoreClient) -> dict[str, TopicConfig]:
    return {each.topic: each for each in store.topic_list().topics if each.topic.startswith("acme")}


def groups_of(store: StoreClient) -> set[str]:
    return {each.group for each in store.group_list().groups}


def test_what_the_engine_does_not_know_is_put_again(
    people: People, taken_over: Shard, store: StoreClient
) -> None:
    put_topic(people.acme, "kept", TopicChange(queue_count=1))
    put_topic(people.acme, "lost", TopicChange(queue_count=3))
    put_topic(people.acme, "grown", TopicChange(queue_count=4))
    put_group(people.acme, "lost", GroupChange(max_reconsume_times=7))
    known, lost = topics_of(store), store.group_list().groups
    store.topic_delete(TopicRef(topic="acme%lost"))
    store.topic_delete(TopicRef(topic="acme%grown"))
    store.topic_put(TopicConfig(topic="acme%grown", queue_count=1))
    store.group_delete(GroupRef(group="acme%lost"))
    restore(taken_over)
    assert topics_of(store) == known
    assert store.group_list().groups == lost
    assert known["acme%grown"].queue_count == 4
    assert AuditEntry.objects.filter(action="topic.put").count() == 3, "nobody changed anything"


def test_what_the_engine_knows_is_not_put_again(
    people: People,
    acme: Client,
    taken_over: Shard,
    store: StoreClient,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """However a setting is written in the row and in the engine's file."""
    settings: list[dict[str, object]] = [
        {},
        {"dispatch": "exclusive", "strategy": "CONSISTENT_HASH"},
        {"dispatch": "exclusive", "strategy": "CONFIG", "assignment": {"consumers": {"a": [0]}}},
        {"dispatch": "broadcast"},
        {"start_from": "timestamp", "start_time": "2026-01-01T00:00:00.5Z"},
        {"ordered": True, "lease": "10s", "consume_timeout": "1h", "max_attempts": 1_000},
        {"retry": {"policy": "exponential"}},
        {"retry": {"policy": "list", "delays": ["1s", "5m"]}},
    ]
    for number, values in enumerate(settings):
        path, kind = f"/v1/ns/acme/groups/g{number}", "application/json"
        assert acme.put(path, json.dumps(values), content_type=kind).status_code == 201, values
        assert acme.put(path, json.dumps(values), content_type=kind).status_code == 200, values
    put_topic(people.acme, "orders", TopicChange(queue_count=3, retention_age_ms=3_600_000))
    with caplog.at_level(logging.INFO):
        restore(taken_over)
    assert not [each for each in caplog.records if each.name.startswith("mqservice")]


def test_what_was_deleted_is_deleted_again_and_nothing_else(
    people: People, taken_over: Shard, store: StoreClient
) -> None:
    for name in ("gone", "again"):
        put_topic(people.acme, name, TopicChange(queue_count=1))
        put_group(people.acme, name, GroupChange())
        delete_topic(people.acme, name)
        delete_group(people.acme, name)
    put_topic(people.acme, "again", TopicChange(queue_count=2))
    put_group(people.acme, "again", GroupChange())
    known = topics_of(store)
    for name in ("acme%gone", "acme%unheard-of", "nowhere%orders", "system"):
        store.topic_put(TopicConfig(topic=name, queue_count=1))
    store.group_put(GroupConfig(group="acme%gone"))
    restore(taken_over)
    assert topics_of(store).keys() == {*known, "acme%unheard-of"}
    everything = {each.topic for each in store.topic_list().topics}
    assert {"nowhere%orders", "system"} < everything
    assert groups_of(store) == {"acme%again"}
    assert store.topic_stats(TopicRef(topic="acme%again")).queues[1:], "it has two"


def test_an_engine_that_is_away_is_asked_again(
    people: People,
    taken_over: Shard,
    engine: str,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.MQ_ENGINE_SOCKET = "/nowhere/engine.sock"
    with caplog.at_level(logging.WARNING):
        restore_lost_changes()
    assert is_due()
    assert [each.action for each in caplog.records] == ["lost_changes_not_restored"]  # type: ignore[attr-defined]
    settings.MQ_ENGINE_SOCKET = engine
    restore(taken_over)


def test_a_shard_that_nobody_serves_waits(people: People, taken_over: Shard) -> None:
    silent_at = timezone.now() - timedelta(seconds=6)
    Shard.objects.update(heartbeat_at=silent_at)
    assert not is_due()
    restore_lost_changes()
    taken_over.refresh_from_db()
    assert taken_over.checked_epoch == OLD_EPOCH


def test_a_topic_that_the_engine_refuses_is_said_and_holds_up_nothing(
    people: People, taken_over: Shard, store: StoreClient, caplog: pytest.LogCaptureFixture
) -> None:
    put_topic(people.acme, "refused", TopicChange(queue_count=1))
    put_topic(people.acme, "lost", TopicChange(queue_count=1))
    for name in ("acme%refused", "acme%lost"):
        store.topic_delete(TopicRef(topic=name))
    Topic.objects.filter(name="refused").update(durability="replicated")  # which it cannot be here
    with caplog.at_level(logging.ERROR):
        restore(taken_over)
    assert topics_of(store).keys() == {"acme%lost"}
    (record,) = caplog.records
    assert record.action == "lost_change_refused"  # type: ignore[attr-defined]
    assert record.name_in_engine == "acme%refused"  # type: ignore[attr-defined]


@pytest.mark.torture
@pytest.mark.timeout(600)
def test_a_machine_takes_no_confirmed_change_along(test_dsn: str, settings: Settings) -> None:
    """Two machines; the first one is lost before the replicated log has its last changes."""
    url = "postgresql://{user}:{password}@{host}:{port}/{dbname}".format(
        **conninfo_to_dict(test_dsn)
    )
    settings.MQ_ENGINE_SECRET = SECRET
    tenant = get_or_create_tenant("acme")
    namespace = Namespace.objects.create(tenant=tenant, name="acme", shard=SHARD)
    with installation(url) as machines:
        a = machines.add("a", "MQ_SHARDS", MQ_ENGINE_REPLICATION_INTERVAL_MS="600000")
        machines.add("b", "MQ_STANDBY")
        machines.await_owner("a")
        machines.await_replica("b")
        put_topic(namespace, "gone", TopicChange(queue_count=1))
        machines.prepare()
        machines.put_replicated()
        put_topic(namespace, "late", TopicChange(queue_count=2))
        put_group(namespace, "late", GroupChange(max_reconsume_times=3))
        delete_topic(namespace, "gone")
        a.kill()
        machines.await_owner("b")
        with blocking_client(SHARD) as store:
            store.close()
            assert topics_of(store).keys() == {"acme%gone"}
            wait_until(is_restored, WAIT_S, "the engine was looked at")
            assert topics_of(store).keys() == {"acme%late"}
            (group,) = [each for each in store.group_list().groups if each.group == "acme%late"]
            assert group.max_reconsume_times == 3


def is_restored() -> bool:
    restore_lost_changes()
    return Shard.objects.filter(name=SHARD, checked_epoch=F("epoch")).exists()
