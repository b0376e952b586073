"""Creates the demo tenant and prints it as one JSON line. Safe to run at every start.

    MQ_BOOTSTRAP_* ──▶ tenant, namespace, user, key, topic, group ──▶ one line on stdout

What exists is left as it is: a changed password stays changed, a revoked key stays revoked, a
rotated one rotated. The engine must be running, and is told of the topic and the group each time.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from django.core.management.base import CommandError
from django.db import transaction

from mqservice.accounts.access import pepper_version, secret_mac
from mqservice.accounts.models import ApiKey, Namespace, Role, User
from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import (
    create_api_key,
    get_or_create_namespace,
    get_or_create_tenant,
    set_role,
)
from mqservice.env import envsecret
from mqservice.groups.services import GroupChange, put_group
from mqservice.lib.api_keys import parse_api_key
from mqservice.lib.commands import ServiceCommand
from mqservice.lib.problem import Problem
from mqservice.topics.services import TopicChange, put_topic

NAMESPACE: Final = "demo"
TOPIC: Final = "orders"
QUEUE_COUNT: Final = 4
GROUP: Final = "billing"
USERNAME: Final = "admin"


class Command(ServiceCommand):
    help = "Create the demo tenant with its key, user, topic and group; print them as JSON."

    def handle(self, *args: Any, **options: Any) -> None:  # Any: Django's own signature
        password = envsecret("MQ_BOOTSTRAP_PASSWORD", chars_min=12)
        api_key = envsecret("MQ_BOOTSTRAP_API_KEY", chars_min=1)
        if parse_api_key(api_key) is None:
            raise CommandError("MQ_BOOTSTRAP_API_KEY is not of the form mqk_...")
        namespace = create_identities(password=password, api_key=api_key)
        try:
            put_topic(namespace, TOPIC, TopicChange(queue_count=_queue_count(namespace)))
            put_group(namespace, GROUP, GroupChange())
        except Problem as exc:
            raise CommandError(f"{exc.code}: {exc.detail}") from exc
        facts = {
            "namespace": NAMESPACE,
            "topic": TOPIC,
            "group": GROUP,
            "api_key": api_key,
            "username": USERNAME,
            "password": password,
        }
        self.stdout.write(msgspec.json.encode(facts).decode())


@transaction.atomic
def create_identities(*, password: str, api_key: str) -> Namespace:
    """Tenant, namespace, owner and key, as far as they are missing."""
    tenant = get_or_create_tenant(NAMESPACE)
    namespace = get_or_create_namespace(tenant, NAMESPACE)
    user = User.objects.filter(username=USERNAME).first()
    if user is None:
        # Whoever starts the service has its machine: the first user sees the operator's page.
        user = User.objects.create_user(USERNAME, password=password, is_superuser=True)
        set_role(tenant, user, Role.OWNER)
    key = parse_api_key(api_key)
    assert key is not None, "checked by the caller"
    row = ApiKey.objects.filter(public_id=key.public_id).first()
    if row is None:
        create_api_key(
            tenant, name="demo", scopes=list(Scope), role=Role.ADMIN, namespace=namespace,
            created_by=user, text=api_key,
        )  # fmt: skip
    elif row.last4 == key.last4 and bytes(row.secret_mac) != secret_mac(key):
        # The service's secret was renewed. Where the key itself was rotated, its last characters
        # are others, and the former secret stays worthless.
        row.secret_mac = secret_mac(key)
        row.pepper_version = pepper_version()
        row.save(update_fields=["secret_mac", "pepper_version"])
    return namespace


def _queue_count(namespace: Namespace) -> int | None:
    """Four at first; None, hence unchanged, once the topic exists."""
    return None if namespace.topics.filter(name=TOPIC).exists() else QUEUE_COUNT
