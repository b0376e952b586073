"""The same on an event loop."""

from __future__ import annotations

import asyncio
import sys

from mqservice_client import AsyncClient, AsyncMessage

topic, group = sys.argv[1:]


async def main() -> None:
    async with AsyncClient() as mq:

        @mq.consumer(topic, group, concurrency=2, prefetch=20)
        async def handle(message: AsyncMessage) -> None:
            print("begun", message.text, flush=True)
            await asyncio.sleep(1)
            print("ended", message.text, flush=True)

        await mq.run()
        print("left")


asyncio.run(main())
