"""After clients are closed no thread and no task is left, whatever they were doing."""

from __future__ import annotations

import asyncio
import logging
import sys
import threading

from mqservice_client import AsyncClient, Client

topic, group = sys.argv[1:]
logging.getLogger("mqservice_client").setLevel(logging.ERROR)  # nobody is there


def use_threads() -> None:
    with Client() as mq, Client("http://127.0.0.1:1", timeout="1h") as nobody:
        waiting = nobody.subscribe(topic, group)
        waiting.get("10ms")
        mq.batch(topic, linger="1h").send("x")
        mq.subscribe(topic, group)
        with mq.subscribe(topic, group) as subscription:
            message = subscription.get("10ms")
            assert message is None or message.attempt == 1
    assert threading.enumerate() == [threading.main_thread()], threading.enumerate()


async def use_a_loop() -> None:
    async with AsyncClient(transport="rest") as mq, AsyncClient() as second:
        batch = mq.batch(topic, linger="1h")
        await batch.send("x")
        subscription = mq.subscribe(topic, group)
        await subscription.get("10ms")
        async with second.subscribe(topic, group) as other:
            await other.get("10ms")
        getting = asyncio.create_task(second.subscribe(topic, group).get())
        await asyncio.sleep(0.01)
    await asyncio.wait({getting})
    await asyncio.sleep(0)
    assert asyncio.all_tasks() == {asyncio.current_task()}, asyncio.all_tasks()


use_threads()
asyncio.run(use_a_loop())
print("done")
