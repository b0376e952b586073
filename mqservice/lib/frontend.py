"""Where templates, static files, translations and guides are: beside the package in a checkout,
inside it once installed from a wheel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def _find(name: str) -> Path:
    # Inside the package first: beside an installed one, `frontend` would be somebody else's.
    installed = _PACKAGE / name
    return installed if installed.exists() else _PACKAGE.parent / name


FRONTEND_DIR: Final = _find("frontend")
DOCS_DIR: Final = _find("docs")
DOCS_NAV: Final = _find("mkdocs.yml")
