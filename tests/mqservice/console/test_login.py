"""Signing in and out."""

from __future__ import annotations

from django.contrib.auth import get_user
from django.contrib.auth.hashers import make_password
from django.test import Client
from pytest_django import Settings

import mqservice.settings
from tests.people import PASSWORD, People

LOGIN = "/console/login"


def test_root_leads_to_the_console_and_that_to_the_login(db: None, client: Client) -> None:
    assert client.get("/").headers["Location"] == "/console/"
    response = client.get("/console/")
    assert response.headers["Location"] == "/console/login?next=/console/"


def test_right_password_leads_to_the_namespace(people: People, client: Client) -> None:
    response = client.post(LOGIN, {"username": "alice", "password": PASSWORD}, follow=True)
    assert response.redirect_chain[-1][0] == "/console/acme/"
    assert get_user(client).get_username() == "alice"


def test_wrong_password_and_unknown_user_get_the_same_words(people: People, client: Client) -> None:
    answers = [
        client.post(LOGIN, {"username": name, "password": "wrong"}) for name in ("alice", "nobody")
    ]
    for answer in answers:
        assert answer.status_code == 200
        assert b"User name and password do not match" in answer.content
    assert not get_user(client).is_authenticated


def test_foreign_address_to_go_to_next_is_ignored(people: People, client: Client) -> None:
    form = {"username": "alice", "password": PASSWORD, "next": "https://evil.example/"}
    assert client.post(LOGIN, form).headers["Location"] == "/console/"


def test_session_gets_a_new_id_at_the_login(people: People, client: Client) -> None:
    client.post(LOGIN, {"username": "alice", "password": PASSWORD})
    first = client.cookies["mq_session"].value
    client.post("/console/logout")
    client.post(LOGIN, {"username": "alice", "password": PASSWORD})
    assert client.cookies["mq_session"].value != first
    assert client.cookies["mq_session"]["httponly"]
    assert client.cookies["mq_session"]["samesite"] == "Lax"


def test_logout_ends_the_session_and_takes_only_post(people: People, client: Client) -> None:
    client.force_login(people.alice)
    assert client.get("/console/logout").status_code == 405
    assert client.post("/console/logout").headers["Location"] == LOGIN
    assert client.get("/console/acme/").status_code == 302


def test_form_without_its_token_is_refused(people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    response = client.post(LOGIN, {"username": "alice", "password": PASSWORD})
    assert response.status_code == 403
    assert b"Please try again" in response.content


def test_passwords_are_hashed_with_argon2(settings: Settings) -> None:
    settings.PASSWORD_HASHERS = mqservice.settings.PASSWORD_HASHERS
    assert make_password(PASSWORD).startswith("argon2$argon2id$")
