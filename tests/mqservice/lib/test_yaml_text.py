"""YAML is read and written as JSON: equal on the way back, nothing that readers differ about."""

from __future__ import annotations

import string

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from mqservice.lib import yaml_text
from mqservice.lib.yaml_text import YamlFault, find_places, read_yaml, write_yaml

# What a text or a name may be mistaken for is tried more often than chance would.
MISTAKABLE = (
    "", " ", "~", "null", "NULL", "true", "no", "On", "y", "N", "1", "-1", "+1", "08", "017",
    "0o17", "0x1F", "0b1", "1_000", "1e3", "1.", ".5", "1.5", "-.inf", ".NaN", "12:30", "1:20:30",
    "190:20", "2026-12-01", "2026-12-01T08:00:00Z", "<<", "=", "-", "- a", "? a", "a: b", "a #b",
    "#", "&a", "*a", "!a", "%a", "@a", "`a", "|", ">", "[a", "{a", "'a", '"a', "---", "...",
    "a\nb", "\ttab", "trailing ", " leading", "\x85", "\u2028", "\ufeff", "\U0001f600", "30s",
    "1h30m", "\x7f",
)  # fmt: skip
TEXTS = st.sampled_from(MISTAKABLE) | st.text(
    st.characters(exclude_categories=["Cs"]), max_size=30
) | st.text(string.digits + "_.:-+eExXoOabns", max_size=8)  # fmt: skip
WHOLE = st.integers(-(10**17) + 1, 10**18 - 1)
NUMBERS = WHOLE | st.sampled_from([0.5, -1.25, 1e16, 1e-7, 1.5e300])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXTS, inner, max_size=4),
    max_leaves=20,
)


@given(VALUES)
def test_what_is_written_is_read_as_it_was_here_and_by_the_usual_reader(value: object) -> None:
    text = write_yaml(value)
    assert read_yaml(text) == value
    assert yaml.safe_load(text) == value


@given(st.binary(max_size=60) | st.text("-?:{}[],&*!|>'\"%@` \n\tab01.<~#", max_size=60))
def test_whatever_comes_is_a_value_or_a_fault_within_the_text(content: bytes | str) -> None:
    body = content if isinstance(content, bytes) else content.encode()
    try:
        value = read_yaml(body)
    except YamlFault as caught:
        line, column = caught.line, caught.column
    else:
        assert read_yaml(write_yaml(value)) == value
        line, column = 1, 1
    assert 1 <= line <= len(body) + 2  # YAML knows five ways to end a line
    assert column >= 1


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("", None),
        ("# nothing", None),
        ("a: 1\nb: [1.5, ~, TRUE]", {"a": 1, "b": [1.5, None, True]}),
        ("at: 2026-12-01T08:00:00Z", {"at": "2026-12-01T08:00:00Z"}),
        ("day: 2026-12-01", {"day": "2026-12-01"}),
        ("a: 'no'\nb: \"1_000\"", {"a": "no", "b": "1_000"}),
        ("a: |\n  no\n", {"a": "no\n"}),
        ("1: one", {"1": "one"}),
        ("%YAML 1.2\n---\na: b\n...\n", {"a": "b"}),
        ("\ufeffa: b", {"a": "b"}),
        ('{"a": ["b", 1, null]}', {"a": ["b", 1, None]}),
    ],
)
def test_what_json_can_say_is_read(text: str, value: object) -> None:
    assert read_yaml(text.encode()) == value


@pytest.mark.parametrize(
    ("text", "line", "column", "told"),
    [
        ("a: no", 1, 4, "read no differently: put strings in quotes"),
        ("a:\n  - Off", 2, 5, "read Off differently"),
        ("a: 1_000", 1, 4, "read 1_000 differently"),
        ("a: 0o17", 1, 4, "read 0o17 differently"),
        ("a: 017", 1, 4, "read 017 differently"),
        ("a: 0x1f", 1, 4, "read 0x1f differently"),
        ("a: 12:30:45", 1, 4, "read 12:30:45 differently"),
        ("a: .inf", 1, 4, "read .inf differently"),
        ("on: 1", 1, 1, "read on differently"),
        ("a: 1e999", 1, 4, "is too large"),
        ("a: 1000000000000000000", 1, 4, "more than 18 digits"),
        ("a: 1\nb: 2\na: 3", 3, 1, '"a" was already given in line 1'),
        ("{a: 1, 'a': 2}", 1, 8, "was already given"),
        ("a: &x 1\nb: *x", 1, 4, "&x is an anchor"),
        ("b: *x", 1, 4, "*x is an alias"),
        ("&k a: 1", 1, 1, "&k is an anchor"),
        ("<<: {a: 1}", 1, 1, "<< does not merge"),
        ("a: !!python/object/apply:os.system [ls]", 1, 4, "is a tag"),
        ("a: !!str 1", 1, 4, "is a tag"),
        ("a: ! 1", 1, 4, "is a tag"),
        ("? [a]\n: 1", 1, 3, "a name must be a string"),
        ("a: 1\n---\nb: 2", 2, 1, "a second document"),
        ("a:\n\t- 1", 2, 1, "cannot start any token"),
        ("a: b: c", 1, 5, "mapping values are not allowed"),
        ("a: [1", 2, 1, "did not find expected"),
        ("é: 1\né: \x01", 2, 4, "control characters"),
    ],
)
def test_anything_else_is_refused_where_it_is(text: str, line: int, column: int, told: str) -> None:
    with pytest.raises(YamlFault) as caught:
        read_yaml(text.encode())
    assert (caught.value.line, caught.value.column) == (line, column), str(caught.value)
    assert told in caught.value.detail


def test_what_is_no_utf_8_is_refused_where_it_is() -> None:
    with pytest.raises(YamlFault) as caught:
        read_yaml("ä: 1\nö: ".encode() + b"\xff")
    assert (caught.value.line, caught.value.column) == (2, 4)


@pytest.mark.parametrize("opening", ["[", "{a: ", "- ", "[a, "])
def test_what_is_nested_too_deeply_is_refused(opening: str) -> None:
    with pytest.raises(YamlFault, match="it is nested more than 32 deep"):
        read_yaml(opening.encode() * 100_000)


def test_a_billion_laughs_is_not_even_smiled_at() -> None:
    lines = ["a0: &a0 [lol, lol]"] + [f"a{n}: &a{n} [*a{n - 1}, *a{n - 1}]" for n in range(1, 40)]
    with pytest.raises(YamlFault, match="line 1, column 5: &a0 is an anchor"):
        read_yaml("\n".join(lines).encode())


def test_more_values_than_a_text_may_have_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "NODE_COUNT_MAX", 5)
    assert read_yaml(b"[a, b, c, d]") == ["a", "b", "c", "d"]
    with pytest.raises(YamlFault, match="line 2, column 4: it has more than 5 values"):
        read_yaml(b"[a, b, c, d,\n   e]")


def test_places_are_found_by_pointer_or_by_what_they_would_be_in() -> None:
    text = b"version: 1\ntopics:\n  - name: a\n    x/y~z: 7\n"
    wanted = ["/topics/0/x~1y~0z", "/topics/0/absent", "/topics/0", "/groups"]
    assert find_places(text, wanted) == {
        "/topics/0/x~1y~0z": (4, 5),
        "/topics/0/absent": (3, 5),
        "/topics/0": (3, 5),
        "/groups": (1, 1),
    }
