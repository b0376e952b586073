"""A Celery scheduler of which several may run: the one that holds a lock in PostgreSQL sends.

    beat A ─┐                              ┌─ holds the lock: sends what is due
    beat B ─┴─ pg_try_advisory_lock(key) ──┴─ does not: asks again every half second

The lock lives as long as its session (``mqservice.leader_lock``). The leader asks for it before
everything that it sends, so one that was cut off, or stood still for a while, sends no more.
Whoever takes over counts from now, so nothing is sent twice for one moment; a tick in the gap is
not made up for. Tasks are idempotent all the same: a moment lies between the question and the
sending.

A queue that nobody empties gets no more ticks, and a wall clock that was set moves no tick away.
Nothing is written to disk.
"""

from __future__ import annotations

import logging
from typing import Any, Final

from celery import Celery
from celery.beat import ScheduleEntry, Scheduler, SchedulingError
from django.conf import settings
from django.db import DatabaseError, InterfaceError, connection
from django.utils.module_loading import import_string
from redis.exceptions import RedisError

from mqservice.celery import ASKED_BEFORE
from mqservice.leader_lock import LeaderLock
from mqservice.lib.clock import Clock, SystemClock
from mqservice.lib.durations import SECOND_MS
from mqservice.lib.valkey import valkey_client

log = logging.getLogger(__name__)

STANDBY_SECONDS: Final = 0.5
LEADER_SECONDS_MAX: Final = 0.5  # the server ends a leader's session that is silent for longer
LOOK_SECONDS_MIN: Final = 0.01  # as late as that a task may be
HEARTBEAT_MS: Final = 5 * SECOND_MS
CLOCK_JUMP_MS_MAX: Final = 2 * SECOND_MS
ANSWERS_MS: Final = 200  # of ASKED_BEFORE, less than any of them is apart from the next
# Ticks that wait in a queue; with so many no worker reads it, or it is hours behind.
BACKLOG_MAX: Final = 50
VALKEY_SECONDS_MAX: Final = 0.5  # for the length of a queue


class LeaderScheduler(Scheduler):
    """Celery's scheduler, silent while another beat leads."""

    def __init__(
        self,
        app: Celery,
        *args: Any,
        clock: Clock | None = None,
        **kwargs: Any,  # Any: Celery's own
    ) -> None:
        self.lock = LeaderLock(settings.MQ_DATABASE_URL)
        self._clock = clock or SystemClock()
        self._clocks_apart_ms: int | None = None
        self._next_heartbeat_ms = 0
        self._has_run_one = False
        self._backed_up: set[str] = set()
        self._answers: dict[str, bool] = {}
        self._answered_ms = 0
        self._is_broker_away = False
        self._valkey = valkey_client(settings.MQ_VALKEY_URL, VALKEY_SECONDS_MAX)
        super().__init__(app, *args, **kwargs)

    def tick(self, *args: Any, **kwargs: Any) -> float:  # Any: Celery's own signature
        """Send what is due, if we lead. Returns the seconds until the next call."""
        was_leader = self.lock.is_held
        if not self.lock.check():
            return STANDBY_SECONDS
        if not was_leader:
            self._start_term()
        elif self._was_clock_set():
            self._count_from_now()
        self._send_heartbeat()
        self._has_run_one = False
        wait_s = float(super().tick(*args, **kwargs))
        # Of several that are due together within a moment Celery looks at one after the other, over
        # and over until it has come: a thousand times a second.
        wait_s_min = 0.0 if self._has_run_one else LOOK_SECONDS_MIN
        return min(max(wait_s, wait_s_min), LEADER_SECONDS_MAX)

    def apply_entry(self, entry: ScheduleEntry, producer: Any = None) -> None:  # Any: Celery's own
        """Send one task that has something to do, if we still lead and its queue is emptied."""
        self._has_run_one = True
        if not self._has_something_to_do(entry) or not self.lock.check():
            return
        if self._is_backed_up(entry):
            return
        try:
            self.apply_async(entry, producer=producer, advance=False)
        except SchedulingError as exc:
            if not self._is_broker_away:
                log.warning(
                    "Could not queue a task: Valkey is unavailable",
                    extra={
                        "action": "task_queue_unavailable",
                        "task": entry.task,
                        "error": str(exc),
                    },
                )
            self._is_broker_away = True
        else:
            self._is_broker_away = False

    def close(self) -> None:
        super().close()
        self._valkey.close()
        self.lock.release()

    def _ensure_connected(self) -> Any:  # Any: Celery's own
        """Celery's waits up to 30 s between tries; ticks are wanted as soon as the broker is back.

        It may take for ever: then the lock is lost, and asked for again before anything is sent.
        """
        pauses: dict[str, Any] = {  # Any: the stubs know whole seconds and a limit only
            "max_retries": None,
            "interval_start": 0.1,
            "interval_step": 0.1,
            "interval_max": 0.5,
        }
        return self.connection.ensure_connection(**pauses)

    def _start_term(self) -> None:
        self._clocks_apart_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        self._count_from_now()
        log.info("This scheduler is the leader now", extra={"action": "leader_elected"})

    def _count_from_now(self) -> None:
        now = self.app.now()
        for entry in self.schedule.values():
            entry.last_run_at = now
        self._heap = None  # it was sorted by the old times

    def _was_clock_set(self) -> bool:
        """Celery's times are the wall clock's: set back by an hour, it would be silent for one."""
        apart_ms = self._clock.now_ms() - self._clock.monotonic_ms()
        before_ms, self._clocks_apart_ms = self._clocks_apart_ms, apart_ms
        is_set = before_ms is not None and abs(apart_ms - before_ms) > CLOCK_JUMP_MS_MAX
        if is_set:
            assert before_ms is not None
            log.warning(
                "The system clock was changed; intervals restart from now",
                extra={"action": "clock_changed", "by_ms": apart_ms - before_ms},
            )
        return is_set

    def _has_something_to_do(self, entry: ScheduleEntry) -> bool:
        """What ``ASKED_BEFORE`` says; yes of all other tasks, and where nobody can tell.

        What is due at one moment shares one query.
        """
        if entry.task not in ASKED_BEFORE:
            return True
        now_ms = self._clock.monotonic_ms()
        if not self._answers or now_ms - self._answered_ms >= ANSWERS_MS:
            self._answers, self._answered_ms = self._ask(), now_ms
        return self._answers.get(entry.task, True)

    def _ask(self) -> dict[str, bool]:
        """Which of ``ASKED_BEFORE`` have something to do; nothing while the database is away."""
        conditions = ", ".join(import_string(name) for name in ASKED_BEFORE.values())
        try:
            with connection.cursor() as cursor:
                cursor.execute(f"SELECT {conditions}", {"now_ms": self._clock.now_ms()})
                return dict(zip(ASKED_BEFORE, cursor.fetchone(), strict=True))
        except (DatabaseError, InterfaceError):
            connection.close()
            return {}

    def _is_backed_up(self, entry: ScheduleEntry) -> bool:
        """Whether enough ticks wait already. They expire, but stay until a worker meets them."""
        assert entry.task is not None
        name: str = self.app.amqp.router.route({}, entry.task)["queue"].name
        waiting = self._waiting_count(name)
        if waiting < BACKLOG_MAX:
            self._backed_up.discard(name)
            return False
        if name not in self._backed_up:
            self._backed_up.add(name)
            log.warning(
                "No worker reads a task queue; holding back its periodic tasks",
                extra={"action": "queue_backed_up", "queue": name, "waiting": waiting},
            )
        return True

    def _waiting_count(self, queue_name: str) -> int:
        """How many tasks wait in a queue; 0 where nobody can tell: what sends next says so."""
        try:
            return int(self._valkey.llen(queue_name))
        except (RedisError, OSError):
            return 0

    def _send_heartbeat(self) -> None:
        """Note that beat is alive, every few seconds; a failure is no reason not to send."""
        now_ms = self._clock.monotonic_ms()
        if now_ms < self._next_heartbeat_ms:
            return
        self._next_heartbeat_ms = now_ms + HEARTBEAT_MS
        from mqservice.monitoring.heartbeats import record_heartbeat  # needs Django to be set up

        try:
            record_heartbeat("beat")
        except (DatabaseError, InterfaceError) as exc:
            log.warning(
                "Could not save the scheduler's heartbeat",
                extra={"action": "heartbeat_failed", "error": str(exc)},
            )
            connection.close()
