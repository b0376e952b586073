"""What Node has built is what the sources say; what templates use is there."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import pytest

from mqservice.console import assets
from mqservice.console.assets import BUILD, read_manifest, stale_parts
from mqservice.lib.frontend import FRONTEND_DIR

WEIGHT_KIB_MAX = 150
CLASSES = re.compile(r'\bclass="([^"]*)"')
TEMPLATE_CODE = re.compile(r"{[{%#].*?[}%#]}")
TYPED = re.compile(r'hx-trigger="[^"]*\binput\b')
# Words that only scripts and tests look for.
HOOKS = {"curl", "reference-main"}


def test_built_files_are_those_of_the_sources() -> None:
    assert stale_parts() == [], "run `make console`, which needs Node, and commit frontend/static"


def test_changed_source_and_changed_file_are_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    copy = tmp_path / "frontend"
    for path in (FRONTEND_DIR / "src", BUILD):
        target = copy / path.relative_to(FRONTEND_DIR)
        target.parent.mkdir(parents=True, exist_ok=True)
        subprocess.run(["cp", "-r", path, target], check=True)
    for name in ("build.mjs", "package.json", "package-lock.json"):
        (copy / name).write_bytes((FRONTEND_DIR / name).read_bytes())
    monkeypatch.setattr(assets, "FRONTEND_DIR", copy)
    monkeypatch.setattr(assets, "BUILD", copy / "static" / "build")
    read_manifest.cache_clear()
    assert stale_parts() == []

    (copy / "src" / "css" / "tokens.css").write_text(":root {}\n")
    assert stale_parts() == ["sources"]
    (copy / "static" / "build" / "console.css").write_text("")
    assert stale_parts() == ["sources", "files"]


def test_what_is_asked_while_someone_types_is_what_was_typed_last() -> None:
    """htmx 4 keeps the first request that waits for another, and drops those that come later."""
    pages = [path.read_text() for path in (FRONTEND_DIR / "templates").rglob("*.html")]
    counts = [(len(TYPED.findall(page)), page.count('hx-sync="this:queue last"')) for page in pages]
    assert sum(typed for typed, _ in counts) == 1, "the form of schedules"
    assert all(typed == synced for typed, synced in counts)


def test_every_class_of_a_template_has_a_rule() -> None:
    styles = (BUILD / "console.css").read_text()
    styles += (FRONTEND_DIR / "static" / "css" / "reference.css").read_text()
    known = {name.replace("\\", "") for name in re.findall(r"\.((?:[\w-]|\\.)+)", styles)}
    unknown = {
        f"{path.name}: {name}"
        for path in (FRONTEND_DIR / "templates").rglob("*.html")
        if path.name != "daily.html"
        for text in CLASSES.findall(path.read_text())
        for name in TEMPLATE_CODE.sub(" ", re.sub(r"\S*{{.*?}}\S*", " ", text)).split()
        if name not in known | HOOKS
    }
    assert unknown == set(), "a misspelt class, or a new one of Tailwind: then run `make console`"


def test_all_that_a_page_loads_is_small() -> None:
    names = ("console.css", "console.js", "charts.js")
    packed = sum(len(gzip.compress((BUILD / name).read_bytes())) for name in names)
    assert packed < WEIGHT_KIB_MAX * 1024 / 2  # the other half is for htmx and the page itself
