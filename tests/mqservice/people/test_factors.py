"""Second factors: needed once they are there, good once, changed by nobody but their owner."""

from __future__ import annotations

import pytest
from allauth.mfa.models import Authenticator
from django.contrib.auth import get_user
from django.db import DatabaseError, connection
from django.test import Client
from django.utils import timezone
from pytest_django import DjangoCaptureOnCommitCallbacks

from mqservice.accounts.join_tenant import JoinRequest, join
from mqservice.accounts.models import AuditEntry, Member
from mqservice.lib.problem import Problem
from mqservice.people import auditing
from tests.mqservice.people.test_sign_up import token_of
from tests.mqservice.people.visitors import (
    FACTOR,
    confirm,
    factor_rows,
    give_totp,
    sign_in,
    totp_code,
)
from tests.people import PASSWORD, People

CHANGES = [
    "/account/factors/totp/activate/",
    "/account/factors/totp/deactivate/",
    "/account/factors/recovery-codes/generate/",
    "/account/factors/webauthn/add/",
    "/account/email/",
]


def test_password_alone_opens_nothing(people: People, client: Client) -> None:
    give_totp(people.alice)
    assert sign_in(client).headers["Location"] == FACTOR
    for path in ("/console/acme/", "/account/", "/account/factors/", "/account/sessions/"):
        assert client.get(path).status_code == 302, path
    assert not get_user(client).is_authenticated


def test_code_of_the_app_signs_in_once(people: People, client: Client) -> None:
    secret, _ = give_totp(people.alice)
    code = totp_code(secret)
    sign_in(client)
    client.post(FACTOR, {"code": code})
    assert get_user(client).is_authenticated
    thief = Client()
    sign_in(thief)
    thief.post(FACTOR, {"code": code})
    assert not get_user(thief).is_authenticated


def test_recovery_code_that_was_stolen_is_worth_nothing_once_used(
    people: People, client: Client
) -> None:
    _, codes = give_totp(people.alice)
    sign_in(client)
    client.post(FACTOR, {"code": codes[0]})
    assert get_user(client).is_authenticated
    thief = Client()
    sign_in(thief)
    thief.post(FACTOR, {"code": codes[0]})
    assert not get_user(thief).is_authenticated
    thief.post(FACTOR, {"code": codes[1]})
    assert get_user(thief).is_authenticated


def test_codes_cannot_be_tried_on(people: People, client: Client) -> None:
    secret, _ = give_totp(people.alice)
    sign_in(client)
    for number in range(12):
        client.post(FACTOR, {"code": f"{number:06}"})
    client.post(FACTOR, {"code": totp_code(secret)})
    assert not get_user(client).is_authenticated


def test_code_of_someone_else_is_none(people: People, client: Client) -> None:
    give_totp(people.alice)
    secret, codes = give_totp(people.bob)
    sign_in(client)
    client.post(FACTOR, {"code": totp_code(secret)})
    client.post(FACTOR, {"code": codes[0]})
    assert not get_user(client).is_authenticated


def test_invitation_taken_up_by_the_api_asks_for_no_factor_and_so_is_refused(
    people: People,
) -> None:
    give_totp(people.alice)
    token = token_of(people.rival_owner_key)
    with pytest.raises(Problem) as right:
        join(JoinRequest(token=token, username="alice", password=PASSWORD))
    with pytest.raises(Problem) as wrong:
        join(JoinRequest(token=token, username="alice", password="wrong"))
    assert (right.value.code, right.value.detail) == (wrong.value.code, wrong.value.detail)
    assert not Member.objects.filter(user=people.alice, tenant=people.rival.tenant).exists()


def test_password_of_one_user_is_tried_five_times_by_invitations(people: People) -> None:
    codes = []
    for _ in range(6):
        with pytest.raises(Problem) as refusal:
            join(JoinRequest(token=token_of(people.rival_owner_key), username="bob", password="x"))
        codes.append(refusal.value.code)
    assert codes == ["UNAUTHENTICATED"] * 5 + ["RATE_LIMITED"]


def test_app_is_set_up_with_recovery_codes_that_are_shown_once(
    people: People,
    client: Client,
    django_capture_on_commit_callbacks: DjangoCaptureOnCommitCallbacks,
) -> None:
    sign_in(client)
    confirm(client)
    page = client.get("/account/factors/totp/activate/")
    secret = page.context["form"].secret
    with django_capture_on_commit_callbacks(execute=True):
        client.post("/account/factors/totp/activate/", {"code": totp_code(secret)})
    done = client.get("/account/factors/recovery-codes/")
    codes = done.context["unused_codes"]
    assert len(codes) == 10
    assert codes[0] in done.content.decode()
    assert codes[0] not in client.get("/account/factors/recovery-codes/").content.decode()
    actions = AuditEntry.objects.filter(action="factor.add").values_list("details", flat=True)
    assert sorted(each["type"] for each in actions) == ["recovery_codes", "totp"]


@pytest.mark.parametrize("change", ["activate", "deactivate", "generate"])
def test_a_change_of_factors_that_cannot_be_audited_is_not_made(
    change: str, people: People, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    form = {}
    if change == "activate":
        sign_in(client)
        confirm(client)
        page = client.get("/account/factors/totp/activate/")
        form = {"code": totp_code(page.context["form"].secret)}
    else:
        secret, _ = give_totp(people.alice)
        sign_in(client)
        client.post(FACTOR, {"code": totp_code(secret)})
        confirm(client)
    path = "recovery-codes/generate" if change == "generate" else f"totp/{change}"
    before = factor_rows(people.alice)

    def full(*_: object, **__: object) -> None:
        raise DatabaseError("no room")

    with monkeypatch.context() as patched:
        patched.setattr(auditing, "record_all", full)
        with pytest.raises(DatabaseError):
            client.post(f"/account/factors/{path}/", form)
    assert factor_rows(people.alice) == before
    if change != "activate":  # whose code is good once
        client.post(f"/account/factors/{path}/", form)
        assert factor_rows(people.alice) != before
        gone = AuditEntry.objects.filter(action="factor.remove", actor="user:alice")
        kinds = ["recovery_codes"] if change == "generate" else ["recovery_codes", "totp"]
        assert sorted(each["type"] for each in gone.values_list("details", flat=True)) == kinds


def test_a_factor_that_is_used_lets_in_though_that_is_not_audited(
    people: People, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    secret, _ = give_totp(people.alice)
    sign_in(client)

    def full(*_: object, **__: object) -> None:
        with connection.cursor() as cursor:
            cursor.execute("SELECT 1 / 0")

    monkeypatch.setattr(auditing, "record_all", full)
    client.post(FACTOR, {"code": totp_code(secret)})
    assert get_user(client).is_authenticated


def test_secrets_of_factors_are_not_readable_in_the_database(people: People) -> None:
    secret, codes = give_totp(people.alice)
    rows = factor_rows(people.alice)
    assert len(rows) == 2
    for text in (secret, *codes):
        assert not any(text in row for row in rows)


@pytest.mark.parametrize("path", CHANGES)
def test_changes_ask_for_the_password_again(path: str, people: People, client: Client) -> None:
    if "deactivate" in path or "recovery" in path:
        Authenticator.objects.create(user=people.bob, type="totp", data={})
        client.force_login(people.bob)
    else:
        client.force_login(people.alice)  # of which no password was asked
    answers = [client.post(path, {"action_add": "", "email": "a@x.example"})]
    for answer in [*answers, *([] if "email" in path else [client.get(path)])]:
        assert answer.status_code == 302, path
        assert "reauthenticate" in answer.headers["Location"], path


def test_key_of_someone_else_is_not_found(people: People, client: Client) -> None:
    row = Authenticator.objects.create(
        user=people.bob, type="webauthn", data={}, last_used_at=timezone.now()
    )
    sign_in(client)
    confirm(client)
    for verb in ("remove", "edit"):
        answer = client.post(f"/account/factors/webauthn/keys/{row.pk}/{verb}/", {"name": "x"})
        assert answer.status_code == 404
    assert Authenticator.objects.filter(pk=row.pk).exists()
