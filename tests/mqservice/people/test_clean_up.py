"""What nobody uses any more goes: sessions that are over, and addresses nobody verified."""

from __future__ import annotations

from datetime import timedelta

from allauth.account.models import EmailAddress
from allauth.usersessions.models import UserSession
from django.contrib.auth import get_user
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone

from mqservice.accounts.models import User
from mqservice.people.tasks import UNVERIFIED_DAYS, clean_up
from tests.mqservice.people.visitors import sign_in, sign_up
from tests.people import People


def test_sessions_that_are_over_go_and_others_stay(people: People, client: Client) -> None:
    over = Client()
    sign_in(over, "bob")
    sign_in(client)
    key = over.cookies["mq_session"].value
    Session.objects.filter(pk=key).update(expire_date=timezone.now() - timedelta(seconds=1))
    clean_up()
    assert get_user(client).is_authenticated
    assert not Session.objects.filter(pk=key).exists()
    assert [row.user for row in UserSession.objects.all()] == [people.alice]


def test_address_that_nobody_verified_is_free_again_after_a_week(people: People) -> None:
    for email in ("new@x.example", "old@x.example", "verified@x.example", "member@x.example"):
        sign_up(Client(), email)
    long_ago = timezone.now() - timedelta(days=UNVERIFIED_DAYS, seconds=1)
    User.objects.exclude(email="new@x.example").update(date_joined=long_ago)
    EmailAddress.objects.filter(email="verified@x.example").update(verified=True)
    member = User.objects.get(email="member@x.example")
    member.memberships.create(tenant=people.acme.tenant, role="viewer")
    clean_up()
    kept = set(User.objects.exclude(email="").values_list("email", flat=True))
    assert kept == {"new@x.example", "verified@x.example", "member@x.example"}
    assert User.objects.filter(username="alice").exists()
