"""A guide's Markdown as HTML in the console's look.

    text ──▶ markdown-it ──▶ tokens ──▶ anchors, links of ours, tabs, tables that scroll ──▶ HTML

The text is the project's own, and still nothing of it is passed on as HTML but ``<code>`` and
``<br>``: any other tag is shown as text. Tabs are written as on the site, ``/// tab | Label`` …
``///``; those that follow each other are one choice, of radio buttons, which works without scripts.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from typing import Any, Final

from django.urls import reverse
from django.utils.html import escape, format_html, format_html_join
from django.utils.safestring import SafeString, mark_safe
from markdown_it import MarkdownIt
from markdown_it.renderer import RendererHTML
from markdown_it.rules_block import StateBlock
from markdown_it.token import Token

from mqservice.console.guide.pages import API_PAGE, GuidePage, guide_pages, guide_url
from mqservice.lib.frontend import DOCS_DIR

_TAB: Final = re.compile(r"/// tab \| (.+)")
_TAB_END: Final = "///"
_KEPT_TAGS: Final = frozenset({"<code>", "</code>", "<br>"})
_ELSEWHERE: Final = re.compile(r"[a-z][a-z0-9+.-]*:", re.IGNORECASE)


@cache  # as many as there are guides
def rendered(name: str) -> SafeString:
    """The guide of this name, which there must be. The first call takes up to 0.3 s."""
    page = guide_pages()[name]
    markdown = _markdown()
    tokens = markdown.parse(page.text)
    _adapt(tokens, page)
    html: str = markdown.renderer.render(tokens, markdown.options, {})
    return mark_safe(html)


@cache
def drawings() -> frozenset[str]:
    """Those that guides may show, as paths below ``docs/``."""
    return frozenset(path.relative_to(DOCS_DIR).as_posix() for path in DOCS_DIR.rglob("*.svg"))


@cache
def _markdown() -> MarkdownIt:
    made = MarkdownIt("commonmark", renderer_cls=_Renderer).enable("table")
    made.block.ruler.before("paragraph", "tabs", _tabs, {"alt": ["paragraph"]})
    return made


def _adapt(tokens: Sequence[Token], page: GuidePage) -> None:
    headings = iter(page.headings)
    for token in tokens:
        if token.type == "heading_open":
            token.attrSet("id", next(headings).anchor)
        elif token.type in ("th_open", "td_open"):
            # Not as a style, which the content policy rejects.
            is_number = "right" in str(token.attrs.pop("style", ""))
            token.attrs.update({"class": "number"} if is_number else {})
        elif token.type == "inline":
            _adapt_links(token.children or [])
    assert next(headings, None) is None, f"{page.name}: a heading that only one reader sees"


def _adapt_links(tokens: Sequence[Token]) -> None:
    is_link = True
    for token in tokens:
        if token.type == "link_open":
            url = _url_of(str(token.attrs["href"]))
            is_link = bool(url)
            token.attrs = {"href": url} if url else {}
        if token.type in ("link_open", "link_close") and not is_link:
            token.tag = "span"


def _url_of(target: str) -> str:
    """Where a link leads; "" where its page is none of the guides."""
    if target.startswith("#") or _ELSEWHERE.match(target):
        return target
    path, mark, anchor = target.partition("#")
    name = path.removesuffix(".md")
    if name == API_PAGE:
        return reverse("docs")
    return guide_url(name + mark + anchor) if name in guide_pages() else ""


class _Renderer(RendererHTML):
    """A method for each type of token that has a form of our own."""

    # Any: as the library has them
    def image(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Drawings. Pictures of the console are left out: the reader has it at hand."""
        path = str(tokens[idx].attrs["src"])
        if path not in drawings():
            return ""
        url = reverse("guide-drawing", args=[path])
        return format_html('<img src="{}" alt="{}" loading="lazy">', url, tokens[idx].content)

    def fence(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """Code, with a button to copy it where there are scripts."""
        code = tokens[idx].content.rstrip("\n")
        return format_html(
            '<div class="copying"><pre class="code" tabindex="0">{}</pre></div>\n', code
        )

    def table_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """A wide table is moved within its page."""
        return '<div class="scroll" tabindex="0"><table>\n'

    def table_close(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        return "</table></div>\n"

    def html_inline(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        content = tokens[idx].content
        return content if content in _KEPT_TAGS else self.html_block(tokens, idx, options, env)

    def html_block(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        content = tokens[idx].content
        return "" if content.lstrip().startswith("<!--") else escape(content)

    def tabs_open(self, tokens: Sequence[Token], idx: int, options: Any, env: Any) -> str:
        """The choice above the panels."""
        labels: list[str] = tokens[idx].meta["labels"]
        checked = mark_safe(" checked")
        choices = format_html_join(
            "",
            '<label><input class="sr-only" type="radio" name="{}" value="{}"{}>{}</label>',
            (
                (tokens[idx].meta["name"], label, "" if at else checked, label)
                for at, label in enumerate(labels)
            ),
        )
        return format_html(
            '<div class="snippets"><fieldset class="tabs"><legend class="sr-only">Language'
            "</legend>{}</fieldset>\n",
            choices,
        )


def _tabs(state: StateBlock, first: int, end: int, silent: bool) -> bool:
    """A rule of the parser: tabs that follow each other, with what is in them."""
    if not _TAB.fullmatch(_line(state, first)):
        return False
    if silent:
        return True
    group = state.push("tabs_open", "div", 1)
    labels: list[str] = []
    state.line = first
    while state.line < end and (tab := _TAB.fullmatch(_line(state, state.line))):
        labels.append(tab[1])
        start = state.line + 1
        close = _end_of_tab(state, start, end)
        state.push("panel_open", "div", 1).attrs = {"data-language": tab[1]}
        state.md.block.tokenize(state, start, close)
        state.push("panel_close", "div", -1)
        state.line = state.skipEmptyLines(close + 1)
    group.meta = {"labels": labels, "name": f"tabs-{first}"}
    state.push("tabs_close", "div", -1)
    return True


def _end_of_tab(state: StateBlock, first: int, end: int) -> int:
    fence = ""
    for at in range(first, end):
        line = _line(state, at)
        if fence:
            fence = "" if line == fence else fence
        elif line.startswith("```"):
            fence = line[: len(line) - len(line.lstrip("`"))]
        elif line == _TAB_END:
            return at
    return end


def _line(state: StateBlock, at: int) -> str:
    return state.src[state.bMarks[at] + state.tShift[at] : state.eMarks[at]].rstrip()
