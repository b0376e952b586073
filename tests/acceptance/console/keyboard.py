"""A person with a keyboard and no mouse: presses, types, tabs, and counts what is pressed."""

from __future__ import annotations

import re
from typing import Final

from playwright.sync_api import Locator, Page, expect

TABS_MAX: Final = 120


class Keyboard:
    """Of one page. ``count``: keys pressed so far, where a chord or a paste is one; ``page_count``:
    pages loaded since.

    ``has_palette``: whether the person knows of Ctrl-K, or goes by the links of the pages.
    """

    def __init__(self, page: Page, *, has_palette: bool = True) -> None:
        self.page = page
        self.has_palette = has_palette
        self.count = 0
        self.page_count = 0
        page.on("load", self._loaded)

    def _loaded(self, page: Page) -> None:
        self.page_count += 1

    def press(self, key: str) -> None:
        self.page.keyboard.press(key)
        self.count += 1

    def type(self, text: str) -> None:
        self.page.keyboard.type(text)
        self.count += len(text)

    def paste(self, text: str) -> None:
        self.page.keyboard.insert_text(text)
        self.count += 1

    def tab_to(self, target: Locator) -> None:
        """Tab until it has the focus, which it must be able to get, and can be seen to have."""
        target = target.first
        expect(target).to_be_visible()
        for _ in range(TABS_MAX):
            if target.evaluate("each => each === document.activeElement"):
                return
            self.press("Tab")
        raise AssertionError(f"{target} has no focus after {TABS_MAX} tabs")

    def follow(self, target: Locator) -> None:
        """Tab to a link or a button of another page, and go there."""
        self.tab_to(target)
        with self.page.expect_navigation():
            self.press("Enter")

    def skip(self) -> None:
        """To the content of a page, by the link that comes first, unless the focus is in it."""
        has_focus = self.page.evaluate("document.activeElement !== document.body")
        if has_focus or self.page.url.endswith("#main"):
            return
        self.press("Tab")
        expect(self.page.get_by_role("link", name="Skip to content")).to_be_focused()
        self.press("Enter")
        expect(self.page).to_have_url(self.page.url.partition("#")[0] + "#main")

    def reach(self, typed: str, option: str, *links: str) -> None:
        """The page of what the palette offers for ``typed``; without it that of ``links``, the
        first of the navigation and the others of the page before.
        """
        page = self.page
        if not self.has_palette:
            for at, name in enumerate(links):
                if at:
                    self.skip()
                link = page.get_by_role("link", name=re.compile(f"^{name}"), include_hidden=True)
                if not link.first.is_visible():
                    fold = page.locator("aside details", has=link)
                    self.tab_to(fold.locator("summary"))
                    self.press("Enter")
                self.follow(link)
            return
        self.press("Control+k")
        if len(typed) > 30:  # nobody types an id
            self.paste(typed)
        else:
            self.type(typed)
        expect(page.locator("#palette-found")).to_have_attribute("data-text", typed)
        wanted = page.get_by_role("option", name=option, exact=True)
        expect(wanted).to_be_visible()
        while wanted.get_attribute("aria-selected") != "true":
            self.press("ArrowDown")
        with page.expect_navigation():
            self.press("Enter")
