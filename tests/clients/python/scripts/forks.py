"""A child of a fork is told that its parent's client is of no use there; the parent's works on."""

from __future__ import annotations

import os
import sys

from mqservice_client import Client, ForkedClient

topic, group = sys.argv[1:]
mq = Client()
unused = Client()
batch = mq.batch(topic, linger="1h")
batch.send("x")
subscription = mq.subscribe(topic, group)
subscription.get("10ms")


def refuses(call: object, *arguments: object) -> bool:
    try:
        call(*arguments)  # type: ignore[operator]  # it is a method
    except ForkedClient as exc:
        return "after the fork" in exc.what_to_do
    return False


child = os.fork()
if child == 0:
    # Without stopping at the first one: each takes another way.
    results = [
        refuses(mq.send, topic, "x"),
        refuses(mq.subscribe, topic, group),
        refuses(subscription.get),
        refuses(batch.send, "x"),
        unused.send(topic, "from the child").queue == 0,
    ]
    mq.close()
    unused.close()
    os._exit(0 if all(results) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
mq.send(topic, "x")
mq.close()
unused.close()
print("done")
