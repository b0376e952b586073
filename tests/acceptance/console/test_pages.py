"""Every page of the console in a real browser: whoever looks, in each theme and width.

MQ_TEST_SCREENSHOTS=1 keeps a picture of each page, theme and width in screenshots/.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Final

import pytest
from playwright.sync_api import Page, expect

from tests.acceptance.console.accessibility import serious_faults
from tests.acceptance.console.messages import give_up, produce, schedule
from tests.services import Service
from tests.sizes import sized

# All of them take minutes, so they begin before the others of the service.
pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(700)]
SCREENSHOTS: Final = Path(__file__).resolve().parents[3] / "screenshots"
WIDTHS: Final = (1440, 390)
PAGES: Final = {
    "home": "",
    "quick-start": "quick-start",
    "search": "search?q=or",
    "topics": "topics",
    "topic": "topics/orders",
    "edit": "topics/orders/edit",
    "delete": "topics/orders/delete",
    "purge": "topics/orders/purge",
    "topic-schema": "topics/orders/schema",
    "schema-edit": "topics/orders/schema/edit",
    "publish": "topics/orders/publish",
    "messages": "messages?q=topic:orders",
    "messages-start": "messages",
    "messages-copy": "messages/copy?q=topic:orders",
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
    "definitions": "definitions",
    "usage": "usage",
    "masking": "masking",
    "new-mask": "new-mask",
    "read-only": "read-only",
    "operator": "../-/operator",
    "workers": "../-/operator?tab=workers",
    "dead-letters": "dead-letters",
    "group-dead-letters": "messages?q=group:given-up",
    "issues": "issues?state=all",
    "redrive": "dead-letters/given-up/redrive?all=1",
    "scheduled": "scheduled",
    "topic-scheduled": "scheduled/orders",
    "scheduled-by-time": "scheduled-by-time",
    "schedules": "schedules",
    "schedule": "schedules/nightly",
    "new-schedule": "new-schedule",
    "missing": "no/such/page",
    "guide": "../../guide",
    "guide-tabs": "../../guide/guide",
    "guide-tables": "../../guide/rest",
    "guide-drawings": "../../guide/concepts",
    "guide-search": "../../guide/search?q=alerts",
    "guide-missing": "../../guide/no-such-guide",
}
# Seen by who is not signed in.
ENTRANCES: Final = {
    "sign-in": "login/",
    "sign-up": "signup/",
    "sign-on-failed": "single-sign-on/failed/?reason=other_identity",
}
New = Callable[..., Page]


@pytest.mark.torture
def test_pages_are_of_use_without_javascript(new_page: New, service: Service) -> None:
    produce(service, "orders", "so that home is not the quick start")
    page = new_page(java_script_enabled=False)
    page.goto("/console/demo/")
    expect(page.get_by_role("heading", name="Needs attention")).to_be_visible()
    page.get_by_text("Settings", exact=True).first.click()
    expect(page.get_by_role("link", name="API keys").first).to_be_visible()
    assert page.locator('[data-live="lag"]').inner_text()
    page.goto("/console/demo/topics/orders")
    expect(page.locator("time").first).to_contain_text("UTC")
    page.get_by_role("link", name="Delete").click()
    page.get_by_label("Type orders to confirm").fill("other")
    page.get_by_role("button", name="Delete topic").click()
    expect(page.get_by_role("alert")).to_have_text("This does not match the name of the topic.")
    page.locator("details.menu-end > summary").click()
    page.get_by_role("button", name="Dark").click()
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.locator("details.menu-end > summary").click()
    page.get_by_role("button", name="简体中文").click()
    assert page.locator("html").get_attribute("lang") == "zh-hans"


def test_tabs_of_a_guide_work_without_scripts(new_page: New) -> None:
    page = new_page(java_script_enabled=False)
    page.goto("/guide/quickstart")
    send = page.locator(".snippets").nth(1)
    expect(send.locator('[data-language="curl"]')).to_be_visible()
    send.get_by_text("Python", exact=True).click()
    expect(send.locator('[data-language="Python"]')).to_be_visible()
    expect(send.locator('[data-language="curl"]')).to_be_hidden()


def test_times_are_in_the_readers_zone(new_page: New, service: Service) -> None:
    produce(service, "orders", "when")
    page = new_page(timezone_id="Asia/Shanghai")
    page.goto("/console/demo/topics/orders/messages?key=from-rest")
    expect(page.locator("html")).to_have_attribute("data-zone", "Asia/Shanghai")
    shown = page.locator("tbody time").first
    expect(shown).to_have_attribute("data-shown", "")
    utc, local = shown.get_attribute("datetime"), shown.inner_text()
    assert utc is not None
    hour = (int(utc[11:13]) + 8) % 24
    assert local[11:13] == f"{hour:02}"
    assert local[14:] == utc[14:23]
    assert shown.get_attribute("title") == utc


@pytest.mark.parametrize("scripts", [True, False])
def test_chosen_zone_holds_on_pages_and_in_forms(
    new_page: New, service: Service, scripts: bool
) -> None:
    produce(service, "orders", "when")
    page = new_page(java_script_enabled=scripts, timezone_id="Asia/Shanghai")
    page.goto("/console/demo/topics/orders/messages?key=from-rest")
    page.locator("details.menu-end > summary").click()
    page.get_by_role("link", name="Choose another time zone").click()
    page.get_by_label("Time zone").select_option("Asia/Kolkata")
    page.get_by_role("button", name="Save").click()
    page.wait_for_url("**/messages?q=topic*")
    shown = page.locator("tbody time").first
    if scripts:
        expect(shown).to_have_attribute("data-shown", "")
    utc, local = shown.get_attribute("datetime"), shown.inner_text()
    assert utc is not None
    minutes = int(utc[11:13]) * 60 + int(utc[14:16]) + 5 * 60 + 30
    assert local[11:16] == f"{minutes // 60 % 24:02}:{minutes % 60:02}"
    assert scripts or local.endswith("+05:30")
    page.goto("/console/demo/audit")
    page.get_by_label("From, Asia/Kolkata").fill("2020-01-01T00:00:00")
    page.get_by_role("button", name="Search").click()
    expect(page.get_by_label("From, Asia/Kolkata")).to_have_value("2020-01-01T00:00")
    assert page.locator('input[name="zone"]').first.input_value() == "Asia/Kolkata"


def test_page_falls_back_to_polling_when_no_socket_can_be_had(new_page: New) -> None:
    page = new_page()
    page.route_web_socket(re.compile("/console/live"), lambda socket: socket.close(code=4401))
    page.goto("/console/demo/topics")
    expect(page.locator(".live-dot")).to_have_text("every 10 s")


@pytest.mark.sized
@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.torture)])
def test_no_page_has_a_serious_fault_for_those_who_see_or_hear_it(
    new_page: New, service: Service, theme: str
) -> None:
    message_id = produce(service, "orders", '{"a": [1, {"b": null}]}')
    schedule(service, "nightly", message={"body_json": {"n": 1}, "properties": {"a": "b"}})
    schedule(service, "paused", enabled=False, description="a longer text " * 14)
    dead_id, *_ = give_up(service, "given-up", f"for {theme}", "and another")
    found: list[str] = []
    page = new_page(color_scheme=theme)
    more = {
        "message": f"topics/orders/messages/{message_id}",
        "dead-letter": f"dead-letters/given-up/messages/{dead_id}",
        "trace": f"traces/{dead_id}",
    }
    # In `make test` every eighth page.
    for name, path in list({**PAGES, **more}.items())[:: sized(8, torture=1)]:
        found += faults_of_page(page, name, f"/console/demo/{path}", theme)
    assert found == []


@pytest.mark.parametrize("theme", ["light", pytest.param("dark", marks=pytest.mark.torture)])
def test_no_page_before_signing_in_has_a_serious_fault_either(
    new_page: New, faults: list[str], theme: str
) -> None:
    page = new_page(color_scheme=theme, storage_state=None)
    found: list[str] = []
    for name, path in ENTRANCES.items():
        found += faults_of_page(page, name, f"/account/{path}", theme)
    assert found == []
    assert [each for each in faults if "status of 403" not in each] == []  # of sign-on-failed
    faults.clear()


def faults_of_page(page: Page, name: str, path: str, theme: str) -> list[str]:
    keeps_pictures = "MQ_TEST_SCREENSHOTS" in os.environ
    page.set_viewport_size({"width": WIDTHS[0], "height": 900})
    page.goto(path)
    found = [f"{name}: {fault}" for fault in serious_faults(page, theme)]
    # Nothing is laid out differently in the dark.
    for width in WIDTHS if theme == "light" or keeps_pictures else ():
        page.set_viewport_size({"width": width, "height": 900})
        beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
        if beyond > 0:
            found.append(f"{name} at {width} px is {beyond} px too wide")
        if keeps_pictures:
            SCREENSHOTS.mkdir(exist_ok=True)
            kept = SCREENSHOTS / f"{name}-{width}-{theme}.png"
            page.screenshot(path=str(kept), full_page=True)
    return found


LONGEST: Final = "NO_PLACE_TO_BREAK_IT_" * 3 + "Z"
LONG_PAGES: Final = (
    "topics", "topics/{name}", "topics/{name}/edit", "topics/{name}/delete", "topics/{name}/purge",
    "topics/{name}/publish", "topics/{name}/messages", "tail?topic={name}", "groups",
    "groups/{name}", "groups/{name}/edit", "groups/{name}/delete",
    "groups/{name}/reset?topic={name}", "dead-letters", "dead-letters/{name}",
    "dead-letters/{name}/redrive?all=1", "scheduled/{name}", "quick-start", "search?q=BREAK", "",
)  # fmt: skip


@pytest.mark.sized
def test_the_longest_names_fit_on_a_phone_too(new_page: New, service: Service) -> None:
    assert len(LONGEST) == 64
    give_up(service, LONGEST, "for the longest name")
    long = "k" * 200
    message_id = produce(
        service, LONGEST, "b" * 500, keys=[long], tag=long, properties={long: long}
    )
    page = new_page()
    found = []
    paths = (*LONG_PAGES, f"topics/{{name}}/messages/{message_id}")
    for path in paths[:: sized(4, torture=1)]:
        page.goto(f"/console/demo/{path.format(name=LONGEST)}")
        for width in WIDTHS:
            page.set_viewport_size({"width": width, "height": 900})
            beyond = page.evaluate("document.documentElement.scrollWidth - innerWidth")
            if beyond > 0:
                found.append(f"{path} at {width} px is {beyond} px too wide")
    assert found == []


def test_on_a_phone_the_bar_leads_back(new_page: New, service: Service) -> None:
    produce(service, "orders", "where to")
    page = new_page(390)
    page.goto("/console/demo/topics/orders")
    steps = page.get_by_role("navigation", name="Breadcrumb").get_by_role("listitem")
    shown = [step for step in steps.all() if step.is_visible()]
    assert [step.inner_text() for step in shown] == ["Topics"]
    shown[0].get_by_role("link").click()
    page.wait_for_url("**/demo/topics")


@pytest.mark.parametrize(("scripts", "width"), [(True, 1440), (False, 390)])
def test_columns_are_chosen_by_keyboard_and_without_scripts(
    new_page: New, service: Service, scripts: bool, width: int
) -> None:
    produce(service, "orders", "columns")
    page = new_page(width, java_script_enabled=scripts)
    path = "/console/demo/messages?q=topic:orders+key:from-rest"
    page.goto(path)
    page.locator(".column-chooser > summary").focus()
    page.keyboard.press("Enter")
    menu = page.locator(".column-chooser form")
    expect(menu).to_be_visible()
    assert page.locator(".column-chooser").get_by_label("Tag").is_checked()
    page.get_by_label("Tag", exact=True).last.focus()
    page.keyboard.press("Space")
    menu.get_by_label("Message ID").check()
    page.keyboard.press("Enter")  # as in every form
    page.wait_for_url("**/messages?q=topic*")
    row = page.locator("tbody tr").first
    expect(row.locator("td[data-label='Message ID']")).to_be_visible()
    expect(row.locator("td[data-label='Tag']")).to_have_count(0)
    page.locator(".column-chooser > summary").click()
    page.get_by_role("button", name="Reset").click()
    expect(page.locator("tbody td[data-label='Tag']").first).to_be_visible()
    expect(page.locator("tbody td[data-label='Message ID']")).to_have_count(0)


NEWEST_MS = 1_768_383_000_000
HOUR_MS = 3_600_000


def show_chart(page: Page, label: str, points: list[list[int | None]], *, unit: str = "") -> None:
    """A page whose charts have one line, of the hour before ``NEWEST_MS``."""
    answer = {
        "unit": unit,
        "series": [{"label": label, "points": points}],
        "bars": None,
        "thresholds": [],
        "from_ms": NEWEST_MS - HOUR_MS,
        "to_ms": NEWEST_MS,
    }
    page.route("**/charts/**", lambda route: route.fulfill(json=answer))
    page.goto("/console/demo/topics/orders")
    expect(page.locator(".chart canvas").first).to_be_visible()


def test_chart_of_one_value_shows_a_dot_and_names_no_minute_twice(page: Page) -> None:
    points = [[at, None] for at in range(NEWEST_MS - HOUR_MS, NEWEST_MS, 10_000)]
    show_chart(page, "in", [*points, [NEWEST_MS, 12]], unit="/s")
    minutes, colour = page.evaluate(
        """() => {
            const plot = document.querySelector(".chart").uplot;
            const at = plot.data[0].length - 1;
            const x = plot.valToPos(plot.data[0][at], "x", true);
            const y = plot.valToPos(plot.data[1][at], "y", true);
            return [plot.axes[0]._values, [...plot.ctx.getImageData(x - 2, y, 1, 1).data]];
        }"""
    )
    assert len(minutes) == len(set(minutes)) > 3
    red, _, blue, alpha = colour
    assert alpha == 255
    assert red < 150 < blue, "an empty ring is white in the middle"


def test_chart_of_counts_has_no_mark_between_two_of_them(page: Page) -> None:
    show_chart(page, "lag", [[NEWEST_MS - 10_000, 0], [NEWEST_MS, 1]])
    marks = page.evaluate("() => document.querySelector('.chart').uplot.axes[1]._values")
    assert marks == ["0", "1"]
