"""What a Markdown page of ours has: headings with their anchors, links, fences, code in its lines.

    text ──▶ [Page] ──▶ anchors, links, fences, inline_code

Two readers make anchors of headings, the site (Python-Markdown) and the pages of a repository
(GitHub). A link must lead to the same place in both, so a page's anchors are those they agree on.
Only the standard library: ``make docs`` runs this where nothing of the service is installed.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Final

from mqservice.console.guide.slugs import numbered_slugs

ROOT: Final = Path(__file__).resolve().parents[2]
DOCS: Final = ROOT / "docs"

_FENCE: Final = re.compile(r"^(?P<indent> *)(?P<marks>`{3,})(?P<language>[\w-]*)[^`\n]*$")
_TAB: Final = re.compile(r"^/// *(?:tab \| (.+))?$")
_HEADING: Final = re.compile(r"^#{1,6} +(.+?)(?: +#+)?$")
_LINK: Final = re.compile(
    r"!?\[(?:[^\[\]]|\[[^\[\]]*\])*\]\(\s*<?([^)<>\s]+)>?(?:\s+\"[^\"]*\")?\)"
)
_ATTRIBUTE: Final = re.compile(r"\b(?:href|src)=\"([^\"]+)\"")
_CODE: Final = re.compile(r"(?<!`)(`+)(?!`)(.+?)(?<!`)\1(?!`)", re.DOTALL)
_COMMENT: Final = re.compile(r"<!--.*?-->", re.DOTALL)


@dataclass(frozen=True)
class Fence:
    """A block of code; ``line`` counts from 1 and is that of its first line of code.

    ``tab`` is the label of the tab that it is in, empty outside of tabs.
    """

    language: str
    line: int
    text: str
    tab: str = ""


@dataclass(frozen=True)
class Page:
    """One file of Markdown."""

    path: Path

    @cached_property
    def text(self) -> str:
        return self.path.read_text()

    @property
    def name(self) -> str:
        """Its path below the repository's root."""
        return (
            str(self.path.relative_to(ROOT)) if self.path.is_relative_to(ROOT) else self.path.name
        )

    @cached_property
    def fences(self) -> list[Fence]:
        return self._parts[1]

    @cached_property
    def prose(self) -> str:
        """All lines but those of fences and comments; as many as the text has."""
        return self._parts[0]

    @cached_property
    def links(self) -> list[tuple[int, str]]:
        """Line from 1 and target of each link and picture."""
        text = _CODE.sub(lambda found: re.sub(r"[^\n]", "x", found[0]), self.prose)
        found = [*_LINK.finditer(text), *_ATTRIBUTE.finditer(text)]
        return sorted((text.count("\n", 0, each.start()) + 1, each[1]) for each in found)

    @cached_property
    def inline_code(self) -> list[tuple[int, str]]:
        """Line from 1 and text of each piece of code within the prose."""
        return [
            (self.prose.count("\n", 0, each.start()) + 1, " ".join(each[2].split()))
            for each in _CODE.finditer(self.prose)
        ]

    @cached_property
    def anchors(self) -> frozenset[str]:
        """Those that the site and the repository's pages both make."""
        headings = [each[1] for line in self.prose.splitlines() if (each := _HEADING.match(line))]
        return frozenset(numbered_slugs(headings)) & frozenset(
            numbered_slugs(headings, _repository_slug, "-")
        )

    @cached_property
    def _parts(self) -> tuple[str, list[Fence]]:
        blanked = _COMMENT.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), self.text)
        prose: list[str] = []
        fences: list[Fence] = []
        opened: re.Match[str] | None = None
        code: list[str] = []
        tab = ""
        for number, line in enumerate(blanked.split("\n"), 1):
            if opened is None and (found := _FENCE.match(line)):
                opened, code = found, []
            elif opened is not None and line.strip() == opened["marks"]:
                first = number - len(code)
                fences.append(Fence(opened["language"], first, "\n".join(code), tab))
                opened = None
            elif opened is not None:
                code.append(line.removeprefix(opened["indent"]))
            elif (mark := _TAB.match(line)) is not None:
                tab = mark[1] or ""
            else:
                prose.append(line)
                continue
            prose.append("")
        assert opened is None, f"{self.path}: a fence has no end"
        assert not tab, f"{self.path}: a tab has no end"
        return "\n".join(prose), fences


def _repository_slug(text: str) -> str:
    return re.sub(r"[^\w\- ]", "", text.strip().lower()).replace(" ", "-")
