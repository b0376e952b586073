"""Resumes a session from another connection, in this process or another one.

    hello.resume ── token is theirs? ──▶ store.session_take ──▶ SavedSession ─▶ subscriptions
                                                 welcome, lost, ``msgs`` that the client lacks ◀──┘

Whatever cannot be resumed is not resumed, and the client is told no more than that: it has a new
session then.
"""

from __future__ import annotations

import logging
from collections.abc import Container, Sequence
from typing import Final

from mqservice.accounts.scopes import Kind, Scope
from mqservice.delivery.decoding import Fault
from mqservice.delivery.limits import (
    FRAME_MESSAGES_MAX,
    HAND_OVER_MS_MAX,
    HAVE_TAG_COUNT_MAX,
    SUBSCRIPTION_COUNT_MAX,
)
from mqservice.delivery.socket.leased_batch import Delivery
from mqservice.delivery.socket.saved_session import (
    SavedSession,
    SavedSubscription,
    decode,
    lost_tags,
    nacks_of,
    restore_leased,
)
from mqservice.delivery.socket.session import Session
from mqservice.delivery.socket.subscription import Subscription, send_messages
from mqservice.lib.names import engine_name
from mqservice.lib.problem import Problem
from mqservice.protocol import frames
from mqservice.store import (
    LostLease,
    PullRequest,
    Record,
    SessionTakeRequest,
    SettleRequest,
    Store,
    StoreError,
    shown_record,
)

log = logging.getLogger(__name__)

_RELEASED: Final = "the subscription could not be resumed"


class Resumption:
    """One ``hello.resume``: ``take_over`` before the welcome, ``resume`` after it."""

    def __init__(self, session: Session, resume: frames.Resume) -> None:
        """Raises Fault: ``have`` is out of its bounds."""
        _check_have(resume.have)
        self._session = session
        self._resume = resume
        self._store: Store  # of the namespace's shard
        self._saved: SavedSession | None = None
        self._lost: list[LostLease] = []
        self._problems: list[Problem] = []

    async def take_over(self) -> bool:
        """Whether the session is this one's now; it has its id and its subscriptions then."""
        session, resume = self._session, self._resume
        context, principal = session.context, self._session.principal
        is_theirs = context.resume_tokens.is_valid(
            resume.token, resume.session, principal, self._session.namespace
        )
        if not is_theirs:
            return False
        try:
            principal.require_somewhere(Scope.CONSUME)
        except Problem:
            return False
        request = SessionTakeRequest(session_id=resume.session, wait_ms=HAND_OVER_MS_MAX)
        try:
            routes, namespace = context.caches.routes, self._session.namespace
            self._store = context.stores[(await routes.load_namespace(principal, namespace)).shard]
            reply = await self._store.session_take(request)
        except (Problem, StoreError) as exc:
            log.info(
                "Could not take over a saved session",
                extra={"action": "resume_failed", "error": str(exc)},
            )
            return False
        self._saved = None if reply.content is None else decode(reply.content)
        if self._saved is None:
            return False
        self._lost = reply.gone
        context.sessions.rename(session, resume.session)
        for kept in self._saved.subscriptions[:SUBSCRIPTION_COUNT_MAX]:
            await self._restore(kept)
        return True

    async def _restore(self, kept: SavedSubscription) -> None:
        """A topic or group that is gone takes its subscription with it."""
        try:
            principal = self._session.principal
            principal.require(Scope.CONSUME, Kind.TOPIC, kept.topic)
            principal.require(Scope.CONSUME, Kind.GROUP, kept.group)
            topic = await self._session.topic_route(kept.topic)
            group = await self._session.group_route(kept.group)
        except Problem as problem:
            self._problems.append(problem)
            await self._release(kept)
            return
        subscription = Subscription(
            self._session,
            sid=kept.sid,
            topic=topic,
            group=group,
            lease_ms=kept.lease_ms,
            auto_extend_ms=kept.auto_extend_ms,
            wanted=kept.wanted_filter,
            consumer=kept.consumer,
            credit=kept.credit,
        )
        restore_leased(subscription, kept)
        if kept.is_draining:
            subscription.credits.stop()
        self._session.add(subscription)

    async def _release(self, kept: SavedSubscription) -> None:
        """What it holds; of a deleted topic or group the engine knows nothing any more."""
        group = engine_name(namespace=self._session.namespace, name=kept.group)
        try:
            for nacks in nacks_of(kept, _RELEASED):
                await self._store.settle(
                    SettleRequest(group=group, nacks=nacks, client_id=kept.client_id)
                )
        except StoreError as exc:
            log.debug(
                "Could not release the leases of a saved session; they expire automatically",
                extra={"action": "release_failed", "error": str(exc)},
            )

    async def resume(self) -> None:
        """Tell what was lost meanwhile, send again what the client lacks, and push on."""
        assert self._saved is not None, "nothing was taken"
        for problem in self._problems:
            await self._session.send_problem(None, problem)
        for subscription in list(self._session.subscriptions.values()):
            _notify_lost_again(subscription)
            for why, tags in lost_tags(subscription, self._lost).items():
                subscription.revoke(tags, why)
            if self._resume.have is not None:
                await self._send_again(
                    subscription, _tags_client_has(self._resume.have, subscription.sid)
                )
            if subscription.credits.is_stopped:
                continue
            try:
                await subscription.announce()
            except StoreError as exc:
                await subscription.refuse(exc)
                continue
            if not self._session.context.drain.has_begun:
                subscription.pusher.start()
            subscription.notify_paused()

    # Sending again ------------------------------------------------------------------------------

    async def _send_again(self, subscription: Subscription, has: Container[int]) -> None:
        """Under the same tags, in their order, each under a whole lease."""
        lacking = [
            (tag, delivery)
            for tag, delivery in subscription.leased.outstanding.items()
            if tag not in has
        ]
        for start in range(0, len(lacking), FRAME_MESSAGES_MAX):
            some = lacking[start : start + FRAME_MESSAGES_MAX]
            records = await self._read([delivery for _, delivery in some])
            found = [(tag, delivery) for tag, delivery in some if _place(delivery) in records]
            # Retention was faster; the engine passes over it too.
            subscription.revoke([tag for tag, at in some if _place(at) not in records], "deleted")
            if found:
                await send_messages(
                    self._session,
                    subscription.sid,
                    [tag for tag, _ in found],
                    [shown_record(records[_place(delivery)]) for _, delivery in found],
                    [delivery.attempt for _, delivery in found],
                    _ignore_sent,
                )
                subscription.extend([tag for tag, _ in found], subscription.lease_ms, None)

    async def _read(self, deliveries: Sequence[Delivery]) -> dict[tuple[str, int, int], Record]:
        """Records by topic, queue and offset; those that cannot be read are missing."""
        records: dict[tuple[str, int, int], Record] = {}
        by_queue: dict[tuple[str, int], list[int]] = {}
        for each in deliveries:
            by_queue.setdefault((each.topic, each.queue_id), []).append(each.queue_offset)
        for (topic, queue_id), offsets in by_queue.items():
            for first, last in _runs(sorted(offsets)):
                await self._read_run(records, topic, queue_id, first, last)
        return records

    async def _read_run(
        self,
        records: dict[tuple[str, int, int], Record],
        topic: str,
        queue_id: int,
        first: int,
        last: int,
    ) -> None:
        session = self._session
        while first <= last:
            request = PullRequest(
                topic=topic,
                queue_id=queue_id,
                queue_offset=first,
                messages_max=last - first + 1,
                bytes_max=session.frame_bytes_max,
            )
            try:
                head, found = await self._store.pull(request)
            except StoreError as exc:
                log.info(
                    "Could not read leased messages again after a resume",
                    extra={"action": "reread_failed", "error": str(exc)},
                )
                return
            for record in found:
                if record.queue_offset <= last:
                    records[topic, queue_id, record.queue_offset] = record
            if head.next_offset <= first:
                return
            first = head.next_offset


def _notify_lost_again(subscription: Subscription) -> None:
    """What was lost when the connection ended: nobody knows whether the client was told."""
    by_why: dict[str, list[int]] = {}
    for tag, why in subscription.leased.why_lost.items():
        by_why.setdefault(why, []).append(tag)
    for why, tags in by_why.items():
        subscription.notify_lost(tags, why)


class _HasUpto:
    """Tags up to one, and some beside."""

    def __init__(self, upto: int, tags: Sequence[int]) -> None:
        self._upto = upto
        self._tags = frozenset(tags)

    def __contains__(self, tag: object) -> bool:
        return (isinstance(tag, int) and tag <= self._upto) or tag in self._tags


def _tags_client_has(have: Sequence[frames.Have], sid: int) -> _HasUpto:
    for each in have:
        if each.sid == sid:
            return _HasUpto(each.upto, each.t)
    return _HasUpto(0, ())


def _check_have(have: Sequence[frames.Have] | None) -> None:
    if have is None:
        return
    if len(have) > SUBSCRIPTION_COUNT_MAX:
        raise Fault(
            "/resume/have",
            "BAD_REQUEST",
            f"a resumed session has at most {SUBSCRIPTION_COUNT_MAX} entries",
        )
    for index, each in enumerate(have):
        if len(each.t) > HAVE_TAG_COUNT_MAX:
            detail = f"an entry has at most {HAVE_TAG_COUNT_MAX} tags besides up_to"
            raise Fault(f"/resume/have/{index}/2", "BAD_REQUEST", detail)


def _place(delivery: Delivery) -> tuple[str, int, int]:
    return delivery.topic, delivery.queue_id, delivery.queue_offset


def _runs(offsets: Sequence[int]) -> list[tuple[int, int]]:
    """(first, last) of each unbroken run of ascending offsets."""
    runs: list[tuple[int, int]] = []
    for offset in offsets:
        if runs and offset == runs[-1][1] + 1:
            runs[-1] = runs[-1][0], offset
        else:
            runs.append((offset, offset))
    return runs


def _ignore_sent(_: int) -> None:
    """A message that is sent again counts as sent already."""
