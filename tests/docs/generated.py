"""Which pages and modules of the clients are made of the code, and by what."""

from __future__ import annotations

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
from tests.docs.markdown import DOCS

MADE: Final[dict[Path, Callable[[], str]]] = {
    DOCS / "api.md": api_page,
    DOCS / "errors.md": error_page,
    DOCS / "licences.md": licences_page,
    DOCS / "limits.md": limits_page,
    PACKAGE / "api_types.py": types_module,
    PACKAGE / "aio" / "resources.py": resources_module,
    GENERATED / "api.ts": api_module,
    GENERATED / "frames.ts": frames_module,
}
