"""Twelve tasks of a day, in a real browser, by keyboard alone; the keys they take are counted.

They are done with the palette, then by links.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final, NamedTuple

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.console.keyboard import Keyboard
from tests.acceptance.console.messages import dead_letter, produce
from tests.services import Service, client_of

pytestmark = [pytest.mark.torture, pytest.mark.acceptance, pytest.mark.timeout(600)]
KEY: Final = "order-4711"


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """``keys_max``: with the palette; a page that needs more has become harder to use."""

    name: str
    do: Callable[[Keyboard, str], None]
    keys_max: int


def find_by_key(keys: Keyboard, message_id: str) -> None:
    keys.reach(KEY, f"Messages with the key {KEY}", "Messages", "orders")
    if not keys.has_palette:
        search_on(keys, f" key:{KEY}")
    open_first(keys)
    expect(keys.page.get_by_role("dialog", name="Message")).to_contain_text("by keyboard")


def trace_by_id(keys: Keyboard, message_id: str) -> None:
    keys.reach(message_id, message_id, "Messages", "orders")
    if not keys.has_palette:
        search_on(keys, f" id:{message_id}")
        open_first(keys)
    expect(keys.page.locator(".timeline")).to_contain_text("Stored")


def see_why_stuck(keys: Keyboard, message_id: str) -> None:
    keys.reach("idle-r", "idle-readers", "Groups", "idle-readers")
    expect(keys.page.locator("main")).to_contain_text("no consumers")


def redrive_by_cause(keys: Keyboard, message_id: str) -> None:
    page = keys.page
    links = ("Failures", "Dead letters", "failed")
    keys.reach("dead fail", "Dead letters of failing", *links)
    keys.skip()
    keys.follow(page.get_by_role("link", name=re.compile("^card .* declined$")))
    keys.skip()
    keys.follow(page.get_by_role("link", name="Redrive matching"))
    keys.skip()
    keys.follow(page.get_by_role("button", name="Redrive 2 messages"))
    expect(page.locator("#task .badge").first).to_have_text("done")


def publish(keys: Keyboard, message_id: str) -> None:
    page = keys.page
    keys.reach("publish ord", "Publish to orders", "Topics", "orders", "Publish")
    keys.tab_to(page.get_by_label("Body"))
    keys.press("Control+a")
    keys.type('{"n": 1}')
    keys.tab_to(page.get_by_label("Tag"))
    keys.press("Enter")
    expect(page.locator(".toasts")).to_contain_text("Stored in queue")


def reset_offsets(keys: Keyboard, message_id: str) -> None:
    page = keys.page
    keys.reach("reset bill", "Reset offsets of billing", "Groups", "billing", "Reset offsets")
    keys.tab_to(page.get_by_label("Reset to"))
    place = "earliest" if keys.has_palette else "latest"
    while page.get_by_label("Reset to").input_value() != place:
        keys.press("ArrowDown")
    keys.follow(page.get_by_role("button", name="Preview"))
    keys.skip()
    keys.tab_to(page.get_by_role("button", name="Apply"))
    keys.press("Enter")
    expect(page.locator(".toasts")).to_contain_text("Offsets were reset")


def create_topic(keys: Keyboard, message_id: str) -> None:
    page = keys.page
    keys.reach("new topic", "New topic", "Topics", "New topic")
    keys.tab_to(page.get_by_label("Name", exact=True))
    name = "keyed" if keys.has_palette else "keyed2"
    keys.type(name)
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def alert_on_a_group(keys: Keyboard, message_id: str) -> None:
    page = keys.page
    keys.reach("alert on bill", "Alert on billing", "Groups", "billing", "Alert on this: Lag")
    if keys.has_palette:
        keys.follow(page.locator("main ul.found a"))
    keys.skip()
    keys.tab_to(page.get_by_label("Name", exact=True))
    name = "keyed" if keys.has_palette else "keyed2"
    keys.type(name)
    keys.tab_to(page.locator("#id_threshold"))
    keys.type("100")
    keys.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text(name)


def create_key(keys: Keyboard, message_id: str) -> None:
    page = keys.page
    keys.reach("new api", "New API key", "API keys", "New key")
    keys.tab_to(page.get_by_label("Name", exact=True))
    keys.type("keyed")
    keys.press("Enter")
    expect(page.locator("#key")).to_contain_text("mqk_")


def watch_live(keys: Keyboard, message_id: str) -> None:
    page = keys.page
    keys.reach("live ord", "Live tail of orders", "Messages", "orders", "Live tail")
    keys.tab_to(page.get_by_role("button", name="Start"))
    keys.press("Enter")
    expect(page.locator("[data-state-text]")).to_have_text("live")


def export_as_csv(keys: Keyboard, message_id: str) -> None:
    page = keys.page
    keys.reach("messages ord", "Messages of orders", "Messages", "orders")
    keys.tab_to(page.get_by_role("button", name="CSV"))
    with page.expect_download() as download:
        keys.press("Enter")
    assert "by keyboard" in download.value.path().read_text()


def see_who_changed(keys: Keyboard, message_id: str) -> None:
    keys.reach("audit", "Audit log", "Audit log")
    expect(keys.page.locator("main tbody")).to_contain_text("created the topic keyed")


TASKS: Final = (
    Task(name="find the message with a key", do=find_by_key, keys_max=13),
    Task(name="trace a message by its ID", do=trace_by_id, keys_max=3),
    Task(name="see why a group is stuck", do=see_why_stuck, keys_max=8),
    Task(name="redrive what failed by one cause", do=redrive_by_cause, keys_max=42),
    Task(name="publish a message", do=publish, keys_max=27),
    Task(name="reset a group to the earliest", do=reset_offsets, keys_max=36),
    Task(name="create a topic", do=create_topic, keys_max=19),
    Task(name="create an alert on a group", do=alert_on_a_group, keys_max=36),
    Task(name="create an API key", do=create_key, keys_max=17),
    Task(name="watch what arrives", do=watch_live, keys_max=22),
    Task(name="export messages as CSV", do=export_as_csv, keys_max=36),
    Task(name="see who changed what", do=see_who_changed, keys_max=7),
)


def search_on(keys: Keyboard, more: str) -> None:
    """Add tokens to the search of the page."""
    keys.skip()
    keys.tab_to(keys.page.get_by_label("Search messages"))
    keys.press("End")
    keys.type(more) if len(more) < 30 else keys.paste(more)
    with keys.page.expect_navigation():
        keys.press("Enter")


def open_first(keys: Keyboard) -> None:
    """The newest message found by a key or an ID has the focus."""
    expect(keys.page.locator("tbody a").first).to_be_focused()
    keys.press("Enter")


def prepared(service: Service) -> str:
    """What the tasks need; the ID of a message."""
    message_id = produce(service, "orders", "by keyboard", keys=[KEY])
    with client_of(service.facts) as mq:
        mq.topics.create("idle", queues=1)
        mq.groups.create("idle-readers")
        mq.send("idle", "somebody reads this")
        with mq.subscribe("idle", "idle-readers") as messages:
            read = messages.get("60s")
            assert read is not None
            read.ack()
        mq.send("idle", "nobody reads this")
    given = [("a", "card 1 declined"), ("b", "on fire"), ("c", "card 2 declined")]
    for group in ("failing", "failed"):
        dead_letter(service, group, given)
    return message_id


class Used(NamedTuple):
    """What a task took."""

    keys: int
    pages: int


def used_of(page: Page, message_id: str, *, has_palette: bool) -> dict[str, Used]:
    """By the names of tasks."""
    used = {}
    for task in TASKS:
        page.goto("/console/demo/")
        keys = Keyboard(page, has_palette=has_palette)
        task.do(keys, message_id)
        used[task.name] = Used(keys.count, keys.page_count)
    return used


def test_twelve_tasks_take_few_keys_and_fewer_with_the_palette(
    page: Page, service: Service
) -> None:
    """Prints both counts, for the notes on the console."""
    message_id = prepared(service)

    with_palette = used_of(page, message_id, has_palette=True)
    by_links = used_of(page, message_id, has_palette=False)

    for task in TASKS:
        long, short = by_links[task.name], with_palette[task.name]
        print(
            f"{task.name}: {long.keys} keys and {long.pages} pages by links, "
            f"{short.keys} and {short.pages} with the palette"
        )
    most = {task.name: task.keys_max for task in TASKS}
    counts = {name: used.keys for name, used in with_palette.items()}
    assert {name: count for name, count in counts.items() if count > most[name]} == {}, counts
    assert sum(counts.values()) < sum(used.keys for used in by_links.values())
