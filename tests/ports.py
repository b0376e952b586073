"""Ports for servers that start some time after their port was chosen."""

from __future__ import annotations

import random
import socket
from pathlib import Path
from typing import Final

from mqservice.supervisor.ports import LOOPBACK, is_port_free

_EPHEMERAL: Final = Path("/proc/sys/net/ipv4/ip_local_port_range")
_COUNT: Final = 10_000
_draw: Final = random.SystemRandom()


def find_steady_port() -> int:
    """A free loopback port that no outgoing connection gets before its server has started: it is
    below those that the kernel gives away.
    """
    first = int(_EPHEMERAL.read_text().split()[0])
    while True:
        port = _draw.randrange(max(first - _COUNT, 1_024), first)
        if is_port_free(port):
            return port


def held_port() -> socket.socket:
    """A loopback port that stays free for a server that sets SO_REUSEADDR, until this is closed."""
    holder = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    holder.bind((LOOPBACK, 0))
    return holder
