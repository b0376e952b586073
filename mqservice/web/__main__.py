"""``python -m mqservice.web``: one web process, uvicorn started from Python.

    MQ_BIND, MQ_PORT ──▶ bound socket ──▶ uvicorn (uvloop, httptools, websockets) ──▶ mqservice.asgi
    SIGTERM ──▶ drain: polls answered, sessions told goaway ──▶ connections closed ──▶ exit

With MQ_WEB_REUSE_PORT=1 several processes bind the same address and the kernel spreads connections
over them. Exit status 2: an address that cannot be meant; 3: an address that cannot be had.
"""

from __future__ import annotations

import gc
import os
import socket
import sys
from typing import TYPE_CHECKING, Final

import uvicorn

from mqservice.delivery.limits import FRAME_BYTES_HARD_MAX
from mqservice.web.socket_budget import BudgetLimits
from mqservice.web.transport import CorkedHttpProtocol
from mqservice.web.web_sockets import socket_protocol

if TYPE_CHECKING:
    from mqservice.asgi import Application

CONFIG_STATUS: Final = 2
ADDRESS_STATUS: Final = 3
BACKLOG: Final = 2_048
# After the drain's 4 s at most; together less than the 12 s after which a supervisor kills.
GRACEFUL_SHUTDOWN_SECONDS: Final = 6
KEEP_ALIVE_SECONDS: Final = 75
# A peer that acknowledges nothing, or keeps its window shut, for this long is cut off by the
# kernel. Without it a client that never reads would hold its connection for ever.
USER_TIMEOUT_MS: Final = 30_000
_PORT_MAX: Final = 65_535


class ConfigInvalid(Exception):
    """An address in the environment that cannot be meant."""


class AddressUnavailable(Exception):
    """An address that cannot be bound."""


class WebServer(uvicorn.Server):
    """Lets the application end its long requests before connections are closed under them."""

    def __init__(self, config: uvicorn.Config, application: Application) -> None:
        super().__init__(config)
        self._application = application

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        for server in self.servers:
            server.close()
        await self._application.drain()
        await super().shutdown(sockets)


def address_from(environ: dict[str, str]) -> tuple[str, int, bool]:
    """Host, port, and whether the port is shared. Raises ConfigInvalid."""
    host = environ.get("MQ_BIND") or "127.0.0.1"
    text = environ.get("MQ_PORT") or "8000"
    if not text.isascii() or not text.isdecimal() or int(text) > _PORT_MAX:
        raise ConfigInvalid(f"MQ_PORT must be a number up to {_PORT_MAX}, found {text!r}")
    return host, int(text), environ.get("MQ_WEB_REUSE_PORT") == "1"


def bind_socket(host: str, port: int, *, is_shared: bool) -> socket.socket:
    """A bound socket, listening unless shared. Raises ConfigInvalid, AddressUnavailable."""
    try:
        family, kind, proto, _, address = socket.getaddrinfo(
            host, port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except socket.gaierror as exc:
        raise ConfigInvalid(f"MQ_BIND={host} is not an address: {exc.strerror}") from exc
    listener = socket.socket(family, kind, proto)
    try:
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        if is_shared:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        # Accepted connections inherit both.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, USER_TIMEOUT_MS)
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        listener.bind(address)
        if not is_shared:
            # Two sockets may be bound to one address until one of them listens. A shared one waits
            # until it is served, so that the kernel does not send it what others could answer.
            listener.listen(BACKLOG)
    except OSError as exc:
        listener.close()
        raise AddressUnavailable(f"cannot listen on {host}:{port}: {exc.strerror}") from exc
    listener.set_inheritable(True)
    return listener


def server_config(
    application: Application, socket_limits: BudgetLimits | None = None
) -> uvicorn.Config:
    """How uvicorn runs; the same for the service and for tests."""
    return uvicorn.Config(
        application,
        loop="uvloop",
        http=CorkedHttpProtocol,
        ws=socket_protocol(socket_limits or BudgetLimits()),
        ws_max_size=FRAME_BYTES_HARD_MAX,
        # The session has a heartbeat of its own, which proxies pass on.
        ws_ping_interval=None,
        ws_per_message_deflate=False,
        lifespan="on",
        interface="asgi3",
        log_config=None,
        log_level="warning",
        access_log=False,
        # Only a proxy that the operator names may speak for its clients.
        proxy_headers="FORWARDED_ALLOW_IPS" in os.environ,
        server_header=False,
        backlog=BACKLOG,
        timeout_keep_alive=KEEP_ALIVE_SECONDS,
        timeout_graceful_shutdown=GRACEFUL_SHUTDOWN_SECONDS,
    )


def main() -> int:
    """Serve until SIGINT or SIGTERM."""
    try:
        host, port, is_shared = address_from(dict(os.environ))
        listener = bind_socket(host, port, is_shared=is_shared)
    except ConfigInvalid as exc:
        print(f"mqservice.web: {exc}", file=sys.stderr)
        return CONFIG_STATUS
    except AddressUnavailable as exc:
        print(f"mqservice.web: {exc}", file=sys.stderr)
        return ADDRESS_STATUS
    from django.conf import settings

    from mqservice.asgi import application

    socket_limits = BudgetLimits(
        commands_per_second_max=settings.MQ_SOCKET_COMMANDS_PER_SECOND_MAX,
        no_ops_per_second_max=settings.MQ_SOCKET_NO_OPS_PER_SECOND_MAX,
    )
    # What has been imported stays; the collector need not look at it again and again.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    WebServer(server_config(application, socket_limits), application).run(sockets=[listener])
    return 0


if __name__ == "__main__":
    sys.exit(main())
