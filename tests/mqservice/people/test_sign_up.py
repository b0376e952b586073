"""Signing up: an address that is verified, then a tenant of one's own or an invitation."""

from __future__ import annotations

from datetime import timedelta
from smtplib import SMTPServerDisconnected

import pytest
from allauth.account.models import EmailAddress
from django.contrib.auth import get_user
from django.core import mail
from django.core.cache import cache
from django.test import Client
from pytest_django import Settings

from mqservice.accounts.access import Principal, find_principal
from mqservice.accounts.invitation_services import invite
from mqservice.accounts.models import AuditEntry, Member, Namespace, Role, User
from tests.mqservice.people.visitors import (
    FACTOR,
    address_of,
    give_totp,
    last_link,
    sign_in,
    sign_up,
    totp_code,
)
from tests.people import People, bearer

EMAIL = "dora@x.example"
NEW = {"password1": "another long phrase", "password2": "another long phrase"}
PHRASE = "a long and winding phrase"


def test_new_person_verifies_founds_a_tenant_and_owns_it(db: None, client: Client) -> None:
    assert sign_up(client, EMAIL).headers["Location"] == "/account/confirm-email/"
    assert b"not verified" not in sign_in(client, EMAIL, PHRASE).content
    assert not get_user(client).is_authenticated, "before the address is verified"
    link = last_link()
    assert client.get(link).status_code == 200
    assert not EmailAddress.objects.get().verified, "a GET, which scanners send"
    assert client.post(link).headers["Location"] == "/account/start/"
    assert get_user(client).is_authenticated, "in the browser that signed up"
    assert client.post("/account/start/", {"name": "dora"}).headers["Location"] == "/console/"
    assert client.get("/console/").headers["Location"] == "/console/dora/"
    member = Member.objects.get()
    assert (member.tenant.name, member.role, member.user.username) == ("dora", "owner", "dora")
    assert {row.action for row in AuditEntry.objects.all()} >= {"tenant.create", "namespace.create"}
    assert client.post("/account/start/", {"name": "second"}).status_code == 302
    assert Namespace.objects.count() == 1


@pytest.mark.parametrize("mail_url", ["", "smtp://mail.example"])
def test_without_a_mail_server_the_operator_sees_the_link_that_confirms(
    mail_url: str,
    db: None,
    client: Client,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.MQ_EMAIL_URL = mail_url
    with caplog.at_level("INFO", logger="mqservice.people.account_adapter"):
        sign_up(client, EMAIL)
    shown = [line for line in caplog.messages if last_link() in line and EMAIL in line]
    assert len(shown) == (0 if mail_url else 1)
    caplog.clear()
    client.post("/account/password/reset/", {"email": EMAIL})
    assert caplog.messages == [], "a link that sets a password is in the mail alone"


def test_link_signs_nobody_in_elsewhere(db: None, client: Client) -> None:
    """Else whoever sees a link, in a log or over a shoulder, has the account."""
    sign_up(client, EMAIL)
    elsewhere = Client()
    elsewhere.post(last_link())
    assert EmailAddress.objects.get().verified
    assert not get_user(elsewhere).is_authenticated
    assert sign_in(elsewhere, EMAIL, PHRASE).headers["Location"] == "/account/start/"


@pytest.mark.parametrize(
    ("name", "why"), [("acme", "is already in use"), ("a b", "a-z"), ("", "required")]
)
def test_bad_name_of_a_tenant_is_said_on_the_form(
    name: str, why: str, people: People, client: Client
) -> None:
    client.force_login(User.objects.create_user("dora"))
    page = client.post("/account/start/", {"name": name})
    assert page.status_code == 200
    assert why in page.content.decode()
    assert Namespace.objects.count() == 2


def test_address_that_is_here_gets_the_same_answer_and_a_mail_that_says_so(
    people: People, client: Client
) -> None:
    address_of(people.alice, "alice@x.example")
    new, known = sign_up(Client(), EMAIL), sign_up(Client(), "alice@x.example")
    assert (new.status_code, new.headers["Location"]) == (
        known.status_code,
        known.headers["Location"],
    )
    assert [each.to for each in mail.outbox] == [[EMAIL], ["alice@x.example"]]
    assert User.objects.filter(email="alice@x.example").count() == 1


def test_forgotten_password_says_nothing_of_who_is_here(people: People) -> None:
    address_of(people.alice, "alice@x.example")
    answers = [
        Client().post("/account/password/reset/", {"email": email})
        for email in ("alice@x.example", "nobody@x.example")
    ]
    assert len({(each.status_code, each.headers["Location"]) for each in answers}) == 1
    assert len(mail.outbox) == 2, "both wait for the mail server equally long"


def test_new_password_by_mail_is_set_once_and_ends_other_sessions(
    people: People, client: Client
) -> None:
    address_of(people.alice, "alice@x.example")
    sign_in(client)
    visitor = Client(headers={"host": "localhost"})
    visitor.post("/account/password/reset/", {"email": "alice@x.example"})
    link = last_link()
    assert "http://127.0.0.1:8000" in mail.outbox[-1].body, "not the Host that was sent"
    form = visitor.get(link).headers["Location"]
    visitor.post(form, NEW)
    assert not get_user(client).is_authenticated
    again = Client()
    assert b"not valid" in again.get(link, follow=True).content
    sign_in(again, "alice", "another long phrase")
    assert get_user(again).is_authenticated


def test_new_password_by_mail_is_no_way_around_the_second_factor(people: People) -> None:
    address_of(people.alice, "alice@x.example")
    secret, _ = give_totp(people.alice)
    visitor = Client()
    visitor.post("/account/password/reset/", {"email": "alice@x.example"})
    form = visitor.get(last_link()).headers["Location"]
    visitor.post(form, NEW)
    assert not get_user(visitor).is_authenticated
    assert sign_in(visitor, "alice", "another long phrase").headers["Location"] == FACTOR
    visitor.post(FACTOR, {"code": totp_code(secret)})
    assert get_user(visitor).is_authenticated


def test_closed_sign_up_takes_nobody_but_the_invited(
    people: People, client: Client, settings: Settings
) -> None:
    settings.MQ_SIGN_UP = "invited"
    assert b"New users need an invitation" in sign_up(client, EMAIL).content
    assert not User.objects.filter(email=EMAIL).exists()
    client.get(f"/account/join/{token_of(people.acme_owner_key)}/")
    sign_up(client, EMAIL)
    client.post(last_link())
    assert sign_in(client, EMAIL, PHRASE).headers["Location"] == "/account/join/"
    assert client.post("/account/join/").headers["Location"] == "/console/"
    assert client.get("/console/").headers["Location"] == "/console/acme/"
    assert Member.objects.get(user__email=EMAIL).role == Role.DEVELOPER


def test_who_belongs_nowhere_founds_nothing_while_sign_up_is_closed(
    db: None, client: Client, settings: Settings
) -> None:
    settings.MQ_SIGN_UP = "invited"
    client.force_login(User.objects.create_user("dora"))
    client.post("/account/start/", {"name": "dora"})
    assert not Namespace.objects.exists()


def test_invitation_leads_to_its_own_tenant_once_and_its_token_leaves_the_address(
    people: People, client: Client
) -> None:
    token = token_of(people.rival_owner_key)
    client.force_login(people.alice)
    followed = client.get(f"/account/join/{token}/")
    assert followed.headers["Location"] == "/account/join/"
    page = client.get("/account/join/").content.decode()
    assert "rival" in page
    assert token not in page
    client.post("/account/join/")
    assert {row.tenant.name for row in Member.objects.filter(user=people.alice)} == {
        "acme", "rival",
    }  # fmt: skip
    other = Client()
    other.force_login(people.bob)
    assert other.get(f"/account/join/{token}/", follow=True).status_code == 404
    other.post("/account/join/")
    assert not Member.objects.filter(user=people.bob, tenant=people.rival.tenant).exists()


@pytest.mark.parametrize("token", ["x", "mqi_" + "A" * 44, "mqk_" + "A" * 46, "%00"])
def test_token_of_no_invitation_is_not_found(token: str, db: None, client: Client) -> None:
    assert client.get(f"/account/join/{token}/", follow=True).status_code == 404


def test_tokens_are_tried_so_often_from_one_address_and_no_more(db: None, client: Client) -> None:
    client.get("/account/join/x/")
    statuses = [client.get("/account/join/").status_code for _ in range(31)]
    assert statuses == [404] * 30 + [429]


def test_who_has_to_wait_keeps_the_invitation(people: People, client: Client) -> None:
    client.get(f"/account/join/{token_of(people.rival_owner_key)}/")
    statuses = [client.get("/account/join/").status_code for _ in range(31)]
    assert statuses == [200] * 30 + [429]
    cache.clear()
    assert client.get("/account/join/").status_code == 200


def test_mail_server_that_is_unavailable_is_answered_with_503(
    db: None, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    def lose(*args: object, **more: object) -> int:
        raise SMTPServerDisconnected("away")

    monkeypatch.setattr("django.core.mail.EmailMessage.send", lose)
    answers = [sign_up(client, EMAIL), client.post("/account/password/reset/", {"email": EMAIL})]
    assert [each.status_code for each in answers] == [503, 503]


def principal(key: str) -> Principal:
    found = find_principal(bearer(key))
    assert found is not None
    return found


def token_of(key: str) -> str:
    _, token = invite(principal(key), EMAIL, Role.DEVELOPER, timedelta(days=1))
    return token.text
