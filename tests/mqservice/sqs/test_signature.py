"""Signatures that botocore makes are accepted, and nothing that differs from what was signed."""

from __future__ import annotations

import hashlib
from dataclasses import replace
from urllib.parse import quote

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mqservice.accounts.access import Principal, SigningSecret
from mqservice.delivery.path_routes import NotLoaded
from mqservice.sqs import signature
from mqservice.sqs.signature import SignatureError, Signatures
from tests.clock import ManualClock
from tests.mqservice.sqs.signing import (
    SECRET,
    KnownKeys,
    Sent,
    accepts,
    reader,
    refusal,
    signed,
    verify,
)

CLOCK = ManualClock()
TARGET = {"X-Amz-Target": "AmazonSQS.SendMessage", "Content-Type": "application/x-amz-json-1.0"}
TEXT = st.text(st.characters(codec="utf-8", exclude_characters="\r\n"), max_size=20)
PATHS = st.lists(
    st.one_of(st.sampled_from(["", ".", "..", "a.fifo", "~", "a b", "%2F", "ü"]), TEXT), max_size=5
).map(lambda parts: "/sqs/" + "/".join(quote(part) for part in parts))
HEADERS = st.dictionaries(
    st.sampled_from(["X-Amz-Target", "Content-Type", "X-Custom", "amz-sdk-invocation-id", "a!b"]),
    st.text(st.characters(min_codepoint=32, max_codepoint=126), max_size=20),
    max_size=4,
)
PARAMS = st.dictionaries(TEXT.filter(bool), TEXT, max_size=4)


def sent_example() -> Sent:
    return signed(CLOCK, headers=TARGET, body=b'{"QueueUrl":"q"}')


def link_example() -> Sent:
    return signed(
        CLOCK, method="GET", params={"Action": "ReceiveMessage"}, body=b"", expires_s=3_600
    )


@given(
    method=st.sampled_from(["GET", "POST"]),
    path=PATHS,
    headers=HEADERS,
    params=PARAMS,
    body=st.binary(max_size=50),
)
def test_what_botocore_signs_in_the_header_is_accepted(
    method: str, path: str, headers: dict[str, str], params: dict[str, object], body: bytes
) -> None:
    url = f"http://queue.test:8080{path}"
    sent = signed(CLOCK, method=method, url=url, headers=headers, params=params, body=body)

    assert accepts(reader(CLOCK), sent)


@given(path=PATHS, headers=HEADERS, params=PARAMS, expires_s=st.integers(1, 7 * 86_400))
def test_what_botocore_signs_in_the_query_is_accepted(
    path: str, headers: dict[str, str], params: dict[str, object], expires_s: int
) -> None:
    sent = signed(
        CLOCK,
        method="GET",
        url=f"http://queue.test:8080{path}",
        headers=headers,
        params=params,
        body=b"",
        expires_s=expires_s,
    )

    assert accepts(reader(CLOCK), sent)


@given(data=st.data(), is_link=st.booleans())
def test_one_changed_byte_anywhere_is_refused(data: st.DataObject, is_link: bool) -> None:
    sent = link_example() if is_link else sent_example()
    if is_link:
        headers, others = [b"host"], ["method", "path", "query"]
    else:
        headers = [b"host", b"x-amz-date", b"x-amz-target", b"content-type", b"authorization"]
        others = ["method", "path", "body"]
    place = data.draw(st.sampled_from(others) | st.sampled_from(headers))
    if isinstance(place, bytes):
        changed = sent.with_header(place, different(data, sent.header(place)))
    elif place == "method":
        changed = replace(sent, method="PUT")
    elif place == "path":
        changed = replace(sent, path=different(data, sent.path))
    elif place == "query":
        changed = replace(sent, query=different(data, sent.query))
    else:
        changed = replace(sent, body=different(data, sent.body))

    assert refusal(reader(CLOCK), changed).status in (400, 403)


def different(data: st.DataObject, value: bytes) -> bytes:
    """``value`` with another byte in one place, which is neither a space nor a dot."""
    place = data.draw(st.integers(0, len(value) - 1))
    others = [each for each in range(33, 127) if each != value[place] and each not in b".,&+/="]
    if value[place] in b"=,&/":
        others = [each for each in others if chr(each).isalnum()]
    byte = data.draw(st.sampled_from(others))
    return value[:place] + bytes([byte]) + value[place + 1 :]


@pytest.mark.parametrize("part", ["added", "taken away"])
def test_what_decides_and_is_not_signed_is_refused(part: str) -> None:
    sent = signed(CLOCK, headers=TARGET if part == "taken away" else {})
    value = None if part == "taken away" else b"AmazonSQS.PurgeQueue"

    error = refusal(reader(CLOCK), sent.with_header(b"x-amz-target", value))

    assert error.code == "SignatureDoesNotMatch"
    assert error.name == "InvalidSignatureException"


def test_a_hash_that_is_not_signed_is_refused() -> None:
    sent = signed(CLOCK, body=b"one")
    body_hash = hashlib.sha256(b"one").hexdigest().encode()

    assert "not signed" in str(
        refusal(reader(CLOCK), sent.with_header(b"x-amz-content-sha256", body_hash))
    )


def test_the_hash_that_is_claimed_has_to_be_the_bodys() -> None:
    claimed = {"X-Amz-Content-SHA256": hashlib.sha256(b"one").hexdigest()}
    sent = signed(CLOCK, headers=claimed, body=b"one")
    assert accepts(reader(CLOCK), sent)

    error = refusal(reader(CLOCK), replace(sent, body=b"two"))

    assert error.code == "SignatureDoesNotMatch"


@pytest.mark.parametrize("claim", ["UNSIGNED-PAYLOAD", "STREAMING-AWS4-HMAC-SHA256-PAYLOAD"])
def test_a_body_that_is_not_signed_is_refused(claim: str) -> None:
    sent = signed(CLOCK, headers={"X-Amz-Content-SHA256": claim})

    assert "must cover the body" in str(refusal(reader(CLOCK), sent))


def test_spaces_in_headers_are_canonical() -> None:
    sent = signed(CLOCK, headers={"X-Custom": "a b"})

    assert accepts(reader(CLOCK), sent.with_header(b"x-custom", b"  a \t  b "))


def test_a_header_that_comes_twice_is_signed_as_both() -> None:
    sent = signed(CLOCK, headers={"X-Custom": "a,b"})
    others = tuple(pair for pair in sent.headers if pair[0] != b"x-custom")

    twice = replace(sent, headers=(*others, (b"x-custom", b"a"), (b"x-custom", b"b")))
    assert accepts(reader(CLOCK), twice)

    again = replace(sent, headers=(*sent.headers, (b"x-custom", b"c")))
    assert refusal(reader(CLOCK), again).code == "SignatureDoesNotMatch"


def test_parameters_that_come_twice_are_in_order_of_their_values() -> None:
    sent = signed(CLOCK, url="http://queue.test:8080/sqs/?b=2&a=2&a=1&a-=0&c")

    for query in (b"b=2&a=2&a=1&a-=0&c", b"c=&a=1&a-=0&a=2&b=2"):
        assert accepts(reader(CLOCK), replace(sent, query=query))
    assert refusal(reader(CLOCK), replace(sent, query=b"b=2&a=1&a-=0&c")).status == 403


def test_the_date_may_be_in_the_header_date() -> None:
    sent = signed(CLOCK, headers={"Date": "now"})

    assert b"x-amz-date" not in dict(sent.headers)
    assert accepts(reader(CLOCK), sent)


@pytest.mark.parametrize("late_ms", [-900_000, 0, 900_000])
def test_a_clock_may_differ_by_15_minutes(late_ms: int) -> None:
    clock = ManualClock()
    sent = signed(clock)
    clock.advance(late_ms)

    assert accepts(reader(clock), sent)


@pytest.mark.parametrize(
    ("late_ms", "words"), [(-901_000, "not yet current"), (901_000, "Signature expired")]
)
def test_a_clock_that_differs_by_more_is_refused(late_ms: int, words: str) -> None:
    clock = ManualClock()
    sent = signed(clock)
    clock.advance(late_ms)

    error = refusal(reader(clock), sent)

    assert error.code == "SignatureDoesNotMatch"
    assert words in str(error)


def test_a_link_is_good_until_it_expires_and_as_often_as_it_is_used() -> None:
    clock = ManualClock()
    sent = signed(clock, method="GET", body=b"", expires_s=3_600)
    signatures = reader(clock)

    for _ in range(3):
        assert accepts(signatures, sent)
        clock.advance(1_200_000)
    clock.advance(1)
    assert refusal(signatures, sent).code == "RequestExpired"


def test_the_same_signature_again_is_accepted_for_ten_seconds() -> None:
    clock = ManualClock()
    sent = signed(clock)
    signatures = reader(clock)

    assert accepts(signatures, sent)
    clock.advance(10_000)
    assert accepts(signatures, sent)
    clock.advance(1_000)
    error = refusal(signatures, sent)
    assert (error.code, error.status) == ("RequestExpired", 400)
    assert accepts(signatures, signed(clock))


def test_nothing_is_remembered_of_bad_signatures() -> None:
    clock = ManualClock()
    sent = signed(clock)
    signatures = reader(clock)

    refusal(signatures, replace(sent, body=b"other"))
    clock.advance(60_000)

    assert accepts(signatures, sent)


def test_session_tokens_are_refused() -> None:
    for expires_s in (None, 60):
        sent = signed(CLOCK, token="session", method="GET", body=b"", expires_s=expires_s)
        error = refusal(reader(CLOCK), sent)
        assert error.code == "InvalidClientTokenId"
        assert "AWS_SESSION_TOKEN" in str(error)


def test_another_service_is_refused_and_any_region_is_ours() -> None:
    assert accepts(reader(CLOCK), signed(CLOCK, region="xx-nowhere-9"))
    assert "'sqs'" in str(refusal(reader(CLOCK), signed(CLOCK, service="sns")))


@pytest.mark.parametrize("key_id", ["MQAKABCDEFGH2346", "mqakabcdefgh2345", "AKIAIOSFODNN7EXAMPLE"])
def test_a_key_that_is_not_known_has_to_be_loaded(key_id: str) -> None:
    with pytest.raises(NotLoaded):
        verify(reader(CLOCK), signed(CLOCK, key_id=key_id))


async def test_a_loaded_key_is_used_although_the_cache_does_not_keep_it() -> None:
    keys = KnownKeys()
    signatures = Signatures(Forgetful(keys), clock=CLOCK)
    sent = sent_example()
    head = signatures.read(sent.method, sent.path, sent.query, sent.headers)
    with pytest.raises(NotLoaded) as missing:
        signatures.verify(head, sent.body)
    await missing.value.load()

    assert signatures.verify(head, sent.body) is keys.principal


async def test_a_key_that_is_revoked_while_the_body_arrives_is_asked_for_again() -> None:
    signatures = Signatures(Forgetful(KnownKeys()), clock=CLOCK)
    sent = sent_example()
    head = signatures.read(sent.method, sent.path, sent.query, sent.headers)
    await signatures.require_key(head)

    with pytest.raises(NotLoaded):
        signatures.verify(head, sent.body)


class Forgetful:
    """As the cache is while PostgreSQL is away: it has the key, and calls it fresh no more."""

    def __init__(self, keys: KnownKeys) -> None:
        self._keys = keys

    def cached(self, key_id: bytes) -> Principal | None:
        return None

    async def load(self, authorization: bytes, /) -> Principal:
        return self._keys.principal


def test_another_secret_is_refused() -> None:
    error = refusal(reader(CLOCK), signed(CLOCK, secret=SECRET.swapcase()))

    assert (error.code, error.status) == ("SignatureDoesNotMatch", 403)


def test_each_secret_is_good_until_its_end() -> None:
    clock = ManualClock()
    present = SigningSecret(b"present")
    former = SigningSecret(SECRET.encode(), until_ms=clock.now_ms() + 1_000)
    signatures = reader(clock, present, former)

    assert accepts(signatures, signed(clock))
    clock.advance(1_000)
    assert refusal(signatures, signed(clock)).code == "SignatureDoesNotMatch"
    assert accepts(signatures, signed(clock, secret="present"))


HEADER = sent_example().header(b"authorization")


@pytest.mark.parametrize(
    ("header", "code"),
    [
        (None, "MissingAuthenticationToken"),
        (b"", "MissingAuthenticationToken"),
        (b"Bearer mqk_0", "MissingAuthenticationToken"),
        (b"AWS AKIA:signature", "IncompleteSignature"),
        (HEADER.replace(b"HMAC", b"ECDSA-P256"), "IncompleteSignature"),
        (b"AWS4-HMAC-SHA256", "IncompleteSignature"),
        (HEADER.replace(b"Signature=", b"S="), "IncompleteSignature"),
        (HEADER.replace(b"SignedHeaders=", b"S="), "IncompleteSignature"),
        (HEADER.replace(b"Credential=", b"C="), "IncompleteSignature"),
        (HEADER.replace(b"/aws4_request", b""), "IncompleteSignature"),
        (HEADER.replace(b"aws4_request", b"aws5_request"), "SignatureDoesNotMatch"),
        (HEADER.replace(b"host;", b""), "SignatureDoesNotMatch"),
        (HEADER.replace(b"host;", b"Host;"), "IncompleteSignature"),
        (HEADER.replace(b"host;", b"host;absent;"), "SignatureDoesNotMatch"),
        (HEADER + b", Signature=" + b"0" * 64, "IncompleteSignature"),
        (HEADER[:-1], "SignatureDoesNotMatch"),
        (HEADER + b"0", "SignatureDoesNotMatch"),
        (HEADER.replace(b"host;", b"host;" * 900), "IncompleteSignature"),
        (HEADER.replace(b"host;", b"host;" * 70), "IncompleteSignature"),
    ],
)
def test_headers_that_are_none(header: bytes | None, code: str) -> None:
    sent = sent_example().with_header(b"authorization", header)

    assert refusal(reader(CLOCK), sent).code == code


def test_a_huge_header_is_not_taken_apart() -> None:
    sent = sent_example().with_header(b"authorization", HEADER + b"," * 60_000)

    assert "at most 4096 bytes" in str(refusal(reader(CLOCK), sent))


@pytest.mark.parametrize(
    ("old", "new", "code"),
    [
        (b"X-Amz-Expires=3600", b"X-Amz-Expires=604801", "IncompleteSignature"),
        (b"X-Amz-Expires=3600", b"X-Amz-Expires=0", "IncompleteSignature"),
        (b"X-Amz-Expires=3600", b"X-Amz-Expires=-1", "IncompleteSignature"),
        (b"X-Amz-Expires=3600", b"X-Amz-Expires=3601", "SignatureDoesNotMatch"),
        (b"X-Amz-Expires=3600", b"X-Amz-Expires=3600&X-Amz-Expires=60", "IncompleteSignature"),
        (b"X-Amz-Expires=3600", b"", "IncompleteSignature"),
        (b"X-Amz-Algorithm=AWS4-HMAC-SHA256", b"X-Amz-Algorithm=AWS5", "IncompleteSignature"),
        (b"X-Amz-Signature=", b"X-Amz-Signature=0", "SignatureDoesNotMatch"),
        (b"X-Amz-SignedHeaders=host", b"X-Amz-SignedHeaders=a", "SignatureDoesNotMatch"),
    ],
)
def test_links_that_are_none(old: bytes, new: bytes, code: str) -> None:
    sent = link_example()
    assert old in sent.query

    error = refusal(reader(CLOCK), replace(sent, query=sent.query.replace(old, new)))

    assert error.code == code


def test_a_link_with_a_header_beside_it_is_refused() -> None:
    sent = link_example().with_header(b"authorization", HEADER)

    assert refusal(reader(CLOCK), sent).code == "IncompleteSignature"


@pytest.mark.parametrize(
    "stamp", [b"2027-01-15T08:00:00Z", b"20271315T080000Z", b"now", b"", b"2" * 10_000]
)
def test_dates_that_are_none(stamp: bytes) -> None:
    sent = sent_example()
    for name in (b"x-amz-date", b"date"):
        dated = sent.with_header(b"x-amz-date", None).with_header(name, stamp)
        assert refusal(reader(CLOCK), dated).code == "IncompleteSignature"


def test_a_signature_before_the_other_parts_is_that_of_its_request_only() -> None:
    signatures = reader(CLOCK)
    sent = sent_example()
    before, _, found = HEADER.partition(b"Signature=")
    turned = b"AWS4-HMAC-SHA256 Signature=%b, %b" % (
        found,
        before.removeprefix(b"AWS4-HMAC-SHA256 ").removesuffix(b", "),
    )

    assert accepts(signatures, sent.with_header(b"authorization", turned))
    bare = sent.with_header(b"authorization", b"AWS4-HMAC-SHA256 Signature=" + found)
    assert refusal(signatures, bare).code == "IncompleteSignature"


def test_what_is_kept_of_clients_is_bounded() -> None:
    signatures = reader(CLOCK)
    for number in range(2_000):
        verify(signatures, signed(CLOCK, region=f"region-{number}"))

    assert signatures._known.total_bytes <= signature._KNOWN_BYTES_MAX


@given(path=st.binary(max_size=30), query=st.binary(max_size=60), header=st.binary(max_size=200))
def test_bytes_that_mean_nothing_are_refused(path: bytes, query: bytes, header: bytes) -> None:
    for given_header in (header, b"AWS4-HMAC-SHA256 " + header):
        with pytest.raises(SignatureError):
            reader(CLOCK).read(
                "POST", path, query, [(b"host", b"h"), (b"authorization", given_header)]
            )
