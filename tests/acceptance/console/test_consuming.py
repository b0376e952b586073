"""What becomes of messages, in the console in a real browser: groups, live tail, dead letters."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.console.messages import SCRIPT, give_up, produce, receive
from tests.services import Service, client_of

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
New = Callable[..., Page]


def test_offsets_are_reset_from_a_preview_and_only_from_one(page: Page, service: Service) -> None:
    for index in range(3):
        produce(service, "orders", f"again {index}")
    assert receive(service, 3)
    page.goto("/console/demo/groups")
    page.get_by_role("link", name="billing").click()
    page.get_by_role("link", name="Reset offsets").click()
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)
    page.get_by_label("Reset to").select_option("earliest")
    page.get_by_role("button", name="Preview").click()
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("nothing has been changed yet")
    assert int(preview.locator(".stat-number").first.inner_text().replace(",", "")) >= 3

    # Somebody settles meanwhile: what was previewed is no longer so.
    produce(service, "orders", "one more")
    receive(service, 100)
    preview.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("Offsets have moved")
    preview.get_by_role("button", name="Apply", exact=True).click()

    expect(page.locator(".toasts")).to_contain_text("Offsets were reset")
    expect(page.get_by_role("region", name="orders")).to_be_visible()
    assert receive(service, 3), "what was settled comes again"


def test_live_tail_of_a_busy_topic_samples_pauses_and_keeps_its_rows(
    page: Page, service: Service
) -> None:
    """1,000 messages a second, as far as the machine gets; a batch alone is more than is shown."""
    page.goto("/console/demo/topics/orders/messages")
    page.get_by_role("link", name="Live tail").last.click()
    page.get_by_role("button", name="Start").click()
    state, rows = page.locator("[data-state-text]"), page.locator("[data-rows] tr")
    expect(state).to_have_text("live")
    is_over = threading.Event()

    def flood() -> None:
        with client_of(service.facts) as mq:
            while not is_over.wait(0.5):
                with mq.batch("orders") as batch:
                    for number in range(500):
                        batch.send(SCRIPT, tag=("odd", "even")[number % 2])

    producer = threading.Thread(target=flood)
    producer.start()
    try:
        expect(page.locator("[data-sampled]")).to_contain_text("sampled: showing 1 of")
        expect(rows).to_have_count(200)
        expect(rows.first).to_contain_text("<script>document.title='taken'")
        assert "taken" not in page.title()
        page.get_by_role("button", name="Pause").click()
        expect(state).to_have_text("paused")
        first = rows.first.get_attribute("data-id")
        page.get_by_label("Tag contains").fill("EVEN")
        page.get_by_role("button", name="Clear").click()
        page.get_by_role("button", name="Resume").click()
        expect(state).to_have_text("live")
        expect(rows.first).to_contain_text("even")
        assert first not in rows.evaluate_all("rows => rows.map((row) => row.dataset.id)")
        assert rows.filter(has_text="odd").count() == 0
    finally:
        is_over.set()
        producer.join()
    page.get_by_role("button", name="Stop").click()
    expect(state).to_have_text("stopped; rows are kept")
    assert rows.count()


def test_explorer_shows_what_arrives_and_keeps_what_is_selected(
    page: Page, service: Service
) -> None:
    page.clock.install()
    page.goto("/console/demo/messages?q=topic:orders+tag:arrives")
    switch = page.get_by_role("button", name="Live", exact=True)
    switch.click()
    rows = page.locator("#found tbody tr")
    produce(service, "orders", "first", tag="arrives")
    produce(service, "orders", "of no interest", tag="other")
    expect(rows).to_have_count(1)
    expect(switch).to_have_attribute("aria-pressed", "true")  # though the page was loaded anew
    rows.first.get_by_role("checkbox").check()
    produce(service, "orders", "second", tag="arrives")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("second")
    assert rows.last.get_by_role("checkbox").is_checked()
    rows.first.get_by_role("link").click()
    expect(page.get_by_role("dialog", name="Message")).to_contain_text("second")
    page.keyboard.press("Escape")

    asked: list[str] = []
    page.on("request", lambda request: asked.append(request.url))
    page.evaluate(
        """Object.defineProperty(document, "hidden", {value: true, configurable: true});
        document.dispatchEvent(new Event("visibilitychange"))"""
    )
    produce(service, "orders", "third", tag="arrives")
    asked.clear()
    page.clock.fast_forward(60_000)
    assert asked == [], "nothing is asked while the page is hidden"
    with page.expect_request("**/messages?*since=*"):
        page.evaluate(
            """Object.defineProperty(document, "hidden", {value: false});
            document.dispatchEvent(new Event("visibilitychange"))"""
        )
    expect(rows.first).to_contain_text("third")
    switch.click()
    expect(switch).to_have_attribute("aria-pressed", "false")


@pytest.mark.torture
def test_marked_dead_letters_are_redriven_while_one_looks_on_and_the_rest_deleted(
    page: Page, service: Service
) -> None:
    ids = give_up(service, "marked", "1", SCRIPT, *"3456")
    page.goto("/console/demo/dead-letters")
    page.get_by_role("link", name="marked", exact=True).click()
    main = page.locator("main")
    expect(main).to_contain_text("6 dead letters")
    assert main.locator("script, img").count() == 0  # the reason and a body are a script's text
    chosen = page.get_by_role("button", name="Redrive selected")
    expect(chosen).to_be_disabled()
    for message_id in ids[:5]:
        page.get_by_label(f"Select {message_id}").check()
    chosen.click()
    expect(main).to_contain_text("5 messages. Nothing has been changed yet.")
    page.get_by_label("Maximum messages per second").fill(
        "1"
    )  # so that there is something to look on at
    page.get_by_role("button", name="Redrive 5 messages").click()
    part = page.locator("#task")
    expect(part).to_contain_text(re.compile("Processed [1-4] of 5"))
    page.evaluate("document.body.dataset.kept = 'yes'")
    expect(part.locator(".badge").first).to_have_text("done")
    assert page.evaluate("document.body.dataset.kept") == "yes"  # without loading the page again
    expect(part.get_by_role("cell", name="moved")).to_have_count(5)

    page.get_by_role("link", name="View dead letters").click()
    expect(main).to_contain_text("1 dead letter")
    with page.expect_download() as download:
        page.get_by_role("button", name="CSV", exact=True).click()
    assert ids[5] in download.value.path().read_text()
    page.locator("tbody a").last.click()
    expect(page.get_by_role("dialog").locator(".timeline")).to_contain_text("Dead-lettered")
    page.goto(f"/console/demo/dead-letters/marked/purge?id={ids[5]}")
    page.get_by_label("Type marked to confirm").fill("marked")
    page.get_by_role("button", name="Delete dead letters").click()
    expect(part.locator(".badge").first).to_have_text("done")
    page.goto("/console/demo/dead-letters/marked")
    expect(main).to_contain_text("No dead letters")
    for name in ("Redrive all", "Delete all"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()


def test_message_is_found_by_its_properties_edited_scheduled_and_cancelled(
    page: Page, service: Service
) -> None:
    with client_of(service.facts) as mq:  # a search of a busy topic may need several pages
        mq.topics.create("teal", queues=1)
    page.goto("/console/demo/topics/teal/publish")
    page.get_by_label("Body", exact=False).first.fill('{"n": 1}')
    page.get_by_label("Properties").fill("color=teal\nsize=42")
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_label("Search messages").fill('topic:teal color = teal size > 40 body:"\\"n\\": 1"')
    page.get_by_role("button", name="Search").click()
    expect(page.locator("main")).to_contain_text(", 1 matching.")
    page.locator("tbody a").first.click()
    page.get_by_role("link", name="Edit and resend").click()
    expect(page.get_by_label("Properties")).to_have_value("color=teal\nsize=42")
    page.get_by_label("Body", exact=False).first.fill('{"n": 2}')
    page.get_by_label("Delay").fill("2h")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator(".toasts")).to_contain_text("Stored in queue")
    page.goto("/console/demo/scheduled-by-time")
    page.get_by_role("row").filter(has_text='"n": 2').get_by_role("checkbox").check()
    page.get_by_label("New time").fill("5d")
    page.get_by_role("button", name="Reschedule selected").click()
    expect(page.locator(".toasts")).to_contain_text("1 message was rescheduled")
    page.goto("/console/demo/scheduled/teal")
    row = page.get_by_role("row").filter(has_text='"n": 2')
    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Cancel selected").click()
    expect(page.locator(".toasts")).to_contain_text("1 message was cancelled")
    expect(row).to_have_count(0)
