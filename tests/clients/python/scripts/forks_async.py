"""The same for a client on an event loop."""

from __future__ import annotations

import asyncio
import os
import sys

from mqservice_client import AsyncClient, ForkedClient

topic, group = sys.argv[1:]


async def parent() -> None:
    async with AsyncClient() as mq:
        await mq.send(topic, "x")
        child = os.fork()
        if child == 0:
            try:
                await mq.send(topic, "x")
            except ForkedClient:
                os._exit(0)
            os._exit(1)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0  # noqa: ASYNC222
        await mq.send(topic, "x")


asyncio.run(parent())
print("done")
