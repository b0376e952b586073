"""A shop in one file: orders, payments with retries and dead letters, receipts by mail.

    shop ─▶ topic shop-orders ──▶ payment ─▶ topic shop-payments ──▶ mail
                                    ├ the bank is busy: delivered again, with a growing delay
                                    └ the card is declined: a dead letter, with its reason

    make run                                          # in one terminal
    .venv/bin/python clients/examples/orders.py       # in another one

It places 20 orders, stops when each has come to its end, and prints what became of them. For a
service elsewhere, set ``MQ_BASE_URL`` and ``MQ_API_KEY``.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections import Counter
from pathlib import Path

import msgspec
from mqservice_client import Client, Message, Reject, Retry

ORDERS, PAYMENTS = "shop-orders", "shop-payments"
PAYING, MAILING = "shop-paying", "shop-mailing"


class Order(msgspec.Struct):
    number: int
    amount: float
    card: str
    mail: str


class Payment(msgspec.Struct):
    order: int
    mail: str


def say(text: str) -> None:
    """A whole line at once, since several threads write."""
    sys.stdout.write(f"  {text}\n")


def set_up(mq: Client) -> None:
    """Make what is missing; what is there stays as it is."""
    mq.topics.create(ORDERS)
    mq.topics.create(PAYMENTS)
    mq.groups.create(
        PAYING,
        max_attempts=5,
        retry={"policy": "exponential", "start": "200ms", "factor": 2, "cap": "2s"},
    )
    mq.groups.create(MAILING)


class Shop:
    """The three programs of the shop; real ones would be three processes, or thirty."""

    def __init__(self, mq: Client) -> None:
        self.mq = mq
        self.open: set[int] = set()
        self.ends: Counter[str] = Counter()
        mq.consumer(ORDERS, PAYING, concurrency=4)(self.pay)
        mq.consumer(PAYMENTS, MAILING, concurrency=2)(self.send_receipt)

    def place_orders(self, count: int) -> None:
        """A few of the cards are expired, and the bank is busy for every fourth order."""
        queues = self.mq.topics.get(ORDERS).queue_offsets or []
        first = 1 + sum(queue.max_offset for queue in queues)  # after those of earlier days
        self.open = set(range(first, first + count))
        with self.mq.batch(ORDERS) as batch:
            for number in sorted(self.open):
                card = "expired" if number % 10 == 7 else "valid"
                order = Order(number, 9.90 + number, card, f"customer{number}@example.com")
                batch.send(order, keys=f"order-{number}", tag=card)

    def pay(self, message: Message) -> None:
        """Charge the card, once: the payment's idempotency key is that of the order."""
        order = message.json(Order)
        if order.card == "expired":
            say(f"order {order.number}: card declined, kept as a dead letter")
            self.end(order.number, "declined")
            raise Reject("card expired")
        if order.number % 4 == 0 and message.attempt < 3:
            say(f"order {order.number}: the bank is busy, attempt {message.attempt}")
            raise Retry(reason="the bank is busy")
        self.mq.send(
            PAYMENTS, Payment(order.number, order.mail), idempotency_key=f"paid-{order.number}"
        )
        say(f"order {order.number}: paid {order.amount:.2f} at attempt {message.attempt}")

    def send_receipt(self, message: Message) -> None:
        payment = message.json(Payment)
        say(f"order {payment.order}: receipt sent to {payment.mail}")
        self.end(payment.order, "paid, with a receipt")

    def end(self, order: int, how: str) -> None:
        """Messages are delivered at least once, so an order may come to its end twice."""
        if order in self.open:
            self.open.discard(order)
            self.ends[how] += 1
        if not self.open:
            self.mq.stop()


def client_here() -> Client:
    """For ``MQ_BASE_URL`` and ``MQ_API_KEY``, else for the service that runs in this folder."""
    if "MQ_API_KEY" in os.environ:
        return Client()
    try:
        facts = json.loads(Path("var/quickstart.json").read_text())
    except FileNotFoundError:
        raise SystemExit(
            "There is no var/quickstart.json here: start the service with `make run` and call this"
            " in the same folder, or set MQ_BASE_URL and MQ_API_KEY."
        ) from None
    return Client(facts["base_url"], facts["api_key"])


def main() -> None:
    parser = argparse.ArgumentParser(description="A shop: orders, payments, receipts.")
    parser.add_argument("--orders", type=int, default=20, help="how many are placed")
    order_count = parser.parse_args().orders
    with client_here() as mq:
        set_up(mq)
        shop = Shop(mq)
        shop.place_orders(order_count)
        mq.run()
        for how, count in shop.ends.most_common():
            print(f"{count} of {order_count} orders: {how}")
        print("Dead letters of the group, with their reasons:")
        for letter in mq.dead_letters.list(PAYING, limit=5).messages:
            print(f"  {letter.keys[0]}: {letter.reason}")


if __name__ == "__main__":
    main()
