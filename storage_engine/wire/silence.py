"""How long the engine has sent nothing, measured by checks at short intervals.

    transport ── any byte ──▶ has_heard ─┐
    client, every 250 ms ──▶ look() ─────┴──▶ silent_ms ──▶ ping, refuse new requests, give up

    silent_ms   0 ─────── 500 ─────────── 1,500 ──────────────── 4,500 ─────▶
                          send a ping     refuse new requests    fail those under way

An engine that is alive answers a ping even while it works on other requests, so a parked receive
or a slow look-up is no silence; neither is a long frame, of which every byte counts.

Time that passed while nobody looked is not the engine's silence: a process that was itself stopped,
or did not get the CPU, must not blame the engine when it wakes up. So a look never adds more than
two intervals.
"""

from __future__ import annotations

from storage_engine.clock import Clock


class SilenceWatch:
    """See the module's docstring. One per client; ``has_received`` is set by its transport."""

    __slots__ = (
        "_check_ms_max",
        "_checked_ms",
        "_clock",
        "_unsent_bytes",
        "has_received",
        "silent_ms",
    )

    def __init__(self, clock: Clock, look_interval_ms: int) -> None:
        self._clock = clock
        self._check_ms_max = 2 * look_interval_ms
        self._checked_ms = clock.monotonic_ms()
        self._unsent_bytes = 0
        self.has_received = False
        self.silent_ms = 0

    def begin(self) -> None:
        """A connection was made: nothing has been silent on it yet."""
        self._checked_ms = self._clock.monotonic_ms()
        self._unsent_bytes = 0
        self.has_received = False
        self.silent_ms = 0

    def check(self, unsent_bytes: int) -> int:
        """How long the engine has been silent, in ms; call it every ``look_interval_ms``.

        ``unsent_bytes`` wait for the engine to read them. If there are fewer than at the last look,
        it has read some, and is alive.
        """
        now_ms = self._clock.monotonic_ms()
        if self.has_received or unsent_bytes < self._unsent_bytes:
            self.silent_ms = 0
        else:
            self.silent_ms += min(now_ms - self._checked_ms, self._check_ms_max)
        self._checked_ms, self._unsent_bytes, self.has_received = now_ms, unsent_bytes, False
        return self.silent_ms
