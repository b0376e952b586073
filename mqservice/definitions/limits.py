"""The size limits of a document of definitions; the body of a request has at most 1 MiB besides."""

from __future__ import annotations

from typing import Final

VERSION: Final = 1
DEFINITION_COUNT_MAX: Final = 2_000  # topics and groups of one document, together
