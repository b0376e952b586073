"""Requests the open sockets of all web processes over Valkey, when a user wants to see them.

    page, REST ── PUBLISH mq:connections {ask, what, …} ──▶ [serve_calls] of each process
         ▲                                                        │ its sessions
         └── BLPOP mq:connections:<ask>, one reply a process ◀────┘ RPUSH

How many processes there are PUBLISH itself answers, so a reply that is missing is known to be. With
nobody asking this costs nothing. Without Valkey nobody can be asked: callers say so.
"""

from __future__ import annotations

import asyncio
import logging
import secrets
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Final, cast

import msgspec
import redis
import redis.asyncio
from redis.exceptions import RedisError

from mqservice.delivery.connections.connections import Connected, Connection
from mqservice.lib.problem import Problem

log = logging.getLogger(__name__)

CHANNEL: Final = "mq:connections"
SHOWN_MAX: Final = 500  # of one process; the latest
_REPLY_SECONDS_MAX: Final = 1.0
_REPLY_LIFE_MS: Final = 10_000
_CONNECT_SECONDS_MAX: Final = 0.5
_RECONNECT_SECONDS: Final = 1.0
_HEARTBEAT_SECONDS: Final = 15


class Call(msgspec.Struct, frozen=True, kw_only=True):
    """``session_id``: empty to list, else the one to end."""

    ask: str
    tenant_id: int
    namespace: str
    session_id: str = ""


class Reply(msgspec.Struct, frozen=True, kw_only=True):
    """Of one process. ``count``: that are open there, or were ended."""

    count: int
    connections: list[Connection] = []


@dataclass(frozen=True, slots=True, kw_only=True)
class Found:
    """``is_complete``: whether every process has answered, with all of its sockets."""

    connections: list[Connection]
    count: int
    is_complete: bool


# Any of redis: its stubs know neither what a decoded answer is nor which calls wait.
async def serve_calls(
    url: str, sessions: Callable[[], Iterable[Connected]], *, ready: asyncio.Event | None = None
) -> None:
    """Answer calls until cancelled. Holds one connection and reconnects by itself.

    Args:
        ready: set once this process hears calls.
    """
    is_away = False
    while True:
        client = redis.asyncio.Redis.from_url(
            url,
            socket_connect_timeout=_CONNECT_SECONDS_MAX,
            health_check_interval=_HEARTBEAT_SECONDS,
            retry=None,
        )
        try:
            async with client, client.pubsub(ignore_subscribe_messages=True) as pubsub:
                await pubsub.subscribe(CHANNEL)
                is_away = False
                if ready is not None:
                    ready.set()
                await _serve(client, pubsub, sessions)
        except (RedisError, OSError) as exc:
            if not is_away:
                log.info(
                    "Lost the connection to Valkey; this process cannot report its "
                    "clients until it is back",
                    extra={"action": "connection_calls_lost", "error": str(exc)},
                )
            is_away = True
        except Exception:
            log.exception(
                "Could not answer another process about connected clients",
                extra={"action": "connection_call_failed"},
            )
        await asyncio.sleep(_RECONNECT_SECONDS)


async def _serve(client: Any, pubsub: Any, sessions: Callable[[], Iterable[Connected]]) -> None:
    while True:
        message = await pubsub.get_message(timeout=_HEARTBEAT_SECONDS)
        if message is None:
            continue
        try:
            call = msgspec.json.decode(message["data"], type=Call)
        except msgspec.MsgspecError:
            continue  # of another version
        key = f"{CHANNEL}:{call.ask}"
        pipe = client.pipeline(transaction=False)
        pipe.rpush(key, msgspec.json.encode(reply_to(call, sessions())))
        pipe.pexpire(key, _REPLY_LIFE_MS)
        await pipe.execute()


def reply_to(call: Call, sessions: Iterable[Connected]) -> Reply:
    """Do what a call asks for. One look at all sessions of the process."""
    own = [
        each
        for each in sessions
        if each.tenant_id == call.tenant_id and each.namespace == call.namespace
    ]
    if not call.session_id:
        return Reply(count=len(own), connections=[each.connection() for each in own[-SHOWN_MAX:]])
    wanted = [each for each in own if each.session_id == call.session_id]
    for session in wanted:
        session.disconnect()
    return Reply(count=len(wanted))


def find_connections(url: str, tenant_id: int, namespace: str) -> Found:
    """All sockets of a namespace, the latest first. Raises Problem while nobody can be asked."""
    replies, is_complete = _call(
        url, Call(ask=_new_call_id(), tenant_id=tenant_id, namespace=namespace)
    )
    connections = [each for reply in replies for each in reply.connections]
    count = sum(reply.count for reply in replies)
    connections.sort(key=lambda each: (-each.connected_ms, each.id))
    return Found(
        connections=connections,
        count=count,
        is_complete=is_complete and count == len(connections),
    )


def end_connection(url: str, tenant_id: int, namespace: str, session_id: str) -> bool:
    """End one socket; False when there is none of that id. Raises Problem as above."""
    call = Call(ask=_new_call_id(), tenant_id=tenant_id, namespace=namespace, session_id=session_id)
    replies, _ = _call(url, call)
    return any(reply.count for reply in replies)


def _new_call_id() -> str:
    return secrets.token_hex(12)


def _call(url: str, call: Call) -> tuple[list[Reply], bool]:
    """The replies that came, and whether those are all."""
    key = f"{CHANNEL}:{call.ask}"
    try:
        with redis.Redis.from_url(
            url,
            socket_timeout=_REPLY_SECONDS_MAX + _CONNECT_SECONDS_MAX,
            socket_connect_timeout=_CONNECT_SECONDS_MAX,
            retry=None,
        ) as client:
            process_count = cast("int", client.publish(CHANNEL, msgspec.json.encode(call)))
            until = time.monotonic() + _REPLY_SECONDS_MAX
            replies: list[Reply] = []
            while len(replies) < process_count and (left := until - time.monotonic()) > 0:
                found = cast("Any", client.blpop([key], timeout=max(left, 0.01)))
                if found is None:
                    break
                replies.append(msgspec.json.decode(found[1], type=Reply))
    except (RedisError, OSError, msgspec.MsgspecError) as exc:
        raise Problem.of(
            "CONNECTIONS_UNKNOWN",
            "cannot ask the web processes for their sockets: Valkey is unavailable",
            retry_after_ms=1_000,
        ) from exc
    return replies, 0 < process_count == len(replies)
