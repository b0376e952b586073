"""The size limits of a document of definitions; the body of a request has at most 1 MiB besides."""

from __future__ import annotations

from typing import Final

VERSION: Final = 2  # of documents that are written
VERSION_MIN: Final = 1  # that is read: without schemas of topics
DEFINITION_COUNT_MAX: Final = 2_000  # topics and groups of one document, together
SCHEMA_CHARS_MAX: Final = 512 * 1024  # of the schemas in an export, which has to fit a request
