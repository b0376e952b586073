"""What of OpenTelemetry a program imports, and its spans after a fork."""

from __future__ import annotations

import subprocess
import sys

import pytest

# Every way that makes a span where OpenTelemetry is used.
PROGRAM = """
import sys
from mqservice_client import Client
from mqservice_client.testing import FakeService

service = FakeService(topics=["t"], groups=["g"])

def work():
    with Client(network=service.network()) as mq:
        mq.send("t", "x")
        with mq.batch("t") as batch:
            batch.send("y")
        mq.consumer("t", "g")(lambda message: service.lag("g") == 1 and mq.stop())
        mq.run()
        return [message.properties for message in service.messages("t")]
"""
WITHOUT = """
assert work() == [{}, {}]
print([name for name in sys.modules if name.startswith("opentelemetry.")])
"""
FORKED = """
import os
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

exporter = InMemorySpanExporter()
provider = TracerProvider()
provider.add_span_processor(BatchSpanProcessor(exporter))
trace.set_tracer_provider(provider)
assert all(work())
provider.force_flush()
exporter.clear()
service = FakeService(topics=["t"], groups=["g"])
child = os.fork()
if child == 0:
    assert all(work())
    provider.force_flush()
    names = sorted(span.name for span in exporter.get_finished_spans())
    os._exit(names != ["create t", "process t", "process t", "send t", "send t"])
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.mark.parametrize(
    ("code", "printed"),
    [
        pytest.param(PROGRAM + WITHOUT, "[]", id="not_imported"),
        pytest.param(
            'import sys; sys.modules["opentelemetry"] = None' + PROGRAM + WITHOUT,
            "[]",
            id="not_installed",
        ),
        pytest.param(PROGRAM + FORKED, "0", id="forked"),
    ],
)
def test_in_a_program(code: str, printed: str) -> None:
    done = subprocess.run(
        [sys.executable, "-W", "ignore::DeprecationWarning", "-c", code],
        capture_output=True, text=True, check=False, timeout=60,
    )  # fmt: skip

    assert (done.returncode, done.stdout.strip()) == (0, printed), done.stderr
