"""The yardstick for REST: a handler that reads a body and answers 201 with JSON, and nothing else.

Served exactly as the service's own web process is: same uvicorn settings, same socket options, same
garbage collector settings. ``python -m bench.bare``; address from MQ_BIND and MQ_PORT.
"""

from __future__ import annotations

import gc
import os
from typing import Any, Final, cast

import uvicorn
from django.conf import settings

from mqservice.web.__main__ import address_from, bind_socket, server_config

# As long as the service's own answer to one stored message.
ANSWER: Final = (
    b'{"id":"0100000000000000000000000000000000","topic":"orders","queue":3,"offset":88123,'
    b'"stored_at":"2026-11-21T09:00:00.123Z","durability":"synced","deliver_at":null,'
    b'"recall_handle":null,"duplicate":false}'
)
HEADERS: Final = [
    (b"content-type", b"application/json"),
    (b"content-length", str(len(ANSWER)).encode()),
    (b"x-request-id", b"0000000000000000"),
]


async def bare(scope: Any, receive: Any, send: Any) -> None:  # reason: ASGI's own untyped triple
    if scope["type"] == "lifespan":
        while True:
            message = await receive()
            await send({"type": f"{message['type']}.complete"})
            if message["type"] == "lifespan.shutdown":
                return
    has_more = True
    while has_more:
        message = await receive()
        has_more = message.get("more_body", False)
    await send({"type": "http.response.start", "status": 201, "headers": HEADERS})
    await send({"type": "http.response.body", "body": ANSWER})


def main() -> None:
    host, port, is_shared = address_from(dict(os.environ))
    settings.configure(ALLOWED_HOSTS=[host])  # every request's Host is checked, as the service's is
    listener = bind_socket(host, port, is_shared=is_shared)
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    config = server_config(cast("Any", bare))  # reason: same settings, another application
    uvicorn.Server(config).run(sockets=[listener])


if __name__ == "__main__":
    main()
