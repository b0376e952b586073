"""Who reads a topic for a group; in an exclusive one, which queues each member reads.

    receive ── heard ──▶ [Members] ── queues_of ──▶ delivery     leave, 120 s of silence ──▶ gone
    receive ── heard ──▶ [Readers] ── others? ──▶ may it bring another filter?

Every change of members, of where one is or of the number of queues makes another assignment, which
a strategy computes from these alone (``settings/assignment.py``). RocketMQ's clients each compute
it for themselves every 20 s and may disagree meanwhile; here nobody can. Loop thread only.
"""

from __future__ import annotations

from collections import OrderedDict
from typing import Final

from storage_engine.settings.assignment import Strategy
from storage_engine.settings.assignment_policy import AssignmentPolicy, queue_ids_of

SILENCE_MS_MAX: Final = 120_000
NO_POLICY: Final = AssignmentPolicy()


class Members:
    """The members of an exclusive group. ``generation`` counts the changes; times are monotonic."""

    __slots__ = (
        "_assigned",
        "_assigned_for",
        "_revoked",
        "_rotors",
        "_seen_ms",
        "_zones",
        "generation",
    )

    def __init__(self) -> None:
        self._seen_ms: dict[str, int] = {}
        self._rotors: dict[str, int] = {}
        self._zones: dict[str, str] = {}
        self._assigned: dict[str, list[int]] = {}
        self._assigned_for: tuple[int, int, Strategy, AssignmentPolicy] | None = None
        self._revoked: dict[str, list[int]] = {}
        self.generation = 0

    def __contains__(self, member_id: str) -> bool:
        return member_id in self._seen_ms

    def __len__(self) -> int:
        return len(self._seen_ms)

    def member_seen(self, member_id: str, now_ms: int, zone: str | None = None) -> bool:
        """A member has shown that it is there; True when it is new, or in another ``zone``.

        None: where it was, which is nowhere for a new one.
        """
        is_new = member_id not in self._seen_ms
        self._seen_ms[member_id] = now_ms
        if is_new or (zone is not None and zone != self._zones[member_id]):
            self._zones[member_id] = zone or ""
            self.generation += 1
            return True
        return False

    def leave(self, member_id: str) -> bool:
        """True when it was there. What it read is not revoked: it gave that up itself."""
        self._assigned.pop(member_id, None)
        return self._remove(member_id)

    def _remove(self, member_id: str) -> bool:
        was_there = self._seen_ms.pop(member_id, None) is not None
        self._rotors.pop(member_id, None)
        self._zones.pop(member_id, None)
        self.generation += was_there
        return was_there

    def expire(self, now_ms: int) -> list[str]:
        """Those that have been silent for too long; they are members no more."""
        silent = [
            member_id
            for member_id, heard_ms in self._seen_ms.items()
            if now_ms - heard_ms >= SILENCE_MS_MAX
        ]
        for member_id in silent:
            self._remove(member_id)
        return silent

    def rotor_of(self, member_id: str) -> int:
        """Which of its queues a member looks at first. One rotor for all would not do: who takes
        turns with as many others as it has queues would find it at the same queue each time.
        """
        return self._rotors.get(member_id, 0)

    def turn(self, member_id: str, rotor: int) -> None:
        """Let the member look at another of its queues first, the next time."""
        if member_id in self._seen_ms:
            self._rotors[member_id] = rotor

    def silent_ms(self, now_ms: int) -> dict[str, int]:
        """Who is there, and since when each was not heard of."""
        return {member_id: now_ms - heard_ms for member_id, heard_ms in self._seen_ms.items()}

    def zone_of(self, member_id: str) -> str:
        """Where a member said that it is; empty when it said nothing, or is none."""
        return self._zones.get(member_id, "")

    def queues_of(
        self,
        member_id: str,
        queue_count: int,
        strategy: Strategy,
        policy: AssignmentPolicy = NO_POLICY,
    ) -> list[int]:
        """Ids of the queues that the member reads now; none when it is no member."""
        wanted = self.generation, queue_count, strategy, policy
        if self._assigned_for != wanted:
            before, self._assigned = (
                self._assigned,
                queue_ids_of(strategy, policy, queue_count, self._zones),
            )
            self._assigned_for = wanted
            self._record_revoked(before)
        return self._assigned.get(member_id, [])

    def _record_revoked(self, before: dict[str, list[int]]) -> None:
        for member_id, queue_ids in before.items():
            kept = frozenset(self._assigned.get(member_id, ()))
            revoked = [queue_id for queue_id in queue_ids if queue_id not in kept]
            if revoked:
                self._revoked[member_id] = [*self._revoked.get(member_id, ()), *revoked]

    def pop_revoked(
        self, queue_count: int, strategy: Strategy, policy: AssignmentPolicy
    ) -> dict[str, list[int]]:
        """Queues that members read before and do not now, since the last call; by member."""
        self.queues_of("", queue_count, strategy, policy)
        revoked, self._revoked = self._revoked, {}
        return revoked


# Receives over REST that name no consumer are each a member of its own.
_READERS_MAX: Final = 1_000


class Readers:
    """Who reads the topic, in any mode of dispatch, as known from receives.

    A reader is there for 120 s after it was last heard of, as in RocketMQ. Only so many are
    remembered: the latest ones. One without a name is shown as the others are, but never comes
    again: nobody has to mind its filter. Times are monotonic.
    """

    __slots__ = ("_seen_ms", "_unnamed")

    def __init__(self) -> None:
        self._seen_ms: OrderedDict[str, int] = OrderedDict()  # the latest last
        self._unnamed: set[str] = set()  # of them

    def reader_seen(self, member_id: str, now_ms: int, *, is_unnamed: bool = False) -> None:
        heard_ms = self._seen_ms
        heard_ms[member_id] = now_ms
        if is_unnamed:
            self._unnamed.add(member_id)
        if len(heard_ms) == 1:
            return
        heard_ms.move_to_end(member_id)
        while len(heard_ms) > 1:
            oldest = next(iter(heard_ms))
            if len(heard_ms) <= _READERS_MAX and heard_ms[oldest] > now_ms - SILENCE_MS_MAX:
                break
            del heard_ms[oldest]
            self._unnamed.discard(oldest)

    def silent_ms(self, now_ms: int) -> dict[str, int]:
        """Who is there, the latest first, and since when each was not heard of."""
        silent = {}
        for member_id, heard_ms in reversed(self._seen_ms.items()):
            if heard_ms <= now_ms - SILENCE_MS_MAX:
                break
            silent[member_id] = now_ms - heard_ms
        return silent

    def leave(self, member_id: str) -> None:
        self._seen_ms.pop(member_id, None)
        self._unnamed.discard(member_id)

    def present(self, now_ms: int) -> list[str]:
        """Those heard of lately, at most a thousand."""
        from_ms = now_ms - SILENCE_MS_MAX
        return [member_id for member_id, heard_ms in self._seen_ms.items() if heard_ms > from_ms]

    def other_readers_ms(self, member_id: str, now_ms: int) -> int:
        """How long any other named member counts as present if it sends nothing more; 0 if there is
        none.
        """
        for other_id, heard_ms in reversed(self._seen_ms.items()):
            left_ms = heard_ms + SILENCE_MS_MAX - now_ms
            if left_ms <= 0:
                return 0
            if other_id != member_id and other_id not in self._unnamed:
                return left_ms
        return 0
