"""Snippets of the documentation, made independent of one another so that each can run by itself."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import Final

from tests.docs.markdown import Page

GROUPS: Final = ("billing", "invoicing", "refunds", "caches")


def snippets_of(pages: Iterable[Path], language: str) -> dict[str, str]:
    """The fences of a language by page and line."""
    return {
        f"{path.stem.lower()}-{fence.line}": fence.text
        for path in pages
        for fence in Page(path).fences
        if fence.language == language
    }


def with_own_names(snippet: str, name: str) -> str:
    """A topic and groups of its own take the place of those of the page."""
    own = snippet.replace('"orders"', f'"{name}"').replace("groups/billing", f"groups/{name}")
    for group in GROUPS:
        own = own.replace(f'"{group}"', f'"{own_group(group, name)}"')
    return own


def own_group(group: str, name: str) -> str:
    """What a group of the page is called here; the test creates that of ``billing``."""
    return name if group == GROUPS[0] else f"{name}-{group}"


def consumed_group(snippet: str, name: str) -> str | None:
    """The group, as it is called here, from which the snippet consumes until it is stopped."""
    found = re.search(
        r"""(?:subscribe|consumer)\(\s*(?:"orders"|\[.*?\]),\s*(?:\{\s*)?(?:group\s*[:=]\s*)?"(\w+)\"""",
        snippet,
    )
    is_loop = "mq.run(" in snippet or re.search(r"\bfor (?:await|message)\b", snippet)
    return own_group(found[1], name) if found and is_loop else None
