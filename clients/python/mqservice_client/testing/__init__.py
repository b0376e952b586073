"""For the tests of programs that use mqservice: a service in memory, with a clock to move.

service = FakeService(topics=["orders"], groups=["billing"])
with Client(network=service.network()) as mq:
    mq.send("orders", {"order": 42}, delay="1h")
    service.advance("1h")
    assert mq.subscribe("orders", group="billing").get("1s").json() == {"order": 42}
"""

from __future__ import annotations

from .service import FakeNetwork, FakeService
from .store import FakeMessage, Refusal

__all__ = ["FakeMessage", "FakeNetwork", "FakeService", "Refusal"]
