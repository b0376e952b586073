"""Spans of OpenTelemetry, what messages carry of them, and that nothing depends on it."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any, Final

import pytest
from mqservice_client import BatchFailed, Client, Message, Retry, TopicNotFound
from mqservice_client import tracing as ours
from opentelemetry import trace
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExporter
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import ALWAYS_OFF, Sampler
from opentelemetry.trace import SpanContext, SpanKind, StatusCode, Tracer

from tests.clients.python.conftest import CONTRACT, Place, make_place
from tests.clients.python.test_consumers import running, until
from tests.clients.python.test_receiving import take

pytestmark = [pytest.mark.acceptance, CONTRACT]
OWN: Final = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"


class Recorded:
    """What was exported, and a tracer for the program's own spans."""

    def __init__(self, exporter: InMemorySpanExporter, provider: TracerProvider) -> None:
        self._exporter = exporter
        self.tracer: Tracer = provider.get_tracer("program")

    def all(self, name: str) -> list[ReadableSpan]:
        return [each for each in self._exporter.get_finished_spans() if each.name == name]

    def one(self, name: str) -> ReadableSpan:
        until(lambda: bool(self.all(name)), f"{name} has ended")
        [found] = self.all(name)
        return found


def use(monkeypatch: pytest.MonkeyPatch, provider: TracerProvider) -> None:
    """As ``set_tracer_provider`` does, but for one test."""
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recorded]:
    exporter, provider = InMemorySpanExporter(), TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    use(monkeypatch, provider)
    yield Recorded(exporter, provider)
    provider.shutdown()


def text_of(context: SpanContext | None) -> str:
    assert context is not None
    return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"


def traceparent(span: ReadableSpan) -> str:
    return text_of(span.get_span_context())


def linked(span: ReadableSpan) -> list[str]:
    return [text_of(link.context) for link in span.links]


def is_child(span: ReadableSpan, parent: Any) -> bool:  # Any: a span of either kind
    assert span.parent is not None
    return bool(span.parent.span_id == parent.get_span_context().span_id)


@pytest.mark.parametrize("body", [b"x", bytes(100_000)], ids=["json", "raw"])
def test_a_message_carries_the_span_that_sent_it(
    mq: Client, place: Place, spans: Recorded, body: bytes
) -> None:
    with spans.tracer.start_as_current_span("order") as order:
        stored = mq.send(place.topic, body, tag="t")

    sent = spans.one(f"send {place.topic}")
    assert sent.kind is SpanKind.PRODUCER
    assert is_child(sent, order)
    assert sent.attributes is not None
    assert sent.attributes.items() >= {
        ("messaging.system", "mqservice"),
        ("messaging.operation.name", "send"),
        ("messaging.operation.type", "send"),
        ("messaging.destination.name", place.topic),
        ("messaging.message.id", stored.id),
        ("server.address", "127.0.0.1"),
    }
    with mq.subscribe(*place) as subscription:
        [message] = take(subscription, 1)
    assert message.properties == {"traceparent": traceparent(sent)}


def test_a_message_keeps_a_context_of_its_own(mq: Client, place: Place, spans: Recorded) -> None:
    properties = {"traceparent": OWN, "tracestate": "a=b"}
    mq.send(place.topic, "x", properties=properties)
    with mq.batch(place.topic) as batch:
        batch.send("y", properties=properties)

    alone, batched = spans.all(f"send {place.topic}")
    assert linked(alone) == linked(batched) == [OWN]
    assert spans.all(f"create {place.topic}") == []
    with mq.subscribe(*place) as subscription:
        assert [message.properties for message in take(subscription, 2)] == [properties] * 2


def test_a_trace_that_is_not_sampled_stays_so(
    mq: Client, place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    use(monkeypatch, TracerProvider(sampler=ALWAYS_OFF, shutdown_on_exit=False))
    mq.send(place.topic, "x")

    with mq.subscribe(*place) as subscription:
        [message] = take(subscription, 1)
    assert int(message.properties["traceparent"][-2:], 16) & 1 == 0


def test_a_refused_send_is_a_span_with_the_code(mq: Client, spans: Recorded) -> None:
    with pytest.raises(TopicNotFound):
        mq.send("no-such-topic", "x")
    with pytest.raises(BatchFailed), mq.batch("no-such-topic") as batch:
        batch.send("x")

    assert len(spans.all("send no-such-topic")) == 2
    for sent in spans.all("send no-such-topic"):
        assert sent.attributes is not None
        assert sent.attributes["error.type"] == "TOPIC_NOT_FOUND"
        assert sent.status.status_code is StatusCode.ERROR


def test_each_message_of_a_batch_has_a_span_and_its_request_links_to_them(
    mq: Client, place: Place, spans: Recorded
) -> None:
    with spans.tracer.start_as_current_span("job") as job:
        with mq.batch(place.topic, linger="1h", messages_max=3) as batch:
            for number in range(3):
                batch.send(number)
        mq.batch(place.topic).close()

    created = spans.all(f"create {place.topic}")
    sent = spans.one(f"send {place.topic}")
    assert {each.kind for each in created} == {SpanKind.PRODUCER}
    assert sent.kind is SpanKind.CLIENT
    assert all(is_child(each, job) for each in (*created, sent))
    assert linked(sent) == [traceparent(each) for each in created]
    assert sent.attributes is not None
    assert sent.attributes["messaging.batch.message_count"] == 3
    with mq.subscribe(*place) as subscription:
        carried = [message.properties["traceparent"] for message in take(subscription, 3)]
    assert carried == linked(sent)


def test_the_same_key_from_another_span_is_stored_once(
    mq: Client, place: Place, spans: Recorded
) -> None:
    first = mq.send(place.topic, "x", idempotency_key="once")
    with spans.tracer.start_as_current_span("again"):
        again = mq.send(place.topic, "x", idempotency_key="once")

    assert (again.id, again.duplicate) == (first.id, True)
    assert len(spans.all(f"send {place.topic}")) == 2


@pytest.mark.parametrize("is_coroutine", [False, True], ids=["function", "coroutine"])
def test_a_handler_runs_within_a_span_that_is_linked_to_the_senders(
    mq: Client, place: Place, spans: Recorded, is_coroutine: bool
) -> None:
    seen: list[Any] = []

    def handle(message: Message) -> None:
        seen.append(trace.get_current_span())

    async def handle_on_loop(message: Message) -> None:
        await asyncio.sleep(0)
        handle(message)

    mq.consumer(*place)(handle_on_loop if is_coroutine else handle)
    stored = mq.send(place.topic, "x")

    with spans.tracer.start_as_current_span("program"), running(mq):
        until(lambda: bool(seen), "it is handled")

    processed = spans.one(f"process {place.topic}")
    assert processed.kind is SpanKind.CONSUMER
    assert processed.parent is None
    assert linked(processed) == [traceparent(spans.one(f"send {place.topic}"))]
    assert processed.get_span_context() == seen[0].get_span_context()
    assert processed.attributes is not None
    assert processed.attributes.items() >= {
        ("messaging.operation.type", "process"),
        ("messaging.consumer.group.name", place.group),
        ("messaging.message.id", stored.id),
        ("messaging.message.body.size", 1),
        ("mqservice.attempt", 1),
    }
    assert processed.status.status_code is StatusCode.UNSET


@pytest.mark.parametrize("is_late", [False, True], ids=["raises", "late"])
def test_a_handler_that_fails_is_a_span_with_the_error(
    mq: Client, place: Place, spans: Recorded, is_late: bool
) -> None:
    @mq.consumer(*place, timeout="50ms", retry_delay="1h")
    async def handle(message: Message) -> None:
        if is_late:
            await asyncio.sleep(60)
        raise Retry(reason="not yet")

    mq.send(place.topic, "x")
    with running(mq):
        processed = spans.one(f"process {place.topic}")

    assert processed.attributes is not None
    assert processed.attributes["error.type"] == ("TimeoutError" if is_late else "Retry")
    assert processed.status.status_code is StatusCode.ERROR
    assert [event.name for event in processed.events] == ["exception"]


def test_a_program_that_iterates_makes_the_span_itself(
    place: Place, mq: Client, spans: Recorded
) -> None:
    mq.send(place.topic, "x")

    with spans.tracer.start_as_current_span("loop") as loop, mq.subscribe(*place) as subscription:
        [message] = take(subscription, 1)
        with message.process_span():
            message.ack()

    processed = spans.one(f"process {place.topic}")
    assert is_child(processed, loop)
    assert linked(processed) == [message.properties["traceparent"]]


class Broken(SpanProcessor, SpanExporter, Sampler):
    """Of an OpenTelemetry that fails at every step."""

    def fails(self, *_args: Any, **_options: Any) -> Any:
        raise RuntimeError("out of order")

    on_start = on_end = export = should_sample = fails

    def get_description(self) -> str:
        return "broken"


@pytest.mark.parametrize("part", ["sampler", "processor", "exporter", "provider"])
@pytest.mark.filterwarnings("ignore")
def test_an_opentelemetry_that_fails_costs_no_message(
    mq: Client,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    part: str,
) -> None:
    monkeypatch.setattr(ours, "_harmless", ours._Harmless())
    provider = TracerProvider(
        sampler=Broken() if part == "sampler" else None, shutdown_on_exit=False
    )
    if part == "processor":
        provider.add_span_processor(Broken())
    elif part == "exporter":
        provider.add_span_processor(SimpleSpanProcessor(Broken()))
    elif part == "provider":
        monkeypatch.setattr(provider, "get_tracer", Broken().fails)
    use(monkeypatch, provider)
    place = make_place(mq)
    seen: list[str] = []
    mq.consumer(*place)(lambda message: seen.append(message.text))

    mq.send(place.topic, "alone")
    with mq.batch(place.topic) as batch:
        batch.send("batched")
    with running(mq):
        until(lambda: len(seen) == 2, "both are handled")

    assert seen == ["alone", "batched"]
    logged = [each for each in caplog.records if each.name == "mqservice_client"]
    assert [each.message for each in logged] == (
        [] if part == "exporter" else ["OpenTelemetry failed; spans are missing, messages are not"]
    )
