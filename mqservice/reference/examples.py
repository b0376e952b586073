"""Examples of request bodies of the control plane, by operationId; a test sends every one."""

from __future__ import annotations

from typing import Final

REQUESTS: Final[dict[str, object]] = {
    "purgeTopic": {"dry_run": True},
    "writeMasking": {"bodies_for": "admin"},
    "writeSearch": {"q": "topic:orders tag:failed last:1h"},
    "writeMaskRule": {"topics": "payments-*", "part": "field", "path": "/card/number"},
    "writeTopicSchema": {
        "kind": "avro",
        "definition": '{"type": "map", "values": {"type": "array", "items": "long"}}',
    },
    "seekGroup": {"topic": "orders", "to": "earliest", "dry_run": True},
    "commitOffset": {"topic": "orders", "queue": 0, "offset": 0},
    "redriveDeadLetters": {"all": True, "rate": 100, "dry_run": True},
    "purgeDeadLetters": {"filter": {"tag": "created"}, "dry_run": True},
}
