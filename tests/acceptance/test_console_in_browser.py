"""The console in a real browser against the whole service: what one does there, and what one sees.

MQ_TEST_SCREENSHOTS=1 keeps a picture of each page, theme and width in screenshots/.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Final

import httpx
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Browser, BrowserContext, Error, Page, expect, sync_playwright

from tests.services import Service
from tests.storage_engine.faults.machine import need_chromium

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(180)]
SCREENSHOTS: Final = Path(__file__).resolve().parents[2] / "screenshots"
SCRIPT: Final = (
    "<script>document.title='taken'</script><img src=x onerror=\"document.title='taken'\">"
)
WIDTHS: Final = (1440, 390)
# All of them in one theme; in the other only what colours can change.
AXE_RULES: Final = {
    "light": {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "dark": {"runOnly": ["color-contrast"]},
}
PAGES: Final = {
    "overview": "",
    "quick-start": "quick-start",
    "search": "search?q=or",
    "topics": "topics",
    "topic": "topics/orders",
    "edit": "topics/orders/edit",
    "delete": "topics/orders/delete",
    "publish": "topics/orders/publish",
    "messages": "topics/orders/messages",
    "new-topic": "new-topic",
    "tail": "tail",
    "tail-topic": "tail?topic=orders",
    "reports": "reports",
    "report": "reports/2026-01-14",
    "groups": "groups",
    "group": "groups/billing",
    "group-edit": "groups/billing/edit",
    "group-delete": "groups/billing/delete",
    "group-reset": "groups/billing/reset?topic=orders",
    "new-group": "new-group",
    "clients": "clients",
    "keys": "keys",
    "new-key": "new-key",
    "members": "members",
    "invite": "invite",
    "audit": "audit",
    "alerts": "alerts",
    "new-alert": "new-alert",
    "usage": "usage",
    "operator": "../-/operator",
    "workers": "../-/operator?tab=workers",
    "dead-letters": "dead-letters",
    "group-dead-letters": "dead-letters/given-up",
    "redrive": "dead-letters/given-up/redrive?all=1",
    "scheduled": "scheduled",
    "topic-scheduled": "scheduled/orders",
    "missing": "no/such/page",
}
REFUSALS: Final = re.compile("status of (404|409|422)")  # which browsers tell as faults
New = Callable[..., Page]


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One for the module: as long as it runs, so does a loop on this thread."""
    path = need_chromium()
    with sync_playwright() as playwright:
        yield playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])


@pytest.fixture(scope="module")
def session(browser: Browser, service: Service) -> dict[str, object]:
    """Cookies of somebody who has signed in."""
    context = browser.new_context(base_url=service.facts.base_url)
    page = context.new_page()
    page.goto("/account/login/")
    page.get_by_label(re.compile("user ?name|login|e-?mail", re.IGNORECASE)).fill(
        service.facts.username
    )
    page.get_by_label("Password", exact=True).fill(service.facts.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url(re.compile(r"/console/demo/"))
    state = context.storage_state()
    context.close()
    return {"storage_state": state, "base_url": service.facts.base_url}


@pytest.fixture
def faults() -> list[str]:
    """What the pages of a test had to complain of; a test takes out what it wanted."""
    return []


@pytest.fixture
def new_page(browser: Browser, session: dict[str, object], faults: list[str]) -> Iterator[New]:
    """Makes a page that is signed in; each has to end without a fault in its console."""
    contexts: list[BrowserContext] = []

    def make(width: int = 1440, **options: object) -> Page:
        given = {**session, "viewport": {"width": width, "height": 900}, **options}
        context = browser.new_context(**given)  # type: ignore[arg-type]  # as Playwright names them
        context.set_default_timeout(10_000)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on(
            "console",
            lambda said: (
                faults.append(said.text)
                if said.type == "error" and not REFUSALS.search(said.text)
                else None
            ),
        )
        return page

    yield make
    for context in contexts:
        context.close()
    assert faults == []


@pytest.fixture
def page(new_page: New) -> Page:
    return new_page()


def produce(service: Service, topic: str, body: str) -> str:
    """Id of a message that was stored over REST."""
    facts = service.facts
    answer = httpx.post(
        f"{facts.base_url}/v1/ns/{facts.namespace}/topics/{topic}/messages",
        headers={"authorization": f"Bearer {facts.api_key}"},
        json={"body": body, "keys": ["from-rest"]},
    )
    answer.raise_for_status()
    return str(answer.json()["id"])


def test_first_message_is_published_seen_arriving_and_read(page: Page, new_page: New) -> None:
    watching = new_page()
    watching.goto("/console/demo/topics/orders")
    expect(watching.locator(".live-dot")).to_have_text("live")
    kept = watching.locator('[data-live="t:orders:messages"]')
    before = int(kept.inner_text().replace(",", ""))

    page.goto("/console/demo/quick-start")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    page.locator("#found").get_by_role("link", name="orders").click()
    page.get_by_role("link", name="Publish").first.click()
    page.get_by_label("Body", exact=False).first.fill('{"greeting": "hello", "parts": [1, 2]}')
    page.get_by_label("Keys").fill("story-1")
    page.get_by_role("button", name="Publish", exact=True).click()

    expect(page.locator(".toasts")).to_contain_text("Stored in queue")
    expect(kept).to_have_text(f"{before + 1:,}")  # without loading the page again
    page.goto("/console/demo/topics/orders/messages?key=story-1")
    page.locator("tbody a").first.click()
    expect(page.get_by_role("group", name="Body as a tree")).to_contain_text('greeting: "hello"')
    with page.expect_download() as download:
        page.get_by_role("link", name="Download the body").click()
    assert download.value.path().read_text() == '{"greeting": "hello", "parts": [1, 2]}'


def test_from_login_to_the_first_message_takes_less_than_a_minute_on_one_page(
    browser: Browser, service: Service
) -> None:
    context = browser.new_context(base_url=service.facts.base_url)
    context.set_default_timeout(20_000)
    page = context.new_page()
    began = time.monotonic()
    page.goto("/account/login/?next=/console/demo/quick-start")
    page.get_by_label("User name or email").fill(service.facts.username)
    page.get_by_label("Password", exact=True).fill(service.facts.password)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Make a key").click()
    expect(page.locator("#key")).to_contain_text("mqk_")
    expect(page.locator("#arrived")).to_contain_text("Waiting for a message")
    address = page.url

    command = page.locator("#send-curl").inner_text()
    sent = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    expect(page.locator("#arrived")).to_contain_text("Your first message has arrived.")
    expect(page.locator("#arrived pre")).to_contain_text('{"order": 42}')
    assert json.loads(sent.stdout)["id"] in str(
        page.get_by_role("link", name="Look at it").get_attribute("href")
    )
    assert time.monotonic() - began < 60
    assert page.url == address
    context.close()


def test_key_is_shown_once_works_and_is_revoked(page: Page, service: Service) -> None:
    page.goto("/console/demo/keys")
    page.get_by_role("link", name="New key").click()
    page.get_by_label("Name", exact=True).fill("browser story")
    page.get_by_label("Only for these topics and groups").fill("topic/orders")
    page.get_by_role("button", name="Make the key").click()
    text = page.locator("#key").inner_text()
    path = f"{service.facts.base_url}/v1/ns/demo/topics/orders/messages"

    def status() -> int:
        headers = {"authorization": f"Bearer {text}"}
        return httpx.post(path, headers=headers, json={"body": "x"}).status_code

    assert status() == 201
    page.get_by_role("link", name="I have copied it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("browser story")
    assert text not in page.content()
    button = page.get_by_role("button", name="Revoke the key")
    expect(button).to_be_disabled()
    page.get_by_label("Type browser story to confirm").fill("browser story")
    button.click()
    expect(page.locator(".toasts")).to_contain_text("The key browser story was revoked.")
    assert status() == 401


def test_topic_is_made_changed_and_deleted(page: Page) -> None:
    page.goto("/console/demo/topics")
    page.get_by_role("link", name="New topic").click()
    page.get_by_label("Name", exact=True).fill("life cycle")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("alert")).to_contain_text("a name consists of")
    page.get_by_label("Name", exact=True).fill("life-cycle")
    page.get_by_label("Queues").fill("3")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("life-cycle")
    expect(page.get_by_text("3 queues, kept 3d, sync")).to_be_visible()

    page.get_by_role("link", name="Settings").click()
    page.get_by_label("Retention").fill("12h")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("3 queues, kept 12h, sync")).to_be_visible()

    page.get_by_role("link", name="Delete").click()
    dialog = page.get_by_role("dialog")
    button = dialog.get_by_role("button", name="Delete the topic")
    dialog.get_by_role("textbox").fill("life")
    expect(button).to_be_disabled()
    dialog.get_by_role("textbox").fill("life-cycle")
    button.click()
    expect(page.locator(".toasts")).to_contain_text("The topic life-cycle was deleted.")
    expect(page.get_by_role("link", name="life-cycle")).to_have_count(0)


def receive(service: Service, count: int) -> list[str]:
    """Receipts of messages that the demo's group gets."""
    facts = service.facts
    root = f"{facts.base_url}/v1/ns/{facts.namespace}"
    headers = {"authorization": f"Bearer {facts.api_key}"}
    got = httpx.post(
        f"{root}/topics/orders/groups/billing:receive",
        headers=headers,
        json={"max": count, "wait": "2s", "consumer_id": "browser-test"},
    )
    got.raise_for_status()
    receipts = [str(each["receipt"]) for each in got.json()["messages"]]
    settled = httpx.post(f"{root}/groups/billing:settle", headers=headers, json={"ack": receipts})
    settled.raise_for_status()
    return receipts


def test_offsets_are_reset_from_a_preview_and_only_from_one(page: Page, service: Service) -> None:
    for index in range(3):
        produce(service, "orders", f"again {index}")
    assert receive(service, 3)
    page.goto("/console/demo/groups")
    page.get_by_role("link", name="billing").click()
    page.get_by_role("link", name="Reset offsets").click()
    expect(page.get_by_role("button", name="Apply")).to_have_count(0)
    page.get_by_label("Go on at").select_option("earliest")
    page.get_by_role("button", name="Preview").click()
    preview = page.get_by_role("region", name="Preview")
    expect(preview).to_contain_text("nothing has changed yet")
    assert int(preview.locator(".stat-number").first.inner_text().replace(",", "")) >= 3

    # Somebody settles meanwhile: what was previewed is no longer so.
    produce(service, "orders", "one more")
    receive(service, 100)
    preview.get_by_role("button", name="Apply").click()
    expect(page.get_by_role("alert")).to_contain_text("Offsets have moved")
    preview.get_by_role("button", name="Apply", exact=True).click()

    expect(page.locator(".toasts")).to_contain_text("The group goes on from there")
    expect(page.get_by_role("region", name="orders")).to_be_visible()
    assert receive(service, 3), "what was settled comes again"


def test_script_in_a_body_is_text_wherever_it_is_shown(
    page: Page, service: Service, faults: list[str]
) -> None:
    message_id = produce(service, "orders", SCRIPT)
    for path in ("messages?key=from-rest", f"messages/{message_id}"):
        page.goto(f"/console/demo/topics/orders/{path}")
        expect(page.locator("main")).to_contain_text("<script>document.title='taken'")
        assert "taken" not in page.title()
    assert page.locator("main script, main img").count() == 0
    # What somebody gets into a page all the same does not run.
    with page.expect_console_message(lambda said: "Content Security Policy" in said.text):
        page.evaluate(
            """document.body.insertAdjacentHTML(
                "beforeend", "<img src='data:,' onerror=document.title='taken'>")"""
        )
    with pytest.raises(Error, match="TrustedScript"):
        page.evaluate("document.createElement('script').text = '1'")
    assert "taken" not in page.title()
    assert all("Content Security Policy" in fault or "Trusted" in fault for fault in faults)
    faults.clear()


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
        facts = service.facts
        with httpx.Client(headers={"authorization": f"Bearer {facts.api_key}"}) as client:
            while not is_over.wait(0.5):
                client.post(
                    f"{facts.base_url}/v1/ns/{facts.namespace}/topics/orders/messages:batch",
                    json=[{"body": SCRIPT, "tag": ("odd", "even")[n % 2]} for n in range(500)],
                ).raise_for_status()

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
        page.get_by_label("Tag has").fill("EVEN")
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
    expect(state).to_have_text("stopped; the rows stay")
    assert rows.count()


def give_up(service: Service, group: str, *bodies: str) -> list[str]:
    """Ids of messages that the group has given up, for ``SCRIPT``, of a topic of its name."""
    facts = service.facts
    headers = {"authorization": f"Bearer {facts.api_key}"}
    with httpx.Client(base_url=f"{facts.base_url}/v1/ns/demo", headers=headers) as client:

        def ask(method: str, path: str, body: object) -> httpx.Response:
            return client.request(method, path, json=body).raise_for_status()

        ask("PUT", f"/topics/{group}", {"queues": 1})
        ask("PUT", f"/groups/{group}", {})
        for body in bodies:
            ask("POST", f"/topics/{group}/messages", {"body": body})
        ids: list[str] = []
        while len(ids) < len(bodies):
            wanted = {"wait": "5s", "max": 10}
            path = f"/topics/{group}/groups/{group}:receive"
            received = ask("POST", path, wanted).json()["messages"]
            assert received
            ids += [message["id"] for message in received]
            letters = [{"receipt": each["receipt"], "reason": SCRIPT} for each in received]
            settled = ask("POST", f"/groups/{group}:settle", {"dead_letter": letters})
            assert not settled.json().get("failed"), settled.text
    return ids


def test_marked_dead_letters_are_redriven_while_one_looks_on_and_the_rest_deleted(
    page: Page, service: Service
) -> None:
    ids = give_up(service, "marked", "1", SCRIPT, *"3456")
    page.goto("/console/demo/dead-letters")
    page.get_by_role("link", name="marked", exact=True).click()
    main = page.locator("main")
    expect(main).to_contain_text("6 messages that were given up")
    assert main.locator("script, img").count() == 0  # the reason and a body are a script's text
    chosen = page.get_by_role("button", name="Redrive selected")
    expect(chosen).to_be_disabled()
    for message_id in ids[:5]:
        page.get_by_label(f"Mark {message_id}").check()
    chosen.click()
    expect(main).to_contain_text("5 messages. Nothing was changed yet.")
    page.get_by_label("Messages a second").fill("1")  # so that there is something to look on at
    page.get_by_role("button", name="Redrive 5 messages").click()
    part = page.locator("#task")
    expect(part).to_contain_text(re.compile("Looked at [1-4] of 5"), timeout=30_000)
    page.evaluate("document.body.dataset.kept = 'yes'")
    expect(part.locator(".badge").first).to_have_text("done", timeout=30_000)
    assert page.evaluate("document.body.dataset.kept") == "yes"  # without loading the page again
    expect(part.get_by_role("cell", name="moved")).to_have_count(5)

    page.get_by_role("link", name="To the dead letters").click()
    expect(main).to_contain_text("1 message that was given up")
    with page.expect_download() as download:
        page.get_by_role("link", name="Export CSV").click()
    assert ids[5] in download.value.path().read_text()
    page.locator("tbody a").last.click()
    page.get_by_role("link", name="Trace", exact=True).click()
    expect(page.locator(".timeline")).to_contain_text("Given up")
    page.goto(f"/console/demo/dead-letters/marked/purge?id={ids[5]}")
    page.get_by_label("Type marked to confirm").fill("marked")
    page.get_by_role("button", name="Delete the dead letters").click()
    expect(part.locator(".badge").first).to_have_text("done", timeout=30_000)
    page.goto("/console/demo/dead-letters/marked")
    expect(main).to_contain_text("No dead letters")
    for name in ("Redrive all", "Delete all", "Redrive selected", "Export CSV"):
        expect(page.get_by_role("button", name=name)).to_be_disabled()


def test_message_is_found_by_its_properties_edited_scheduled_and_cancelled(page: Page) -> None:
    page.goto("/console/demo/topics/orders/publish")
    page.get_by_label("Body", exact=False).first.fill('{"n": 1}')
    page.get_by_label("Properties").fill("color=teal\nsize=42")
    page.get_by_role("button", name="Publish", exact=True).click()
    page.get_by_label("Properties fit").fill("color = 'teal' AND size > 40")
    page.get_by_label("Body has").fill('"n": 1')
    page.get_by_role("button", name="Search").click()
    expect(page.locator("main")).to_contain_text("to the end, 1 fit")
    page.locator("tbody a").first.click()
    page.get_by_role("link", name="Edit and resend").click()
    expect(page.get_by_label("Properties")).to_have_value("color=teal\nsize=42")
    page.get_by_label("Body", exact=False).first.fill('{"n": 2}')
    page.get_by_label("Delay").fill("2h")
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.locator(".toasts")).to_contain_text("Stored in queue")
    page.goto("/console/demo/scheduled/orders")
    row = page.get_by_role("row").filter(has_text='"n": 2')
    row.get_by_role("checkbox").check()
    page.get_by_role("button", name="Cancel selected").click()
    expect(page.locator(".toasts")).to_contain_text("1 message was cancelled")
    expect(row).to_have_count(0)


def test_pages_are_of_use_without_javascript(new_page: New) -> None:
    page = new_page(java_script_enabled=False)
    page.goto("/console/demo/")
    expect(page.get_by_text("Busiest topics")).to_be_visible()
    assert page.locator('[data-live="lag"]').inner_text()
    page.goto("/console/demo/topics/orders")
    expect(page.locator("time").first).to_contain_text("UTC")
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("Type orders to confirm").fill("other")
    page.get_by_role("button", name="Delete the topic").click()
    expect(page.get_by_role("alert")).to_have_text("This is not the name of the topic.")
    page.locator("details.menu-end > summary").click()
    page.get_by_role("button", name="Dark").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.locator("details.menu-end > summary").click()
    page.get_by_role("button", name="简体中文").click()
    assert page.locator("html").get_attribute("lang") == "zh-hans"


def test_times_are_in_the_readers_zone(new_page: New, service: Service) -> None:
    produce(service, "orders", "when")
    page = new_page(timezone_id="Asia/Shanghai")
    page.goto("/console/demo/topics/orders/messages?key=from-rest")
    shown = page.locator("tbody time").first
    expect(shown).to_have_attribute("data-shown", "")
    utc, local = shown.get_attribute("datetime"), shown.inner_text()
    assert utc is not None
    hour = (int(utc[11:13]) + 8) % 24
    assert local[11:13] == f"{hour:02}"
    assert local[14:] == utc[14:23]
    assert shown.get_attribute("title") == utc


def test_page_goes_on_by_polling_when_no_socket_can_be_had(new_page: New) -> None:
    page = new_page()
    page.route_web_socket(re.compile("/console/live"), lambda socket: socket.close(code=4401))
    page.goto("/console/demo/topics")
    expect(page.locator(".live-dot")).to_have_text("every 10 s")


@pytest.mark.parametrize("theme", ["light", "dark"])
def test_no_page_has_a_serious_fault_for_those_who_see_or_hear_it(
    new_page: New, service: Service, theme: str
) -> None:
    message_id = produce(service, "orders", '{"a": [1, {"b": null}]}')
    dead_id, *_ = give_up(service, "given-up", f"for {theme}", "and another")
    found: list[str] = []
    page = new_page(color_scheme=theme)
    more = {
        "message": f"topics/orders/messages/{message_id}",
        "dead-letter": f"dead-letters/given-up/messages/{dead_id}",
        "trace": f"traces/{dead_id}",
    }
    for name, path in {**PAGES, **more}.items():
        page.set_viewport_size({"width": WIDTHS[0], "height": 900})
        page.goto(f"/console/demo/{path}")
        found += [f"{name}: {fault}" for fault in _serious(page, theme)]
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if beyond > 0:
                found.append(f"{name} at {width} px is {beyond} px too wide")
            if os.environ.get("MQ_TEST_SCREENSHOTS"):
                SCREENSHOTS.mkdir(exist_ok=True)
                kept = SCREENSHOTS / f"{name}-{width}-{theme}.png"
                page.screenshot(path=str(kept), full_page=True)
    assert found == []


def _serious(page: Page, theme: str) -> list[str]:
    results = Axe().run(page, options=AXE_RULES[theme])
    return [
        f"{each['id']}: {node['target']} {node.get('failureSummary', '')[:200]}"
        for each in results.response["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]
