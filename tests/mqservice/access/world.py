"""Two tenants with one thing of each kind, a credential of each kind, and the whole service.

World.build ──▶ rows and engine ──▶ credentials, names ──▶ call(): one request, rolled back
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
from collections.abc import AsyncIterator, Callable
from dataclasses import replace
from datetime import date, timedelta
from typing import Any, TypeVar

import httpx
from asgiref.sync import sync_to_async
from django.core.signals import request_finished, request_started
from django.db import close_old_connections, transaction
from django.utils import timezone

from mqservice.accounts.access import Principal, find_principal
from mqservice.accounts.invitation_services import invite
from mqservice.accounts.key_services import rotate_key
from mqservice.accounts.models import Namespace, Role, Tenant, User
from mqservice.accounts.scopes import Scope
from mqservice.accounts.services import (
    create_api_key,
    get_or_create_namespace,
    set_role,
)
from mqservice.asgi import Application
from mqservice.caches import Caches
from mqservice.control_plane import ControlPlane
from mqservice.delivery.context import process_context
from mqservice.groups.services import GroupChange, put_group
from mqservice.issues.models import Issue
from mqservice.lib.api_keys import generate_api_key
from mqservice.lib.clock import SystemClock
from mqservice.lib.names import MAIN_SHARD
from mqservice.moving_changes import Move
from mqservice.quotas.rejection_pacing import RejectionPacer
from mqservice.reports.models import ReportRun, RunState, Trigger
from mqservice.store import AsyncStoreClient, close_store
from mqservice.topics.services import TopicChange, put_topic
from tests.people import People, bearer, revoke

CONNECT_MS_MAX = 20_000
ACME, RIVAL, ABSENT = "acme", "rival", "absent"
Names = dict[str, str]
T = TypeVar("T")
_numbers = itertools.count()


class _InTransaction(ControlPlane):
    """Answers on the thread that the test's transaction is of."""

    async def run(
        self,
        asker: str,
        work: Callable[[], T],
        ended: Callable[[], object] = lambda: None,
        *,
        move: Move | None = None,
    ) -> T:
        result = await sync_to_async(work)()
        ended()
        return result


class World:
    """See the module's docstring."""

    def __init__(self, people: People) -> None:
        self.people = people
        self.credentials: dict[str, dict[str, str]] = {}
        self.names: dict[str, Names] = {}
        self.application: Application
        self._client: httpx.AsyncClient

    @contextlib.asynccontextmanager
    async def open(self) -> AsyncIterator[World]:
        """Everything is there for the length of the block, which is in a test's transaction."""
        await sync_to_async(self._make_credentials)()
        await sync_to_async(self._make_rows)()
        context = replace(process_context(), caches=Caches())
        store = context.stores[MAIN_SHARD]
        assert isinstance(store, AsyncStoreClient)
        await store.wait_connected(CONNECT_MS_MAX)
        # Thousands are refused here, one after the other: no turn is waited for.
        self.application = Application(
            lambda: context,
            RejectionPacer(SystemClock(), lambda _: asyncio.sleep(0)),
            _InTransaction(),
        )
        transport = httpx.ASGITransport(app=self.application)
        # As Django's own test client does: the transaction of the test outlives each request.
        for signal in (request_started, request_finished):
            signal.disconnect(close_old_connections)
        try:
            async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as each:
                self._client = each
                await self._make_things()
                yield self
        finally:
            for signal in (request_started, request_finished):
                signal.connect(close_old_connections)
            await close_store()

    async def call(
        self,
        method: str,
        path: str,
        headers: dict[str, str],
        body: object = None,
        *,
        is_kept: bool = False,
    ) -> httpx.Response:
        """One request; what it changed in PostgreSQL is undone, unless ``is_kept``."""
        if is_kept or method == "GET":
            return await self._client.request(method, path, headers=headers, json=body)
        place = await sync_to_async(transaction.savepoint)()
        try:
            return await self._client.request(method, path, headers=headers, json=body)
        finally:
            await sync_to_async(transaction.savepoint_rollback)(place)

    async def restore_engine(self) -> None:
        """The engine knows again what was deleted there and came back in PostgreSQL."""
        await sync_to_async(self._put_engine)()

    async def new_handle(self, tenant: str) -> str:
        """The recall handle of a message that is to come."""
        topic = self.names[tenant]["topic"]
        answer = await self.call(
            "POST",
            f"/v1/ns/{tenant}/topics/{topic}/messages",
            self.credentials["owner" if tenant == ACME else "rival"],
            {"body": "later", "delay": "1h"},
        )
        return str(answer.json()["recall_handle"])

    def _make_credentials(self) -> None:
        people, acme = self.people, self.people.acme.tenant
        now = timezone.now()
        _, expired = create_api_key(acme, name="expired", scopes=Scope, expires_at=now)
        revoked = _role_key(acme, Role.OWNER)
        revoke(revoked)
        former = _role_key(acme, Role.OWNER)
        rotate_key(_principal(former), _principal(former).key_id, timedelta(0))
        narrow = ["produce:other*", "consume:other*", "manage:other*"]
        keys = {
            "unknown": generate_api_key(),
            "expired": expired,
            "revoked": revoked,
            "former": former,
            "narrow": create_api_key(acme, name="n", scopes=narrow, role=Role.OWNER)[1],
            "consumer": create_api_key(acme, name="c", scopes=["consume"], role=Role.OWNER)[1],
            "viewer": people.acme_viewer_key,
            "developer": _role_key(acme, Role.DEVELOPER),
            "admin": people.acme_admin_key,
            "owner": people.acme_owner_key,
            "bound": people.acme_key,
            "rival": people.rival_owner_key,
        }
        self.credentials = {"none": {}, "garbage": {"authorization": "Bearer garbage"}}
        for name, key in keys.items():
            self.credentials[name] = {"authorization": bearer(key).decode()}

    def _make_rows(self) -> None:
        number = next(_numbers)  # tests share an engine, which knows what others have deleted
        for namespace, kind in ((self.people.acme, "orders"), (self.people.rival, "secret")):
            tenant, name, topic = namespace.tenant, namespace.name, f"{kind}{number}"
            user = User.objects.create_user(f"{name}-user")
            set_role(tenant, user, Role.VIEWER)
            empty = get_or_create_namespace(tenant, f"{name}-empty")
            owner = self.people.acme_owner_key if name == ACME else self.people.rival_owner_key
            invitation, _ = invite(_principal(owner), "d@x.example", Role.VIEWER, timedelta(days=1))
            key, _ = create_api_key(tenant, name="idle", scopes=["produce"])
            self.names[name] = {
                "ns": name, "topic": topic, "group": f"{topic}-readers", "alert": f"{topic}-late",
                "mask": f"{topic}-cards", "search": f"{topic}-late", "schedule": f"{topic}-nightly",
                "key": key.public_id, "member": user.username, "namespace": empty.name,
                "invitation": invitation.public_id, "run": _report_run(namespace),
                "connection": f"s_{name}", "issue": _issue(namespace, f"{topic}-readers", "open"),
                "ended_issue": _issue(namespace, f"{topic}-readers", "resolved"),
            }  # fmt: skip
        self.names[ABSENT] = {
            "ns": "nowhere", "topic": "nothing", "group": "nothing", "alert": "nothing",
            "mask": "nothing", "schedule": "nothing", "search": "nothing",
            "key": "AAAAAAAA", "member": "nobody", "namespace": "nowhere",
            "invitation": "AAAAAAAAAAAA", "task": "task_nothing", "run": "run_nothing",
            "message": "0" * 34, "handle": "rc_nothing", "connection": "s_nothing",
            "issue": "iss_nothing", "ended_issue": "iss_nothing",
        }  # fmt: skip
        self._put_engine()

    def _put_engine(self) -> None:
        for namespace in (self.people.acme, self.people.rival):
            names = self.names[namespace.name]
            put_topic(namespace, names["topic"], TopicChange(queue_count=1))
            put_group(namespace, names["group"], GroupChange())

    async def _make_things(self) -> None:
        """A message, a task, an alert and the like of each tenant, by the API itself."""
        for tenant, who in ((ACME, "owner"), (RIVAL, "rival")):
            names, headers = self.names[tenant], self.credentials[who]
            root = f"/v1/ns/{tenant}"
            topic = f"{root}/topics/{names['topic']}"
            produced = await self.call("POST", f"{topic}/messages", headers, {"body": "x"})
            names["message"] = str(produced.json()["id"])
            group = f"{root}/groups/{names['group']}"
            received = f"{topic}/groups/{names['group']}:receive"
            await self.call("POST", received, headers, {"wait": "0s"})
            task = await self.call(
                "POST", f"{group}/dlq:purge", headers, {"all": True}, is_kept=True
            )
            names["task"] = str(task.json()["id"])
            rule: dict[str, Any] = {"kind": "lag", "group": names["group"], "threshold": 5}
            rule["webhook"] = "https://hooks.example/x"  # whom a test of it reaches
            alert = f"{root}/alerts/{names['alert']}"
            made = await self.call("PUT", alert, headers, rule, is_kept=True)
            assert made.status_code == 201, made.text
            hidden = {"topics": "payments*", "part": "body"}
            mask = f"{root}/masking/{names['mask']}"
            made = await self.call("PUT", mask, headers, hidden, is_kept=True)
            assert made.status_code == 201, made.text
            search = f"{root}/searches/{names['search']}"
            made = await self.call("PUT", search, headers, {"q": "topic:y"}, is_kept=True)
            assert made.status_code == 201, made.text
            schema = {"kind": "avro", "definition": '"int"'}
            made = await self.call("PUT", f"{topic}/schema", headers, schema, is_kept=True)
            assert made.status_code == 201, made.text
            nightly = {"topic": names["topic"], "cron": "@weekly", "message": {"body": "x"}}
            schedule = f"{root}/schedules/{names['schedule']}"
            made = await self.call("PUT", schedule, headers, nightly, is_kept=True)
            assert made.status_code == 201, made.text
            names["handle"] = await self.new_handle(tenant)


def _role_key(tenant: Tenant, role: Role) -> str:
    return create_api_key(tenant, name=role.value, scopes=Scope, role=role)[1]


def _report_run(namespace: Namespace) -> str:
    """One that has ended: a tenant may order one at a time."""
    run = ReportRun.objects.create(
        trigger=Trigger.BY_HAND.value,
        namespace=namespace,
        created_by="key:none",
        from_date=date(2026, 1, 1),
        to_date=date(2026, 1, 2),
        zone="UTC",
        next_try_ms=0,
        state=RunState.DONE.value,
    )
    return run.public_id


def _issue(namespace: Namespace, group: str, state: str) -> str:
    issue = Issue.objects.create(
        namespace=namespace, kind="dead_letter", group_name=group, reason=f"it was {state}",
        count=1, first_ms=1, last_ms=1, changed_ms=1, opening_number=1, state=state,
    )  # fmt: skip
    return issue.public_id


def _principal(key: str) -> Principal:
    principal = find_principal(bearer(key))
    assert principal is not None
    return principal
