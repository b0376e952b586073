"""The WebSocket of the fake: commands in, pushes out, over the store.

FakeSocket.send ─▶ [FakeSession.take] ─▶ Store
FakeSocket.receive ◀─ [FakeSession.push] ◀─ deliver: as much as the credit allows
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any, Final

import msgspec

from ..protocol import frames
from ..protocol.frames import COMMANDS, PackDelivered, PackMessages, is_array_of_arrays, pack_form
from .rest import tags_of
from .store import Lease, Progress, Refusal, Store

DELIVERED_MAX: Final = 256
EXTEND_MS_MIN: Final = 1_000
_decode = msgspec.msgpack.Decoder(frames.union_of(frame.pack for frame in COMMANDS)).decode
_decode_parts = msgspec.msgpack.Decoder(list[msgspec.Raw]).decode
_encode = msgspec.msgpack.Encoder().encode


class Subscription:
    """One topic and group on a socket. Its credit comes back with what is settled or lost."""

    def __init__(
        self, sid: int, progress: Progress, command: frames.Subscribe, tags: frozenset[str] | None
    ) -> None:
        self.sid = sid
        self.progress = progress
        self.tags = tags
        self.lease_ms = command.lease_ms
        self.auto_extend_ms = command.auto_extend_ms
        credit = command.credit or frames.Credit()
        self.messages_left = credit.msgs
        self.bytes_left = credit.bytes
        self.is_draining = False
        self.served = 0  # by its last delivery: who waits longest comes first
        self.leases: dict[int, Lease] = {}
        self.settled: set[int] = set()  # a result may be sent again after a reconnect
        self._tags = itertools.count(1)

    @property
    def credit(self) -> dict[str, int]:
        return {"msgs": self.messages_left, "bytes": self.bytes_left}

    def add(self, lease: Lease) -> int:
        """The tag of a new delivery."""
        tag = next(self._tags)
        self.leases[tag] = lease
        self.messages_left -= 1
        self.bytes_left -= len(lease.message.body)
        return tag

    def remove(self, tag: int) -> None:
        lease = self.leases.pop(tag, None)
        if lease is not None:
            self.messages_left += 1
            self.bytes_left += len(lease.message.body)


class FakeSession:
    """One connection. Its caller holds the store's lock."""

    def __init__(
        self,
        number: int,
        store: Store,
        send: Callable[[bytes], None],
        find_kept: Callable[[str], FakeSession | None],
    ) -> None:
        """``find_kept``: a session whose connection broke, which is then no longer kept."""
        self.number = number
        self._store = store
        self._send = send
        self._find_kept = find_kept
        self._subscriptions: dict[int, Subscription] = {}

    def take(self, content: bytes) -> None:
        """What a client sent: one command, or several."""
        parts = _decode_parts(content) if is_array_of_arrays(content) else [msgspec.Raw(content)]
        for part in parts:
            command = _decode(part)
            try:
                self._execute(command)
            except Refusal as exc:
                push = frames.Err(command.id, exc.code, retryable=False, msg=exc.detail)
                self._push(frames.Err, push)

    @property
    def name(self) -> str:
        return f"s_fake{self.number}"

    @property
    def subscriptions(self) -> list[Subscription]:
        return list(self._subscriptions.values())

    def deliver(self, subscription: Subscription) -> None:
        """Push what there is and what the credit allows."""
        if self._has_ended(subscription):
            return
        while not subscription.is_draining and min(subscription.credit.values()) > 0:
            leases = self._store.take(
                subscription.progress,
                (self.number, subscription.sid),
                count=min(subscription.messages_left, DELIVERED_MAX),
                bytes_max=subscription.bytes_left,
                lease_ms=subscription.lease_ms,
                auto_extend_ms=subscription.auto_extend_ms,
                tags=subscription.tags,
            )
            if not leases:
                break
            subscription.served = leases[-1].number
            wires = [_wire(lease, subscription.add(lease)) for lease in leases]
            self._send(_encode(PackMessages(sid=subscription.sid, m=wires)))

    def lose(self, lease: Lease, why: str) -> None:
        """A lease of this session has ended."""
        for subscription in self._subscriptions.values():
            for tag, each in subscription.leases.items():
                if each is lease:
                    subscription.remove(tag)
                    self._push(frames.Lost, frames.Lost(subscription.sid, [tag], why))
                    return

    def close(self) -> None:
        """Give everything back, without an attempt counted."""
        for subscription in self._subscriptions.values():
            self._store.release(subscription.progress, (self.number, subscription.sid))
        self._subscriptions.clear()

    def _has_ended(self, subscription: Subscription) -> bool:
        """Whether its topic or group is gone, which its client is told."""
        progress, store = subscription.progress, self._store
        code = ""
        if store.topics.get(progress.topic.name) is not progress.topic:
            code = "TOPIC_NOT_FOUND"
        elif store.groups.get(progress.group.name) is not progress.group:
            code = "GROUP_NOT_FOUND"
        if code:
            del self._subscriptions[subscription.sid]
            self._push(frames.Err, frames.Err(None, code, retryable=False, msg="it was deleted"))
        return bool(code)

    # Commands -------------------------------------------------------------------------------

    def _execute(self, command: Any) -> None:  # Any: one of the commands
        if isinstance(command, frames.Hello):
            self._welcome(command)
        elif isinstance(command, frames.Subscribe):
            self._subscribe(command)
        elif isinstance(command, frames.Ping):
            self._push(frames.Pong, frames.Pong())
        elif not isinstance(command, frames.Pong):
            self._execute_for(self._subscription(command.sid), command)

    def _welcome(self, command: frames.Hello) -> None:
        kept = None if command.resume is None else self._find_kept(command.resume.session)
        if kept is not None:
            self.number, self._subscriptions = kept.number, kept._subscriptions
        welcome = frames.Welcome(
            id=command.id, session=self.name, resume_token="fake", resumed=kept is not None
        )
        self._push(frames.Welcome, welcome)

    def _subscribe(self, command: frames.Subscribe) -> None:
        if command.sid in self._subscriptions:
            raise Refusal("CONFLICT", f"there is a subscription {command.sid}")
        if command.lease_ms is not None and not 1_000 <= command.lease_ms <= 12 * 3_600_000:
            raise Refusal("ILLEGAL_LEASE", f"a lease is 1 s to 12 h, found {command.lease_ms} ms")
        topic, group = self._store.topic(command.topic), self._store.group(command.group)
        tags = tags_of(command.filter)
        progress = self._store.progress(topic, group, command.client_id)
        subscription = Subscription(command.sid, progress, command, tags)
        self._subscriptions[command.sid] = subscription
        self._ok(command.id, {"credit": subscription.credit})

    def _execute_for(self, subscription: Subscription, command: Any) -> None:
        if isinstance(command, frames.AddCredit):
            subscription.messages_left += command.msgs
            subscription.bytes_left += command.bytes
            self._ok(command.id, {"credit": subscription.credit})
        elif isinstance(command, frames.Unsubscribe):
            self._unsubscribe(subscription, command)
        elif isinstance(command, frames.Extend):
            self._extend(subscription, command)
        else:
            self._settle(subscription, command)

    def _unsubscribe(self, subscription: Subscription, command: frames.Unsubscribe) -> None:
        count = len(subscription.leases)
        if command.drain:
            subscription.is_draining = True
        else:
            self._store.release(subscription.progress, (self.number, subscription.sid))
            del self._subscriptions[subscription.sid]
        self._ok(command.id, {"outstanding": count})

    def _extend(self, subscription: Subscription, command: frames.Extend) -> None:
        failed = []
        for tag in command.t:
            lease = subscription.leases.get(tag)
            code = "LEASE_EXPIRED"
            if lease is not None:
                lease_ms = max(command.ms, EXTEND_MS_MIN)
                code = self._store.extend(subscription.progress, lease.number, lease_ms)
            failed += [{"t": tag, "code": code}] if code else []
        self._ok(command.id, {"failed": failed, "extended": len(command.t) - len(failed)})

    def _settle(self, subscription: Subscription, command: Any) -> None:
        results: dict[int, tuple[int | None, str]] = {}
        if isinstance(command, frames.Ack):
            name = "acked"
            upto = command.upto or 0
            results = {tag: (None, "") for tag in subscription.leases if tag <= upto}
            results |= dict.fromkeys(command.t or (), (None, ""))
        elif isinstance(command, frames.Nack):
            name = "nacked"
            results = {item.t: (item.delay_ms, item.reason or "") for item in command.t}
        else:
            name = "dead_lettered"
            results = {item.t: (None, item.reason or "") for item in command.t}
        failed = []
        for tag, (delay_ms, reason) in results.items():
            lease = subscription.leases.get(tag)
            code = "" if tag in subscription.settled else "LEASE_EXPIRED"
            if lease is not None:
                subscription.settled.add(tag)
                code = self._store.settle(
                    subscription.progress,
                    lease.number,
                    is_ack=name == "acked",
                    is_dead=name == "dead_lettered",
                    delay_ms=delay_ms,
                    reason=reason,
                )
                subscription.remove(tag)
            failed += [{"t": tag, "code": code}] if code else []
        self._ok(command.id, {"failed": failed, name: len(results) - len(failed)})

    def _subscription(self, sid: int) -> Subscription:
        if sid not in self._subscriptions:
            raise Refusal("BAD_REQUEST", f"there is no subscription {sid}")
        return self._subscriptions[sid]

    def _ok(self, number: int | None, result: dict[str, Any]) -> None:  # Any: of each command
        if number is not None:
            self._push(frames.Ok, frames.Ok(number, result))

    def _push(self, fields: type[msgspec.Struct], push: msgspec.Struct) -> None:
        self._send(_encode(msgspec.convert(push, pack_form(fields), from_attributes=True)))


def _wire(lease: Lease, tag: int) -> PackDelivered:
    message = lease.message
    return PackDelivered(
        t=tag,
        id=message.id,
        q=message.queue,
        o=message.offset,
        s=message.stored_ms,
        a=lease.attempt,
        tag=message.tag,
        keys=message.keys,
        g=message.message_group,
        p=message.properties,
        b=message.body,
    )
