"""Every page of people: drawn in our frame, under our policy, and with a token in each form."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest
from allauth.usersessions.models import UserSession
from django.contrib.auth import get_user
from django.test import Client
from django.urls import URLPattern, URLResolver, get_resolver

from mqservice.accounts.models import AuditEntry
from mqservice.lib.frontend import FRONTEND_DIR
from tests.mqservice.people.visitors import LOGIN, SIGN_UP, confirm, sign_in
from tests.people import PASSWORD, People

# Where a visitor is sent on from, or what takes more than an address.
OPEN = {"login/", "signup/", "password/reset/", "password/reset/done/", "confirm-email/",
        "inactive/", "password/reset/key/done/", "join/"}  # fmt: skip
MINE = {"", "email/", "password/change/", "factors/", "factors/totp/activate/",
        "factors/webauthn/add/", "factors/webauthn/", "sessions/", "logout/"}  # fmt: skip
# Sent elsewhere without a state that other tests make.
ELSEWHERE = {
    "start/", "password/set/", "reauthenticate/",
    "single-sign-on/", "single-sign-on/callback/", "single-sign-on/failed/",
    "single-sign-on/unlink/", "single-sign-on/confirm/",
    "single-sign-on/again/",
    "factors/authenticate/", "factors/reauthenticate/",
    "factors/totp/deactivate/", "factors/recovery-codes/", "factors/recovery-codes/generate/",
    "factors/recovery-codes/download/", "factors/webauthn/reauthenticate/", "login/code/confirm/",
}  # fmt: skip


class Page(HTMLParser):
    """Forms without a token, scripts with a text, and attributes that a policy refuses."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.faults: list[str] = []
        self._is_inline = False
        self._form: str | None = None
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        self.faults += [f"{tag} {name}" for name in given if name.startswith("on")]
        if "style" in given:
            self.faults.append(f"{tag} style")
        if tag == "style" or (tag == "script" and "src" not in given and not given.get("type")):
            self.faults.append(f"inline {tag}")
        if tag == "form" and given.get("method", "").lower() == "post":  # type: ignore[union-attr]
            self._form = given.get("action") or "here"
        if tag == "input" and given.get("name") == "csrfmiddlewaretoken":
            self._form = None

    def handle_endtag(self, tag: str) -> None:
        if tag == "form" and self._form is not None:
            self.faults.append(f"form to {self._form} without a token")


def routes() -> set[str]:
    """Paths below /account/ that have no parameters."""
    found = set()
    for each in get_resolver().url_patterns:
        if isinstance(each, URLResolver) and str(each.pattern) == "account/":
            found |= set(_paths(each, ""))
    return {path for path in found if "<" not in path and "(" not in path}


def _paths(node: URLResolver, prefix: str) -> list[str]:
    paths: list[str] = []
    for each in node.url_patterns:
        where = prefix + str(each.pattern)
        paths += [where] if isinstance(each, URLPattern) else _paths(each, where)
    return paths


def test_every_page_is_known_here() -> None:
    assert routes() == OPEN | MINE | ELSEWHERE


@pytest.mark.parametrize("path", sorted(OPEN))
def test_page_for_visitors_keeps_the_rules(path: str, db: None, client: Client) -> None:
    check(client.get(f"/account/{path}"))


@pytest.mark.parametrize("path", sorted(MINE))
def test_page_for_those_signed_in_keeps_the_rules(
    path: str, people: People, client: Client
) -> None:
    assert client.get(f"/account/{path}").status_code == 302
    sign_in(client)
    confirm(client)
    check(client.get(f"/account/{path}"))


def check(response: object) -> None:
    assert response.status_code in (200, 404)  # type: ignore[attr-defined]
    text = response.content.decode()  # type: ignore[attr-defined]
    assert "mqservice</title>" in text
    assert re.search(r"<h1>[^<]+</h1>", text)
    assert Page(text).faults == []
    policy = response.headers["Content-Security-Policy"]  # type: ignore[attr-defined]
    assert "script-src 'self';" in policy
    assert response.headers["Cache-Control"]  # type: ignore[attr-defined]


@pytest.mark.parametrize("path", sorted((OPEN | MINE | ELSEWHERE) - {"", "join/", "inactive/"}))
def test_form_without_its_token_is_refused(path: str, people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people.alice)
    response = client.post(f"/account/{path}", {"login": "alice", "password": PASSWORD})
    assert response.status_code == 403, path


@pytest.mark.parametrize("path", [LOGIN, SIGN_UP, "/account/join/", "/account/start/"])
def test_form_from_a_page_of_someone_else_is_refused(path: str, people: People) -> None:
    client = Client(enforce_csrf_checks=True)
    client.force_login(people.alice)
    client.get("/account/email/")
    client.get("/account/factors/")
    token = client.cookies["mq_csrf"].value
    headers = {"origin": "https://evil.example"}
    form = {"csrfmiddlewaretoken": token}
    assert client.post(path, form, headers=headers).status_code == 403


@pytest.mark.parametrize("path", ["/account/factors/", "/account/password/reset/done/"])
def test_message_is_shown_once_and_covers_nothing(path: str, people: People) -> None:
    client = Client()
    sign_in(client)
    address = {"email": "alice@other.example", "action_add": ""}
    confirm(client)
    client.post("/account/email/", address)
    text = client.get(path).content.decode()
    assert text.count("alice@other.example") == 1
    assert 'class="note note-plain" role="status"' in text
    assert 'class="toasts"' not in text


def test_cameras_read_the_code_for_an_app_in_the_dark_too(people: People, client: Client) -> None:
    sign_in(client)
    confirm(client)
    assert 'class="qr-code"' in client.get("/account/factors/totp/activate/").content.decode()
    built = (FRONTEND_DIR / "static" / "build" / "console.css").read_text()
    rule = re.search(r"\.qr-code ?\{([^}]*)\}", built)
    assert rule is not None
    assert re.search(r"background(-color)?: ?#fff", rule[1])


def test_fields_and_refusals_of_libraries_are_chinese_too(people: People, client: Client) -> None:
    client.cookies["mq_language"] = "zh-hans"
    form = {"email": "new@x.example", "password1": "abc"}
    text = client.post(SIGN_UP, form).content.decode()
    assert "密码太短，至少需要 12 个字符。" in text
    assert "This password" not in text
    sign_in(client)
    confirm(client)
    assert ">名称</label>" in client.get("/account/factors/webauthn/add/").content.decode()


@pytest.mark.parametrize("key", ["aaaaaaaaaaaa\0", "aaaaaaaaaaaä", "x" * 4_000, "a b c d e f", "a"])
def test_a_cookie_that_can_be_no_session_is_nobodys(key: str, db: None, client: Client) -> None:
    client.cookies["mq_session"] = key
    answer = client.get("/console/acme/topics")
    assert answer.status_code == 302
    assert answer.headers["location"].startswith(LOGIN)


def test_other_sessions_end_and_this_one_continues(people: People, client: Client) -> None:
    other = Client()
    sign_in(other)
    sign_in(client)
    assert UserSession.objects.filter(user=people.alice).count() == 2
    client.post("/account/sessions/")
    assert not get_user(other).is_authenticated
    assert get_user(client).is_authenticated


def test_changed_password_ends_other_sessions_and_is_audited(
    people: People, client: Client
) -> None:
    other = Client()
    sign_in(other)
    sign_in(client)
    form = {
        "oldpassword": PASSWORD,
        "password1": "another long phrase",
        "password2": "another long phrase",
    }
    client.post("/account/password/change/", form)
    assert not get_user(other).is_authenticated
    assert get_user(client).is_authenticated
    assert AuditEntry.objects.filter(action="user.password_change").count() == 1
