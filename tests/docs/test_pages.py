"""Every page is in the site's nav, and every link and anchor of ours leads somewhere."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.check import faults, file_faults, link_faults, nav_faults, site_pages
from tests.docs.markdown import DOCS, ROOT, Page

NAV = "site_name: x\n\nnav:\n  - Start:\n      - One: one.md\n      - two.md\n"


def page_of(folder: Path, text: str, *, name: str = "page.md") -> Page:
    path = folder / name
    path.write_text(text)
    return Page(path)


def test_every_page_is_in_the_nav_and_every_link_leads_somewhere() -> None:
    assert faults() == []
    assert len(site_pages()) > 10


def test_pictures_that_no_page_shows_are_not_kept() -> None:
    texts = "".join(path.read_text() for path in [*DOCS.rglob("*.md"), ROOT / "README.md"])
    texts += (ROOT / "mkdocs.yml").read_text()

    pictures = [path.name for path in DOCS.rglob("*") if path.suffix in {".svg", ".png"}]

    assert pictures
    assert [name for name in pictures if name not in texts] == []


def test_drawings_load_nothing_and_follow_light_and_dark() -> None:
    drawings = [
        path for path in DOCS.rglob("*.svg") if path.name != "mark.svg"
    ]  # on its own ground
    for path in drawings:
        text = path.read_text().replace("http://www.w3.org/2000/svg", "")

        assert not re.search(r"https?:|<script|@import|<image|url\((?!#)", text), path.name
        assert "prefers-color-scheme: dark" in text, path.name
    assert len(drawings) > 10


@pytest.mark.parametrize(
    ("names", "expected"),
    [
        (["one.md", "two.md"], []),
        (["one.md", "two.md", "new.md"], ["mkdocs.yml: new.md is not in nav"]),
        (["one.md"], ["mkdocs.yml: two.md of nav does not exist"]),
    ],
)
def test_nav_and_pages_are_compared_both_ways(names: list[str], expected: list[str]) -> None:
    assert nav_faults(NAV, names) == expected


def test_a_page_named_twice_is_a_fault() -> None:
    assert nav_faults(NAV + "      - one.md\n", ["one.md", "two.md"]) == [
        "mkdocs.yml: one.md is in nav twice"
    ]


@pytest.mark.parametrize(
    ("link", "fault"),
    [
        ("[x](other.md)", None),
        ("[x](other.md#a-heading)", None),
        ("[x](#here)", None),
        ("[x](https://example.com/gone)", None),
        ("`[x](gone.md)`", None),
        ("<!-- [x](gone.md) -->", None),
        ("```\n[x](gone.md)\n```", None),
        ("[x](gone.md)", "gone.md does not exist"),
        ("[`x` *y*](gone.md)", "gone.md does not exist"),
        ("![x](gone.svg)", "gone.svg does not exist"),
        ('<img src="gone.svg">', "gone.svg does not exist"),
        ("[x](other.md#nowhere)", "other.md#nowhere: no such anchor"),
        ("[x](other.md#in-a-fence)", "other.md#in-a-fence: no such anchor"),
        ("[x](other.md#rest--websocket)", "no such anchor, or not in both"),
        ("[x](../outside.md)", "leads out of"),
    ],
)
def test_links_are_followed(tmp_path: Path, link: str, fault: str | None) -> None:
    (tmp_path / "outside.md").write_text("# Outside\n")
    folder = tmp_path / "docs"
    folder.mkdir()
    other = "# Other\n\n## A `heading`\n\n## REST / WebSocket\n\n```sh\n# in a fence\n```\n"
    page_of(folder, other, name="other.md")

    found = link_faults(page_of(folder, f"# Page\n\n## Here\n\n{link}\n"), within=folder)

    if fault is None:
        assert found == []
    else:
        assert len(found) == 1
        assert fault in found[0]


def test_a_file_that_is_named_has_to_be_there(tmp_path: Path) -> None:
    (tmp_path / "tests").mkdir()
    (tmp_path / "tests" / "test_a.py").touch()
    text = "`tests/test_a.py::test_x`, `tests/test_*.py`, `tests/`\n`tests/test_b.py`, `a/b.py`\n"

    found = file_faults(page_of(tmp_path, text), within=tmp_path)

    assert found == ["page.md:2: there is no tests/test_b.py"]


def test_equal_headings_are_counted_where_both_renderings_agree(tmp_path: Path) -> None:
    page = page_of(tmp_path, "# A\n\n## B\n\n## B\n")

    assert page.anchors == {"a", "b"}


def test_a_fence_says_its_language_line_and_text(tmp_path: Path) -> None:
    page = page_of(tmp_path, "text\n\n```sh\nls\npwd\n```\n\n    1. ```\n")

    assert [(each.language, each.line, each.text) for each in page.fences] == [("sh", 4, "ls\npwd")]
