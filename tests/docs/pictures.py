"""The pictures of the console on README's first screen: ``python -m tests.docs.pictures``.

a service of its own ◀── a shop: orders, payments, mails; a group whose consumers are gone, and one
that gives up what it cannot charge ──▶ eight minutes ──▶ docs/img/console-*.png

Look at them before committing them.
"""

from __future__ import annotations

import itertools
import math
import random
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final

from mqservice_client import Client
from playwright.sync_api import Page, sync_playwright

from tests.chromium import find_chromium
from tests.docs.markdown import DOCS
from tests.services import Service, client_of, running_service

LOAD_S: Final = 480
GONE_S: Final = 150  # after which the consumers of the warehouse are gone
WIDTH: Final = 1280
HEIGHT: Final = 940
SCALE: Final = 1.25
RATES: Final = {"orders": 14, "payments": 9, "notifications": 22, "inventory": 6, "shipments": 4}
TAGS: Final = ("created", "changed", "paid", "cancelled")
GROUPS: Final = {
    "billing": "payments", "mailer": "notifications", "search-index": "orders",
    "warehouse": "inventory", "tracking": "shipments",
}  # fmt: skip
REASONS: Final = (
    "card {n} declined", "card {n} declined", "card {n} declined",
    "timeout of the risk service after {n} ms", "schema: amount {n} is not a number",
)  # fmt: skip


def main() -> None:
    """Replace the pictures. Nine minutes."""
    with tempfile.TemporaryDirectory() as directory:
        data_dir = Path(directory) / "data"
        with running_service(data_dir, MQ_ENVIRONMENT="staging") as service, loaded(service):
            take_pictures(service, DOCS / "img")


@contextmanager
def loaded(service: Service) -> Iterator[None]:
    """After ``LOAD_S`` of a shop's load, which goes on meanwhile."""
    over, gone = threading.Event(), threading.Event()
    with client_of(service.facts) as mq:
        prepare(mq)
    work: list[Callable[[], None]] = [
        *(lambda topic=topic: send(service, topic, over) for topic in RATES),
        *(
            lambda group=group: consume(service, group, gone if group == "warehouse" else over)
            for group in GROUPS
        ),
    ]
    with ExitStack() as stack:
        for each in work:
            thread = threading.Thread(target=each)
            thread.start()
            stack.callback(thread.join)
        stack.callback(gone.set)
        stack.callback(over.set)
        over.wait(GONE_S)
        gone.set()
        over.wait(LOAD_S - GONE_S)
        yield


def prepare(mq: Client) -> None:
    """Topics, groups, an alert, and what is sent at night."""
    known = {each.name for each in mq.topics.iterate()}
    for topic in RATES.keys() - known:
        mq.topics.create(topic, queues=4)
    known = {each.name for each in mq.groups.iterate()}
    for group in GROUPS.keys() - known:
        mq.groups.create(group, max_attempts=1 if group == "billing" else 5)
    message = {"body_json": {"report": "daily"}}
    settings = {"topic": "notifications", "cron": "30 6 * * mon-fri", "message": message}
    mq.request("PUT", "schedules/daily-report", json=settings)


def send(service: Service, topic: str, over: threading.Event) -> None:
    """More and less of it, as in a day, every four minutes."""
    chance = random.Random(topic)
    with client_of(service.facts) as mq, mq.batch(topic) as batch:
        for number in itertools.count(1):
            wave = 1 + 0.35 * math.sin(number / RATES[topic] * 2 * math.pi / 240)
            if over.wait(1 / RATES[topic] / wave):
                return
            body = {
                "id": number,
                "customer": f"c-{chance.randrange(1_000)}",
                "amount": round(chance.lognormvariate(3.5, 0.8), 2),
                "currency": chance.choice(["EUR", "EUR", "USD"]),
            }
            batch.send(body, keys=[f"{topic[:-1]}-{number}"], tag=chance.choice(TAGS))


def consume(service: Service, group: str, over: threading.Event) -> None:
    """What is charged fails for one in forty."""
    chance = random.Random(group)
    with (
        client_of(service.facts) as mq,
        mq.subscribe(GROUPS[group], group, consumer_id=f"{group}-1") as messages,
    ):
        while not over.is_set():
            message = messages.get("500ms")
            if message is None:
                continue
            if group == "billing" and chance.random() < 1 / 40:
                message.dead_letter(chance.choice(REASONS).format(n=chance.randrange(100, 9_999)))
            else:
                message.ack()


def take_pictures(service: Service, folder: Path) -> None:
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=find_chromium(), args=["--no-sandbox"])
        for name, theme, path in (
            ("console-overview", "light", "?span=5m"),
            ("console-dead-letters", "dark", "messages?q=group:billing"),
        ):
            context = browser.new_context(
                base_url=service.facts.base_url,
                viewport={"width": WIDTH, "height": HEIGHT},
                device_scale_factor=SCALE,
                color_scheme="dark" if theme == "dark" else "light",
            )
            page = context.new_page()
            sign_in(page, service)
            answer = page.goto(f"/console/demo/{path}")
            assert answer is not None
            assert answer.ok, page.inner_text("body")
            page.wait_for_load_state("networkidle" if theme == "dark" else "load")
            page.locator("h1").first.wait_for()
            for chart in page.locator(".chart").all():
                chart.locator("canvas").wait_for()
            page.screenshot(path=str(folder / f"{name}.png"))


def sign_in(page: Page, service: Service) -> None:
    page.goto("/account/login/")
    page.get_by_label("Username or email").fill(service.facts.username)
    page.get_by_label("Password", exact=True).fill(service.facts.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/console/demo/**")


if __name__ == "__main__":
    main()
