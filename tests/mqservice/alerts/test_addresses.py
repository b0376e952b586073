"""Where webhooks may not lead: every way to write an inner address that we know of."""

from __future__ import annotations

from ipaddress import ip_address, ip_network

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqservice.alerts.addresses import (
    TargetRejected,
    find_address,
    is_public,
    parse_target,
    reject_private_literal,
    resolve,
)

INNER = [
    "0.0.0.0", "0.1.2.3", "10.0.0.1", "10.255.255.255", "100.64.0.1", "100.100.100.200",
    "127.0.0.1", "127.255.255.254", "169.254.0.1", "169.254.169.254", "169.254.170.2",
    "172.16.0.1", "172.31.255.255", "192.0.0.1", "192.0.0.192", "192.0.2.1", "192.88.99.1",
    "192.168.0.1", "198.18.0.1", "198.51.100.1", "203.0.113.1", "224.0.0.1", "239.255.255.255",
    "240.0.0.1", "255.255.255.255", "168.63.129.16",
    "::", "::1", "fe80::1", "fec0::1", "fc00::1", "fd00:ec2::254", "fdff::1", "ff02::1",
    "::ffff:127.0.0.1", "::ffff:10.0.0.1", "::ffff:169.254.169.254", "::ffff:a9fe:a9fe",
    "::127.0.0.1", "::a9fe:a9fe", "64:ff9b::7f00:1", "64:ff9b::a9fe:a9fe", "64:ff9b:1::1",
    "2002:7f00:1::", "2002:a9fe:a9fe::1", "2001:0:4136:e378:8000:63bf:3fff:fdd2", "2001:db8::1",
    "100::1",
]  # fmt: skip
OUTER = ["1.1.1.1", "8.8.8.8", "93.184.216.34", "172.15.255.255", "172.32.0.1", "2606:4700::1111"]


@pytest.mark.parametrize("text", INNER)
def test_what_is_not_public_is_refused_however_the_name_is_spelled(text: str) -> None:
    with pytest.raises(TargetRejected):
        find_address(parse_target("https://innocent.example/hook"), (), lambda *_: [text])


@pytest.mark.parametrize("text", INNER)
def test_an_inner_address_in_the_url_is_refused_without_a_look_up(text: str) -> None:
    host = f"[{text}]" if ":" in text else text
    with pytest.raises(TargetRejected):
        reject_private_literal(parse_target(f"https://{host}/"), ())


@pytest.mark.parametrize("text", OUTER)
def test_what_is_public_is_taken(text: str) -> None:
    target = parse_target("https://hooks.example/")
    assert find_address(target, (), lambda *_: [text]) == ip_address(text)


@pytest.mark.parametrize(
    "host",
    ["2130706433", "0x7f000001", "0177.0.0.1", "127.1", "0x7f.1", "017700000001", "0", "localhost"],
)
def test_other_spellings_of_this_host_end_at_what_they_resolve_to(host: str) -> None:
    """The system's resolver reads these as 127.0.0.1 or 0.0.0.0."""
    with pytest.raises(TargetRejected, match="not public"):
        find_address(parse_target(f"https://{host}/"), (), resolve)


def test_one_inner_address_among_public_ones_is_a_trap() -> None:
    target = parse_target("https://hooks.example/")
    for addresses in (["1.1.1.1", "10.0.0.1"], ["10.0.0.1", "1.1.1.1"], ["1.1.1.1", "::1"]):
        with pytest.raises(TargetRejected):
            find_address(target, (), lambda *_, found=addresses: found)


def test_a_name_is_resolved_once_and_what_was_judged_is_what_is_used() -> None:
    """A rebinding name answers with something public first and with this host afterwards."""
    answers = iter([["1.1.1.1"], ["127.0.0.1"]])
    address = find_address(parse_target("https://r.example/"), (), lambda *_: next(answers))
    assert address == ip_address("1.1.1.1")
    assert next(answers) == ["127.0.0.1"], "nobody asked a second time"


def test_a_name_without_an_address_may_have_one_later() -> None:
    with pytest.raises(OSError, match="no address"):
        find_address(parse_target("https://empty.example/"), (), lambda *_: [])


@pytest.mark.parametrize("text", ["10.1.2.3", "::ffff:10.1.2.3"])
def test_a_network_of_the_configuration_is_reached_over_plain_http_too(text: str) -> None:
    allowed = [ip_network("10.1.0.0/16"), ip_network("fd00::/64")]
    for scheme in ("http", "https"):
        target = parse_target(f"{scheme}://inside.example/")
        assert find_address(target, allowed, lambda *_: [text]) == ip_address(text)
    with pytest.raises(TargetRejected):
        find_address(parse_target("http://x.example/"), allowed, lambda *_: ["10.2.0.1"])


def test_plain_http_leads_nowhere_else() -> None:
    with pytest.raises(TargetRejected, match="https"):
        find_address(parse_target("http://hooks.example/"), (), lambda *_: ["1.1.1.1"])


@pytest.mark.parametrize(
    "url",
    [
        "", "hooks.example", "//hooks.example/", "ftp://hooks.example/", "file:///etc/passwd",
        "gopher://hooks.example/", "https://", "https:///path", "https://user@hooks.example/",
        "https://a:b@hooks.example/", "https://1.1.1.1@10.0.0.1/", "https://hooks.example:0/",
        "https://hooks.example:99999/", "https://hooks.example:x/", "https://[::1/",
        "https://hooks.example/\r\nX: y", "https://hooks.example/ a", "https://hooks.example\\@x/",
        "https://hööks.example/", "https://hooks.example/\x00", "https://" + "a" * 2_050,
    ],
)  # fmt: skip
def test_what_is_no_plain_url_is_refused(url: str) -> None:
    with pytest.raises(TargetRejected):
        parse_target(url)


def test_parts_of_a_url() -> None:
    target = parse_target("https://Hooks.example:8443/a/b?c=d&e#f")
    assert (target.host, target.port, target.path) == ("hooks.example", 8443, "/a/b?c=d&e")
    assert target.authority == "hooks.example:8443"
    assert parse_target("https://[2606:4700::1]").authority == "[2606:4700::1]"
    assert parse_target("https://h.example?x").path == "/?x"


@given(st.ip_addresses(v=4))
def test_no_ipv4_address_becomes_public_by_hiding_in_an_ipv6_one(address: object) -> None:
    number = int(address)  # type: ignore[call-overload]  # hypothesis types it loosely
    carriers = [
        ip_address(0x64FF9B << 96 | number),
        ip_address(0x2002 << 112 | number << 80),
        ip_address(f"::{number >> 16:x}:{number & 0xFFFF:x}"),
    ]
    assert not any(is_public(carrier) for carrier in carriers)
