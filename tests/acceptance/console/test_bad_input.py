"""What a page is given that nobody had in mind: texts that run the other way, bodies as large as
may be, clocks that are off, two namespaces at once, and a reader who may not do anything.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from typing import Final
from urllib.parse import quote

import httpx
import pytest
from playwright.sync_api import Browser, Locator, Page, expect

from mqservice.lib.names import NAME_CHARS_MAX
from tests.acceptance.console.accessibility import serious_faults
from tests.acceptance.console.messages import dead_letter, produce, schedule
from tests.services import Service, client_of
from tests.sizes import in_torture, sized

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(600)]
MIB: Final = 1024 * 1024
HOUR_S: Final = 60 * 60
PASSWORD: Final = "a long and winding phrase"
HEBREW: Final = "\u05e9\u05dc\u05d5\u05dd-12"
ARABIC: Final = "\u0645\u0631\u062d\u0628\u0627 (3)"
New = Callable[..., Page]

# Texts that stand in one line of one block, in the order of the document, are shown from left to
# right: a text that runs the other way turns itself, and nothing beside it.
TURNED: Final = r"""() => {
    const found = [];
    const blocks = new Map();
    const walker = document.createTreeWalker(document.querySelector("main"), NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        if (!node.data.trim() || !node.parentElement.checkVisibility()) continue;
        let block = node.parentElement;
        while (getComputedStyle(block).display === "inline") block = block.parentElement;
        if (getComputedStyle(block).unicodeBidi === "plaintext") continue;
        if (!blocks.has(block)) blocks.set(block, []);
        blocks.get(block).push(node);
    }
    for (const nodes of blocks.values()) {
        let last = null;
        for (const node of nodes) {
            const range = document.createRange();
            range.selectNodeContents(node);
            const rects = [...range.getClientRects()].filter((each) => each.width);
            if (!rects.length) continue;
            const first = rects[0];
            const isInLine = last && Math.abs(last.bottom - first.bottom) < 2;
            const ofLine = rects.filter((each) => Math.abs(each.bottom - first.bottom) < 2);
            const left = Math.min(...ofLine.map((each) => each.left));
            if (isInLine && left < last.left - 1) found.push(`${last.text} | ${node.data.trim()}`);
            const end = rects.at(-1);
            last = { left: end.left, bottom: end.bottom, text: node.data.trim() };
        }
    }
    return found;
}"""


FIRST_LINE: Final = """each => {
    const range = document.createRange();
    range.selectNodeContents(each);
    return range.getClientRects()[0].toJSON();
}"""


def too_wide(page: Page) -> int:
    """Pixels that the page is wider than the window."""
    return int(page.evaluate("document.documentElement.scrollWidth - innerWidth"))


def faults_at_each_width(page: Page, path: str) -> list[str]:
    found = []
    page.goto(f"/console/demo/{path}")
    for width in (1440, 390):
        page.set_viewport_size({"width": width, "height": 900})
        if (beyond := too_wide(page)) > 0:
            found.append(f"{path} at {width} px is {beyond} px too wide")
        found += [f"{path} at {width} px: {each}" for each in page.evaluate(TURNED)]
    return found


@pytest.mark.parametrize(
    ("left", "right"), [("a", "b"), ("\u05d0", "1"), ("1\u05d0", "2"), ("\u0645 (", "c")]
)
def test_a_text_that_turns_what_stands_beside_it_is_noticed(
    page: Page, left: str, right: str
) -> None:
    page.goto("/console/demo/time-zone-of-nobody")
    page.evaluate(
        """([left, right]) => {
            const box = document.querySelector("main") ?? document.body.appendChild(
                document.createElement("main"));
            const line = document.createElement("div");
            for (const text of [left, right]) {
                const made = document.createElement("i");
                made.textContent = text;
                line.append(made, " ");
            }
            box.replaceChildren(line);
        }""",
        [left, right],
    )
    assert bool(page.evaluate(TURNED)) == (left != "a" and right != "c")


@pytest.mark.sized
def test_texts_that_run_the_other_way_turn_nothing_beside_them(
    page: Page, service: Service
) -> None:
    body = f'{{"{HEBREW}": {{"{ARABIC}": [1, "{HEBREW}"]}}, "n": 2}}'
    properties = {HEBREW: "7", "to": ARABIC, ARABIC: HEBREW}
    given = {
        "keys": [HEBREW, "k", ARABIC.replace(" ", "-")],
        "tag": HEBREW,
        "properties": properties,
    }
    message_id = produce(service, "orders", body, **given)
    plain_id = produce(service, "orders", f"{ARABIC} 1, 2\nline two", **given)
    dead_id, *_ = dead_letter(service, "turned", [("x", f"{HEBREW} 5 of 6"), ("y", ARABIC)])
    schedule(service, "turned", description=f"{ARABIC} 9", message={"body": body, **given})
    paths = (
        f"messages?q=topic:orders+key:{quote(HEBREW)}", f"topics/orders/messages/{message_id}",
        f"topics/orders/messages/{plain_id}", f"traces/{dead_id}", "messages?q=group:turned",
        "dead-letters", f"dead-letters/turned/messages/{dead_id}", "issues?state=all", "audit",
        "schedules", "schedules/turned", f"search?q={quote(ARABIC)}", "",
    )  # fmt: skip

    tried = paths[:: sized(3, torture=1)]
    found = [fault for path in tried for fault in faults_at_each_width(page, path)]

    assert found == []
    page.set_viewport_size({"width": 1440, "height": 900})
    page.goto(f"/console/demo/topics/orders/messages/{plain_id}")
    text = page.locator("pre.body").first
    assert text.evaluate("each => getComputedStyle(each).direction") == "rtl"
    copy, written = page.locator(".copying button").first, text.evaluate(FIRST_LINE)
    box = copy.bounding_box()
    assert box is not None
    assert box["y"] + box["height"] <= written["y"], "the button lies over the first line"
    page.goto("/console/demo/messages?q=topic:orders")
    lines = page.locator("tbody code", has_text=ARABIC)
    turned = lines.evaluate_all("all => all.map((each) => getComputedStyle(each).direction)")
    assert turned[:2] == ["rtl", "ltr"], "text is cut at its end, JSON keeps its order"
    page.goto(f"/console/demo/topics/orders/messages/{message_id}")
    assert page.locator("pre.body").first.evaluate("each => getComputedStyle(each).direction") == (
        "ltr"
    )
    expect(page.get_by_role("group", name="Body as a tree")).to_contain_text(f"{HEBREW}:")


@pytest.mark.sized
def test_the_longest_keys_and_consumers_fit_on_a_phone_too(page: Page, service: Service) -> None:
    name, key, client = "L" * NAME_CHARS_MAX, "K" * 127, "C" * 127
    each_name = f"each-{name}"[:NAME_CHARS_MAX]
    with client_of(service.facts, transport="rest") as mq:
        mq.topics.create(name, queues=1)
        mq.groups.create(name, dispatch="exclusive")
        mq.groups.create(each_name, dispatch="broadcast")
        mq.send(name, "x", keys=[key], tag=key)
        with (
            mq.subscribe(name, each_name, client_id=client) as each,
            mq.subscribe(name, name, consumer_id=name) as messages,
        ):
            assert each.get("60s") is not None
            message = messages.get("60s")
            assert message is not None
            message.dead_letter(key)
            message.confirmed("60s")
            paths = (
                "clients", f"groups/{name}", f"groups/{each_name}",
                f"topics/{name}", f"search?q={key}", f"messages?q=topic:{name}+key:{key}",
                f"messages?q={key}", f"messages?q=group:{name}", "dead-letters",
                "issues?state=all", f"traces/{message.id}",
                f"dead-letters/{name}/messages/{message.id}", "tasks", "usage", "audit", "alerts",
                f"new-alert?kind=lag&group={name}",
            )  # fmt: skip
            tried = paths[:: sized(3, torture=1)]
            found = [fault for path in tried for fault in faults_at_each_width(page, path)]
            page.goto(f"/console/demo/groups/{each_name}")
            expect(page.locator("main")).to_contain_text(client)
    assert found == []


BODIES: Final = {
    "text": b"t" * 4 * MIB,
    "one_value": b'{"a": "' + b"v" * (4 * MIB - 9) + b'"}',
    "many_values": (b"[" + b"1," * (2 * MIB - 2) + b"1]"),
    "binary": bytes(range(256)) * (4 * MIB // 256),
    "broken_json": b'{"a": [1, 2, {"b": ' + b" " * 1_000,
    "deep_json": b"[" * 50_000 + b"]" * 50_000,
    "half_characters": rb'{"\ud800": "\udfff"}',
    "controls": "a\u202eb\u0000\u0007<b>".encode(),
}


def test_bodies_as_large_and_odd_as_they_may_be_are_opened_and_listed(
    page: Page, service: Service
) -> None:
    ids = {}
    with client_of(service.facts) as mq:
        mq.topics.create("odd", queues=1)
        for name, body in BODIES.items():
            ids[name] = mq.send("odd", body, keys=[name]).id

    for name, message_id in ids.items():
        answer = page.goto(f"/console/demo/topics/odd/messages/{message_id}")
        assert answer is not None
        assert (answer.status, name) == (200, name)
        assert len(answer.body()) < MIB // 2, f"the page of {name} is too large"
        expect(page.get_by_role("link", name="Download body")).to_be_visible()
        assert too_wide(page) <= 0

    answer = page.goto("/console/demo/messages?q=topic:odd")
    assert answer is not None
    assert answer.status == 200
    assert len(answer.body()) < MIB // 2
    page.locator("tbody a.name").first.click()
    expect(page.get_by_role("dialog", name="Message")).to_contain_text("Download body")


@pytest.mark.parametrize("off_s", [HOUR_S, *in_torture(-HOUR_S)])
def test_a_clock_of_the_browser_that_is_an_hour_off_changes_nothing(
    new_page: New, service: Service, off_s: int
) -> None:
    """Ages, charts, what arrives and forms are of the time of the service."""
    message_id = produce(service, "orders", "of now")
    right, wrong = new_page(), new_page()
    now = float(right.evaluate("Date.now()")) / 1000
    wrong.clock.set_fixed_time(now + off_s)
    ages = []
    for page in (right, wrong):
        page.goto("/console/demo/groups")
        ages.append(page.locator("main tbody").inner_text())
        page.goto(f"/console/demo/topics/orders/messages/{message_id}")
        ages.append(page.locator("main time").first.inner_text())
    assert ages[1] == ages[3]
    assert "1h" not in ages[2]
    assert abs(float(wrong.evaluate("Date.now()")) / 1000 - now - off_s) < 1
    wrong.goto("/console/demo/topics/orders")
    expect(wrong.locator(".live-dot")).to_have_text("live")
    expect(wrong.locator(".chart canvas").first).to_be_visible()
    last = wrong.evaluate('document.querySelector(".chart").uplot.scales.x.max')
    assert abs(last - now) < 5 * 60

    wrong.goto("/console/demo/messages?q=topic:orders+last:1h")
    wrong.get_by_role("button", name="Live").click()
    produce(service, "orders", "seen with a wrong clock")
    expect(wrong.locator("#found tbody")).to_contain_text("seen with a wrong clock")

    wrong.goto("/console/demo/topics/orders/publish")
    wrong.locator("#id_body").fill('"later"')
    wrong.get_by_label("Delay").fill("2m")
    wrong.get_by_role("button", name="Publish", exact=True).click()
    expect(wrong.locator(".toasts")).to_contain_text("Stored")
    wrong.goto("/console/demo/scheduled/orders")
    due = wrong.locator("tbody time").first.get_attribute("datetime")
    assert due is not None
    at = wrong.evaluate("text => Date.parse(text)", due) / 1000
    assert 0 < at - now < 10 * 60


@pytest.fixture
def other_namespace(page: Page, service: Service) -> str:
    """A second one of the demo's tenant."""
    page.goto("/console/demo/new-key")
    page.get_by_label("Name", exact=True).fill("two tabs")
    page.locator("#id_place").select_option("")
    page.locator("#id_role").select_option("admin")
    for box in page.get_by_role("checkbox").all():
        box.check()
    page.get_by_role("button", name="Create key").click()
    key = page.locator("#key").inner_text().strip()
    headers = {"authorization": f"Bearer {key}"}
    url = f"{service.facts.base_url}/v1/namespaces/second"
    httpx.put(url, headers=headers, json={}).raise_for_status()
    return "second"


def test_each_of_two_tabs_acts_on_its_own_namespace_and_says_which(
    page: Page, service: Service, other_namespace: str
) -> None:
    tabs = {"demo": page, other_namespace: page.context.new_page()}
    for namespace, tab in tabs.items():
        tab.goto(f"/console/{namespace}/new-topic")
        tab.get_by_label("Name", exact=True).fill("in-both")
    for namespace, tab in tabs.items():  # each form is sent after the other tab was opened
        tab.get_by_role("button", name="Create topic").click()
        expect(tab.get_by_role("heading", level=1)).to_have_text("in-both")
        expect(tab).to_have_url(re.compile(f"/console/{namespace}/topics/in-both"))
        expect(tab.get_by_role("navigation", name="Breadcrumb")).to_contain_text(namespace)
        assert tab.title().startswith(f"in-both · {namespace}")

    first, second = tabs.values()
    second.goto(f"/console/{other_namespace}/topics/in-both/delete")
    first.goto("/console/demo/topics")
    second.get_by_label("Type in-both to confirm").fill("in-both")
    second.get_by_role("button", name="Delete topic").click()
    expect(second.locator(".toasts")).to_contain_text("The topic in-both was deleted.")
    expect(second).to_have_url(re.compile(f"/console/{other_namespace}/topics"))
    expect(second.get_by_role("navigation", name="Breadcrumb")).to_contain_text(other_namespace)
    first.reload()
    expect(first.locator("main tbody")).to_contain_text("in-both")
    expect(first.locator(".toast")).to_have_count(0)
    first.keyboard.press("Control+k")
    first.keyboard.type("publish in-b")
    expect(first.get_by_role("option", name="Publish to in-both", exact=True)).to_be_visible()
    first.keyboard.press("Enter")
    expect(first).to_have_url(re.compile("/console/demo/topics/in-both/publish"))


@pytest.fixture
def viewer(page: Page, browser: Browser, service: Service) -> Iterator[Page]:
    """Somebody who may look and do nothing, on a phone."""
    page.goto("/console/demo/invite")
    page.get_by_label("Email").fill("vera@example.com")
    page.get_by_label("Role").select_option("viewer")
    page.get_by_role("button", name="Create invitation").click()
    token = page.locator("#link").inner_text().strip().rstrip("/").rpartition("/")[2]
    url = f"{service.facts.base_url}/v1/invitations:accept"
    joined = {"token": token, "username": "vera", "password": PASSWORD}
    httpx.post(url, json=joined).raise_for_status()
    context = browser.new_context(
        base_url=service.facts.base_url, viewport={"width": 390, "height": 844}, has_touch=True
    )
    context.set_default_timeout(60_000)
    theirs = context.new_page()
    theirs.goto("/account/login/")
    theirs.get_by_label("Username or email").fill("vera")
    theirs.get_by_label("Password", exact=True).fill(PASSWORD)
    theirs.get_by_role("button", name="Sign in").click()
    theirs.wait_for_url(re.compile(r"/console/demo/"))
    yield theirs
    context.close()


def test_a_viewer_is_told_why_an_action_is_not_theirs(viewer: Page) -> None:
    reason = "Your role, viewer, may not do this. Ask an admin of the tenant."
    for path, actions in (
        ("topics", ["New topic"]),
        ("topics/orders", ["Edit", "Purge", "Delete", "Publish"]),
        ("groups", ["New group"]),
        ("groups/billing", ["Delete", "Reset offsets", "Edit", "Pause"]),
        ("alerts", ["New alert"]),
        ("definitions", ["Preview"]),
    ):
        viewer.goto(f"/console/demo/{path}")
        for action in actions:
            summary = viewer.locator("main .why-not > summary", has_text=action).first
            summary.tap()
            said = viewer.locator(".why-not[open] > p")
            expect(said).to_have_text(reason)
            expect(said).to_be_in_viewport(ratio=1)
            assert is_on_top(said)
            viewer.keyboard.press("Escape")
            expect(said).to_have_count(0)
        assert too_wide(viewer) <= 0
        assert serious_faults(viewer, "light") == []
    viewer.goto("/console/demo/topics")
    viewer.locator("main .why-not > summary").first.focus()
    viewer.keyboard.press("Enter")
    expect(viewer.locator(".why-not[open] > p")).to_have_text(reason)


def is_on_top(said: Locator) -> bool:
    """Nothing of the page lies over it."""
    return bool(
        said.evaluate(
            """each => {
                const { left, top, width, height } = each.getBoundingClientRect();
                return document.elementFromPoint(left + width / 2, top + height / 2) === each;
            }"""
        )
    )
