"""A consumer that says what it begins and ends, until it gets SIGTERM."""

from __future__ import annotations

import sys
import threading

from mqservice_client import Client, Message

topic, group = sys.argv[1:]


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")  # at once, whatever else is being written
    sys.stdout.flush()


with Client() as mq:

    @mq.consumer(topic, group, concurrency=2, prefetch=20)
    def handle(message: Message) -> None:
        say(f"begun {message.text}")
        threading.Event().wait(1)
        say(f"ended {message.text}")

    mq.run()
    print("left")
