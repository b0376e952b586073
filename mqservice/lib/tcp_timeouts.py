"""How long to wait for a server that stopped responding on a TCP connection.

    asked, and not even received ──▶ USER_TIMEOUT_MS ──┐
    received, and silence since ──▶ keepalives ────────┴──▶ the kernel ends the connection

Without it a host that is gone, or a network that is cut, holds whoever asks for a quarter of an
hour. A server that is only slow answers keepalives, and is waited for by other limits. Over a Unix
socket none of it applies.
"""

from __future__ import annotations

import socket
from typing import Any, Final

USER_TIMEOUT_MS: Final = 10_000
_IDLE_S: Final = 5
_INTERVAL_S: Final = 2
_COUNT: Final = 3  # 11 s in all

LIBPQ_OPTIONS: Final[dict[str, Any]] = {  # Any: psycopg takes all of its options so
    "keepalives_idle": _IDLE_S,
    "keepalives_interval": _INTERVAL_S,
    "keepalives_count": _COUNT,
    "tcp_user_timeout": USER_TIMEOUT_MS,
}
SOCKET_OPTIONS: Final[dict[int, int]] = {
    socket.TCP_KEEPIDLE: _IDLE_S,
    socket.TCP_KEEPINTVL: _INTERVAL_S,
    socket.TCP_KEEPCNT: _COUNT,
    socket.TCP_USER_TIMEOUT: USER_TIMEOUT_MS,
}
