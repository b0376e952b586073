"""Tracing whose spans stay in memory, for tests that look at them."""

from __future__ import annotations

from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.sdk.trace.sampling import Sampler

from mqservice.delivery.spans import DeliverySpans
from mqservice.tracing import Tracing
from tests.mqservice.delivery.wait_until import wait_until


class TracingDouble:
    """``spans`` is for a server; ``take`` for whoever wants to see what came of them."""

    def __init__(self, sampler: Sampler | None = None) -> None:
        self._exporter = InMemorySpanExporter()
        provider = TracerProvider(sampler=sampler, shutdown_on_exit=False)
        provider.add_span_processor(SimpleSpanProcessor(self._exporter))
        self.spans = DeliverySpans(Tracing(provider))

    def take(self, *names: str) -> list[ReadableSpan]:
        """The spans with these names, in their order, once there are so many; then forget all.

        Spans end after their answers are written, so a client may be quicker.
        """
        wait_until(lambda: len(self._exporter.get_finished_spans()) >= len(names))
        found = {span.name: span for span in self._exporter.get_finished_spans()}
        self._exporter.clear()
        assert sorted(found) == sorted(names)
        return [found[name] for name in names]


def attributes(span: ReadableSpan) -> dict[str, object]:
    return dict(span.attributes or {})


def parent_of(span: ReadableSpan) -> str | None:
    """Trace and span above it."""
    parent = span.parent
    return None if parent is None else f"{parent.trace_id:032x}-{parent.span_id:016x}"


def ids_of(span: ReadableSpan) -> str:
    context = span.get_span_context()
    assert context is not None
    return f"{context.trace_id:032x}-{context.span_id:016x}"


def links_of(span: ReadableSpan) -> list[tuple[str, object]]:
    """What it links to, with the ids of the messages."""
    return [
        (
            f"{link.context.trace_id:032x}-{link.context.span_id:016x}",
            (link.attributes or {}).get("messaging.message.id"),
        )
        for link in span.links
    ]
