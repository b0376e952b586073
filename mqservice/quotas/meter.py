"""What one tenant uses in this process, compared with its share of the tenant's limits.

    produce ──▶ check_in, charge_in ───┐
    receive, push, read ─▶ check_out, charge_out ─▶ [TenantMeter] ──▶ Problem 429, or nothing
    receive ──▶ admit_poll, dismiss_poll ──┘              │
    socket ──▶ admit_socket, dismiss_socket               └──▶ RateLimit headers
    receive, push ─▶ require_lease_room, lease; settle ─▶ release

All of it is arithmetic on this process's own numbers; ``meters.py`` tells it what others use, and
``engine_usage.py`` what the engine holds. Used on one event loop.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from mqservice.lib.problem import Problem
from mqservice.lib.safe_headers import Headers
from mqservice.quotas.bucket import Pair, TrafficBuckets
from mqservice.quotas.limits import QuotaLimits
from mqservice.quotas.rejection_pacing import PacedRejections

BURST_SECONDS: Final = 1  # a bucket holds what its tenant may use in so long
_POLL_RETRY_MS: Final = 1_000
_NOT_REPORTED: Final = -1, b""  # header lines, not computed yet
_LINES: Final = b"ratelimit-policy: %b\r\nratelimit: %b\r\n"
MESSAGES_IN, BYTES_IN, MESSAGES_OUT, BYTES_OUT = range(4)
RATES: Final = (
    ("messages-in", "messages_in_per_second"),
    ("bytes-in", "bytes_in_per_second"),
    ("messages-out", "messages_out_per_second"),
    ("bytes-out", "bytes_out_per_second"),
)
# Limits that processes split; what a process has of each is its part.
SHARED: Final = (*(name for _, name in RATES), "connection_count_max", "parked_poll_count_max")
Parts = Sequence[float]  # as SHARED


class TenantMeter:
    """See the module's docstring."""

    def __init__(self, limits: QuotaLimits, process_count: int, now_ms: int) -> None:
        """This process is one of ``process_count``, each of which has an equal part at first."""
        self.limits = limits
        self.used_ms = now_ms  # when something was last asked for
        self.socket_count = 0
        self.poll_count = 0
        self.stored_bytes = 0  # as the engine told last, and what was stored here since
        self.inflight_count = 0  # the same, of messages under a lease
        self.refusals = PacedRejections(now_ms)
        self.demand = [0.0, 0.0, 0.0, 0.0]  # asked for since ``pop_demand``, granted or not
        parts = equal_parts(limits, process_count)
        rates_in, rates_out = _pairs(parts)
        self.incoming = TrafficBuckets(rates_in, _bursts(rates_in), now_ms)
        self.outgoing = TrafficBuckets(rates_out, _bursts(rates_out), now_ms)
        self._policy_in = _policy(limits, MESSAGES_IN, BYTES_IN)
        self._policy_out = _policy(limits, MESSAGES_OUT, BYTES_OUT)
        self._reported_in = self._reported_out = _NOT_REPORTED
        self._set_rooms(parts)

    def share(self, parts: Parts, process_count: int, now_ms: int) -> None:
        """From now on this process has these parts of the limits."""
        rates_in, rates_out = _pairs(parts)
        equal_in, equal_out = _pairs(equal_parts(self.limits, process_count))
        self.incoming.change(rates_in, _bursts(equal_in), now_ms)
        self.outgoing.change(rates_out, _bursts(equal_out), now_ms)
        self._set_rooms(parts)

    def _set_rooms(self, parts: Parts) -> None:
        """One at least: a limit below the number of processes cannot be kept."""
        self.socket_room, self.poll_room = (max(1, int(part)) for part in parts[len(RATES) :])

    def set_limits(self, limits: QuotaLimits) -> None:
        """The tenant has other limits; ``share`` follows."""
        self.limits = limits
        self._policy_in = _policy(limits, MESSAGES_IN, BYTES_IN)
        self._policy_out = _policy(limits, MESSAGES_OUT, BYTES_OUT)
        self._reported_in = self._reported_out = _NOT_REPORTED

    def pop_demand(self) -> list[float]:
        """What was asked for since the last call: messages and bytes, in and out."""
        demand, self.demand = self.demand, [0.0, 0.0, 0.0, 0.0]
        return demand

    # Rates --------------------------------------------------------------------------------------

    def check_in(self, now_ms: int) -> None:
        """Refuse before any work is done when nothing is left. Raises Problem 429 or 403."""
        self.used_ms = now_ms
        if self.incoming.is_empty(now_ms):
            self.demand[MESSAGES_IN] += 1
            raise self._too_fast(MESSAGES_IN, stored=False)
        if self.stored_bytes >= self.limits.storage_bytes_max:
            raise self._no_storage()

    def charge_in(self, message_count: int, byte_count: int, now_ms: int) -> None:
        """Take what is about to be stored. Raises Problem 429 or 403 with nothing taken."""
        demand = self.demand
        demand[MESSAGES_IN] += message_count
        demand[BYTES_IN] += byte_count
        if self.incoming.is_empty(now_ms):
            raise self._too_fast(MESSAGES_IN, stored=False)
        if self.stored_bytes >= self.limits.storage_bytes_max:
            raise self._no_storage()
        self.incoming.take(message_count, byte_count)
        self.stored_bytes += byte_count

    def check_out(self, now_ms: int) -> None:
        """Refuse to read when nothing is left. Raises Problem 429."""
        self.used_ms = now_ms
        if self.outgoing.is_empty(now_ms):
            self.demand[MESSAGES_OUT] += 1
            raise self._too_fast(MESSAGES_OUT, stored=None)

    def out_wait_ms(self, now_ms: int) -> int:
        """How long a push has to wait; 0 if it need not."""
        self.used_ms = now_ms
        if self.outgoing.is_empty(now_ms):
            self.demand[MESSAGES_OUT] += 1
            return max(self.outgoing.waits_ms())
        return 0

    def charge_out(self, message_count: int, byte_count: int) -> None:
        """Take what was read, which is known only afterwards."""
        self.demand[MESSAGES_OUT] += message_count
        self.demand[BYTES_OUT] += byte_count
        self.outgoing.take(message_count, byte_count)

    def _too_fast(self, first: int, *, stored: bool | None) -> Problem:
        waits_ms = (self.incoming if first == MESSAGES_IN else self.outgoing).waits_ms()
        spent = [first + place for place, wait_ms in enumerate(waits_ms) if wait_ms]
        names = " and ".join(RATES[index][0] for index in spent)
        limits = ", ".join(
            (
                f"{getattr(self.limits, RATES[index][1])} "
                f"{RATES[index][0].partition('-')[0]} per second"
            )
            for index in spent
        )
        return Problem.of(
            "RATE_LIMITED",
            f"the tenant's limit of {names} is used up: {limits}",
            retry_after_ms=max(waits_ms),
            stored=stored,
        )

    def _no_storage(self) -> Problem:
        return Problem.of(
            "QUOTA_EXCEEDED",
            f"the tenant stores {self.stored_bytes} bytes, over its limit of "
            f"{self.limits.storage_bytes_max}: delete topics, shorten their retention, cancel "
            "scheduled messages, or wait",
            stored=False,
        )

    # Things held --------------------------------------------------------------------------------

    def admit_poll(self) -> None:
        """Count one more receive, until ``dismiss_poll``. Raises Problem 429."""
        if self.poll_count >= self.poll_room:
            raise Problem.of(
                "RATE_LIMITED",
                f"{self.poll_count} receives of the tenant are waiting in this "
                "process already; the limit of the tenant is "
                f"{self.limits.parked_poll_count_max} in all",
                retry_after_ms=_POLL_RETRY_MS,
            )
        self.poll_count += 1

    def dismiss_poll(self) -> None:
        self.poll_count -= 1

    def admit_socket(self) -> None:
        """Count one more socket, until ``dismiss_socket``. Raises Problem 429."""
        if self.socket_count >= self.socket_room:
            raise Problem.of(
                "RATE_LIMITED",
                f"the tenant has {self.socket_count} sockets in this process already; "
                f"the limit of the tenant is {self.limits.connection_count_max} in all",
                retry_after_ms=_POLL_RETRY_MS,
            )
        self.socket_count += 1

    def dismiss_socket(self) -> None:
        self.socket_count -= 1

    def set_engine_usage(self, stored_bytes: int, inflight_count: int) -> None:
        """What the engine holds of the tenant now."""
        self.stored_bytes = stored_bytes
        self.inflight_count = inflight_count

    @property
    def lease_room(self) -> int:
        """How many more messages may be in flight; none at 0 or below."""
        return self.limits.inflight_count_max - self.inflight_count

    def require_lease_room(self) -> int:
        """``lease_room``. Raises Problem INFLIGHT_LIMIT when there is none."""
        room = self.lease_room
        if room <= 0:
            raise Problem.of(
                "INFLIGHT_LIMIT",
                f"{self.inflight_count} messages of the tenant are in flight already, "
                f"the limit is {self.limits.inflight_count_max}; settle some first",
                retry_after_ms=_POLL_RETRY_MS,
            )
        return room

    def lease(self, count: int) -> None:
        """So many messages more are in flight."""
        self.inflight_count += count

    def release(self, count: int) -> None:
        """So many are settled."""
        self.inflight_count = max(0, self.inflight_count - count)

    @property
    def is_idle(self) -> bool:
        """Whether forgetting it changes nothing, as far as the buckets knew when last asked."""
        return not (self.socket_count or self.poll_count)

    # Headers ------------------------------------------------------------------------------------

    def headers(self, *, is_reading: bool) -> Headers:
        """``RateLimit-Policy`` and ``RateLimit`` of what is read or of what is produced, as of the
        last check.
        """
        policy, buckets, way = (
            (self._policy_out, self.outgoing, b"out")
            if is_reading
            else (self._policy_in, self.incoming, b"in")
        )
        return [(b"ratelimit-policy", policy), (b"ratelimit", _state(buckets, way))]

    def header_lines(self, *, is_reading: bool) -> bytes:
        """``headers`` as they are written; those of one millisecond say the same."""
        told = self._reported_out if is_reading else self._reported_in
        if told[0] == self.used_ms:
            return told[1]
        if is_reading:
            lines = _LINES % (self._policy_out, _state(self.outgoing, b"out"))
            self._reported_out = self.used_ms, lines
        else:
            lines = _LINES % (self._policy_in, _state(self.incoming, b"in"))
            self._reported_in = self.used_ms, lines
        return lines


def equal_parts(limits: QuotaLimits, process_count: int) -> Parts:
    return [getattr(limits, name) / process_count for name in SHARED]


def _pairs(parts: Parts) -> tuple[Pair, Pair]:
    """Messages and bytes that come in, and that go out, of ``parts``."""
    return (parts[MESSAGES_IN], parts[BYTES_IN]), (parts[MESSAGES_OUT], parts[BYTES_OUT])


def _bursts(rates_per_second: Pair) -> Pair:
    messages, content = rates_per_second
    return messages * BURST_SECONDS, content * BURST_SECONDS


def _policy(limits: QuotaLimits, messages: int, content: int) -> bytes:
    (messages_name, messages_limit), (bytes_name, bytes_limit) = RATES[messages], RATES[content]
    text = (
        f'"{messages_name}";q={getattr(limits, messages_limit)};w={BURST_SECONDS}, '
        f'"{bytes_name}";q={getattr(limits, bytes_limit)};qu="content-bytes";w={BURST_SECONDS}'
    )
    return text.encode()


def _state(buckets: TrafficBuckets, way: bytes) -> bytes:
    """What is left in this process, and in how many seconds all of it is back."""
    messages, content = buckets.states()
    return b'"messages-%b";r=%d;t=%d, "bytes-%b";r=%d;t=%d' % (way, *messages, way, *content)
