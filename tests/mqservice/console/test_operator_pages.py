"""The operator's page: for superusers alone, and what it says when nobody answers. Usage."""

from __future__ import annotations

import http.server
import io
import re
import threading
from collections.abc import Iterator
from datetime import timedelta

import msgspec
import pytest
from celery import Celery
from django.core.management import CommandError, call_command
from django.test import Client
from django.utils import timezone
from pytest_django import Settings

from mqservice.accounts.audit import record
from mqservice.accounts.models import User
from mqservice.celery import app
from mqservice.lib.clock import SystemClock
from mqservice.lib.durations import HOUR_MS
from mqservice.monitoring import background
from mqservice.monitoring.engine_metrics import find_engine_metrics, parse_metrics
from mqservice.monitoring.sampling import engine_stats
from mqservice.quotas.models import Source
from mqservice.quotas.services import put_limits
from mqservice.shards.models import Replica, Shard, ShardState
from mqservice.shards.queries import forget_shard_names
from mqservice.store import StatsReply
from mqservice.topics.services import TopicChange, put_topic
from mqservice.usage.models import UsageHour
from tests.people import People

OPERATOR = "/console/-/operator"
METRICS = """# TYPE mq_engine_sync_seconds histogram
mq_engine_sync_seconds_bucket{le="0.001"} 50
mq_engine_sync_seconds_bucket{le="0.01"} 99
mq_engine_sync_seconds_bucket{le="+Inf"} 100
mq_engine_sync_seconds_sum 1.5
mq_engine_quarantined_records{shard="main"} 3
mq_engine_storage_size_bytes 1048576
mq_engine_build_info{version="1"} 1
other_metric 7
"""


@pytest.fixture
def root(people: People, client: Client) -> Client:
    people.alice.is_superuser = True
    people.alice.save()
    client.force_login(people.alice)
    return client


@pytest.fixture(autouse=True)
def _no_shards_of_before() -> Iterator[None]:
    yield
    forget_shard_names()


@pytest.fixture
def metrics_port() -> Iterator[int]:
    """Of somebody who answers as the engine does."""

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(METRICS.encode())

        def log_message(self, *args: object) -> None:
            """Nothing on stderr."""

    with http.server.HTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        yield server.server_port
        server.shutdown()
        thread.join(60)


def test_only_superusers_find_the_page(people: People, client: Client) -> None:
    assert client.get(OPERATOR).status_code == 302
    client.force_login(people.alice)  # an owner, but no operator
    absent = client.get("/console/-/nothing")
    for path in (OPERATOR, f"{OPERATOR}?tab=workers", f"{OPERATOR}?tab=shards"):
        found = client.get(path)
        assert found.status_code == absent.status_code == 404
        assert found.content == absent.content
    assert OPERATOR not in client.get("/console/acme/").content.decode()


def test_operator_is_made_and_unmade_by_a_command(people: People, client: Client) -> None:
    client.force_login(people.bob)
    call_command("operator", "bob", stdout=io.StringIO())
    assert client.get(OPERATOR).status_code == 200
    assert client.get("/console/rival/").status_code == 404  # nothing of any tenant
    call_command("operator", "bob", "--revoke", stdout=io.StringIO())
    assert client.get(OPERATOR).status_code == 404
    with pytest.raises(CommandError, match="user nobody does not exist"):
        call_command("operator", "nobody")


def test_operator_needs_to_belong_to_no_tenant(db: None, client: Client) -> None:
    client.force_login(User.objects.create_user("dora", is_superuser=True))
    answer = client.get(OPERATOR)
    assert answer.status_code == 200
    assert b"Dependencies" in answer.content


def test_page_shows_the_engine_and_its_sync_times(
    root: Client, engine: str, metrics_port: int, settings: Settings
) -> None:
    settings.MQ_ENGINE_METRICS_PORT = metrics_port
    text = root.get(OPERATOR).content.decode()
    assert "≤ 10 ms" in text
    assert "median ≤ 1 ms" in text
    assert "1 MiB" in text
    assert 'badge-bad">3<' in text  # damaged places
    assert 'badge-up">ok' in text
    assert OPERATOR in root.get("/console/acme/topics").content.decode()


@pytest.mark.parametrize(
    ("replicated_offset", "told"),
    [(None, "without a replicated log"), (7_777, "until the replicated log responds")],
)
def test_page_says_why_replicated_topics_take_nothing(
    root: Client,
    engine: str,
    monkeypatch: pytest.MonkeyPatch,
    replicated_offset: int | None,
    told: str,
) -> None:
    def stats(shard: str) -> StatsReply | None:
        found = engine_stats(shard)
        return found and msgspec.structs.replace(
            found, degraded=["replication"], replicated_offset=replicated_offset
        )

    monkeypatch.setattr("mqservice.console.operators.views.engine_stats", stats)
    text = root.get(OPERATOR).content.decode()
    assert told in text
    assert ("7,777" in text) is (replicated_offset is not None)
    assert "does on its own" not in text


def test_page_of_another_shard_shows_the_metrics_of_its_engine(
    root: Client, engine: str, metrics_port: int, settings: Settings
) -> None:
    Shard.objects.create(name="s2", address=engine)
    hint = "MQ_SHARD_METRICS_PORTS"
    assert hint in root.get(f"{OPERATOR}?shard=s2").content.decode()
    settings.MQ_SHARD_METRICS_PORTS = {"s2": metrics_port}
    text = root.get(f"{OPERATOR}?shard=s2").content.decode()
    assert "median ≤ 1 ms" in text
    assert hint not in text
    assert "median" not in root.get(OPERATOR).content.decode()


def test_what_nobody_tells_is_unknown_and_not_zero(root: Client) -> None:
    text = root.get(OPERATOR).content.decode()
    assert text.count("unknown") >= 12
    assert "MQ_ENGINE_METRICS_PORT" in text


def test_shards_are_listed_where_there_are_several(root: Client, engine: str) -> None:
    assert "?tab=shards" not in root.get(OPERATOR).content.decode()
    forget_shard_names()
    Shard.objects.create(
        name="s2", address="tls://node-2:7702", owner="node-2", free_bytes=3 << 30,
        state=ShardState.DRAINING.value,
    )  # fmt: skip
    assert "?tab=shards" in root.get(OPERATOR).content.decode()
    text = root.get(f"{OPERATOR}?tab=shards").content.decode()
    for shown in ("tls://node-2:7702", "node-2", "draining", "3 GiB", "main"):
        assert shown in text
    assert "tls://" not in root.get(f"{OPERATOR}?shard=main").content.decode()
    assert root.get(f"{OPERATOR}?shard=s2").content.decode().count("unknown") >= 12
    assert root.get(f"{OPERATOR}?shard=s9").status_code == 404


def test_replicas_of_a_shard_are_listed_with_their_lag(root: Client, engine: str) -> None:
    shard = Shard.objects.create(name="s2", owner="node-2", epoch=9, log_end=4096, move_to="node-3")
    for node, log_end, silent_s in (("node-3", 4096, 0), ("node-4", 1024, 0), ("node-5", 0, 60)):
        heard = timezone.now() - timedelta(seconds=silent_s)
        Replica.objects.create(
            shard=shard, node=node, heartbeat_at=heard, log_end=log_end, behind_ms=0
        )
    text = root.get(f"{OPERATOR}?tab=shards").content.decode()
    for shown in ("epoch 9", "moving to node-3", "up to date", "3 KiB behind", "node-5"):
        assert shown in text


def test_long_names_of_nodes_are_shown_whole_and_missing_facts_are_named(
    root: Client, engine: str
) -> None:
    node = "n" * 127
    shard = Shard.objects.create(name="s2", owner=node, address="tls://node-2:7702")
    Replica.objects.create(shard=shard, node=node[::-1], heartbeat_at=timezone.now(), log_end=0)
    text = root.get(f"{OPERATOR}?tab=shards").content.decode()
    main, s2 = re.findall(r"<tr><th scope=.row.*?</tr>", text, re.DOTALL)[:2]
    cells = re.findall(r"<td[^>]*>(?=(?:<span class=.block.>)?n{127})", s2)
    assert [("wraps" in cell, "whole" in cell) for cell in cells] == [(True, True)] * 2
    assert main.count(">none<") == 1  # replicas
    assert main.count(">unknown<") == 3  # its node, its free disk, when it was heard of


def test_a_shard_with_replicas_is_listed_even_alone_with_what_became_of_it(
    root: Client, engine: str
) -> None:
    Shard.objects.create(name="main", owner="node-2", epoch=4, heartbeat_at=timezone.now())
    record("node:node-2", None, "shard.take_over", "shards/main", {"epoch": 4, "reason": "silence"})
    record(None, None, "shard.untold", "shards/main")
    assert "?tab=shards" in root.get(OPERATOR).content.decode()
    text = root.get(f"{OPERATOR}?tab=shards").content.decode()
    for shown in ("node-2 took over the shard main", "silence", "shard.untold"):
        assert shown in text


def test_workers_are_unknown_while_the_broker_is_unavailable(
    root: Client, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = settings.MQ_VALKEY_URL = "redis://127.0.0.1:1/0"  # where nobody listens
    broken = Celery("away", broker=away, set_as_current=False)
    broken.conf.broker_transport_options = app.conf.broker_transport_options
    monkeypatch.setattr(background, "app", broken)
    text = root.get(f"{OPERATOR}?tab=workers").content.decode()
    assert "The broker is not responding" in text
    assert "delay" in text  # the queues that there are
    assert text.count("unknown") >= 7


def test_metrics_are_read() -> None:
    found = parse_metrics(METRICS)
    assert found is not None
    assert found.whole("quarantined_records") == 3
    assert found.whole("nonsense") is None
    assert (found.sync_s(0.5), found.sync_s(0.99), found.sync_s(1.0)) == (0.001, 0.01, None)
    empty = parse_metrics("")
    assert empty is not None
    assert empty.sync_s(0.5) is None
    assert parse_metrics(METRICS + "mq_engine_nonsense much\n") is None
    assert find_engine_metrics(0) is None


def test_usage_shows_each_limit_and_what_is_refused(
    people: People, engine: str, root: Client
) -> None:
    put_topic(people.acme, "orders", TopicChange())
    put_limits(None, people.acme.tenant, Source.OPERATOR, {"topic_count_max": 1})
    text = root.get("/console/acme/usage").content.decode()
    assert "Creating more is rejected with 403 QUOTA_EXCEEDED." in text
    assert text.count('badge-bad">used up') == 1
    assert 'badge-unknown">unknown' in text  # rates: this process has no meters
    assert text.count("No messages were sent or received through this web process") == 6
    assert text.count("left in its RateLimit header.") == 1
    assert "has not counted it yet" not in text  # the engine has
    assert "TiB" in text


def test_usage_of_hours_is_drawn_and_that_of_others_is_not(people: People, root: Client) -> None:
    hour_ms = SystemClock().now_ms() // HOUR_MS * HOUR_MS
    for namespace, count in ((people.acme, 40), (people.rival, 7)):
        UsageHour.objects.create(
            tenant=namespace.tenant, hour_ms=hour_ms, namespace=namespace.name, topic="t",
            messages_in=count, storage_bytes_max=None,
        )  # fmt: skip
    data = root.get("/console/acme/usage/charts/messages?span=7d").json()
    values = [value for _, value in data["series"][0]["points"] if value is not None]
    assert values == [40]
    assert len(data["series"][0]["points"]) in (168, 169)
    stored = root.get("/console/acme/usage/charts/storage").json()["series"][0]["points"]
    assert all(value is None for _, value in stored)
    assert root.get("/console/acme/usage/charts/other").status_code == 404
