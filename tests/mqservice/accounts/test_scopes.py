"""Scopes as texts: what they mean, what they cover, and which are none."""

from __future__ import annotations

import itertools

import pytest

from mqservice.accounts.models import Role
from mqservice.accounts.roles import PERMISSIONS, Permission, is_at_most
from mqservice.accounts.scopes import Kind, Scope, are_covered, parse_grant, parse_grants


@pytest.mark.parametrize(
    ("text", "scope", "kind", "name", "is_allowed"),
    [
        ("produce", Scope.PRODUCE, Kind.TOPIC, "anything", True),
        ("produce", Scope.CONSUME, Kind.TOPIC, "anything", False),
        ("produce:*", Scope.PRODUCE, Kind.GROUP, "anything", True),
        ("produce:orders", Scope.PRODUCE, Kind.TOPIC, "orders", True),
        ("produce:orders", Scope.PRODUCE, Kind.TOPIC, "orders2", False),
        ("produce:orders*", Scope.PRODUCE, Kind.TOPIC, "orders2", True),
        ("produce:orders*", Scope.PRODUCE, Kind.TOPIC, "order", False),
        ("consume:topic/a*", Scope.CONSUME, Kind.TOPIC, "ab", True),
        ("consume:topic/a*", Scope.CONSUME, Kind.GROUP, "ab", False),
        ("manage:group/b", Scope.MANAGE, Kind.GROUP, "b", True),
        ("manage:group/b", Scope.MANAGE, Kind.GROUP, "B", False),
    ],
)
def test_what_a_scope_allows(
    text: str, scope: Scope, kind: Kind, name: str, is_allowed: bool
) -> None:
    assert parse_grant(text).allows(scope, kind, name) is is_allowed


@pytest.mark.parametrize(
    "text",
    [
        "", "read", "Produce", "produce:", "produce: ", "produce:a*b", "produce:**", "produce:*a",
        "produce:topic/", "produce:queue/a", "produce:topic/a/b", "produce:a b", "produce:a%b",
        "produce:a\n", "produce:\u0430", "produce:" + "a" * 65, "consume:topic/" + "x" * 100,
        "produce:.*",
    ],
)  # fmt: skip
def test_what_is_no_scope_is_refused_in_words(text: str) -> None:
    with pytest.raises(ValueError, match="scope"):
        parse_grant(text)


def test_scopes_that_mean_the_same_are_one_with_one_text() -> None:
    grants = parse_grants(["produce:*", "produce", "consume:group/b", "consume:group/b"])
    assert [grant.text for grant in grants] == ["consume:group/b", "produce"]
    assert [parse_grant(grant.text) for grant in grants] == list(grants)


@pytest.mark.parametrize(
    ("own", "wanted", "is_covered"),
    [
        (["produce"], ["produce:orders*"], True),
        (["produce:orders*"], ["produce"], False),
        (["produce:orders*"], ["produce:orders-eu*", "produce:topic/orders"], True),
        (["produce:orders*"], ["produce:order*"], False),
        (["produce:orders"], ["produce:orders*"], False),
        (["consume:topic/a*"], ["consume:a"], False),
        (["consume:topic/a*", "consume:group/a*"], ["consume:topic/a", "consume:group/a*"], True),
        (["manage"], ["consume"], False),
        ([], [], True),
        ([], ["produce:x"], False),
    ],
)
def test_nobody_gives_more_than_is_covered(
    own: list[str], wanted: list[str], is_covered: bool
) -> None:
    assert are_covered(parse_grants(wanted), parse_grants(own)) is is_covered


def test_each_role_may_do_what_the_one_below_it_may_and_more() -> None:
    chain = [Role.VIEWER, Role.DEVELOPER, Role.ADMIN, Role.OWNER]
    for lower, higher in itertools.pairwise(chain):
        assert PERMISSIONS[lower] < PERMISSIONS[higher]
        assert is_at_most(lower, higher)
        assert not is_at_most(higher, lower)
    assert set(PERMISSIONS) == set(Role)
    assert PERMISSIONS[Role.OWNER] == frozenset(Permission)
