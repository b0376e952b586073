"""The TypeScript client in a real browser, which has no key but fetches tickets."""

from __future__ import annotations

import time
from typing import Final

import httpx
import pytest
from playwright.sync_api import ConsoleMessage, Page, Route, sync_playwright

from mqservice.supervisor.quickstart import Quickstart
from tests.acceptance.history.asking import make_topic_and_group
from tests.clients.typescript.package import dist
from tests.services import Service
from tests.storage_engine.faults.machine import need_chromium, need_node

pytestmark = [pytest.mark.acceptance, pytest.mark.timeout(300)]
WAIT_MS: Final = 60_000
COUNT: Final = 200
SCRIPT: Final = """async ([topic, count]) => {
    const { Client } = await import("/client/index.js");
    const mq = new Client({ baseUrl: location.origin, ticket: () => window.ticket() });
    const bodies = Array.from({ length: count }, (_, index) => ({ body: `${index} ü` }));
    const results = await mq.sendBatch(topic, bodies);
    const subscription = mq.subscribe(topic, { group: topic });
    const seen = [];
    for await (const message of subscription) {
        seen.push(message.text());
        if (message.attempt === 1 && seen.length === 1) await message.nack({ delay: 0 });
        else void message.ack();
        if (seen.length > count) break;
    }
    await mq.close();
    const { acked, nacked, returned, settleFailed } = subscription.stats;
    const stored = results.filter((result) => result.ok).length;
    return [stored, seen, [acked, nacked, returned, settleFailed]];
}"""


@pytest.fixture(autouse=True, scope="session")
def chromium() -> str:
    need_node()
    return need_chromium()


def test_a_page_produces_and_consumes_with_tickets(service: Service, chromium: str) -> None:
    facts = service.facts
    topic = f"browser-{time.time_ns()}"
    make_topic_and_group(facts, topic, {"start_from": "earliest"})
    faults: list[str] = []
    tickets = ["mqt_expired"]

    def ticket() -> str:
        return tickets.pop() if tickets else _new_ticket(facts)

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page()
        page.set_default_timeout(WAIT_MS)
        page.on("pageerror", lambda error: faults.append(str(error)))
        page.on("console", lambda said: _note(said, faults))
        page.expose_function("ticket", ticket)
        _serve(page)
        page.goto(f"{facts.base_url}/account/login/")
        stored, seen, stats = page.evaluate(SCRIPT, [topic, COUNT])
        browser.close()

    assert stored == COUNT
    assert sorted(set(seen)) == sorted(f"{index} ü" for index in range(COUNT))
    assert (len(seen), stats) == (COUNT + 1, [COUNT, 1, 0, 0])
    assert len(faults) == 1, faults
    assert "no valid credentials" in faults[0], "the expired ticket"


def _serve(page: Page) -> None:
    """The compiled modules as they are, at the address of the service."""

    def answer(route: Route) -> None:
        name = route.request.url.rpartition("/client/")[2]
        route.fulfill(path=dist() / name, content_type="text/javascript")

    page.route("**/client/**", answer)


def _new_ticket(facts: Quickstart) -> str:
    response = httpx.post(
        f"{facts.base_url}/v1/ws-tickets", headers={"authorization": f"Bearer {facts.api_key}"}
    )
    return str(response.json()["ticket"])


def _note(said: ConsoleMessage, faults: list[str]) -> None:
    if said.type == "error":
        faults.append(said.text)
