"""The same on an event loop."""

from __future__ import annotations

import asyncio
import sys

from mqservice_client import AsyncClient, AsyncMessage

topic, group = sys.argv[1:]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")  # at once, whatever else is being written
    sys.stdout.flush()


async def main() -> None:
    async with AsyncClient() as mq:

        @mq.consumer(topic, group, concurrency=2, prefetch=20)
        async def handle(message: AsyncMessage) -> None:
            say(f"begun {message.text}")
            await asyncio.sleep(1)
            say(f"ended {message.text}")

        await mq.run()
        print("left")


asyncio.run(main())
