"""The unit of migrations waits for PostgreSQL, as a real process and with a real PostgreSQL."""

from __future__ import annotations

import asyncio
import os
import sys
from contextlib import suppress
from urllib.parse import urlsplit

from tests.ports import held_port


async def _pipe(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with suppress(OSError):
        while block := await reader.read(65_536):
            writer.write(block)
            await writer.drain()
    writer.close()


async def test_it_says_why_it_waits_and_ends_with_the_first_log_in(postgres_server: str) -> None:
    url = urlsplit(postgres_server)
    with held_port() as held:
        port = held.getsockname()[1]
        late = url._replace(netloc=f"{url.netloc.rpartition(':')[0]}:{port}").geturl()
        waiting = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-m", "mqservice.supervisor.waiting"),
            env={**os.environ, "DATABASE_URL": late},
            stderr=asyncio.subprocess.PIPE,
        )
        assert waiting.stderr is not None
        async with asyncio.timeout(60):
            said = (await waiting.stderr.readline()).decode()
            assert said.startswith("mqservice: waiting for PostgreSQL: ")
            assert "refused" in said
            assert str(url.password) not in said.replace(str(url.username), "")
            held.listen()
            held.setblocking(False)

            async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
                there = await asyncio.open_connection(url.hostname, url.port)
                await asyncio.gather(_pipe(reader, there[1]), _pipe(there[0], writer))

            async with await asyncio.start_server(relay, sock=held):
                assert await waiting.wait() == 0
