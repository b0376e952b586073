"""Uses clients in every way and ends without closing any of them."""

from __future__ import annotations

import sys

from mqservice_client import Client

topic, group = sys.argv[1:]
mq = Client()
mq.send(topic, "x")
for message in mq.subscribe(topic, group):
    message.ack()
    message.confirmed()
    break
mq.batch(topic, linger="1h").send("y")
Client(transport="rest").subscribe(topic, group)
print("done")
