"""What of a body a path hides, and what an attacker writes so that it does not."""

from __future__ import annotations

import base64
import gzip
import json

import pytest

from mqservice.masking.json_fields import MASK, hide_fields
from mqservice.masking.limits import JSON_BYTES_MAX, STEPS_MAX
from mqservice.masking.paths import parse_path, path_fault

SECRET = "4111-1111"


def shown(body: str | bytes, *paths: str) -> str | None:
    """The body as text without what the paths lead to; None: nothing of it is shown."""
    for path in paths:
        assert path_fault(path) is None
    given = body.encode() if isinstance(body, str) else body
    found = hide_fields(given, frozenset(parse_path(path) for path in paths))
    return None if found is None else found[0].decode()


@pytest.mark.parametrize(
    ("body", "path"),
    [
        ('{"card": {"number": "4111-1111", "kind": "x"}}', "/card/number"),
        ('{"card": {"number": ["4111-1111", {"a": "4111-1111"}]}}', "/card/number"),
        ('{"card": {"number": {"deep": "4111-1111"}}}', "/card/number"),
        # Arrays on the way, also where the path knows of none
        ('[{"card": [[{"number": "4111-1111"}]]}]', "/card/number"),
        ('{"items": [{"card": "4111-1111"}, {"card": "4111-1111"}]}', "/items/*/card"),
        ('{"items": [{"card": "4111-1111"}, {"card": "4111-1111"}]}', "/items/card"),
        ('{"items": ["a", "4111-1111"]}', "/items/1"),
        # A name twice, in either place
        ('{"card": "4111-1111", "card": "4111-1111"}', "/card"),
        ('{"a": {"card": "4111-1111"}, "a": {"b": 1}}', "/a/card"),
        # A name written otherwise that programs take for the same
        ('{"\\u0063ar\\u0064": "4111-1111"}', "/card"),
        ('{"CARD": "4111-1111"}', "/card"),
        ('{" ｃａｒｄ ": "4111-1111"}', "/card"),
        ('{"stra\\u00dfe": "4111-1111"}', "/STRASSE"),
        # Something else than an object where the path goes on
        ('{"card": "4111-1111"}', "/card/number"),
        ('{"card": ["4111-1111"]}', "/card/number"),
        ('{"card": "{\\"number\\": \\"4111-1111\\"}"}', "/card/number"),
        # A text that is JSON itself
        ('{"payload": " [{\\"card\\": \\"4111-1111\\"}]"}', "/**/card"),
        ('{"payload": "\\"{4111-1111}\\""}', "/**/card"),
        ('{"a": {"b": [{"card": "4111-1111"}]}, "card": "4111-1111"}', "/**/card"),
        ('{"a": {"x": {"card": {"number": "4111-1111"}}}}', "/a/**/card/number"),
        ('{"a/b": {"~": "4111-1111"}}', "/a~1b/~0"),
        ('{"": "x", "any": "4111-1111"}', "/*"),
    ],
)
def test_what_a_path_leads_to_is_not_in_what_is_shown(body: str, path: str) -> None:
    text = shown(body, path)
    assert text is not None
    assert SECRET not in text
    assert MASK in text
    json.loads(text)


@pytest.mark.parametrize(
    "body",
    [
        '{"card": "4111-1111"',  # broken
        '{"card": "4111-1111"} trailing',
        "{'card': '4111-1111'}",
        '{"card": NaN, "n": "4111-1111"}',
        '\ufeff{"card": "4111-1111"}',
        "card=4111-1111",
        '"{\\"card\\": \\"4111-1111\\"}"',  # JSON of JSON
        "4111",
        "null",
        "[" * 100_000 + '"4111-1111"' + "]" * 100_000,
        '{"a":' * 5_000 + '{"card": "4111-1111"}' + "}" * 5_000,
        '{"n": ' + "1" * 10 + ', "card": "4111-1111", }',
        '{"other": "\\ud800", "card": "4111-1111"}',  # half a character
        '{"card": "' + SECRET * (JSON_BYTES_MAX // len(SECRET)) + '"}',
        gzip.compress(b'{"card": "4111-1111"}', mtime=0),
        base64.b64encode(b'{"card": "4111-1111"}'),
        '{"card": "4111-1111"}'.encode("utf-16"),
        '{"card": "4111-1111"}'.encode("utf-7") + b"\xff",
        b'\x00{"card": "4111-1111"}',
    ],
)
def test_nothing_is_shown_of_what_cannot_be_looked_through(body: str | bytes) -> None:
    assert shown(body, "/card") is None


def test_all_else_stays_as_it_was_written() -> None:
    body = '{"id": 12345678901234567890123, "price": 1.10, "big": 1e999, "t": true, "z": null, '
    body += '"ö": "\\"quoted\\"", "card": 4111, "list": [-0.0, {}, []]}'
    text = shown(body, "/card")
    assert text == body.replace("4111", f'"{MASK}"')
    assert shown(body, "/card", "/nothing/of/it") == text
    items = '{"items": [{"id": 7, "card": "x"}, {"id": 8}]}'
    assert shown(items, "/items/*/card") == items.replace("x", MASK)
    assert shown(items, "/**/card") == items.replace("x", MASK)
    assert shown('{"n": {"card": null}}', "/n/card/number") == '{"n": {"card": null}}'


def test_it_is_told_how_many_values_were_hidden() -> None:
    paths = frozenset({parse_path("/*/card")})
    body = b'[{"card": 1}, {"card": 2}, {"cards": 3}]'
    found = hide_fields(body, paths)
    assert found is not None
    assert found[1] == 2
    assert hide_fields(b'{"a": 1}', frozenset({parse_path("/b")})) == (b'{"a": 1}', 0)


@pytest.mark.parametrize(
    "path", ["", "card", "/", "/a/", "/a//b", "/a/~2", "/a\n", "/a/**", "/**", "/a" * 17, "/" * 300]
)
def test_a_path_that_says_nothing_or_too_much_is_refused(path: str) -> None:
    assert path_fault(path) is not None


def test_a_path_as_long_as_may_be_is_taken() -> None:
    path = "/a" * STEPS_MAX
    assert path_fault(path) is None
    body = '{"a":' * STEPS_MAX + '"4111-1111"' + "}" * STEPS_MAX
    assert SECRET not in (shown(body, path) or SECRET)


def test_many_wildcards_do_not_make_a_body_slow_to_look_through() -> None:
    """Places are a set: as many as there are steps of paths, however they can be reached."""
    path = "/**/*" * 7 + "/**/x"
    assert path_fault(path) is None
    body = '{"a":' * 60 + "[" + ",".join(["1"] * 500) + "]" + "}" * 60
    assert shown(body, path) is not None
