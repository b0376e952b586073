"""What is promised of the order of messages and of offsets, and who tries to break it."""

from __future__ import annotations

from typing import Final

from tests.torture.promise import CRASH, ENGINE, KILLS, MODEL, Promise
from tests.torture.promise import engine_tests as _of

ORDER: Final = (
    Promise(
        "O1",
        "An offset of a `sync` topic always names the same message, for every reader, after any "
        "crash.",
        (
            *CRASH,
            *_of(
                "server/engine_process",
                "kill_9_in_the_middle_of_puts_loses_nothing_and_reuses_no_offset",
            ),
            *_of(
                "retention/retention",
                "offsets_continue_after_everything_expired_and_the_consume_queues_were_deleted",
            ),
            *_of("tools/verify", "a_queue_offset_given_twice_is_found"),
        ),
        ("crash_states", "kills", "power_cuts"),
    ),
    Promise(
        "O2",
        "If one message of a queue was acknowledged before another was sent, it has the lower "
        "offset.",
        (
            *KILLS,
            *_of("store", "many_waiting_puts_share_a_sync_and_are_answered_in_order"),
        ),
        ("kills", "injured_system_calls", "power_cuts"),
    ),
    Promise(
        "O3",
        "Messages that one producer sends to one queue, one after the other, stay in that order.",
        (*KILLS, *CRASH),
        ("crash_states", "kills"),
    ),
    Promise(
        "O4",
        "An ordered group gets the messages of a queue (exclusive dispatch), or of each message "
        "group in it (shared), in order, also over failures, expired leases, resets and "
        "restarts. A message that always fails becomes a dead letter, even if the engine "
        "restarts in between.",
        (
            f"{ENGINE}/delivery/test_ordered_model.py::TestOrdered",
            f"{ENGINE}/delivery/test_ordered_model.py::TestFiltered",
            f"{ENGINE}/delivery/test_ordered_model.py::TestChanged",
            *_of(
                "delivery/message_group_changes",
                "after_a_restart_what_was_in_flight_comes_again_in_order",
                "a_message_that_always_fails_is_dead_though_the_engine_restarts_each_time",
            ),
        ),
    ),
    Promise(
        "O5",
        "Offsets of a queue have no gaps, except where retention removed messages at its start "
        "or the disk damaged records; damaged records are reported.",
        (
            *CRASH,
            *_of(
                "store",
                "a_full_consume_queue_disk_refuses_the_whole_put_and_leaves_no_hole",
                "any_error_while_a_queue_grows_leaves_no_hole",
            ),
            *_of("reads/damaged_reads", "readers_pass_over_a_damaged_record_and_an_alarm_stays"),
            *_of(
                "retention/retention",
                "deleting_is_interrupted_anywhere_and_nothing_is_lost_or_comes_back",
            ),
        ),
        ("crash_states", "kills"),
    ),
    Promise(
        "O6",
        "The consumer offset only moves forward, over settled messages without a gap. A request "
        "with an offset out of range gets the range, never a silent jump.",
        (
            *MODEL,
            *_of("delivery/delivery", "the_consumer_offset_moves_only_over_the_settled_prefix"),
            *_of("delivery/offset_journal", "progress_is_the_settled_prefix_whatever_the_order"),
            *_of("store", "pull_names_the_range_when_the_offset_is_outside"),
        ),
        ("delivery_model",),
    ),
    Promise(
        "O7",
        "No consumer reads from a `sync` topic what a power failure could still revoke.",
        (
            *_of(
                "store",
                "a_sync_message_is_invisible_until_the_disk_has_it",
                "async_behind_sync_becomes_visible_in_log_order",
            ),
            *_of("index/index_file", "only_visible_messages_are_in_the_index"),
            *_of("faults/real_faults", "no_power_cut_takes_a_sync_message"),
        ),
        ("power_cuts",),
    ),
    Promise(
        "O8",
        "A repeated receive delivers no message to another consumer while it is leased, and an "
        "ack of all up to a message settles only messages of the same response.",
        (
            *_of(
                "delivery/receive_attempts",
                "a_repeat_gets_the_same_messages_and_a_lease_that_starts_over",
                "the_release_of_a_lost_answer_takes_nothing_from_the_repeat",
            ),
            *_of(
                "delivery/ack_up_to",
                "it_covers_no_message_of_another_answer",
                "nobody_knows_the_batch_after_a_restart_and_each_message_can_be_acked",
            ),
        ),
    ),
)
