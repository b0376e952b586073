"""First steps in the console: messages, keys and topics, in a real browser, the whole service."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Final

import httpx
import pytest
from playwright.sync_api import Browser, Error, Page, Route, expect

from tests.acceptance.console.accessibility import serious_faults
from tests.acceptance.console.messages import SCRIPT, produce
from tests.clients.typescript.package import WORK, dist
from tests.docs.markdown import ROOT
from tests.services import Service
from tests.sizes import in_torture
from tests.storage_engine.faults.machine import need_node

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
New = Callable[..., Page]
ORDER: Final = re.compile('"order": ?42')


def test_first_message_is_published_seen_arriving_and_read(page: Page, new_page: New) -> None:
    watching = new_page()
    watching.goto("/console/demo/topics/orders")
    expect(watching.locator(".live-dot")).to_have_text("live")
    kept = watching.locator('[data-live="t:orders:messages"]')
    before = int(kept.inner_text().replace(",", ""))

    page.goto("/console/demo/quick-start")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    expect(page.get_by_role("option", name="orders", exact=True)).to_be_visible()
    page.keyboard.press("Enter")
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
        page.get_by_role("link", name="Download body").click()
    assert download.value.path().read_text() == '{"greeting": "hello", "parts": [1, 2]}'


def test_from_login_to_the_first_message_without_leaving_the_page(
    browser: Browser, service: Service
) -> None:
    context = browser.new_context(base_url=service.facts.base_url)
    context.set_default_timeout(60_000)
    page = context.new_page()
    page.goto("/account/login/?next=/console/demo/quick-start")
    page.get_by_label("Username or email").fill(service.facts.username)
    page.get_by_label("Password", exact=True).fill(service.facts.password)
    page.get_by_role("button", name="Sign in").click()
    page.get_by_role("button", name="Create key").click()
    expect(page.locator("#key")).to_contain_text("mqk_")
    expect(page.locator("#arrived")).to_contain_text("Waiting for a message")
    address = page.url

    command = page.locator("#send-curl").inner_text()
    sent = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)

    expect(page.locator("#arrived")).to_contain_text("Your first message has arrived.")
    expect(page.locator("#arrived pre")).to_contain_text('{"order": 42}')
    assert json.loads(sent.stdout)["id"] in str(
        page.get_by_role("link", name="View message").get_attribute("href")
    )
    assert page.url == address
    context.close()


@pytest.mark.parametrize("language", ["Python", *in_torture("curl", "TypeScript", "CLI")])
def test_commands_of_each_tab_send_and_receive(page: Page, tmp_path: Path, language: str) -> None:
    """As somebody pastes them who chose the tab by the keyboard."""
    if language == "TypeScript":
        need_node()
    page.goto("/console/demo/quick-start")
    page.get_by_role("button", name="Create key").click()
    exports = page.locator("pre", has_text="export MQ_BASE_URL").inner_text()
    chosen = page.get_by_role("radio", name=language, exact=True)
    page.get_by_role("radio").first.focus()
    for _ in range(4):
        if not chosen.first.is_checked():
            page.keyboard.press("ArrowRight")
    expect(chosen.last).to_be_checked()  # of the other step
    expect(page.locator(".snippets pre:visible")).to_have_count(2)

    for step in ("send", "receive"):
        command = page.locator(f"#{step}-{language.lower()}").inner_text()
        output = _pasted(tmp_path, language, exports, command)

        assert step == "send" or "acked" in output or ORDER.search(output), output
    expect(page.locator("#arrived pre")).to_contain_text(ORDER)


def _pasted(folder: Path, language: str, exports: str, command: str) -> str:
    """What a command prints; a loop without an end is stopped at the message."""
    program = [sys.executable, "-c", command]
    if language in ("curl", "CLI"):
        run = f"{sys.executable} -m mqservice.cli.main"
        lines = exports if language == "CLI" else ""
        program = ["bash", "-ec", f"{lines}\n{re.sub('^mqservice', run, command)}"]
    elif language == "TypeScript":
        dist()
        scope = folder / "node_modules" / "@mqservice"
        scope.mkdir(parents=True, exist_ok=True)
        if not (scope / "client").exists():
            (scope / "client").symlink_to(WORK)
        (folder / "pasted.mjs").write_text(command)
        program = ["node", "pasted.mjs"]
    env = {name: text for name, text in os.environ.items() if not name.startswith("MQ_")}
    env["PYTHONPATH"] = str(ROOT)
    with subprocess.Popen(program, cwd=folder, env=env, stdout=subprocess.PIPE, text=True) as done:
        assert done.stdout is not None
        seen = []
        try:
            for line in done.stdout:
                seen.append(line)
                if "for await" in command and ORDER.search(line):
                    done.terminate()
        except BaseException:
            done.kill()
            raise
    output = "".join(seen)
    assert done.returncode in (0, -signal.SIGTERM), output
    return output


def test_key_is_shown_once_works_and_is_revoked(page: Page, service: Service) -> None:
    page.goto("/console/demo/keys")
    page.get_by_role("link", name="New key").click()
    page.get_by_label("Name", exact=True).fill("browser story")
    page.get_by_label("Limit to topics and groups").fill("topic/orders")
    page.get_by_role("button", name="Create key").click()
    text = page.locator("#key").inner_text()
    path = f"{service.facts.base_url}/v1/ns/demo/topics/orders/messages"

    def status() -> int:
        headers = {"authorization": f"Bearer {text}"}
        return httpx.post(path, headers=headers, json={"body": "x"}, timeout=60).status_code

    assert status() == 201
    page.get_by_role("link", name="I have copied it").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("browser story")
    assert text not in page.content()
    button = page.get_by_role("button", name="Revoke key")
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
    expect(page.get_by_role("alert")).to_contain_text("a name may contain only")
    page.get_by_label("Name", exact=True).fill("life-cycle")
    page.get_by_label("Queues").fill("3")
    page.get_by_role("button", name="Create topic").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("life-cycle")
    expect(page.get_by_text("3 queues, retention 3d, sync")).to_be_visible()

    page.get_by_role("link", name="Edit").click()
    page.get_by_label("Retention").fill("12h")
    page.get_by_role("button", name="Save").click()
    expect(page.get_by_text("3 queues, retention 12h, sync")).to_be_visible()

    page.get_by_role("link", name="Delete").click()
    dialog = page.get_by_role("dialog")
    button = dialog.get_by_role("button", name="Delete topic")
    dialog.get_by_role("textbox").fill("life")
    expect(button).to_be_disabled()
    dialog.get_by_role("textbox").fill("life-cycle")
    button.click()
    expect(page.locator(".toasts")).to_contain_text("The topic life-cycle was deleted.")
    expect(page.get_by_role("link", name="life-cycle")).to_have_count(0)


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


def test_palette_shows_what_was_typed_last_however_late_the_answers_come(page: Page) -> None:
    page.goto("/console/demo/")
    held: list[Route] = []
    page.route("**/search.json?q=o", lambda route: held.append(route))
    page.keyboard.press("Control+k")
    with page.expect_request("**/search.json?q=o"):
        page.keyboard.type("o")
    with page.expect_response("**/search.json?q=orders"):
        page.keyboard.type("rders")
    option = page.get_by_role("option", name="orders", exact=True)
    expect(option).to_be_visible()
    with contextlib.suppress(Error):  # the page has given it up
        held[0].fulfill(json={"groups": []})
    expect(option).to_have_attribute("aria-selected", "true")


def test_palette_is_used_by_keyboard_alone_and_is_read_aloud(page: Page) -> None:
    page.goto("/console/demo/topics")
    page.keyboard.press("Control+k")
    field = page.get_by_role("combobox", name="Search topics, groups, messages, pages and actions")
    expect(field).to_be_focused()
    expect(page.get_by_role("option", name="New topic")).to_have_attribute("aria-selected", "true")
    page.keyboard.type("publish ord")
    wanted = page.get_by_role("option", name="Publish to orders", exact=True)
    expect(wanted).to_have_attribute("aria-selected", "true")
    active = page.evaluate("document.activeElement.getAttribute('aria-activedescendant')")
    assert wanted.get_attribute("id") == active
    assert serious_faults(page, "light") == []
    page.keyboard.press("Escape")
    expect(field).to_be_hidden()
    expect(page.get_by_role("link", name="Search or jump to")).to_be_visible()
    page.keyboard.press("Control+k")
    page.keyboard.type("dead letters")
    expect(page.get_by_role("dialog").get_by_role("option").first).to_have_text("Dead letters")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowUp")
    page.keyboard.press("Enter")
    page.wait_for_url("**/demo/dead-letters#main")


def test_palette_opens_on_a_guide_and_leads_to_a_section_of_it(page: Page) -> None:
    page.goto("/guide/guide")
    page.keyboard.press("Control+k")
    expect(page.get_by_role("combobox", name="Search the guides")).to_be_focused()
    page.keyboard.type("dead letters back")
    option = page.get_by_role("option", name="Send and consume: Send dead letters back")
    expect(option).to_have_attribute("aria-selected", "true")
    page.keyboard.press("Enter")
    page.wait_for_url("**/guide/guide#send-dead-letters-back")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(page.locator("#send-dead-letters-back")).to_be_in_viewport()
    page.keyboard.press("Control+k")
    page.keyboard.type("audit")
    page.get_by_role("option", name="Audit log", exact=True).click()
    page.wait_for_url("**/demo/audit#main")


def test_what_was_typed_stays_when_the_session_ends_before_it_is_sent(
    page: Page, service: Service
) -> None:
    body = '{"of":\n "\u05e9\u05dc\u05d5\u05dd"}'
    page.goto("/console/demo/new-schedule")
    page.get_by_label("Name", exact=True).fill("interrupted")
    page.get_by_label("Topic", exact=True).fill("orders")
    page.get_by_label("Cron expression").fill("@yearly")
    page.get_by_label("Body", exact=True).fill(body)
    page.context.clear_cookies(name="mq_session")
    page.get_by_role("button", name="Create schedule").click()
    page.get_by_label("Username or email").fill(service.facts.username)
    page.get_by_label("Password", exact=True).fill(service.facts.password)
    page.get_by_role("button", name="Sign in").click()
    page.wait_for_url("**/demo/new-schedule")
    expect(page.get_by_text("Here is what you typed")).to_be_visible()
    expect(page.get_by_label("Body", exact=True)).to_have_value(body)
    page.get_by_role("button", name="Create schedule").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("interrupted")
    page.goto("/console/demo/new-schedule")
    expect(page.get_by_label("Name", exact=True)).to_have_value("")


def test_form_that_the_service_would_not_take_stays_with_what_was_typed(page: Page) -> None:
    page.goto("/console/demo/topics/orders/publish")
    typed = "y" * 1_100_000
    page.get_by_label("Body", exact=False).first.fill(typed)
    page.get_by_role("button", name="Publish", exact=True).click()
    expect(page.get_by_role("alert")).to_contain_text("This form can send at most 1 MiB.")
    assert page.get_by_label("Body", exact=False).first.input_value() == typed
