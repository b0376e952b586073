"""Readiness checks, each a yes or no at this moment; waiting and limits are the caller's.

A gate asks what the next stage will ask: a log-in for PostgreSQL, PING for Valkey, a connection for
the engine, a listening socket for each web worker (they share one port, so only the kernel knows
whose it is).
"""

from __future__ import annotations

import asyncio
import os
import urllib.error
import urllib.request
from pathlib import Path
from typing import Final

import psycopg

CONNECT_TIMEOUT_S: Final = 2
TCP_LISTEN: Final = "0A"  # state column of /proc/net/tcp


async def is_postgres_ready(url: str) -> bool:
    """Whether somebody with this URL can log in."""
    try:
        connection = await psycopg.AsyncConnection.connect(url, connect_timeout=CONNECT_TIMEOUT_S)
    except psycopg.OperationalError:
        return False
    await connection.close()
    return True


async def is_valkey_ready(host: str, port: int, password: str) -> bool:
    """Whether PING is answered after AUTH; not while the append-only file is still loading."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            reader, writer = await asyncio.open_connection(host, port)
            try:
                writer.write(f"AUTH {password}\r\nPING\r\n".encode())
                return (await reader.readline(), await reader.readline()) == (
                    b"+OK\r\n",
                    b"+PONG\r\n",
                )
            finally:
                writer.close()
    except (OSError, TimeoutError):
        return False


async def is_unix_socket_open(path: Path) -> bool:
    """Whether somebody accepts connections on the socket at ``path``."""
    try:
        async with asyncio.timeout(CONNECT_TIMEOUT_S):
            _, writer = await asyncio.open_unix_connection(str(path))
            writer.close()
    except (OSError, TimeoutError):
        return False
    return True


async def is_listening(pid: int, port: int) -> bool:
    """Whether the process ``pid`` itself has a TCP socket that listens on ``port``."""
    listening = _listening_inodes(port)
    try:
        descriptors = os.listdir(f"/proc/{pid}/fd")
    except OSError:
        return False
    for descriptor in descriptors:
        try:
            target = os.readlink(f"/proc/{pid}/fd/{descriptor}")
        except OSError:
            continue
        if target.startswith("socket:[") and target[8:-1] in listening:
            return True
    return False


async def is_url_ok(url: str) -> bool:
    """Whether GET on ``url`` is answered with a 2xx status."""
    return await asyncio.to_thread(_is_url_ok, url)


async def is_running(pid: int) -> bool:
    """For processes that give no sign of their own: being alive is enough."""
    return os.path.exists(f"/proc/{pid}")  # noqa: ASYNC240  # no disk behind /proc


def _is_url_ok(url: str) -> bool:
    # An http_proxy of the user's environment is not meant for our own loopback address.
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    try:
        with opener.open(url, timeout=CONNECT_TIMEOUT_S) as answer:
            return 200 <= int(answer.status) < 300
    except (urllib.error.URLError, OSError):
        return False


def _listening_inodes(port: int) -> set[str]:
    found = set()
    for table in ("/proc/net/tcp", "/proc/net/tcp6"):
        try:
            lines = Path(table).read_text(encoding="ascii").splitlines()[1:]
        except OSError:
            continue
        for line in lines:
            columns = line.split()
            if columns[3] == TCP_LISTEN and int(columns[1].rpartition(":")[2], 16) == port:
                found.add(columns[9])
    return found
