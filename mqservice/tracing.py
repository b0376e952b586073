"""OpenTelemetry, where it is installed and asked for. No other module imports it.

    OTEL_* ──▶ [tracing_from] ──▶ None: nothing is imported
                              └─▶ [Tracing] ── start ──▶ Span ── end ──▶ queue ──▶ a thread ──▶ OTLP

The queue is bounded, and nobody waits for it: when the collector is slow or away, spans are dropped
and messages are not. Parents and links are W3C ``traceparent`` texts, checked by whoever read them.
"""

from __future__ import annotations

import enum
import logging
import threading
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Final, NamedTuple

from mqservice import __version__
from mqservice.lib.trace_context import TRACEPARENT, TRACESTATE

if TYPE_CHECKING:
    from types import ModuleType

    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.trace import Span as OtelSpan
    from opentelemetry.trace import SpanContext

log = logging.getLogger(__name__)

SERVICE_NAME: Final = "mqservice"
PACKAGES: Final = "mqservice[tracing]"
_DISABLED: Final = "OTEL_SDK_DISABLED"
_EXPORTER: Final = "OTEL_TRACES_EXPORTER"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")
_OTLP: Final = "otlp"
_OFF: Final = "none"
_HTTP: Final = "http/protobuf"
# What is left in the queue may take so long; less than a web process has to end.
_CLOSE_SECONDS_MAX: Final = 2.0

Attributes = Mapping[str, str | int]


class Kind(enum.Enum):
    """What a span is to other spans, as OpenTelemetry has it."""

    SERVER = enum.auto()
    PRODUCER = enum.auto()


class Link(NamedTuple):
    """A message that a span has to do with: its context, and its id if that is known."""

    traceparent: str
    message_id: str


class Span:
    """One that has begun. Ends once."""

    __slots__ = ("_api", "_span")

    def __init__(self, api: ModuleType, span: OtelSpan) -> None:
        self._api, self._span = api, span

    @property
    def traceparent(self) -> str | None:
        """The context for messages that it is the cause of; None when it is not sampled."""
        context = self._span.get_span_context()
        if not context.trace_flags.sampled:
            return None
        return f"00-{context.trace_id:032x}-{context.span_id:016x}-{context.trace_flags:02x}"

    def end(self, attributes: Attributes, error: str) -> None:
        """``error``: a code, or empty when all went well."""
        span = self._span
        span.set_attributes(dict(attributes))
        if error:
            span.set_attribute("error.type", error)
            span.set_status(self._api.StatusCode.ERROR)
        span.end()


class Tracing:
    """See the module's docstring. One per process; any thread may use it."""

    def __init__(self, provider: TracerProvider) -> None:
        from opentelemetry import trace as api

        self._api = api
        self._provider = provider
        self._tracer = provider.get_tracer(SERVICE_NAME, __version__)

    def start(
        self,
        name: str,
        kind: Kind,
        *,
        began_ns: int,
        parent: Mapping[str, str],
        links: Sequence[Link],
        attributes: Attributes,
    ) -> Span:
        """A span that began at ``began_ns`` of the wall clock. ``parent``: a trace context, as
        ``lib.trace_context`` has it, or nothing.
        """
        api = self._api
        context = None
        if parent:
            above = self._remote(parent[TRACEPARENT], parent.get(TRACESTATE))
            context = api.set_span_in_context(api.NonRecordingSpan(above))
        span = self._tracer.start_span(
            name,
            context,
            api.SpanKind[kind.name],
            dict(attributes),
            [
                api.Link(self._remote(traceparent), {"messaging.message.id": message_id})
                for traceparent, message_id in links
            ],
            start_time=began_ns,
        )
        return Span(api, span)

    def _remote(self, traceparent: str, tracestate: str | None = None) -> SpanContext:
        api = self._api
        _, trace_id, span_id, flags = traceparent.split("-")
        context: SpanContext = api.SpanContext(
            int(trace_id, 16),
            int(span_id, 16),
            is_remote=True,
            trace_flags=api.TraceFlags(int(flags, 16)),
            trace_state=api.TraceState.from_header([tracestate]) if tracestate else None,
        )
        return context

    def close(self) -> threading.Thread:
        """Export what is left, on the thread that is returned, and then nothing more."""
        closing = threading.Thread(target=self._provider.shutdown, name="tracing", daemon=True)
        closing.start()
        return closing

    def close_soon(self) -> None:
        """``close``, but wait no longer than a process that ends can."""
        self.close().join(_CLOSE_SECONDS_MAX)


def tracing_from(environ: Mapping[str, str]) -> Tracing | None:
    """What ``OTEL_*`` variables ask for; None when that is nothing, or cannot be done: the log then
    says why. Messages do not depend on it, so it never stops a process.
    """
    if not _is_wanted(environ):
        return None
    protocol = next((environ[name] for name in _PROTOCOLS if environ.get(name)), _HTTP)
    if protocol != _HTTP:
        _refuse(f"spans are sent as {_HTTP} only, and OTEL_EXPORTER_OTLP_PROTOCOL is {protocol!r}")
        return None
    try:
        return _started(environ)
    except ImportError as exc:
        _refuse(f"{exc.name} is not installed: pip install '{PACKAGES}'")
    except ValueError as exc:  # of a variable that OpenTelemetry reads
        _refuse(str(exc))
    return None


def _is_wanted(environ: Mapping[str, str]) -> bool:
    if environ.get(_DISABLED, "").strip().lower() == "true":
        return False
    exporter = environ.get(_EXPORTER, "").strip()
    if not exporter:
        return any(environ.get(name) for name in _ENDPOINTS)
    if exporter not in (_OTLP, _OFF):
        _refuse(f"{_EXPORTER} must be {_OTLP} or {_OFF}, found {exporter!r}")
    return exporter == _OTLP


def _refuse(why: str) -> None:
    log.warning("Tracing stays off", extra={"action": "tracing_off", "error": why})


def _started(environ: Mapping[str, str]) -> Tracing:
    """Raises ImportError, ValueError."""
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor

    about: dict[str, str] = {"service.version": __version__}
    is_named = "service.name=" in environ.get("OTEL_RESOURCE_ATTRIBUTES", "")
    if not environ.get("OTEL_SERVICE_NAME") and not is_named:
        about["service.name"] = SERVICE_NAME
    provider = TracerProvider(resource=Resource.create(about), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    log.info("Spans are exported", extra={"action": "tracing_on"})
    return Tracing(provider)
