"""From a header to a principal: what opens and what does not."""

from __future__ import annotations

from datetime import timedelta

import pytest
from django.utils import timezone
from pytest_django import DjangoAssertNumQueries, Settings

from mqservice.accounts.access import find_principal, secret_mac
from mqservice.accounts.key_schemas import KeyOut
from mqservice.accounts.key_services import rotate_key
from mqservice.accounts.key_uses import KeyUses, uses
from mqservice.accounts.models import ApiKey, Role
from mqservice.accounts.scopes import Kind, Scope
from mqservice.accounts.services import create_api_key
from mqservice.lib.api_keys import generate_api_key, parse_api_key
from mqservice.lib.problem import Problem
from tests.people import People, bearer, revoke


def test_valid_key_says_who_asks(people: People) -> None:
    principal = find_principal(bearer(people.acme_key))
    assert principal is not None
    assert principal.tenant_id == people.acme.tenant_id
    assert principal.namespace == "acme"
    assert principal.namespace_id == people.acme.pk
    assert principal.scopes == frozenset(Scope)


def test_scheme_may_be_written_in_any_case(people: People) -> None:
    assert find_principal(b"bearer " + people.acme_key.encode()) is not None


@pytest.mark.parametrize(
    "header", [b"", b"Bearer", b"Bearer ", b"Basic YTpi", b"Bearer nonsense", b"Bearer \xff\xfe"]
)
def test_header_without_a_key_costs_no_query(
    django_assert_num_queries: DjangoAssertNumQueries, db: None, header: bytes
) -> None:
    with django_assert_num_queries(0):
        assert find_principal(header) is None


def test_unknown_key_is_refused(people: People) -> None:
    assert find_principal(bearer(generate_api_key())) is None


def test_right_public_id_with_another_secret_is_refused(people: People) -> None:
    own, other = parse_api_key(people.acme_key), parse_api_key(generate_api_key())
    assert own is not None
    assert other is not None
    forged = type(own)(public_id=own.public_id, secret=other.secret)
    assert find_principal(bearer(forged.text)) is None


def test_expired_key_is_refused(people: People) -> None:
    now = timezone.now()
    tenant = people.acme.tenant
    _, old = create_api_key(tenant, name="old", scopes=Scope, expires_at=now)
    _, young = create_api_key(
        tenant, name="young", scopes=Scope, expires_at=now + timedelta(hours=1)
    )
    assert find_principal(bearer(old)) is None
    principal = find_principal(bearer(young))
    assert principal is not None
    assert principal.expires_at_ms is not None


def test_revoked_key_is_refused_for_good(people: People) -> None:
    revoke(people.acme_key)
    assert find_principal(bearer(people.acme_key)) is None


def test_row_holds_neither_key_nor_secret(people: People) -> None:
    key = parse_api_key(people.acme_key)
    assert key is not None
    row = ApiKey.objects.get(public_id=key.public_id)
    stored = " ".join(str(value) for value in vars(row).values())
    assert key.secret not in stored
    assert bytes(row.secret_mac) == secret_mac(key)
    assert row.last4 == key.secret[-4:]


def test_another_pepper_makes_all_keys_worthless(people: People, settings: Settings) -> None:
    settings.MQ_KEY_PEPPER = "another pepper of at least 32 characters"
    assert find_principal(bearer(people.acme_key)) is None


def test_a_key_of_a_former_pepper_is_good_and_from_its_first_use_on_one_of_the_present(
    people: People, settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    former = settings.MQ_KEY_PEPPER
    settings.MQ_KEY_PEPPER = "another pepper of at least 32 characters"
    settings.MQ_KEY_PEPPER_FALLBACKS = ["one that never was, of 32 characters", former]
    assert find_principal(bearer(people.acme_key)) is not None
    with django_assert_num_queries(1):
        assert find_principal(bearer(people.acme_key)) is not None
    settings.MQ_KEY_PEPPER_FALLBACKS = []
    assert find_principal(bearer(people.acme_key)) is not None
    assert find_principal(bearer(people.rival_key)) is None, "nobody has used it meanwhile"


def test_keys_that_need_a_former_pepper_are_named_until_they_are_used(
    people: People, settings: Settings, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    def is_named(text: str) -> bool:
        key = parse_api_key(text)
        assert key is not None
        return KeyOut.of(ApiKey.objects.get(public_id=key.public_id)).needs_former_pepper

    assert not is_named(people.acme_key)
    settings.MQ_KEY_PEPPER_FALLBACKS = [settings.MQ_KEY_PEPPER]
    assert not is_named(people.acme_key)
    settings.MQ_KEY_PEPPER = "another pepper of at least 32 characters"
    assert find_principal(bearer(people.acme_key)) is not None
    assert not is_named(people.acme_key)
    assert is_named(people.rival_key)
    ApiKey.objects.update(pepper_version=1)  # as rows of an older version have it
    assert is_named(people.acme_key)
    assert find_principal(bearer(people.acme_key)) is not None
    assert not is_named(people.acme_key)
    revoke(people.rival_key)
    assert not is_named(people.rival_key)


def test_a_former_secret_of_a_key_is_taken_to_the_present_pepper_too(
    people: People, settings: Settings
) -> None:
    now = timezone.now()
    key = parse_api_key(people.acme_key)
    assert key is not None
    ApiKey.objects.filter(public_id=key.public_id).update(
        previous_mac=secret_mac(key), previous_until=now + timedelta(hours=1), secret_mac=bytes(32)
    )
    settings.MQ_KEY_PEPPER_FALLBACKS = [settings.MQ_KEY_PEPPER]
    settings.MQ_KEY_PEPPER = "another pepper of at least 32 characters"
    principal = find_principal(bearer(people.acme_key))
    assert principal is not None
    assert principal.expires_at_ms is not None, "it ends with the former secret"
    row = ApiKey.objects.get(public_id=key.public_id)
    assert bytes(row.previous_mac or b"") == secret_mac(key)
    assert bytes(row.secret_mac) == bytes(32)


def test_a_revoked_key_of_a_former_pepper_stays_refused(people: People, settings: Settings) -> None:
    revoke(people.acme_key)
    settings.MQ_KEY_PEPPER_FALLBACKS = [settings.MQ_KEY_PEPPER]
    settings.MQ_KEY_PEPPER = "another pepper of at least 32 characters"
    assert find_principal(bearer(people.acme_key)) is None


def test_a_look_up_writes_nothing(
    people: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    with django_assert_num_queries(1):
        find_principal(bearer(people.acme_key))


def test_last_uses_are_written_many_at_once_and_at_most_once_a_minute(
    people: People, django_assert_num_queries: DjangoAssertNumQueries
) -> None:
    uses.take()
    for key in (people.acme_key, people.rival_key, people.acme_key):
        find_principal(bearer(key))
    with django_assert_num_queries(1):
        assert uses.write() == 2
    used = ApiKey.objects.exclude(last_used_at=None)
    assert used.count() == 2
    first = used.earliest("last_used_at").last_used_at
    assert first is not None

    find_principal(bearer(people.acme_key))
    assert uses.write() == 0, "so soon again"
    used.update(last_used_at=first - timedelta(minutes=2))
    find_principal(bearer(people.acme_key))
    assert uses.write() == 1
    with django_assert_num_queries(0):
        assert uses.write() == 0, "nothing waits"


def test_uses_that_wait_are_bounded() -> None:
    full = KeyUses(uses_max=2)
    now = timezone.now()
    for name in ("a", "b", "c", "a"):
        full.note(name, now)
    assert set(full.take()) == {"a", "b"}
    assert full.take() == {}


def test_both_secrets_of_a_rotated_key_are_valid_until_the_former_ends(people: People) -> None:
    principal = find_principal(bearer(people.acme_admin_key))
    assert principal is not None
    text = rotate_key(principal, principal.key_id, timedelta(hours=1))[1]
    former = find_principal(bearer(people.acme_admin_key))
    assert former is not None
    assert former.expires_at_ms is not None
    present = find_principal(bearer(text))
    assert present is not None
    assert (present.key_id, present.expires_at_ms) == (former.key_id, None)
    ApiKey.objects.filter(public_id=principal.key_id).update(previous_until=timezone.now())
    assert find_principal(bearer(people.acme_admin_key)) is None
    assert find_principal(bearer(text)) is not None


def test_a_role_cuts_down_what_the_scopes_of_a_row_say(people: People) -> None:
    ApiKey.objects.filter(name="all").update(role=Role.VIEWER)
    principal = find_principal(bearer(people.acme_key))
    assert principal is not None
    assert principal.scopes == frozenset()


def test_a_scope_with_a_pattern_holds_for_its_names_only(people: People) -> None:
    _, text = create_api_key(
        people.acme.tenant, name="narrow", scopes=["produce:orders*", "consume:group/billing"]
    )
    principal = find_principal(bearer(text))
    assert principal is not None
    principal.require(Scope.PRODUCE, Kind.TOPIC, "orders-eu")
    principal.require(Scope.CONSUME, Kind.GROUP, "billing")
    for scope, kind, name in (
        (Scope.PRODUCE, Kind.TOPIC, "order"),
        (Scope.CONSUME, Kind.GROUP, "billing2"),
        (Scope.CONSUME, Kind.TOPIC, "billing"),
        (Scope.MANAGE, Kind.TOPIC, "orders"),
        (Scope.PRODUCE, None, ""),
    ):
        with pytest.raises(Problem) as caught:
            principal.require(scope, kind, name)
        assert (caught.value.status, caught.value.code) == (403, "FORBIDDEN")


def test_what_is_remembered_of_a_key_is_bounded(
    people: People, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("mqservice.accounts.access.DECISIONS_MAX", 3)
    _, text = create_api_key(people.acme.tenant, name="narrow", scopes=["produce:o*"])
    principal = find_principal(bearer(text))
    assert principal is not None
    for index in range(20):
        assert principal.allows(Scope.PRODUCE, Kind.TOPIC, f"o{index}")
        assert not principal.allows(Scope.PRODUCE, Kind.TOPIC, f"x{index}")
        assert len(principal._decisions) <= 3


def test_scope_that_is_missing_is_refused_with_its_name(people: People) -> None:
    principal = find_principal(bearer(people.acme_reader_key))
    assert principal is not None
    principal.require(Scope.CONSUME)
    with pytest.raises(Problem, match="produce") as caught:
        principal.require(Scope.PRODUCE)
    assert (caught.value.status, caught.value.code) == (403, "FORBIDDEN")


def test_key_bound_to_a_namespace_means_only_that_one(people: People) -> None:
    bound = find_principal(bearer(people.acme_key))
    _, text = create_api_key(people.acme.tenant, name="wide", scopes=Scope)
    wide = find_principal(bearer(text))
    assert bound is not None
    assert wide is not None
    assert [bound.namespace_named(ns) for ns in ("acme", "-", "rival")] == ["acme", "acme", None]
    assert [wide.namespace_named(ns) for ns in ("acme", "-", "rival")] == ["acme", None, "rival"]
