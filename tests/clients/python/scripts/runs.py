"""A consumer that says what it begins and ends, until it gets SIGTERM."""

from __future__ import annotations

import sys
import time

from mqservice_client import Client, Message

topic, group = sys.argv[1:]
with Client() as mq:

    @mq.consumer(topic, group, concurrency=2, prefetch=20)
    def handle(message: Message) -> None:
        print("begun", message.text, flush=True)
        time.sleep(1)
        print("ended", message.text, flush=True)

    mq.run()
    print("left")
