"""Signing in and out: what it gives, what it refuses, and what it does not tell."""

from __future__ import annotations

import re

import pytest
from django.contrib.auth import get_user
from django.contrib.auth.hashers import make_password
from django.test import Client
from pytest_django import Settings

import mqservice.settings
from mqservice.accounts.models import AuditEntry
from tests.mqservice.people.visitors import LOGIN, address_of, sign_in
from tests.people import PASSWORD, People


def test_root_leads_to_the_console_and_that_to_the_login(db: None, client: Client) -> None:
    assert client.get("/").headers["Location"] == "/console/"
    response = client.get("/console/")
    assert response.headers["Location"] == "/account/login/?next=/console/"


def test_former_address_of_the_login_leads_here_and_takes_no_password(
    people: People, client: Client
) -> None:
    moved = client.get("/console/login?next=/console/acme/")
    assert moved.headers["Location"] == "/account/login/?next=/console/acme/"
    client.post("/console/login", {"username": "alice", "password": PASSWORD})
    assert not get_user(client).is_authenticated


def test_right_password_leads_to_the_namespace(people: People, client: Client) -> None:
    assert sign_in(client).headers["Location"] == "/console/"
    assert client.get("/console/").headers["Location"] == "/console/acme/"
    assert get_user(client).get_username() == "alice"


def test_address_is_as_good_as_the_user_name(people: People, client: Client) -> None:
    address_of(people.alice, "alice@x.example")
    sign_in(client, "Alice@x.example")
    assert get_user(client).get_username() == "alice"


def test_wrong_password_and_unknown_user_get_the_same_words(people: People, client: Client) -> None:
    answers = [sign_in(client, name, "wrong") for name in ("alice", "nobody")]
    texts = [each.content.decode() for each in answers]
    assert [each.status_code for each in answers] == [200, 200]
    assert "are not correct" in texts[0]
    assert without_token(texts[0]).replace("alice", "") == without_token(texts[1]).replace(
        "nobody", ""
    )
    assert not get_user(client).is_authenticated


def without_token(page: str) -> str:
    """Each form has one."""
    return re.sub(r'(name="csrfmiddlewaretoken" value=")[^"]*', r"\1", page)


@pytest.mark.parametrize(
    "place",
    ["https://evil.example/", "//evil.example/", "/\\evil.example/", "javascript:alert(1)"],
)
def test_foreign_address_to_go_to_next_is_ignored(
    place: str, people: People, client: Client
) -> None:
    form = {"login": "alice", "password": PASSWORD, "next": place}
    assert client.post(LOGIN, form).headers["Location"] == "/console/"


def test_own_address_to_go_to_next_is_gone_to(people: People, client: Client) -> None:
    form = {"login": "alice", "password": PASSWORD, "next": "/console/acme/topics"}
    assert client.post(LOGIN, form).headers["Location"] == "/console/acme/topics"


def test_session_gets_a_new_id_at_the_login(people: People, client: Client) -> None:
    session = client.session
    session["left"] = "by an attacker who knows this session's id"
    session.save()
    assert session.session_key is not None
    client.cookies["mq_session"] = session.session_key
    sign_in(client)
    assert client.cookies["mq_session"].value != session.session_key
    assert client.cookies["mq_session"]["httponly"]
    assert client.cookies["mq_session"]["samesite"] == "Lax"
    stranger = Client()
    stranger.cookies["mq_session"] = session.session_key
    assert not get_user(stranger).is_authenticated


def test_logout_ends_the_session_and_takes_only_post(people: People, client: Client) -> None:
    sign_in(client)
    taken = client.cookies["mq_session"].value
    client.get("/account/logout/")
    assert get_user(client).is_authenticated
    client.post("/account/logout/")
    thief = Client()
    thief.cookies["mq_session"] = taken
    assert thief.get("/console/acme/").status_code == 302


def test_sixth_try_within_minutes_is_not_even_checked(people: People, client: Client) -> None:
    for _ in range(5):
        sign_in(client, "alice", "wrong")
    refused = sign_in(client, "alice", PASSWORD)
    assert b"Too many failed login attempts" in refused.content
    assert not get_user(client).is_authenticated
    sign_in(client, "bob")
    assert get_user(client).get_username() == "bob"


def test_audit_tells_of_logins_failures_and_logouts(people: People, client: Client) -> None:
    sign_in(client, "alice", "wrong")
    sign_in(client, "nobody", "wrong")
    sign_in(client)
    client.post("/account/logout/")
    rows = AuditEntry.objects.order_by("id").values_list("action", "actor", "target", "tenant")
    tenant = people.acme.tenant_id
    assert list(rows) == [
        (action, "user:alice", "users/alice", tenant)
        for action in ("user.login_fail", "user.login", "user.logout")
    ]


def test_passwords_are_hashed_with_argon2(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = mqservice.settings.PASSWORD_HASHERS
    assert make_password(PASSWORD).startswith("argon2$argon2id$")
