"""OpenTelemetry, where the program uses it. No other module imports it.

    send ───────▶ "send orders" ───▶ traceparent of the message
    batch.send ─▶ "create orders" ─▶ traceparent of the message ─ link ─▶ "send orders"
    handler, message.process_span() ─▶ "process orders", with a link to that traceparent

A program that has not imported ``opentelemetry.trace`` has neither a span nor a provider: here it
pays for one look. A provider, sampler or exporter that fails costs spans and never a message.
"""

from __future__ import annotations

import functools
import logging
import sys
from collections.abc import Iterable, Mapping
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, NamedTuple
from urllib.parse import urlsplit

import msgspec

from .errors import MQError
from .http_calls import Outgoing
from .protocol.frames import PackDelivered

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import Link, Span, Tracer, TracerProvider

LINKS_MAX: Final = 128  # OpenTelemetry's own default for one span
Trace = Mapping[str, str]  # these fields, perhaps among others
log = logging.getLogger("mqservice_client")


class NoSpan:
    """What a program without OpenTelemetry gets."""

    def carried_by(self, message: Outgoing) -> Outgoing:
        """The message with the context of this span."""
        return message

    def note(self, attribute: str, value: str | int) -> None:
        """What is known only now."""

    def fail(self, error: BaseException) -> None:
        """It came to nothing, for this reason."""

    def __enter__(self) -> NoSpan:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        """The end of the span, which has failed if there is an error."""


_NO_SPAN: Final = NoSpan()


class _OpenTelemetry(NamedTuple):
    trace: Any  # Any: the modules, which are not there for everybody
    context: Any
    propagator: Any


@functools.cache
def _imported() -> _OpenTelemetry:
    from opentelemetry import context, trace
    from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

    return _OpenTelemetry(trace, context, TraceContextTextMapPropagator())


def is_used() -> bool:
    """Whether the program has OpenTelemetry in memory."""
    return sys.modules.get("opentelemetry.trace") is not None


class _LiveSpan(NoSpan):
    """The current span of what is done within its ``with``."""

    def __init__(self, span: Span) -> None:
        self._span = span
        self._token: Any = None  # Any: OpenTelemetry's own

    def carried_by(self, message: Outgoing) -> Outgoing:
        trace: dict[str, str] = {}
        if _has_own(message):
            return message
        with _harmless:
            otel = _imported()
            otel.propagator.inject(trace, otel.trace.set_span_in_context(self._span))
        return msgspec.structs.replace(message, trace=trace)

    def note(self, attribute: str, value: str | int) -> None:
        with _harmless:
            self._span.set_attribute(attribute, value)

    def fail(self, error: BaseException) -> None:
        with _harmless:
            code = getattr(error, "code", "") if isinstance(error, MQError) else ""
            self._span.set_attribute("error.type", str(code or type(error).__qualname__))
            self._span.record_exception(error)
            self._span.set_status(_imported().trace.StatusCode.ERROR, str(error))

    def __enter__(self) -> NoSpan:
        with _harmless:
            otel = _imported()
            self._token = otel.context.attach(otel.trace.set_span_in_context(self._span))
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if error is not None:
            self.fail(error)
        with _harmless:
            if self._token is not None:
                _imported().context.detach(self._token)
            self._span.end()


def current_context() -> Context | None:
    """For a span that begins elsewhere and is to be part of the current one."""
    return _imported().context.get_current() if is_used() else None


def send_span(base_url: str, topic: str, message: Outgoing) -> NoSpan:
    """Of the request of one message."""
    if not is_used():
        return _NO_SPAN
    return _started("send", "PRODUCER", topic, _server(base_url), [message.properties])


def batch_span(
    base_url: str, topic: str, count: int, traces: Iterable[Trace], context: Context | None
) -> NoSpan:
    """Of a request with ``traces`` of its messages. ``context``: see ``current_context``."""
    if not is_used():
        return _NO_SPAN
    attributes = {**_server(base_url), "messaging.batch.message_count": count}
    return _started("send", "CLIENT", topic, attributes, traces, context)


def created(topic: str, message: Outgoing) -> Outgoing:
    """A message of a batch, with the context of a span of its own."""
    if not is_used() or _has_own(message):
        return message
    with _started("create", "PRODUCER", topic, {}) as span:
        return span.carried_by(message)


def process_span(topic: str, group: str, message: PackDelivered, *, is_root: bool) -> NoSpan:
    """Of what is done with a message. ``is_root``: it is no part of the current span."""
    if not is_used():
        return _NO_SPAN
    attributes: dict[str, str | int] = {
        "messaging.consumer.group.name": group,
        "messaging.destination.partition.id": str(message.q),
        "messaging.message.id": message.id,
        "messaging.message.body.size": len(message.b),
        "mqservice.attempt": message.a,
    }
    context = _imported().context.Context() if is_root else None
    return _started("process", "CONSUMER", topic, attributes, [message.p], context)


def _has_own(message: Outgoing) -> bool:
    return "traceparent" in message.properties or "tracestate" in message.properties


def _started(
    operation: str,
    kind: str,
    topic: str,
    attributes: Mapping[str, str | int],
    traces: Iterable[Trace] = (),
    context: Context | None = None,
) -> NoSpan:
    with _harmless:
        trace = _imported().trace
        span = _tracer(trace.get_tracer_provider()).start_span(
            f"{operation} {topic}",
            context,
            trace.SpanKind[kind],
            {
                "messaging.system": "mqservice",
                "messaging.operation.name": operation,
                "messaging.operation.type": operation,
                "messaging.destination.name": topic,
                **attributes,
            },
            _links(traces),
        )
        return _LiveSpan(span)
    return _NO_SPAN


@functools.lru_cache(maxsize=1)
def _tracer(provider: TracerProvider) -> Tracer:
    return provider.get_tracer("mqservice_client")


def _links(traces: Iterable[Trace]) -> list[Link]:
    """To the messages that have them, one for each trace."""
    otel = _imported()
    links: dict[str, Link] = {}
    for trace in traces:
        text = trace.get("traceparent")
        if text is None or text in links or len(links) == LINKS_MAX:
            continue
        context = otel.propagator.extract(trace, otel.context.Context())
        of_message = otel.trace.get_current_span(context).get_span_context()
        if of_message.is_valid:
            links[text] = otel.trace.Link(of_message)
    return list(links.values())


def _server(base_url: str) -> dict[str, str | int]:
    parts = urlsplit(base_url)
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return {"server.address": parts.hostname or "", "server.port": port}


class _Harmless:
    """What fails within is logged, once for each kind, and goes no further."""

    def __init__(self) -> None:
        self._logged: set[type[BaseException]] = set()

    def __enter__(self) -> None:
        """Nothing yet."""

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool:
        if not isinstance(error, Exception):
            return False
        if type(error) not in self._logged:
            self._logged.add(type(error))
            log.warning(
                "OpenTelemetry failed; spans are missing, messages are not",
                exc_info=error,
                extra={"action": "tracing_failed"},
            )
        return True


_harmless: Final = _Harmless()
