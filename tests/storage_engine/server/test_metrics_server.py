"""Metrics of a real engine, scraped over HTTP and parsed; and clients that mean no good."""

from __future__ import annotations

import asyncio
import http.client
import json
import re
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from storage_engine.client import (
    GroupConfig,
    LeaseRef,
    ReceiveRequest,
    SettleRequest,
    encode_record,
)
from storage_engine.server import metrics_server
from storage_engine.server.engine_metrics import replica_metrics_text
from storage_engine.server.metrics_server import HEAD_BYTES_MAX, Health, MetricsServer
from storage_engine.wire.role import Phase, RoleStatus
from tests.ports import find_steady_port
from tests.storage_engine.doubles import WAIT_S, message
from tests.storage_engine.engines import ROOT, Engine, engine_with_topic

Samples = dict[str, float]


@pytest.fixture(scope="module")
def scraped() -> Iterator[tuple[Engine, int]]:
    port = find_steady_port()
    with engine_with_topic(MQ_ENGINE_METRICS_PORT=str(port)) as engine:
        yield engine, port


def ask(port: int, path: str, method: str = "GET") -> tuple[int, bytes, dict[str, str]]:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path)
        answer = connection.getresponse()
        return answer.status, answer.read(), {k.lower(): v for k, v in answer.getheaders()}
    finally:
        connection.close()


def scrape(port: int) -> Samples:
    """Every sample without labels of its own by name, histograms as ``_sum`` and ``_count``."""
    status, text, headers = ask(port, "/metrics")
    assert status == 200
    assert headers["content-type"].startswith("text/plain; version=0.0.4")
    families = list(text_string_to_metric_families(text.decode()))
    assert all(family.documentation and family.type != "unknown" for family in families)
    samples = [sample for family in families for sample in family.samples]
    assert {sample.labels["shard"] for sample in samples} == {"main"}
    return {sample.name: sample.value for sample in samples if len(sample.labels) == 1}


def raw(port: int, content: bytes) -> bytes:
    """Everything that comes back for these bytes."""
    with socket.create_connection(("127.0.0.1", port), timeout=10) as client:
        client.sendall(content)
        client.shutdown(socket.SHUT_WR)
        return b"".join(iter(lambda: client.recv(65_536), b""))


def test_the_counters_say_what_was_done(scraped: tuple[Engine, int]) -> None:
    engine, port = scraped
    before = scrape(port)
    records = [encode_record(message(b"%d" % index)) for index in range(10)]
    with engine.client() as client:
        client.group_put(GroupConfig(group="g"))
        client.put(records[:7])
        client.put(records[7:])
        request = ReceiveRequest(
            group="g", topic="t", member_id="m", messages_max=6, bytes_max=1 << 20,
            wait_ms=0, lease_ms=60_000,
        )  # fmt: skip
        received = client.receive(request)
        ref = LeaseRef(
            topic="t", queue_id=0, lease_generation=received.head.lease_generation,
            queue_offsets=[0, 1],
        )  # fmt: skip
        client.settle(SettleRequest(group="g", acks=[ref]))
        client.checkpoint()
        after = scrape(port)
        stats = client.stats()

    def grown(name: str) -> float:
        return after[f"mq_engine_{name}"] - before[f"mq_engine_{name}"]

    assert grown("messages_in_total") == 10
    assert grown("messages_in_bytes_total") == sum(map(len, records))
    assert grown("messages_out_total") == 6
    assert grown("messages_acked_total") == 2
    assert grown("sync_seconds_count") >= 2
    assert grown("sync_bytes_sum") == sum(map(len, records))
    assert grown("append_offset_bytes") == sum(map(len, records))
    assert grown("flushed_offset_bytes") == sum(map(len, records))
    expected = {
        "owns_shard": 1,
        "append_offset_bytes": stats.append_offset,
        "storage_flush_behind_bytes": 0,
        "storage_dispatch_behind_bytes": 0,
        "inflight_messages": 4,
        "segments": 1,
        "storage_size_bytes": 65_536,
        "consume_queues": 2,
        "topics": 1,
        "consumer_groups": 1,
        "parked_polls": 0,
        "connections": 1,
        "writable": 1,
        "epoch": stats.epoch,
        "quarantined_records": 0,
    }
    assert {name: after[f"mq_engine_{name}"] for name in expected} == expected
    assert after["mq_engine_disk_total_bytes"] >= after["mq_engine_disk_free_bytes"] > 0
    assert 0 <= after["mq_engine_checkpoint_age_seconds"] < 3_600


def test_every_metric_stands_in_the_table_for_people(scraped: tuple[Engine, int]) -> None:
    _, text, _ = ask(scraped[1], "/metrics")
    text += replica_metrics_text("main", RoleStatus(phase=Phase.FOLLOWING))
    shown = set(re.findall(r"^# TYPE (\S+)", text.decode(), re.MULTILINE))
    told = set(re.findall(r"`(mq_engine_\w+)`", (ROOT / "docs" / "operations.md").read_text()))
    assert told == shown


@pytest.mark.parametrize(("behind_ms", "shown"), [(-1, "-1.0"), (0, "0.0"), (2_500, "2.5")])
def test_a_replica_says_how_far_it_is_behind(behind_ms: int, shown: str) -> None:
    status = RoleStatus(phase=Phase.FOLLOWING, behind_ms=behind_ms)
    lines = replica_metrics_text("s2", status).decode().splitlines()
    assert 'mq_engine_owns_shard{shard="s2"} 0.0' in lines
    assert f'mq_engine_replica_behind_seconds{{shard="s2"}} {shown}' in lines


def test_health_and_refusals(scraped: tuple[Engine, int]) -> None:
    _, port = scraped
    assert ask(port, "/healthz")[:2] == (200, b"ok\n")
    assert ask(port, "/metrics?name=x")[0] == 200
    status, body, headers = ask(port, "/metrics", "HEAD")
    assert (status, body) == (200, b"")
    assert int(headers["content-length"]) > 1_000
    assert ask(port, "/")[0] == 404
    assert ask(port, "/metrics/")[0] == 404
    status, _, headers = ask(port, "/metrics", "POST")
    assert (status, headers["allow"]) == (405, "GET, HEAD")


def test_health_counts_damaged_places_of_the_log() -> None:
    port = find_steady_port()
    with engine_with_topic(MQ_ENGINE_METRICS_PORT=str(port)) as engine:
        with engine.client() as client:
            client.put([encode_record(message(b"x"))])
        engine.stop()
        entry = {"physicalOffset": 0, "byteCount": 100, "reason": "damaged", "foundAtMs": 1}
        path = engine.store_dir / "config" / "quarantine.json"
        path.write_text(json.dumps({"entries": [entry]}))
        engine.start()
        assert ask(port, "/healthz")[:2] == (200, b"ok, 1 quarantined_records\n")
        with engine.client() as client:
            assert client.stats().quarantined_count == 1


@pytest.mark.parametrize(
    ("request_", "status"),
    [
        (b"GET /metrics HTTP/1.0\r\n\r\n", b"200"),
        (b"GET /metrics HTTP/2.0\r\n\r\n", b"505"),
        (b"GET /metrics\r\n\r\n", b"400"),
        (b"GET metrics HTTP/1.1\r\n\r\n", b"400"),
        (b"\x16\x03\x01\x02\x00\x01\x00\r\n\r\n", b"400"),
        (b"GET /metrics HTTP/1.1\r\nHost: x\r\n", b"400"),
        (b"", b"400"),
        (b"GET /" + b"x" * HEAD_BYTES_MAX + b" HTTP/1.1\r\n\r\n", b"404"),
        (b"GET /metrics HTTP/1.1\r\nX: " + b"x" * (2 * HEAD_BYTES_MAX), b"431"),
        (b"DELETE /metrics HTTP/1.1\r\n\r\n", b"405"),
        (b"POST /metrics HTTP/1.1\r\nContent-Length: 30000\r\n\r\n" + b"x" * 30_000, b"405"),
        (b"GET /metrics HTTP/1.1\r\n\r\nGET /metrics HTTP/1.1\r\n\r\n", b"200"),
    ],
)
def test_odd_requests_get_one_answer_each(
    scraped: tuple[Engine, int], request_: bytes, status: bytes
) -> None:
    _, port = scraped
    answer = raw(port, request_)
    assert answer.startswith(b"HTTP/1.1 " + status)
    assert answer.count(b"HTTP/1.1 ") == 1


async def test_slow_and_many_clients_cost_only_themselves(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(metrics_server, "CONNECTION_MS_MAX", 200)
    server = MetricsServer(lambda: b"metrics\n", lambda: Health(False, "the disk is full"))
    port = await server.start(0)
    try:
        slow = [await asyncio.open_connection("127.0.0.1", port) for _ in range(16)]
        slow[0][1].write(b"GET /met")
        refused, refused_writer = await asyncio.open_connection("127.0.0.1", port)
        with pytest.raises(ConnectionResetError):
            await refused.read()
            raise ConnectionResetError  # an end without an answer is a refusal as well
        for reader, _ in slow:  # after their time they are gone, without an answer
            try:
                assert await asyncio.wait_for(reader.read(), WAIT_S) == b""
            except ConnectionResetError:
                continue
        monkeypatch.undo()
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
        answer = await reader.read()
        assert answer.startswith(b"HTTP/1.1 503 ")
        assert answer.endswith(b"the disk is full\n")
        for _, each in [*slow, (refused, refused_writer), (reader, writer)]:
            each.close()
    finally:
        await server.stop()
    assert not server.connections


async def test_a_server_answers_where_it_is_bound_and_stops_twice() -> None:
    server = MetricsServer(lambda: b"", lambda: Health(False, "a replica"))
    port = await server.start(0, host="127.0.0.2")
    server.report(lambda: b"", lambda: Health(True, "ok"))
    with pytest.raises(ConnectionRefusedError):
        await asyncio.open_connection("127.0.0.1", port)
    reader, writer = await asyncio.open_connection("127.0.0.2", port)
    writer.write(b"GET /healthz HTTP/1.1\r\n\r\n")
    assert (await reader.read()).endswith(b"ok\n")
    writer.close()
    await server.stop()
    await server.stop()


async def test_a_body_without_end_is_cut_off() -> None:
    server = MetricsServer(lambda: b"", lambda: Health(True, "ok"))
    port = await server.start(0)
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"POST /metrics HTTP/1.1\r\n\r\n")
    assert (await reader.readuntil(b"\r\n")).startswith(b"HTTP/1.1 405")
    with pytest.raises(ConnectionError):
        while True:
            writer.write(bytes(65_536))
            await writer.drain()
    writer.close()
    await server.stop()


def test_an_engine_without_the_port_serves_all_the_same(tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with engine_with_topic(MQ_ENGINE_METRICS_PORT=str(port)) as engine:
            with engine.client() as client:
                assert client.stats().is_writable
            assert "metrics_not_started" in engine.log.read_text()
            assert engine.stop() == 0
