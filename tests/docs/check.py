"""Finds what leads nowhere: links, anchors, pages that are not in the site's nav, names of files.

    mkdocs.yml, docs/*.md, README.md … ──▶ [faults] ──▶ one line each

``make docs`` runs it before it builds (``python -m tests.docs.check``), and so does a test.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Final
from urllib.parse import unquote

from tests.docs.markdown import DOCS, ROOT, Page

NAV: Final = ROOT / "mkdocs.yml"
HISTORY: Final = "CHANGELOG.md"  # may name what is gone
BESIDE: Final = ("README.md", "CONTRIBUTING.md", "ARCHITECTURE.md", HISTORY)

_ENTRY: Final = re.compile(r"^ +- (?:[^:#]+: )?\"?([\w./-]+\.md)\"?\s*$", re.MULTILINE)
_FILE: Final = re.compile(
    r"(?:mqservice|storage_engine|analytics|tests|frontend|bench|deploy|docs|evidence)/[\w./*-]+"
)
_ELSEWHERE: Final = re.compile(r"^(?:[a-z][a-z0-9+.-]*:|//)", re.IGNORECASE)


def site_pages() -> list[Page]:
    """The pages of the site."""
    return [Page(path) for path in sorted(DOCS.rglob("*.md"))]


def all_pages() -> list[Page]:
    """The pages of the site and those at the top of the repository."""
    return [*(Page(ROOT / name) for name in BESIDE), *site_pages()]


def nav_faults(nav: str, names: Iterable[str]) -> list[str]:
    """Pages named by only one of the two, or twice; ``names`` are relative to the site's folder."""
    _, _, listing = nav.partition("\nnav:")
    listed = _ENTRY.findall(listing)
    there = set(names)
    return sorted(
        [f"mkdocs.yml: {name} is not in nav" for name in there - set(listed)]
        + [f"mkdocs.yml: {name} of nav does not exist" for name in set(listed) - there]
        + [f"mkdocs.yml: {name} is in nav twice" for name in set(listed) if listed.count(name) > 1]
    )


def link_faults(page: Page, *, within: Path = ROOT) -> list[str]:
    """Relative links of the page that lead nowhere, or out of ``within``."""
    faults = []
    for line, target in page.links:
        if _ELSEWHERE.match(target):
            continue
        place, _, anchor = target.partition("#")
        path = (page.path.parent / unquote(place)).resolve() if place else page.path
        if not path.is_relative_to(within):
            faults.append(f"{page.name}:{line}: {target} leads out of {within.name}/")
        elif not path.exists():
            faults.append(f"{page.name}:{line}: {target} does not exist")
        elif anchor and path.suffix == ".md" and anchor not in Page(path).anchors:
            faults.append(
                f"{page.name}:{line}: {target}: no such anchor, or not in both renderings"
            )
    return faults


def file_faults(page: Page, *, within: Path = ROOT) -> list[str]:
    """Files and folders of ours that the prose names and that are not there."""
    named = [(line, code.partition("::")[0]) for line, code in page.inline_code]
    return [
        f"{page.name}:{line}: there is no {path}"
        for line, path in named
        if _FILE.fullmatch(path) and not list(within.glob(path.rstrip("/")))
    ]


def faults() -> list[str]:
    """All of them, in the order of the pages."""
    found = nav_faults(NAV.read_text(), [str(page.path.relative_to(DOCS)) for page in site_pages()])
    for page in all_pages():
        found += link_faults(page, within=DOCS if page.path.is_relative_to(DOCS) else ROOT)
        if page.path.name != HISTORY:
            found += file_faults(page)
    return found


if __name__ == "__main__":
    found = faults()
    for fault in found:
        print(fault, file=sys.stderr)
    sys.exit(bool(found))
