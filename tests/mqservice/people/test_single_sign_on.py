"""Single sign-on with a provider over HTTP: whom it lets in, and what it refuses in which words."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from typing import Any
from urllib.parse import urlencode, urlsplit

import pytest
import requests
from allauth.account.models import EmailAddress
from allauth.socialaccount.models import SocialAccount, SocialToken
from cryptography.hazmat.primitives.asymmetric.rsa import RSAPrivateKey
from django.contrib.auth import get_user
from django.contrib.sessions.models import Session
from django.core import mail
from django.http import HttpResponse, QueryDict
from django.test import Client
from flask import Response
from pytest_django import Settings

from mqservice.accounts.models import AuditEntry, Member, Role, User
from mqservice.people import openid
from tests.mqservice.people.openid_provider import (
    CLIENT_ID,
    CLIENT_SECRET,
    EMAIL,
    Provider,
    new_key,
    path_of,
    running_provider,
)
from tests.mqservice.people.test_sign_up import token_of
from tests.mqservice.people.visitors import (
    FACTOR,
    LOGIN,
    SIGN_UP,
    address_of,
    confirm,
    give_totp,
    last_link,
    sign_in,
    sign_up,
    totp_code,
)
from tests.people import PASSWORD, People

BEGIN = "/account/single-sign-on/"
FAILED = "/account/single-sign-on/failed/"
AGAIN = "/account/single-sign-on/again/"
CONFIRM = "/account/single-sign-on/confirm/"
SET_PASSWORD = "/account/password/set/"
UNLINK = "/account/single-sign-on/unlink/"


@pytest.fixture(scope="module")
def key() -> RSAPrivateKey:
    return new_key()


@pytest.fixture
def provider(key: RSAPrivateKey, settings: Settings) -> Iterator[Provider]:
    with running_provider(key) as running:
        settings.MQ_OIDC_ISSUER = running.issuer
        settings.MQ_OIDC_CLIENT_ID = CLIENT_ID
        settings.MQ_OIDC_CLIENT_SECRET = CLIENT_SECRET
        settings.MQ_OIDC_NAME = "Acme SSO"
        settings.SOCIALACCOUNT_REQUESTS_TIMEOUT = 60  # a busy machine is no outage
        settings.MQ_SIGN_UP = "invited"
        yield running


@pytest.fixture
def alice(people: People) -> User:
    address_of(people.alice, EMAIL)
    return people.alice


def back_from_provider(client: Client, begin: str = BEGIN) -> str:
    """The address to which the provider sends the browser."""
    leaves = client.get(begin)
    assert leaves.status_code == 302, leaves.content
    answer = requests.get(leaves.headers["Location"], allow_redirects=False, timeout=60)
    return path_of(answer.headers["Location"])


def single_sign_on(client: Client, begin: str = BEGIN) -> HttpResponse:
    return explained(client, back_from_provider(client, begin))


def explained(client: Client, address: str) -> HttpResponse:
    """The response; where it leads to the page of failures, that page."""
    response = client.get(address)
    if response.status_code == 302 and response.headers["Location"].startswith(FAILED):
        response = client.get(response.headers["Location"])
    return response  # type: ignore[return-value]


def words_of(response: HttpResponse) -> str:
    return " ".join(response.content.decode().split())


def name_of(client: Client) -> str:
    return get_user(client).get_username()


# ---- Who is let in -----------------------------------------------------------------------------


def test_button_is_there_only_when_a_provider_is_set(
    db: None, client: Client, provider: Provider, settings: Settings
) -> None:
    for page in (LOGIN, SIGN_UP):
        settings.MQ_SIGN_UP = "open"
        settings.MQ_OIDC_ISSUER = provider.issuer
        shown = client.get(f"{page}?next=/console/acme/").content.decode()
        assert "Sign in with Acme SSO" in shown
        assert f'href="{BEGIN}?next=%2Fconsole%2Facme%2F"' in shown
        settings.MQ_OIDC_ISSUER = ""
        assert BEGIN not in client.get(page).content.decode()
    assert client.get(BEGIN).status_code == 404
    assert client.get(f"{BEGIN}callback/?code=1&state=2").status_code == 404
    assert provider.paths == []


def test_account_with_the_same_verified_address_is_linked_once(
    alice: User, people: People, client: Client, provider: Provider
) -> None:
    assert single_sign_on(client).headers["Location"] == "/console/"
    assert name_of(client) == "alice"
    assert "connected" in mail.outbox[-1].subject.lower()
    assert mail.outbox[-1].to == [EMAIL]
    # From then on the subject counts, whatever becomes of the address.
    provider.claims = {"email": "a.smith@x.example", "email_verified": False}
    again = Client()
    single_sign_on(again)
    assert name_of(again) == "alice"
    assert SocialAccount.objects.count() == 1
    assert list(
        AuditEntry.objects.order_by("id").values_list("action", "actor", "details", "tenant")
    ) == [
        ("identity.add", "user:alice", {"issuer": provider.issuer}, people.acme.tenant_id),
        ("user.login", "user:alice", {"method": "openid"}, people.acme.tenant_id),
        ("user.login", "user:alice", {"method": "openid"}, people.acme.tenant_id),
    ]


def test_leads_on_to_where_the_visitor_was_going_and_to_no_other_site(
    alice: User, client: Client, provider: Provider
) -> None:
    onward = single_sign_on(client, f"{BEGIN}?next=/console/acme/topics/")
    assert onward.headers["Location"] == "/console/acme/topics/"
    elsewhere = single_sign_on(Client(), f"{BEGIN}?next=https://evil.example/")
    assert elsewhere.headers["Location"] == "/console/"


def test_link_to_begin_cannot_change_what_is_asked_for(
    alice: User, client: Client, provider: Provider
) -> None:
    """The provider asserts the scope; ``connect`` would link the visitor's own account."""
    single_sign_on(client, f"{BEGIN}?process=connect&scope=admin&auth_params=redirect_uri%3Dx")
    assert name_of(client) == "alice"


def test_second_factor_is_asked_for_too_and_no_token_is_stored_meanwhile(
    alice: User, client: Client, provider: Provider
) -> None:
    secret, _ = give_totp(alice)
    assert single_sign_on(client).headers["Location"] == FACTOR
    assert not get_user(client).is_authenticated
    kept = [str(row.get_decoded()) for row in Session.objects.all()]
    assert kept
    assert not [text for text in kept if "opens-userinfo" in text]
    client.post(FACTOR, {"code": totp_code(secret)})
    assert name_of(client) == "alice"
    assert not SocialToken.objects.exists()
    assert AuditEntry.objects.filter(action="user.login").get().details == {"method": "openid"}


def test_address_may_come_from_the_user_info_of_the_same_subject(
    alice: User, client: Client, provider: Provider
) -> None:
    provider.claims = {"email": None, "email_verified": None}
    single_sign_on(client)
    assert name_of(client) == "alice"
    SocialAccount.objects.all().delete()
    provider.user_info = {"sub": "4712"}
    refused = Client()
    assert "does not prove who you are" in words_of(single_sign_on(refused))
    assert not get_user(refused).is_authenticated


def test_client_may_be_known_by_the_form(alice: User, client: Client, provider: Provider) -> None:
    provider.discovery = {"token_endpoint_auth_methods_supported": ["client_secret_post"]}
    single_sign_on(client)
    assert name_of(client) == "alice"


def test_open_sign_up_makes_an_account_without_a_password_that_founds_a_tenant(
    db: None, client: Client, provider: Provider, settings: Settings
) -> None:
    settings.MQ_SIGN_UP = "open"
    provider.claims = {"preferred_username": "root", "name": "The Operator"}
    assert single_sign_on(client).headers["Location"] == "/account/start/"
    user = User.objects.get()
    assert (user.username, user.email, user.first_name) == ("alice", EMAIL, "")
    assert not user.has_usable_password()
    assert not user.is_staff
    assert EmailAddress.objects.get(user=user).verified
    assert not Member.objects.exists()


def test_invitation_that_is_followed_makes_an_account_with_the_role_of_the_invitation(
    people: People, client: Client, provider: Provider
) -> None:
    provider.claims = {"email": "dora@x.example", "role": "owner", "groups": ["owner"]}
    refused = single_sign_on(client)
    assert refused.status_code == 403
    assert "Ask an owner or admin of your tenant for an invitation" in words_of(refused)
    assert not User.objects.filter(email="dora@x.example").exists()
    client.get(f"/account/join/{token_of(people.acme_owner_key)}/")
    assert "Sign in with Acme SSO" in client.get("/account/join/").content.decode()
    assert single_sign_on(client).headers["Location"] == "/account/join/"
    client.post("/account/join/")
    assert Member.objects.get(user__email="dora@x.example").role == Role.DEVELOPER


# ---- Who is refused ----------------------------------------------------------------------------


@pytest.mark.parametrize("said", [False, None, "true", 1])
def test_address_that_the_provider_has_not_verified_opens_nothing(
    alice: User, client: Client, provider: Provider, settings: Settings, said: object
) -> None:
    settings.MQ_SIGN_UP = "open"
    provider.claims = {"email_verified": said}
    refused = single_sign_on(client)
    assert refused.status_code == 403
    assert "is not verified" in words_of(refused)
    assert not get_user(client).is_authenticated
    assert not SocialAccount.objects.exists()
    assert User.objects.filter(email=EMAIL).count() == 1


def test_account_that_only_claims_the_address_is_not_opened(
    db: None, client: Client, provider: Provider, settings: Settings
) -> None:
    """Else who signed up with the address of another would share the account with them."""
    settings.MQ_SIGN_UP = "open"
    sign_up(Client(), EMAIL)
    refused = single_sign_on(client)
    assert refused.status_code == 403
    assert "has not verified it" in words_of(refused)
    EmailAddress.objects.all().delete()  # as of a user that the operator made
    assert "has not verified it" in words_of(single_sign_on(Client()))
    assert not SocialAccount.objects.exists()
    assert User.objects.count() == 1


def test_address_that_has_passed_to_another_person_does_not_open_the_account(
    alice: User, client: Client, provider: Provider
) -> None:
    single_sign_on(client)
    provider.claims = {"sub": "4712"}
    successor = Client()
    refused = single_sign_on(successor)
    assert refused.status_code == 403
    assert "linked to another user of Acme SSO" in words_of(refused)
    assert not get_user(successor).is_authenticated
    assert AuditEntry.objects.filter(action="user.login_fail").get().actor == "user:alice"


def test_same_subject_at_another_issuer_is_another_person(
    alice: User, client: Client, provider: Provider, key: RSAPrivateKey, settings: Settings
) -> None:
    single_sign_on(client)
    with running_provider(key) as other:
        settings.MQ_OIDC_ISSUER = other.issuer
        other.claims = {"email": "mallory@x.example"}
        stranger = Client()
        assert "need an invitation" in words_of(single_sign_on(stranger))
        assert not get_user(stranger).is_authenticated


def test_closed_account_stays_closed(alice: User, client: Client, provider: Provider) -> None:
    alice.is_active = False
    alice.save(update_fields=["is_active"])
    assert single_sign_on(client).headers["Location"] == "/account/inactive/"
    assert not get_user(client).is_authenticated
    assert not SocialAccount.objects.exists()


def test_no_address_at_all_is_said_so(db: None, client: Client, provider: Provider) -> None:
    provider.claims = {"email": None, "email_verified": None}
    provider.user_info = {"email": None}
    assert "did not send your email address" in words_of(single_sign_on(client))


# ---- What does not prove who it is -------------------------------------------------------------

# Any: claims are whatever JSON can say.
LIES: dict[str, tuple[dict[str, Any], str]] = {
    "another audience": ({"aud": "other-client"}, "InvalidAudienceError"),
    "several audiences, made for another": (
        {"aud": ["mq-console", "other-client"], "azp": "other-client"},
        "made for another client",
    ),
    "another issuer": ({"iss": "https://evil.example"}, "InvalidIssuerError"),
    "expired": ({"iat": 1_700_000_000, "exp": 1_700_000_300}, "ExpiredSignatureError"),
    "from the future": ({"iat": 4_000_000_000, "exp": 4_000_000_300}, "ImmatureSignatureError"),
    "no end": ({"exp": None}, "MissingRequiredClaimError"),
    "no subject": ({"sub": None}, "MissingRequiredClaimError"),
    "another browser's request": ({"nonce": "taken elsewhere"}, "of another request"),
    "no nonce": ({"nonce": None}, "MissingRequiredClaimError"),
}


@pytest.mark.parametrize("lie", LIES)
def test_id_token_that_is_not_ours_opens_nothing(
    alice: User, client: Client, provider: Provider, caplog: pytest.LogCaptureFixture, lie: str
) -> None:
    provider.claims, error = LIES[lie]
    refused = single_sign_on(client)
    assert refused.status_code == 403
    assert "does not prove who you are" in words_of(refused)
    assert not get_user(client).is_authenticated
    assert not SocialAccount.objects.exists()
    [record] = of_operator(caplog)
    assert error in record["error"]


@pytest.mark.parametrize("algorithm", ["RS256", "HS256", "none"])
def test_id_token_of_another_key_opens_nothing(
    alice: User, client: Client, provider: Provider, algorithm: str
) -> None:
    others = {"RS256": new_key(), "HS256": CLIENT_SECRET, "none": None}
    provider.signing_key, provider.algorithm = others[algorithm], algorithm
    assert "does not prove who you are" in words_of(single_sign_on(client))
    assert not get_user(client).is_authenticated


def test_state_of_another_browser_or_used_before_opens_nothing(
    alice: User, client: Client, provider: Provider
) -> None:
    address = back_from_provider(client)
    thief = Client()
    stolen = explained(thief, address)
    assert stolen.status_code == 403
    assert "was already used, or was started in another browser" in words_of(stolen)
    assert not get_user(thief).is_authenticated
    client.get(address)
    assert name_of(client) == "alice"
    client.post("/account/logout/")
    assert explained(client, address).status_code == 403
    assert not get_user(client).is_authenticated


def test_code_that_another_browser_was_given_opens_nothing(
    alice: User, client: Client, provider: Provider
) -> None:
    """PKCE: the code is only good with what the browser's own session holds."""
    thief = Client()
    given, own = (QueryDict(urlsplit(back_from_provider(each)).query) for each in (client, thief))
    query = urlencode({"code": given["code"], "state": own["state"]})
    refused = explained(thief, f"{BEGIN}callback/?{query}")
    assert refused.status_code == 403
    assert not get_user(thief).is_authenticated


@pytest.mark.parametrize(
    ("error", "words"),
    [
        ("access_denied", "Acme SSO refused to sign you in, or you cancelled it."),
        ("server_error", "does not prove who you are"),
    ],
)
def test_refusal_by_the_provider_is_said_so(
    db: None, client: Client, provider: Provider, error: str, words: str
) -> None:
    provider.refusal = error
    refused = single_sign_on(client)
    assert words in words_of(refused)


# ---- What operators got wrong, and outages -----------------------------------------------------


def test_wrong_client_secret_is_said_and_logged_without_it(
    alice: User,
    client: Client,
    provider: Provider,
    settings: Settings,
    caplog: pytest.LogCaptureFixture,
) -> None:
    settings.MQ_OIDC_CLIENT_SECRET = "not the secret"
    refused = single_sign_on(client)
    assert refused.status_code == 403
    assert "does not accept this service" in words_of(refused)
    [record] = of_operator(caplog)
    assert record["error"] == "the token endpoint replied 401 invalid_client"
    assert CLIENT_SECRET not in caplog.text
    assert "not the secret" not in caplog.text


def test_issuer_that_is_down_leaves_the_password(
    alice: User, client: Client, provider: Provider, settings: Settings
) -> None:
    with running_provider(provider.key) as gone:
        settings.MQ_OIDC_ISSUER = gone.issuer
    refused = explained(client, BEGIN)
    assert refused.status_code == 403
    assert "Acme SSO did not respond" in words_of(refused)
    assert "sign in with your password" in words_of(refused)
    sign_in(client)
    assert name_of(client) == "alice"


@pytest.mark.parametrize("path", ["/token", "/keys"])
def test_provider_that_breaks_down_half_way_is_said_so(
    alice: User, client: Client, provider: Provider, path: str
) -> None:
    provider.broken_paths.add(path)
    refused = single_sign_on(client)
    assert refused.status_code == 403
    assert "did not respond" in words_of(refused)


@pytest.mark.parametrize(
    "changed",
    [
        {"issuer": "https://other.example"},
        {"authorization_endpoint": None},
        {"authorization_endpoint": "http://other.example/authorize"},
        {"authorization_endpoint": "javascript:alert(1)"},
        {"token_endpoint": ["https://x.example"]},
    ],
)
def test_discovery_document_that_is_not_the_issuers_leads_nowhere(
    db: None, client: Client, provider: Provider, changed: dict[str, object]
) -> None:
    provider.discovery = changed
    refused = explained(client, BEGIN)
    assert refused.status_code == 403
    assert "does not accept this service" in words_of(refused)


@pytest.mark.parametrize(
    "reply", ["", "[]", '{"access_token": 1}', '{"access_token": "a"}', "x" * 300_000]
)
def test_odd_replies_are_refused_and_not_an_error_of_ours(
    alice: User, client: Client, provider: Provider, reply: str
) -> None:
    provider.token_reply = Response(reply, content_type="application/json")
    assert single_sign_on(client).status_code == 403
    assert not get_user(client).is_authenticated


def test_page_of_failures_knows_no_other_reasons(db: None, client: Client) -> None:
    assert client.get(f"{FAILED}?reason=expired").status_code == 403
    assert client.get(f"{FAILED}?reason=<b>").status_code == 404
    assert client.get(FAILED).status_code == 404


def test_attempts_from_one_address_are_limited(
    db: None, client: Client, provider: Provider, settings: Settings
) -> None:
    settings.ACCOUNT_RATE_LIMITS = {**settings.ACCOUNT_RATE_LIMITS, "single_sign_on": "2/h/ip"}
    assert [client.get(BEGIN).status_code for _ in range(3)] == [302, 302, 429]
    assert len(provider.paths) == 2


# ---- Confirming --------------------------------------------------------------------------------


def signed_up_client(settings: Settings) -> Client:
    """Of somebody who has an account only by single sign-on."""
    settings.MQ_SIGN_UP = "open"
    client = Client()
    single_sign_on(client)
    assert name_of(client) == "alice"
    return client


def sign_on_again(client: Client, next_url: str) -> HttpResponse:
    """From the page that asks to confirm; what is there behind the provider."""
    return single_sign_on(client, f"{AGAIN}?{urlencode({'next': next_url})}")


@pytest.mark.parametrize("path", [SET_PASSWORD, "/account/factors/totp/activate/"])
def test_who_has_no_other_proof_signs_on_again_and_goes_on(
    db: None, provider: Provider, settings: Settings, path: str
) -> None:
    client = signed_up_client(settings)
    asked = client.get(path)
    assert asked.headers["Location"] == f"{CONFIRM}?{urlencode({'next': path})}"
    page = explained(client, asked.headers["Location"])
    assert f'href="{AGAIN}?{urlencode({"next": path})}"' in words_of(page)
    back = sign_on_again(client, path)
    assert provider.asked[-1]["prompt"] == "login"
    assert provider.asked[-1]["max_age"] == "0"
    wanted = json.loads(provider.asked[-1]["claims"])
    assert wanted == {"id_token": {"auth_time": {"essential": True}}}
    assert client.get(back.headers["Location"]).headers["Location"] == path
    assert client.get(path).status_code == 200
    assert name_of(client) == "alice"


def test_what_was_posted_is_done_after_confirming_but_for_a_password(
    db: None, provider: Provider, settings: Settings
) -> None:
    client = signed_up_client(settings)
    form = {"action_add": "1", "email": "new@x.example"}
    assert CONFIRM in client.post("/account/email/", form).headers["Location"]
    assert not EmailAddress.objects.filter(email="new@x.example").exists()
    client.get(sign_on_again(client, "/account/email/").headers["Location"])
    assert EmailAddress.objects.filter(email="new@x.example").exists()

    other = signed_up_client(settings)
    passwords = {"password1": "a long and winding phrase", "password2": "a long and winding phrase"}
    assert other.post(SET_PASSWORD, passwords).headers["Location"] == SET_PASSWORD
    assert not User.objects.get().has_usable_password()
    assert "winding" not in str([row.get_decoded() for row in Session.objects.all()])
    other.get(sign_on_again(other, SET_PASSWORD).headers["Location"])
    other.post(SET_PASSWORD, passwords)
    assert User.objects.get().has_usable_password()


def test_second_factor_confirms_in_place_of_signing_on_again(
    db: None, provider: Provider, settings: Settings
) -> None:
    client = signed_up_client(settings)
    secret, _ = give_totp(User.objects.get())
    asked = client.get(SET_PASSWORD)
    assert asked.headers["Location"].startswith("/account/factors/reauthenticate/")
    assert client.get(CONFIRM).headers["Location"] == "/account/reauthenticate/"
    assert client.get(AGAIN).headers["Location"] == "/account/reauthenticate/"
    client.post("/account/factors/reauthenticate/", {"code": totp_code(secret)})
    assert client.get(SET_PASSWORD).status_code == 200


@pytest.mark.parametrize("auth_time", [None, 1_700_000_000, "now"])
def test_provider_that_does_not_say_that_it_asked_anew_confirms_nothing(
    db: None, provider: Provider, settings: Settings, auth_time: object
) -> None:
    client = signed_up_client(settings)
    provider.claims = {"auth_time": auth_time}
    refused = sign_on_again(client, SET_PASSWORD)
    assert "does not say that it has asked you" in words_of(refused)
    assert CONFIRM in client.get(SET_PASSWORD).headers["Location"]
    assert name_of(client) == "alice"


def test_google_is_not_asked_for_a_prompt_that_it_does_not_know(
    db: None, provider: Provider, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    client = signed_up_client(settings)
    monkeypatch.setattr(openid, "GOOGLE", provider.issuer)
    back = sign_on_again(client, SET_PASSWORD)
    assert provider.asked[-1]["prompt"] == "select_account"
    assert "auth_time" in provider.asked[-1]["claims"]
    assert client.get(back.headers["Location"]).headers["Location"] == SET_PASSWORD


def test_who_cannot_confirm_gets_a_password_by_mail_and_confirms_with_it(
    db: None, provider: Provider, settings: Settings
) -> None:
    client = signed_up_client(settings)
    provider.claims = {"auth_time": None}
    refused = sign_on_again(client, SET_PASSWORD)
    assert "Forgot your password?" in words_of(refused)
    visitor = Client()
    visitor.post("/account/password/reset/", {"email": EMAIL})
    form = visitor.get(last_link()).headers["Location"]
    visitor.post(form, {"password1": PASSWORD, "password2": PASSWORD})
    own = Client()
    sign_in(own, EMAIL, PASSWORD)
    confirm(own)
    assert own.get("/account/factors/totp/activate/").status_code == 200


def test_another_user_of_the_provider_confirms_nothing_and_gets_no_account(
    db: None, provider: Provider, settings: Settings
) -> None:
    client = signed_up_client(settings)
    provider.claims = {"sub": "4712", "email": "mallory@x.example"}
    refused = sign_on_again(client, SET_PASSWORD)
    assert "as a different user from the one signed in here" in words_of(refused)
    assert CONFIRM in client.get(SET_PASSWORD).headers["Location"]
    assert name_of(client) == "alice"
    assert User.objects.count() == 1


def test_confirmation_is_over_with_its_time(
    db: None, provider: Provider, settings: Settings
) -> None:
    client = signed_up_client(settings)
    sign_on_again(client, SET_PASSWORD)
    assert client.get(SET_PASSWORD).status_code == 200
    settings.ACCOUNT_REAUTHENTICATION_TIMEOUT = -1
    assert CONFIRM in client.get(SET_PASSWORD).headers["Location"]


# ---- Unlinking ---------------------------------------------------------------------------------


def test_unlinking_takes_the_password_and_frees_the_account(
    alice: User, client: Client, provider: Provider
) -> None:
    single_sign_on(client)
    assert f"Linked to {EMAIL}." in client.get("/account/").content.decode()
    assert "/account/reauthenticate/" in client.post(UNLINK).headers["Location"]
    assert SocialAccount.objects.exists()
    confirm(client, PASSWORD)
    assert client.post(UNLINK).headers["Location"] == "/account/"
    assert not SocialAccount.objects.exists()
    assert AuditEntry.objects.filter(action="identity.remove").get().actor == "user:alice"
    assert "Linked to" not in client.get("/account/").content.decode()


def test_only_way_in_cannot_be_unlinked(
    db: None, client: Client, provider: Provider, settings: Settings
) -> None:
    settings.MQ_SIGN_UP = "open"
    single_sign_on(client)
    assert "set a password first" in client.get("/account/").content.decode()
    client.post(UNLINK)
    assert SocialAccount.objects.exists()


def of_operator(caplog: pytest.LogCaptureFixture) -> list[dict[str, str]]:
    return [
        {name: str(value) for name, value in vars(record).items()}
        for record in caplog.records
        if record.levelno >= logging.WARNING
        and vars(record).get("action") == "single_sign_on_failed"
    ]
