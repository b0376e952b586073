"""``manage.py bootstrap_demo``: what it makes, and that it may run at every start."""

from __future__ import annotations

import io
from datetime import timedelta

import msgspec
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command
from pytest_django import Settings

from mqservice.accounts.access import find_principal
from mqservice.accounts.key_services import rotate_key
from mqservice.accounts.models import ApiKey, Member, Namespace, Role, Tenant, User
from mqservice.accounts.scopes import Scope
from mqservice.groups.models import ConsumerGroup
from mqservice.groups.services import GroupChange, put_group
from mqservice.lib.api_keys import generate_api_key
from mqservice.lib.names import MAIN_SHARD
from mqservice.store import GroupRef, TopicRef, blocking_client
from mqservice.topics.models import Topic
from mqservice.topics.services import TopicChange, put_topic
from tests.people import bearer, revoke

PASSWORD = "a password for the demo"
KEY = generate_api_key()


@pytest.fixture(autouse=True)
def _given(db: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQ_BOOTSTRAP_PASSWORD", PASSWORD)
    monkeypatch.setenv("MQ_BOOTSTRAP_API_KEY", KEY)


def bootstrap() -> dict[str, str]:
    output = io.StringIO()
    call_command("bootstrap_demo", stdout=output)
    text = output.getvalue()
    assert text.count("\n") == 1
    return msgspec.json.decode(text, type=dict[str, str])


def test_first_run_creates_all_and_tells_it_in_one_line(engine: str) -> None:
    assert bootstrap() == {
        "namespace": "demo", "topic": "orders", "group": "billing", "api_key": KEY,
        "username": "admin", "password": PASSWORD,
    }  # fmt: skip
    principal = find_principal(bearer(KEY))
    assert principal is not None
    assert (principal.namespace, principal.scopes) == ("demo", frozenset(Scope))
    user = User.objects.get(username="admin")
    assert user.check_password(PASSWORD)
    assert Member.objects.get(user=user).role == Role.OWNER
    with blocking_client(MAIN_SHARD) as client:
        assert len(client.topic_stats(TopicRef(topic="demo%orders")).queues) == 4
        assert client.group_stats(GroupRef(group="demo%billing")).queues == []


def test_second_run_answers_the_same_and_adds_nothing(engine: str) -> None:
    first = bootstrap()
    counts = [model.objects.count() for model in (Tenant, Namespace, User, Member, ApiKey)]
    assert bootstrap() == first
    assert [model.objects.count() for model in (Tenant, Namespace, User, Member, ApiKey)] == counts
    assert (Topic.objects.count(), ConsumerGroup.objects.count()) == (1, 1)


def test_second_run_leaves_what_was_changed_since(engine: str) -> None:
    bootstrap()
    namespace = Namespace.objects.get(name="demo")
    user = User.objects.get(username="admin")
    user.set_password("changed by its owner")
    user.save()
    put_topic(namespace, "orders", TopicChange(queue_count=6))
    put_group(namespace, "billing", GroupChange(lease_ms=30_000))
    revoke(KEY)
    bootstrap()
    assert User.objects.get(username="admin").check_password("changed by its owner")
    assert Topic.objects.get().queue_count == 6
    assert ConsumerGroup.objects.get().lease_ms == 30_000
    assert find_principal(bearer(KEY)) is None


def test_key_works_again_after_the_pepper_was_renewed(engine: str, settings: Settings) -> None:
    bootstrap()
    settings.MQ_KEY_PEPPER = "another pepper of 32 characters!"
    assert find_principal(bearer(KEY)) is None
    bootstrap()
    assert find_principal(bearer(KEY)) is not None


def test_a_secret_that_was_rotated_away_does_not_come_back(engine: str) -> None:
    bootstrap()
    principal = find_principal(bearer(KEY))
    assert principal is not None
    _, rotated = rotate_key(principal, principal.key_id, timedelta())
    bootstrap()
    assert find_principal(bearer(KEY)) is None
    assert find_principal(bearer(rotated)) is not None


def test_engine_that_is_unavailable_fails_the_command_with_its_name() -> None:
    with pytest.raises(CommandError, match="ENGINE_UNAVAILABLE"):
        bootstrap()


def test_bad_input_is_refused_without_being_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MQ_BOOTSTRAP_API_KEY", "mqk_wrong")
    with pytest.raises(CommandError) as caught:
        bootstrap()
    assert "wrong" not in str(caught.value)
    monkeypatch.delenv("MQ_BOOTSTRAP_PASSWORD")
    with pytest.raises(ImproperlyConfigured, match="MQ_BOOTSTRAP_PASSWORD"):
        bootstrap()
