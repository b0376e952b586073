"""The anchors of headings, as the documentation site (Python-Markdown) makes them.

Only the standard library: the check of ``make docs`` uses it where no package is installed.
"""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Iterable


def plain_text(heading: str) -> str:
    """A heading without its marks."""
    text = re.sub(r"!?\[([^\]]*)\]\([^)]*\)", r"\1", heading)
    return re.sub(r"[`*]", "", text)


def site_slug(text: str) -> str:
    """The anchor of a heading without marks, if no other heading of the page is like it."""
    ascii_only = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[-\s]+", "-", re.sub(r"[^\w\s-]", "", ascii_only).strip().lower())


def numbered_slugs(
    headings: Iterable[str], slug: Callable[[str], str] = site_slug, mark: str = "_"
) -> list[str]:
    """An anchor for each heading; those that come again are counted."""
    counts: dict[str, int] = {}
    made = []
    for heading in headings:
        base = slug(plain_text(heading))
        count = counts.get(base, 0)
        counts[base] = count + 1
        made.append(f"{base}{mark}{count}" if count else base)
    return made
