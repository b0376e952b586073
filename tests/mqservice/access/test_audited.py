"""Every route that changes something leaves a row in the audit; one that does not fails here."""

from __future__ import annotations

from typing import Any

from asgiref.sync import sync_to_async
from django.db import transaction

from mqservice.accounts.models import AuditEntry
from tests.mqservice.access.rows import CONTROL_ROWS, DATA_ROWS, Row
from tests.mqservice.access.test_matrix import fill
from tests.mqservice.access.world import ABSENT, ACME, World
from tests.people import People

CHANGING = ("POST", "PUT", "PATCH", "DELETE")
# Messages have a trace of their own, in the engine's log; a row for each would be as many again.
UNAUDITED = {
    "produceMessage", "produceBatch", "receiveMessages", "settleMessages",
    "cancelScheduled", "sendScheduled", "reschedule",
}  # fmt: skip
# Settles messages, as an ack does; lets in whoever could come in anyway, for half a minute; changes
# nothing.
UNAUDITED_PATHS = {
    "/v1/ns/{ns}/groups/{group}/offsets:commit", "/v1/ws-tickets", "/v1/ns/{ns}/schedules:preview",
}  # fmt: skip
Json = dict[str, Any]  # Any: answers are looked into field by field


def test_what_changes_messages_only_is_known_by_name() -> None:
    changing = {name for name, row in DATA_ROWS.items() if row.method in CHANGING}
    assert changing - UNAUDITED == {"copyMessages"}  # a row for each call, as test_copy sees
    assert changing >= UNAUDITED


async def test_each_change_has_a_row_that_says_who_what_and_in_which_request(
    engine: str, valkey_server: str, people: People
) -> None:
    rows = [row for row in CONTROL_ROWS if row.method in CHANGING]
    unaudited = []
    async with World(people).open() as world:
        for row in sorted(rows, key=lambda row: row.takes_away):
            entries = await changes_of(world, row)
            if not entries:
                unaudited.append((row.method, row.path))
                continue
            for entry in entries:
                assert entry.actor.startswith(("key:", "user:")), row
                assert entry.tenant_id == people.acme.tenant_id, row
                assert entry.request_id == "audited-request", row
                assert entry.address == "127.0.0.1", row
    assert {path for _, path in unaudited} == UNAUDITED_PATHS


async def test_what_is_refused_leaves_no_row(engine: str, people: People) -> None:
    rows = [row for row in CONTROL_ROWS if row.method in CHANGING and "accept" not in row.path]
    async with World(people).open() as world:
        for row in rows:
            for who in ("none", "revoked", "viewer", "rival"):
                if who == "rival" and not row.has_name:
                    continue  # that changes what is rival's own
                before = await count()
                await send(world, row, world.names[ACME], who)
                assert await count() == before, (row, who)


async def changes_of(world: World, row: Row) -> list[AuditEntry]:
    """The audit's rows of one call that is let through; what it changed is undone."""
    place = await sync_to_async(transaction.savepoint)()
    try:
        body, names = row.body, dict(world.names[ACME])
        if row.path.endswith(":resume"):
            thing = row.path.removesuffix(":resume").format(**names)
            await world.call(
                "POST",
                f"{thing}:pause",
                world.credentials["owner"],
                is_kept=True,
            )
        elif row.path.endswith(":unmute"):
            await world.call(
                "POST",
                f"/v1/ns/acme/alerts/{names['alert']}:mute",
                world.credentials["owner"],
                {"for": "1h"},
                is_kept=True,
            )
        elif row.path.endswith(":accept"):
            body = await acceptance(world)
        elif row.path == "/v1/namespaces/{namespace}" and row.method == "PUT":
            names["namespace"] = world.names[ABSENT]["namespace"]  # one that is there has no more
        before = await count()
        answer = await send(world, row, names, "owner", body)
        assert answer in (200, 201, 202, 204), (row, answer)
        return await sync_to_async(entries_from)(before)
    finally:
        await sync_to_async(transaction.savepoint_rollback)(place)
        await world.restore_engine()


async def acceptance(world: World) -> Json:
    wanted = {"email": "d@x.example", "role": "viewer"}
    owner = world.credentials["owner"]
    made = await world.call("POST", "/v1/invitations", owner, wanted, is_kept=True)
    token = made.json()["token"]
    return {"token": token, "username": "dora", "password": "a long and winding phrase"}


async def send(
    world: World, row: Row, names: dict[str, str], who: str, body: Json | None = None
) -> int:
    """The status of the answer. What was changed stays, for who looks into the audit."""
    body = row.body if body is None else body
    headers = {**world.credentials[who], "x-request-id": "audited-request"}
    answer = await world.call(
        row.method,
        row.path.format(**names),
        headers,
        None if body is None else fill(body, names),
        is_kept=True,
    )
    return answer.status_code


def entries_from(first: int) -> list[AuditEntry]:
    return list(AuditEntry.objects.order_by("id")[first:])


async def count() -> int:
    return await sync_to_async(AuditEntry.objects.count)()
