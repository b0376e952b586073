"""``/llms.txt``: what the author of a client needs to know, in short, from the same facts."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache
from typing import Final

from django.conf import settings

from mqservice.lib.problem import CODES
from mqservice.protocol.frames import COMMANDS, PUSHES, Frame
from mqservice.protocol.problem_texts import RESERVED
from mqservice.reference.openapi import openapi_document
from mqservice.reference.parts import JsonObject

_EXAMPLES: Final = """\
## A complete round trip

```
POST /v1/ns/demo/topics/orders/messages
{"body_json": {"order": 42}, "tag": "created", "keys": ["order-42"]}
→ 201 {"id": "…", "queue": 0, "offset": 26146, …}

POST /v1/ns/demo/topics/orders/groups/billing:receive
{"max": 10, "wait": "5s", "lease": "60s"}
→ 200 {"messages": [{"id": "…", "receipt": "…", "body_json": {"order": 42}, …}]}

POST /v1/ns/demo/groups/billing:settle
{"ack": ["RECEIPT"]}
→ 200 {"acked": 1, "failed": [], …}
```

Delivery is at least once: a message that is not settled before its lease expires is \
redelivered, so make
consumers idempotent. Settle with `ack`, `nack` (redelivered after a delay), `extend`, or \
`dead_letter`.
"""


@cache
def llms_text() -> str:
    """The text. Markdown in the form of llmstxt.org."""
    document = openapi_document()
    base = settings.MQ_BASE_URL
    parts = [
        f"# {document['info']['title']}",
        f"> {document['info']['summary']} Base URL: {base}",
        document["info"]["description"].strip(),
        _EXAMPLES.strip(),
        "## HTTP operations",
        *(_section(document, tag) for tag in document["tags"]),
        "## WebSocket",
        f"`GET {base}/v1/ws` with subprotocol `mq.v1.json`. Frames are JSON objects with `op`. "
        f"Send: {_names(COMMANDS)}. Receive: {_names(PUSHES)}. Start with `hello`, then `sub` with "
        "credit; `ack` each message; reply to `{}` with `{}`.",
        "## Error codes",
        "\n".join(
            f"- {status}: {', '.join(codes)}" for status, codes in _codes_by_status().items()
        ),
        "## Documents",
        f"- [OpenAPI]({base}/v1/openapi.json): every operation with schemas and examples\n"
        f"- [AsyncAPI]({base}/v1/asyncapi.json): every frame of the WebSocket\n"
        f"- [Reference]({base}/docs): the same for people, with forms to try it",
    ]
    return "\n\n".join(parts) + "\n"


def _section(document: JsonObject, tag: JsonObject) -> str:
    lines = [f"### {tag['name'].capitalize()}", ""]
    for path, methods in document["paths"].items():
        for method, operation in methods.items():
            if operation["tags"] == [tag["name"]]:
                lines.append(f"- `{method.upper()} {path}`: {operation['summary']}")
    return "\n".join(lines)


def _names(frames: Iterable[Frame]) -> str:
    return ", ".join(f"`{frame.op}`" for frame in frames)


def _codes_by_status() -> dict[int, list[str]]:
    by_status: dict[int, list[str]] = {}
    for code, (status, _) in CODES.items():
        if code not in RESERVED:
            by_status.setdefault(status, []).append(code)
    return by_status
