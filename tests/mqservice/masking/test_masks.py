"""Who sees what of which topic, and which searches would tell what is hidden."""

from __future__ import annotations

import pytest

from mqservice.accounts.access import Principal
from mqservice.accounts.models import Role
from mqservice.accounts.scopes import Scope
from mqservice.accounts.ticket_holders import principal_of_member
from mqservice.lib.problem import Problem
from mqservice.masking.json_fields import MASK
from mqservice.masking.masks import Masks, masks_of
from mqservice.masking.models import MaskPolicy, MaskRule
from tests.people import People


def rule(people: People, **fields: str) -> MaskRule:
    name = f"rule{MaskRule.objects.count()}"
    return MaskRule.objects.create(namespace=people.acme, name=name, **fields)


def masks(people: People, role: Role = Role.DEVELOPER) -> Masks:
    return masks_of(people.acme.tenant_id, "acme", role)


def test_a_rule_holds_for_topics_of_its_pattern_and_roles_below_its_own(people: People) -> None:
    rule(people, topics="pay*", part="field", path="/card")
    rule(people, topics="orders", part="body", clear_for="owner")
    seen = masks(people)
    assert seen.of_topic("payments").body(b'{"card": 1}') == (f'{{"card": "{MASK}"}}'.encode(), 1)
    assert seen.of_topic("orders").body(b"x") is None
    assert seen.of_topic("orders2").is_none
    assert seen.of_topic("spay").is_none
    admin = masks(people, Role.ADMIN)
    assert admin.of_topic("payments").is_none
    assert admin.of_topic("payments").has_unmasked
    assert admin.of_topic("orders").is_body_hidden
    assert masks(people, Role.OWNER).is_none
    assert masks_of(people.rival.tenant_id, "acme", Role.DEVELOPER).is_none


def test_all_rules_hold_for_a_message_of_an_unknown_topic(people: People) -> None:
    rule(people, topics="orders", part="body")
    assert masks(people).of_topic("").is_body_hidden
    assert masks(people).of_topic(None).is_body_hidden


def test_the_switch_hides_bodies_of_every_topic(people: People) -> None:
    MaskPolicy.objects.create(namespace=people.acme, bodies_for="owner")
    for role in (Role.DEVELOPER, Role.ADMIN):
        assert masks(people, role).of_topic("any").body(b"x") is None
    assert masks(people, Role.OWNER).is_none
    assert not masks(people).shows_more_in("any")


def test_a_property_is_hidden_by_its_name_or_how_it_begins(people: People) -> None:
    rule(people, topics="*", part="property", path="Auth*")
    rule(people, topics="*", part="property", path="pin")
    given = {"authorization": "a", "PIN": "1", "pine": "2", "other": "3"}
    shown, hidden = masks(people).of_topic("t").masked_properties(given)
    assert shown == {"authorization": MASK, "PIN": MASK, "pine": "2", "other": "3"}
    assert hidden == ["authorization", "PIN"]


@pytest.mark.parametrize(
    ("contains", "wanted", "is_refused"),
    [
        ("4111", "", True),
        ("", "pin = '1'", True),
        ("", "PIN > '0'", True),
        ("", "amount > 1 AND x.pin IS NOT NULL", True),
        ("", "amount > 1", False),
        ("", "", False),
    ],
)
def test_a_search_that_tells_what_is_hidden_is_refused(
    people: People, contains: str, wanted: str, is_refused: bool
) -> None:
    rule(people, topics="pay", part="property", path="pin")
    rule(people, topics="pay", part="field", path="/card")
    for topic, role in (("other", Role.DEVELOPER), ("pay", Role.ADMIN)):
        masks(people, role).of_topic(topic).reject_hidden_filter(contains=contains, wanted=wanted)
    mask = masks(people).of_topic("pay")
    if not is_refused:
        return mask.reject_hidden_filter(contains=contains, wanted=wanted)
    with pytest.raises(Problem, match="hidden from your role"):
        mask.reject_hidden_filter(contains=contains, wanted=wanted)


def test_copies_elsewhere_are_known_to_show_more(people: People) -> None:
    rule(people, topics="pay*", part="body")
    assert masks(people).shows_more_in("copies")
    assert not masks(people).shows_more_in("pay-again")
    assert not masks(people, Role.ADMIN).shows_more_in("copies")


def test_a_session_consumes_nothing_where_something_is_hidden(people: People) -> None:
    def session() -> Principal:
        found = principal_of_member(people.alice, "acme", session_key="s", expires_at_ms=1)
        assert found is not None
        return found

    assert Scope.CONSUME in session().scopes
    MaskPolicy.objects.create(namespace=people.acme, bodies_for="owner")
    assert Scope.CONSUME in session().scopes  # alice is an owner
    people.alice.memberships.update(role=Role.DEVELOPER.value)
    assert session().scopes == {Scope.PRODUCE, Scope.MANAGE}
