"""What a page has against those who see or hear it otherwise, as axe finds it."""

from __future__ import annotations

from typing import Final

from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Page

# All of them in one theme; in the other only what colours can change.
AXE_RULES: Final = {
    "light": {"runOnly": ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa"]},
    "dark": {"runOnly": ["color-contrast"]},
}


def serious_faults(page: Page, theme: str) -> list[str]:
    results = Axe().run(page, options=AXE_RULES[theme])
    return [
        f"{each['id']}: {node['target']} {node.get('failureSummary', '')[:200]}"
        for each in results.response["violations"]
        if each["impact"] in ("serious", "critical")
        for node in each["nodes"][:3]
    ]
