"""A collector for tests: what is posted to ``/v1/traces`` as OTLP in protobuf, decoded."""

from __future__ import annotations

import contextlib
import gzip
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span


class Collector:
    """``url`` is for OTEL_EXPORTER_OTLP_ENDPOINT. With ``status`` it refuses what it gets."""

    def __init__(self, status: int = 200) -> None:
        self.resources: list[ResourceSpans] = []
        self._may_answer = threading.Event()
        self._may_answer.set()
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                content = self.rfile.read(int(self.headers["content-length"]))
                if self.headers.get("content-encoding") == "gzip":
                    content = gzip.decompress(content)
                assert self.path == "/v1/traces"
                assert self.headers["content-type"] == "application/x-protobuf"
                request = ExportTraceServiceRequest.FromString(content)
                if status == 200:
                    collector.resources += request.resource_spans
                collector._may_answer.wait()
                self.send_response(status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, format: str, *args: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_address[1]}"

    @contextlib.contextmanager
    def hanging(self) -> Iterator[None]:
        """It answers nobody for the length of the block."""
        self._may_answer.clear()
        try:
            yield
        finally:
            self._may_answer.set()

    @property
    def spans(self) -> list[Span]:
        return [
            span
            for resource in self.resources
            for scope in resource.scope_spans
            for span in scope.spans
        ]


@contextlib.contextmanager
def collecting(status: int = 200) -> Iterator[Collector]:
    collector = Collector(status)
    thread = threading.Thread(target=collector.server.serve_forever)
    thread.start()
    try:
        yield collector
    finally:
        collector.server.shutdown()
        thread.join()
        collector.server.server_close()
