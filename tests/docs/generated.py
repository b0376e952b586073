"""Which pages, modules of the clients and parts of the console are made of something else."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Final

from clients.generate import PACKAGE
from mqservice.reference.api_page import api_page
from mqservice.reference.error_page import error_page
from tests.clients.python.generate import resources_module, types_module
from tests.clients.typescript.generate import api_module, frames_module
from tests.clients.typescript.package import GENERATED
from tests.docs.licences import licences_page
from tests.docs.limits import limits_page
from tests.docs.markdown import DOCS, ROOT, Page
from tests.docs.python_api import python_api_page
from tests.docs.typescript_api import typescript_api_page

QUICK_START: Final = ROOT / "mqservice" / "console" / "quick_start" / "snippets.json"


def console_snippets() -> str:
    """What the tabs of the quick start have in them, for the console's: by step and language."""
    page = Page(DOCS / "quickstart.md")
    lines = page.prose.splitlines()
    steps = {}
    for step in ("send", "receive"):
        first = lines.index(f"## {step.title()}")
        last = next(n for n in range(first + 1, len(lines)) if lines[n].startswith("## "))
        steps[step] = {fence.tab: fence.text for fence in page.fences if first < fence.line <= last}
        steps[step].pop("", None)
    return json.dumps(steps, indent=2) + "\n"


MADE: Final[dict[Path, Callable[[], str]]] = {
    DOCS / "api.md": api_page,
    DOCS / "errors.md": error_page,
    DOCS / "licences.md": licences_page,
    DOCS / "limits.md": limits_page,
    DOCS / "python-api.md": python_api_page,
    DOCS / "typescript-api.md": typescript_api_page,
    PACKAGE / "api_types.py": types_module,
    PACKAGE / "aio" / "resources.py": resources_module,
    QUICK_START: console_snippets,
    GENERATED / "api.ts": api_module,
    GENERATED / "frames.ts": frames_module,
}
