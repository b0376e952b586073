"""The guides: every page answers, and whatever leads to them or out of them leads somewhere."""

from __future__ import annotations

import gzip
import re
from html.parser import HTMLParser

import pytest
from django.test import Client
from django.urls import reverse

from mqservice.accounts.models import User
from mqservice.console.guide.pages import find_headings, guide_pages, guide_sections, guide_url
from mqservice.console.guide.rendering import drawings
from mqservice.console.guide.views import DRAWING_CACHE_CONTROL
from mqservice.console.shared.navigation import QUICK_START, SECTIONS, Item
from tests.docs.markdown import DOCS, Page
from tests.mqservice.console.reading import text_of
from tests.mqservice.console.test_pages import INLINE
from tests.people import People

SENT_BYTES_MAX = 60 * 1024
LANGUAGES = {"curl", "Python", "TypeScript", "CLI"}  # those that the styles of tabs know
ITEMS = [tab for section in SECTIONS for place in section.places for tab in place.tabs]


class Guide(HTMLParser):
    """Ids, links, loaded files and tabs of a page."""

    def __init__(self, client: Client, path: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: set[str] = set()
        self.loads: set[str] = set()
        self.choices: dict[str, list[str]] = {}
        self.checked: list[str] = []
        self.panels: list[str] = []
        response = client.get(path)
        assert response.status_code == 200, path
        self.text = response.content.decode()
        self.feed(self.text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        found = {name: value or "" for name, value in attrs}
        if "id" in found:
            self.ids.append(found["id"])
        if tag == "a":
            self.links.add(found["href"])
        if tag in ("link", "script", "img"):
            self.loads.add(found.get("href") or found["src"])
        if found.get("type") == "radio":
            self.choices.setdefault(found["name"], []).append(found["value"])
            self.checked += [found["name"]] if "checked" in found else []
        if "data-language" in found:
            self.panels.append(found["data-language"])


@pytest.fixture(scope="module")
def guides() -> dict[str, Guide]:
    """By address, the contents among them; nobody is signed in."""
    client = Client()
    paths = ["/guide", *(page.url for page in guide_pages().values())]
    return {path: Guide(client, path) for path in paths}


def test_guides_are_the_nav_without_what_is_left_out(guides: dict[str, Guide]) -> None:
    left_out = {"api", "console"}
    assert set(guide_pages()) == {path.stem for path in DOCS.glob("*.md")} - left_out
    assert [each.title for each in guide_sections()][:2] == ["Start", "API"]
    assert set(guides) - {"/guide"} <= guides["/guide"].links


def test_every_link_and_anchor_leads_somewhere(guides: dict[str, Guide]) -> None:
    lost = []
    elsewhere = set()
    for path, guide in guides.items():
        for link in guide.links:
            target, _, anchor = link.partition("#")
            if (target or path) not in guides:
                elsewhere.add(target)
            elif anchor and anchor not in guides[target or path].ids:
                lost.append(f"{path}: {link}")
    assert lost == []
    ours = {link for link in elsewhere if not re.match("https?://", link)}
    assert ours == {reverse("docs"), reverse("console:overview"), reverse("guide-search")}


def test_anchors_are_those_of_the_site_and_each_is_there_once(guides: dict[str, Guide]) -> None:
    for page in guide_pages().values():
        ids = guides[page.url].ids
        assert len(ids) == len(set(ids)), page.name
        assert Page(DOCS / f"{page.name}.md").anchors <= set(ids), page.name


def test_guides_have_nothing_that_the_content_policy_rejects(guides: dict[str, Guide]) -> None:
    for path, guide in guides.items():
        html = re.sub(r"<(pre|code)\b.*?</\1>", "", guide.text, flags=re.DOTALL)
        assert INLINE.search(html) is None, path


def test_guides_load_only_files_of_the_service(guides: dict[str, Guide], client: Client) -> None:
    loads = set().union(*(guide.loads for guide in guides.values()))
    shown = {load for load in loads if not load.startswith("/static/")}
    assert {load.removeprefix("/guide/") for load in shown} <= drawings()
    assert len(shown) > 10
    response = client.get(shown.pop())
    assert response["Content-Type"] == "image/svg+xml"
    assert response["Cache-Control"] == DRAWING_CACHE_CONTROL
    assert client.get("/guide/img/console-overview.png").status_code == 404
    assert client.get("/guide/../mkdocs.yml").status_code == 404


def test_each_tab_has_its_panel_and_one_is_chosen(guides: dict[str, Guide]) -> None:
    groups = 0
    for path, guide in guides.items():
        assert guide.panels == [each for labels in guide.choices.values() for each in labels], path
        assert guide.checked == list(guide.choices), path
        assert set(guide.panels) <= LANGUAGES, path
        groups += len(guide.choices)
    assert groups > 15


def test_no_guide_is_heavy_as_it_is_sent(client: Client) -> None:
    for page in guide_pages().values():
        response = client.get(page.url, headers={"accept-encoding": "gzip"})
        assert response["Content-Encoding"] == "gzip"
        assert gzip.decompress(response.content).startswith(b"<!doctype html>")
        assert len(response.content) < SENT_BYTES_MAX, page.name


def test_who_has_a_guide_is_not_sent_it_again_unless_it_looks_different(client: Client) -> None:
    first = client.get("/guide/concepts")
    again = {"if-none-match": first["ETag"]}
    assert client.get("/guide/concepts", headers=again).status_code == 304
    assert client.head("/guide/concepts").status_code == 200
    client.cookies["mq_theme"] = "dark"
    assert client.get("/guide/concepts", headers=again).status_code == 200
    assert client.post("/guide/concepts").status_code == 405


def test_unknown_guide_leads_to_the_contents(client: Client) -> None:
    response = client.get("/guide/no-such-guide")
    assert response.status_code == 404
    assert '<p><a href="/guide">Contents</a></p>' in response.content.decode()
    assert client.get("/guide/").status_code == 302


def test_page_says_that_guides_are_english_to_who_reads_another_language(client: Client) -> None:
    assert "in English" not in client.get("/guide/concepts").content.decode()
    chinese = client.get("/guide/concepts", headers={"accept-language": "zh-hans"})
    assert "指南只有英文版。" in chinese.content.decode()
    assert '<article class="guide-text" lang="en">' in chinese.content.decode()


@pytest.mark.parametrize("item", [*ITEMS, QUICK_START], ids=lambda item: item.here)
def test_guide_of_each_console_page_has_the_section_it_names(
    guides: dict[str, Guide], item: Item
) -> None:
    path, _, anchor = guide_url(item.guide).partition("#")
    assert path in guides
    assert not anchor or anchor in guides[path].ids, (
        "renamed: change mqservice/console/shared/navigation.py"
    )


@pytest.mark.parametrize(
    ("page", "target"),
    [
        ("groups", "/guide/concepts#groups-and-leases"),
        ("new-alert", "/guide/rest#alerts"),
        ("search?q=o", "/guide"),
    ],
)
def test_console_page_links_to_the_section_about_it(
    people: People, client: Client, page: str, target: str
) -> None:
    client.force_login(people.alice)
    assert f'href="{target}" aria-label="Guide to this page"' in text_of(
        client, f"/console/acme/{page}"
    )


@pytest.mark.parametrize(
    ("text", "title", "url"),
    [
        ("concepts", "Concepts", "/guide/concepts#main"),
        (
            "dead letters back",
            "Send and consume: Send dead letters back",
            "/guide/guide#send-dead-letters-back",
        ),
        ("rest alert", "REST: Alerts", "/guide/rest#alerts"),
        ("MASK", "Access: Masking", "/guide/access#masking"),
    ],
)
def test_palette_finds_guides_and_headings(
    people: People, client: Client, text: str, title: str, url: str
) -> None:
    client.force_login(people.bob)
    groups = client.get("/console/acme/search.json", {"q": text}).json()["groups"]
    assert groups[-1]["title"] == "Guides"
    assert groups[-1]["entries"][0] == {"title": title, "url": url}


def test_every_word_has_to_begin_one_of_the_heading_and_few_are_shown() -> None:
    assert find_headings("", 8) == []
    assert find_headings("lerts", 8) == []
    assert find_headings("rest nothing-like-it", 8) == []
    assert len(find_headings("s", 3)) == 3


def test_visitor_searches_the_guides_and_nothing_else(client: Client) -> None:
    """Without a query: no database is there."""
    assert client.get("/guide/search.json", {"q": "dead letters back"}).json() == {
        "groups": [
            {
                "title": "Guides",
                "entries": [
                    {
                        "title": "Send and consume: Send dead letters back",
                        "url": "/guide/guide#send-dead-letters-back",
                    }
                ],
            }
        ]
    }
    assert client.get("/guide/search.json", {"q": "audit log\0"}).json() == {"groups": []}
    [first] = client.get("/guide/search.json").json()["groups"]
    assert first["entries"][0] == {"title": "What it is", "url": "/guide/index#main"}
    assert client.post("/guide/search.json").status_code == 405


def test_who_is_signed_in_finds_the_pages_of_a_namespace_from_a_guide(
    people: People, client: Client
) -> None:
    client.force_login(people.bob)
    groups = client.get("/guide/search.json", {"q": "topics"}).json()["groups"]
    assert [each["title"] for each in groups] == ["Guides", "Pages of acme"]
    assert groups[1]["entries"] == [{"title": "Topics", "url": "/console/acme/topics#main"}]
    stranger = User.objects.create_user("stranger")
    client.force_login(stranger)
    groups = client.get("/guide/search.json", {"q": "topics"}).json()["groups"]
    assert [each["title"] for each in groups] == ["Guides"]


def test_guides_are_searched_without_scripts_too(client: Client) -> None:
    shown = client.get("/guide/search", {"q": "dead letters back"}).content.decode()
    assert '<a href="/guide/guide#send-dead-letters-back">' in shown
    assert 'value="dead letters back"' in shown
    assert "No matches" in client.get("/guide/search", {"q": "<b>"}).content.decode()
