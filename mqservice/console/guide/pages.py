"""Which guides there are, by section, and their headings; read once per process.

Sections and titles are those of the site's nav. Left out are the section for who changes the
service, and the reference of all operations, which ``/docs`` is.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cache
from typing import Final

import yaml
from django.urls import reverse

from mqservice.console.guide.slugs import numbered_slugs, plain_text
from mqservice.lib.frontend import DOCS_DIR, DOCS_NAV

SECTIONS_LEFT_OUT: Final = frozenset({"Development"})
API_PAGE: Final = "api"  # /docs has the same
_FENCE: Final = re.compile(r" *(`{3,})")
_HEADING: Final = re.compile(r"(#{1,6}) +(.+?)(?: +#+)?$")


@dataclass(frozen=True, slots=True)
class Heading:
    """``level``: 1 is the page's own."""

    level: int
    text: str
    anchor: str


@dataclass(frozen=True, slots=True)
class GuidePage:
    """One guide. ``name`` is its file's without ``.md``, and the last part of its address."""

    name: str
    title: str
    text: str
    headings: tuple[Heading, ...]

    @property
    def url(self) -> str:
        return reverse("guide-page", args=[self.name])

    @property
    def parts(self) -> list[Heading]:
        """What its own contents list."""
        return [each for each in self.headings if each.level == 2]


@dataclass(frozen=True, slots=True)
class GuideSection:
    title: str
    pages: tuple[GuidePage, ...]


@cache
def guide_sections() -> tuple[GuideSection, ...]:
    """All guides. The first call reads about 30 files; raises OSError where they are missing."""
    nav = yaml.safe_load(DOCS_NAV.read_text())["nav"]
    return tuple(
        GuideSection(title, tuple(_page(*entry) for each in entries for entry in each.items()
                                  if entry[1] != f"{API_PAGE}.md"))
        for part in nav
        for title, entries in part.items()
        if title not in SECTIONS_LEFT_OUT
    )  # fmt: skip


@cache
def guide_pages() -> dict[str, GuidePage]:
    """The guides by name, in the order of the nav."""
    return {page.name: page for section in guide_sections() for page in section.pages}


def find_headings(text: str, limit: int) -> list[tuple[str, str]]:
    """Title and target (see ``guide_url``) of guides and sections.

    Each word of the text begins a word of the heading or of its guide's title, one at least of the
    heading. Guides come first, then it goes by level, and by length.
    """
    words = text.lower().split()
    if not words:
        return []
    found = []
    for page in guide_pages().values():
        title_words = _words(page.title)
        for heading in page.headings:
            own = _words(heading.text)
            length = len(own)
            if heading.level == 1:
                own |= title_words
            has_one = any(_begins(word, own) for word in words)
            if has_one and all(_begins(word, own | title_words) for word in words):
                found.append((heading.level, length, page, heading))
    found.sort(key=lambda each: each[:2])  # stable: the rest in the order of the nav
    return [
        (page.title, page.name)
        if level == 1
        else (f"{page.title}: {heading.text}", f"{page.name}#{heading.anchor}")
        for level, _, page, heading in found[:limit]
    ]


def _begins(start: str, words: frozenset[str]) -> bool:
    return any(word.startswith(start) for word in words)


@cache  # of headings and titles, of which there are as many as the guides have
def _words(text: str) -> frozenset[str]:
    return frozenset(re.findall(r"\w+", text.lower()))


def guide_url(target: str) -> str:
    """The address of ``page#anchor``, ``page``, or for "" of the contents."""
    name, mark, anchor = target.partition("#")
    return (reverse("guide-page", args=[name]) if name else reverse("guide")) + mark + anchor


def _page(title: str, file: str) -> GuidePage:
    text = (DOCS_DIR / file).read_text()
    return GuidePage(file.removesuffix(".md"), title, text, _headings(text))


def _headings(text: str) -> tuple[Heading, ...]:
    found = []
    fence = ""
    for line in text.splitlines():
        if mark := _FENCE.match(line):
            if not fence:
                fence = mark[1]
            elif line.strip() == fence:
                fence = ""
        elif not fence and (heading := _HEADING.match(line)):
            found.append((len(heading[1]), heading[2]))
    anchors = numbered_slugs(raw for _, raw in found)
    return tuple(
        Heading(level, plain_text(raw), anchor)
        for (level, raw), anchor in zip(found, anchors, strict=True)
    )
