"""Where templates, static files and translations are: beside the package in a checkout, inside it
once installed from a wheel.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

_PACKAGE: Final = Path(__file__).resolve().parents[1]


def _find() -> Path:
    # Inside the package first: beside an installed one, `frontend` would be somebody else's.
    installed = _PACKAGE / "frontend"
    return installed if installed.is_dir() else _PACKAGE.parent / "frontend"


FRONTEND_DIR: Final = _find()
