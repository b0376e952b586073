"""A child of a fork is told that its parent's client is of no use there; the parent's works on."""

from __future__ import annotations

import os
import sys
import threading

from mqservice_client import Client, ForkedClient

topic, group = sys.argv[1:]
mq = Client()
unused = Client()
batch = mq.batch(topic, linger="1h")
pending = batch.send("x")
mq.send(topic, "taken before the fork")
mq.send(topic, "waits here during the fork")
subscription = mq.subscribe(topic, group)
message = subscription.get("20s")
assert message is not None
while subscription.stats.received < 2:
    threading.Event().wait(0.01)


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
        refuses(subscription.get),
        refuses(message.ack),
        refuses(message.confirmed),
        refuses(pending.result),
        refuses(batch.send, "x"),
        unused.send(topic, "from the child").queue == 0,
    ]
    mq.close()
    unused.close()
    os._exit(0 if all(results) else 1)
assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
message.ack()
message.confirmed("20s")
waiting = subscription.get("20s")
assert waiting is not None
assert waiting.text.startswith("waits")
waiting.ack()
mq.send(topic, "x")
mq.close()
unused.close()
print("done")
