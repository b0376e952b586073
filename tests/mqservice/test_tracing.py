"""When spans are made, that they arrive, and that nothing depends on it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time

import httpx
import pytest

from mqservice import tracing
from mqservice.delivery.spans import DeliverySpans
from mqservice.lib.clock import SystemClock
from mqservice.tracing import Kind, Tracing, tracing_from
from tests.mqservice.delivery.serving import serving
from tests.mqservice.delivery.store_double import StoreDouble
from tests.mqservice.otlp_collector import collecting

IDS = "4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7"
NOWHERE = {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9"}
OTHER_VARIABLES = {name: value for name, value in os.environ.items() if "OTEL" not in name}
# What of OpenTelemetry a web process imports. The Redis client, which looks for it by itself, is
# imported first.
OFF = """
import asyncio, os, sys
import redis.asyncio
def imported():
    return {name for name in sys.modules if name.startswith("opentelemetry") and sys.modules[name]}
before = imported()
os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
import mqservice.asgi
from mqservice.delivery.context import process_context
async def main():
    assert process_context().spans is None
asyncio.run(main())
print(sorted(imported() - before))
"""
ABSENT = 'import sys; sys.modules["opentelemetry"] = None'


@pytest.fixture(autouse=True)
def no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """OpenTelemetry reads the environment itself as well."""
    for name in list(os.environ):
        if name.startswith("OTEL_"):
            monkeypatch.delenv(name)


def started(monkeypatch: pytest.MonkeyPatch, **variables: str) -> Tracing:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = tracing_from(os.environ)
    assert found is not None
    return found


def end_one(spans: Tracing) -> None:
    span = spans.start(
        "send orders", Kind.SERVER, began_ns=time.time_ns(), parent={}, links=[], attributes={}
    )
    span.end({}, "")


@pytest.mark.parametrize(
    ("variables", "before"),
    [({}, ""), ({**NOWHERE, "OTEL_SDK_DISABLED": "true"}, ""), (NOWHERE, ABSENT)],
)
def test_nothing_is_imported_while_it_is_off(variables: dict[str, str], before: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", before + OFF],
        env={**OTHER_VARIABLES, **variables},
        capture_output=True,
        text=True,
        check=False,
    )

    assert (done.stdout.strip(), done.returncode) == ("[]", 0), done.stderr


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_SERVICE_NAME": "queue"},
        {"OTEL_TRACES_EXPORTER": "none", **NOWHERE},
        {"OTEL_SDK_DISABLED": "True", **NOWHERE},
    ],
)
def test_it_is_off_unless_it_is_asked_for(
    environ: dict[str, str], caplog: pytest.LogCaptureFixture
) -> None:
    assert tracing_from(environ) is None
    assert caplog.records == []


@pytest.mark.parametrize(
    ("environ", "why"),
    [
        ({"OTEL_TRACES_EXPORTER": "jaeger"}, "OTEL_TRACES_EXPORTER must be otlp or none"),
        ({**NOWHERE, "OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "http/protobuf only"),
        ({**NOWHERE, "OTEL_EXPORTER_OTLP_TRACES_PROTOCOL": "http/json"}, "'http/json'"),
    ],
)
def test_what_cannot_be_done_is_said_and_stops_nothing(
    environ: dict[str, str], why: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert tracing_from(environ) is None
    assert [why in record.__dict__["error"] for record in caplog.records] == [True]


def test_a_variable_that_opentelemetry_refuses_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "1")  # less than one export

    assert tracing_from({**NOWHERE, **os.environ}) is None
    assert caplog.records[-1].__dict__["action"] == "tracing_off"


def test_packages_that_are_missing_are_named(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setitem(sys.modules, "opentelemetry.exporter.otlp.proto.http.trace_exporter", None)

    assert tracing_from(NOWHERE) is None
    assert "pip install 'mqservice[tracing]'" in caplog.records[-1].__dict__["error"]


@pytest.mark.parametrize(
    ("variables", "name"),
    [
        ({}, "mqservice"),
        ({"OTEL_SERVICE_NAME": "queue"}, "queue"),
        ({"OTEL_RESOURCE_ATTRIBUTES": "service.name=queue,team=a"}, "queue"),
    ],
)
def test_spans_of_a_request_arrive_at_a_collector(
    monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], name: str
) -> None:
    with collecting() as collector:
        spans = started(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url, **variables)
        with serving(StoreDouble(SystemClock()), spans=DeliverySpans(spans)) as server:
            server.topic("orders")
            headers = {
                "authorization": server.key(),
                "traceparent": f"00-{IDS}-01",
                "tracestate": "a=1",
            }
            path = f"{server.url}/v1/-/topics/orders/messages"
            answer = httpx.post(path, json={"body": "a"}, headers=headers, timeout=60)
            assert answer.status_code == 201

    # The server has ended, and with it what was in the queue is sent.
    [span] = collector.spans
    assert (span.name, f"{span.trace_id.hex()}-{span.parent_span_id.hex()}") == ("send orders", IDS)
    assert span.trace_state == "a=1"
    resource = collector.resources[0].resource
    about = {each.key: each.value.string_value for each in resource.attributes}
    assert about["service.name"] == name


@pytest.mark.parametrize("status", [None, 500])
def test_a_collector_that_fails_harms_no_message_and_no_end(
    monkeypatch: pytest.MonkeyPatch, status: int | None
) -> None:
    monkeypatch.setattr(tracing, "_CLOSE_SECONDS_MAX", 0.1)
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_TIMEOUT", "1")
    logging.getLogger("opentelemetry").setLevel(logging.CRITICAL)
    with collecting(status or 200) as collector:
        url = collector.url if status else NOWHERE["OTEL_EXPORTER_OTLP_ENDPOINT"]
        spans = started(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=url)
        with serving(StoreDouble(SystemClock()), spans=DeliverySpans(spans)) as server:
            server.topic("orders")
            path = f"{server.url}/v1/-/topics/orders/messages"
            headers = {"authorization": server.key()}
            with httpx.Client(headers=headers, timeout=60) as api:
                codes = {api.post(path, json={"body": "a"}).status_code for _ in range(50)}

    assert codes == {201}
    assert collector.spans == []


def test_while_the_collector_hangs_no_more_spans_wait_than_the_queue_holds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("OTEL_BSP_MAX_QUEUE_SIZE", "4")
    monkeypatch.setenv("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "2")
    with collecting() as collector:
        spans = started(monkeypatch, OTEL_EXPORTER_OTLP_ENDPOINT=collector.url)
        with collector.hanging():
            for _ in range(1_000):
                end_one(spans)
        spans.close().join()

    assert 4 <= len(collector.spans) <= 4 + 2  # and one export that had begun
