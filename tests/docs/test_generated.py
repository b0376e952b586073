"""Pages that are made of the code say what the code says, and leave no limit out."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path

import msgspec
import pytest

from mqservice.delivery import limits
from mqservice.lib.middleware import CONTENT_SECURITY_POLICY
from mqservice.protocol import limits as protocol_limits
from mqservice.quotas.limits import LIMIT_NAMES
from mqservice.reference.openapi import openapi_document
from storage_engine.config import StoreConfig
from storage_engine.log.checkpoint import FORMAT_VERSION
from tests.docs.generated import MADE
from tests.docs.limit_rows import SECTIONS
from tests.docs.limits import shown, value_of
from tests.docs.markdown import DOCS, Page

UNITS = {"KIB", "MIB", "SECOND_MS", "HOUR_MS", "DAY_MS"}
# How the service works inside; nobody meets these.
INSIDE = {
    "JSON_GROWTH", "JSON_FIELDS_BYTES", "MERGE_BYTES_MAX", "PULLS_AT_ONCE_MAX",
    "PAGE_PULL_COUNT_MAX", "SCAN_PULL_COUNT_MAX", "TEXT_PULL_COUNT_MAX", "PAGE_LOOK_UP_COUNT_MAX",
    "CURSOR_CHARS_MAX",
    "FRAME_BYTES_HARD_MAX", "PUSH_WAIT_MS", "LATE_TAG_COUNT_MAX", "DRAIN_GRACE_MS",
    "SAVED_SESSION_BYTES_MAX", "HAND_OVER_MS_MAX", "HAVE_TAG_COUNT_MAX", "ANNOUNCE_MS",
    "BLOCKED_MS", "RECONNECT_MS", "LEASE_MS_MAX", "NACK_DELAY_MS_MAX", "CAUSE_MS_MAX",
    "COUNTED_JSON_BYTES", "COUNTED_JSON_COMMAS", "LIST_COUNT_HARD_MAX",
}  # fmt: skip


@pytest.mark.parametrize("path", MADE, ids=lambda path: str(path.name))
def test_the_page_is_what_the_code_makes(path: Path) -> None:
    assert path.read_text() == MADE[path](), "run: python -m tests.docs"


def test_every_limit_of_the_data_plane_is_told_or_known_to_be_inside() -> None:
    told = {
        place.partition(":")[2]
        for rows in SECTIONS.values()
        for row in rows
        for place in row.places
        if place.startswith(("mqservice.delivery.limits:", "mqservice.protocol.limits:"))
    }

    there = {name for name in {**vars(limits), **vars(protocol_limits)} if name.isupper()} - UNITS

    assert there - told - INSIDE == set()
    assert told <= there


def test_every_setting_of_the_engine_and_every_quota_is_reported() -> None:
    page = Page(DOCS / "limits.md").text
    places = {place for rows in SECTIONS.values() for row in rows for place in row.places}
    ways = {
        "store_dir", "socket", "broker", "metrics_port", "metrics_bind", "listen", "shard",
        "secret", "secret_file", "replicated_log", "snapshot_url", "deployment", "control",
        "shard_epoch", "tls_cert_file", "tls_key_file",
    }  # fmt: skip

    fields = {field.name for field in msgspec.structs.fields(StoreConfig)} - ways

    assert [name for name in sorted(fields) if f"| `{name}` |" not in page] == []
    assert {f"mqservice.quotas.limits:QuotaLimits.{name}" for name in LIMIT_NAMES} <= places


def test_every_operation_is_on_the_page_of_operations() -> None:
    page = Page(DOCS / "api.md").text

    for path, methods in openapi_document()["paths"].items():
        for method in methods:
            assert f"`{method.upper()} {path}`" in page


def test_the_page_on_security_shows_the_policy_that_pages_are_sent_with() -> None:
    [policy] = [fence.text for fence in Page(DOCS / "security.md").fences if "-src" in fence.text]

    assert " ".join(policy.split()) == CONTENT_SECURITY_POLICY


def test_the_page_on_upgrades_names_the_format_that_the_engine_writes() -> None:
    assert f"records its format, {FORMAT_VERSION} today" in Page(DOCS / "upgrade.md").text


@pytest.mark.parametrize(
    ("place", "value", "text"),
    [
        ("m:BODY_BYTES_MAX", 4 * 1024 * 1024, "4 MiB"),
        ("m:BODY_BYTES_MAX", 1_500, "1,500 bytes"),
        ("m:Struct.lease_ms_max", 90_000, "90 s"),
        ("m:LEASE_MS", 60_000, "1 min"),
        ("m:LEASE_MS", 1, "1 ms"),
        ("m:KEYS_MAX", 1_000, "1,000"),
        ("m:LIFE", timedelta(days=30), "30 d"),
    ],
)
def test_numbers_have_the_unit_that_their_name_says(
    place: str, value: int | timedelta, text: str
) -> None:
    assert shown(place, value) == text


def test_a_number_comes_from_where_the_row_says() -> None:
    assert value_of("mqservice.delivery.limits:BATCH_COUNT_MAX") == limits.BATCH_COUNT_MAX
    assert value_of("storage_engine.config:StoreConfig.map_count_max") == 4_096
