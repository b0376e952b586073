"""Every package that an installation brings has a licence that somebody has accepted."""

from __future__ import annotations

import hashlib
import json

import pytest

from mqservice import __version__
from tests.docs import licences
from tests.docs.licences import licence_of, pins_of, unaccepted
from tests.docs.markdown import ROOT

# Of the text as the Apache Software Foundation publishes it, with its first line empty.
APACHE_2_SHA256 = "cfc7749b96f63bd31c3c42b5c471bf756814053e847c10f3eb003417bc523d30"


@pytest.mark.parametrize(
    "path", ["LICENSE", "clients/python/LICENSE", "clients/typescript/LICENSE"]
)
def test_the_licence_is_the_apache_licence_word_for_word(path: str) -> None:
    assert hashlib.sha256((ROOT / path).read_bytes()).hexdigest() == APACHE_2_SHA256


@pytest.mark.parametrize(
    "lock",
    [
        "requirements.lock",
        "requirements-analytics.lock",
        "requirements-tracing.lock",
        "requirements-cluster.lock",
    ],
)
def test_every_line_of_a_lock_file_is_checked(lock: str) -> None:
    lines = (ROOT / lock).read_text().splitlines()
    pinned = [line.split("==")[0] for line in lines if "==" in line and line[0] not in "# "]

    assert [pin.name for pin in pins_of(lock)] == pinned


@pytest.mark.parametrize(
    ("expression", "found"),
    [
        ("MIT", set()),
        ("MIT OR Apache-2.0", set()),
        ("GPL-3.0-only", {"GPL-3.0-only"}),
        ("MIT AND AGPL-3.0-or-later", {"AGPL-3.0-or-later"}),
    ],
)
def test_a_licence_that_nobody_has_accepted_is_named(expression: str, found: set[str]) -> None:
    assert unaccepted(expression) == found


def test_a_package_without_a_known_licence_stops_the_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(licences, "_READ", {})

    with pytest.raises(ValueError, match="amqp: read its licence"):
        licence_of("amqp")


@pytest.mark.parametrize("folder", ["frontend", "clients/typescript"])
def test_npm_packages_have_the_same_licence(folder: str) -> None:
    assert '"license": "Apache-2.0"' in (ROOT / folder / "package.json").read_text()


def test_the_version_is_a_release_and_the_client_has_the_same() -> None:
    client = json.loads((ROOT / "clients" / "typescript" / "package.json").read_text())

    assert client["version"] == __version__
    assert [part.isdigit() for part in __version__.split(".")] == [True] * 3
