"""The files that Node has built for the pages, and whether they still match the sources.

    frontend/src, package-lock.json ── make console (Node) ──▶ frontend/static/build, manifest.json

The built files are committed: running needs no Node. ``manifest.json`` keeps two SHA-256 sums, of
the sources and of the files; ``stale_parts`` compares both without Node. ``build.mjs`` sums up in
the same way.
"""

from __future__ import annotations

import functools
import hashlib
from pathlib import Path
from typing import Final

import msgspec

from mqservice.lib.frontend import FRONTEND_DIR

BUILD: Final = FRONTEND_DIR / "static" / "build"
BUILT: Final = ("charts.js", "console.css", "console.js", "tail.js")
_TOP_SOURCES: Final = ("build.mjs", "package.json", "package-lock.json")


class Manifest(msgspec.Struct, frozen=True):
    """Hexadecimal sums, see the module."""

    sources: str
    files: str


@functools.cache
def read_manifest() -> Manifest:
    return msgspec.json.decode((BUILD / "manifest.json").read_bytes(), type=Manifest)


def version() -> str:
    """What changes with the built files, short enough for an address."""
    return read_manifest().files[:12]


def stale_parts() -> list[str]:
    """What has to be built anew: "sources" were changed since, or "files" by hand. Reads all."""
    manifest = read_manifest()
    src = (path for path in (FRONTEND_DIR / "src").rglob("*") if path.is_file())
    sources = [*_TOP_SOURCES, *(path.relative_to(FRONTEND_DIR).as_posix() for path in src)]
    found = {"sources": _sum(FRONTEND_DIR, sorted(sources)), "files": _sum(BUILD, BUILT)}
    return [name for name, value in found.items() if value != getattr(manifest, name)]


def _sum(base: Path, names: tuple[str, ...] | list[str]) -> str:
    digest = hashlib.sha256()
    for name in names:
        content = (base / name).read_bytes()
        digest.update(f"{name}\0{len(content)}\0".encode())
        digest.update(content)
    return digest.hexdigest()
