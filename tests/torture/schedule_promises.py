"""What the engine promises of scheduled messages; see ``promises.py``."""

from __future__ import annotations

from typing import Final

from tests.torture.promise import Promise
from tests.torture.promise import engine_tests as _of

_CRASH: Final = _of("crash/crash_states", "a_power_cut_at_any_moment_keeps_every_promise")
_SCHEDULE: Final = ("tests/storage_engine/schedule/test_due_index.py::TestDueIndex",)
_REST_DELAYS: Final = "tests/mqservice/delivery/test_delays.py"
_ALL_KILLED: Final = "tests/acceptance/test_delays.py"
SCHEDULE: Final = (
    Promise(
        "T1",
        "A scheduled message is never early: a delay is measured on a clock that no jump of the "
        "wall clock moves, also over a restart while the machine runs. A `deliver_at` follows "
        "the wall clock in steps of up to a minute; a larger jump applies from the next start.",
        (
            *_SCHEDULE,
            *_of(
                "puts/delay_clock",
                "a_delay_takes_as_long_as_it_takes_whatever_the_wall_clock_does",
                "a_moment_is_not_reached_by_a_jump",
                "delays_continue_evenly_over_a_restart_though_the_wall_clock_jumped",
            ),
            *_of("schedule/schedule", "a_clock_jump_makes_nothing_early_nor_late"),
        ),
    ),
    Promise(
        "T3",
        "A delay or time that is invalid or too far in the future is rejected, never treated as "
        '"now".',
        (
            *_of(
                "schedule/schedule",
                "a_record_that_cannot_be_scheduled_is_refused_and_never_immediate",
            ),
            f"{_REST_DELAYS}::test_what_is_no_time_is_refused_and_never_taken_for_at_once",
        ),
    ),
    Promise(
        "T4",
        "A scheduled message is delivered once, under its id, whatever is killed in the meantime.",
        (
            *_CRASH,
            *_of(
                "schedule/schedule",
                "a_kill_at_any_time_delivers_each_once",
                "a_sync_that_fails_while_they_are_delivered_loses_and_doubles_none",
            ),
            f"{_ALL_KILLED}::test_50_000_delayed_messages_survive_the_death_of_every_process",
            f"{_REST_DELAYS}::test_a_cancelled_message_stays_cancelled_and_the_others_come_over_kills",
        ),
        ("crash_states",),
    ),
    Promise(
        "T5",
        "A cancel reports whether it succeeded; if it did, the message is never delivered, also "
        "after a crash.",
        (
            *_of(
                "schedule/scheduled_messages",
                "a_cancel_wins_or_says_that_it_did_not",
                "what_won_stays_so_over_a_power_cut_that_comes_with_the_answer",
                "a_cancel_that_finds_no_room_has_cancelled_nothing",
            ),
        ),
    ),
)
