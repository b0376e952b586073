"""What the storage engine promises, and for each promise the tests that try to break it.

[PROMISES] ──▶ page, for people          [PROMISES] ──▶ a test: each named test exists

The letters and numbers are those that the checkers of ``tests/storage_engine`` name. What the
engine does not promise yet, or promises without a test, is said here as well.
"""

from __future__ import annotations

from typing import Final

from tests.torture.idempotency_promises import ONCE
from tests.torture.order_promises import ORDER
from tests.torture.promise import CRASH, KILLS, Promise
from tests.torture.promise import engine_tests as _of
from tests.torture.replication_promises import REPLICATION
from tests.torture.schedule_promises import SCHEDULE
from tests.torture.service_promises import SERVICE

_CRASH_IN_RECOVERY: Final = _of(
    "crash/crash_states", "a_power_cut_inside_recovery_keeps_every_promise"
)
_PLANTED: Final = _of("planted/planted_bugs", "a_planted_bug_is_caught")
DURABILITY: Final = (
    Promise(
        "D1",
        "No acknowledged message is lost by `kill -9` of the engine, at any instant, in topics "
        "of both kinds.",
        (
            *KILLS,
            *CRASH,
            *_of(
                "server/engine_process",
                "kill_9_in_the_middle_of_puts_loses_nothing_and_reuses_no_offset",
            ),
            *_of(
                "recovery/recovery_offsets",
                "a_kill_at_every_file_operation_loses_nothing_acknowledged",
            ),
            *_of("faults/real_faults", "a_kill_at_one_system_call_loses_nothing_acknowledged"),
        ),
        ("crash_states", "kills", "injured_system_calls"),
    ),
    Promise(
        "D2",
        "No acknowledged message of a `sync` topic is lost when the power fails, whichever part "
        "of the unsynced data reached the disk, in whichever order, torn at any sector.",
        (*CRASH, *_of("faults/real_faults", "no_power_cut_takes_a_sync_message")),
        ("crash_states", "power_cuts"),
    ),
    Promise(
        "D3",
        "A power failure takes from an `async` topic only the end of each queue: messages "
        "acknowledged in the last 200 ms (and while the sync after them ran).",
        (
            *CRASH,
            *_of(
                "faults/real_faults",
                "a_power_cut_takes_only_the_youngest_messages_of_an_async_topic",
                "an_async_message_lost_outside_the_window_is_called_an_anomaly",
            ),
            *_of(
                "server/engine_process", "an_async_message_becomes_durable_without_anybody_asking"
            ),
        ),
        ("crash_states", "power_cuts"),
    ),
    Promise(
        "D4",
        "A response says what was reached, `synced` or `buffered`. A slow disk makes responses "
        "slow, never weaker.",
        (
            "tests/mqservice/delivery/test_produce.py::test_an_async_topic_answers_buffered",
            *_of(
                "store",
                "a_sync_message_is_invisible_until_the_disk_has_it",
                "an_async_message_is_answered_and_visible_at_once",
            ),
            *_of("faults/real_faults", "a_slow_disk_costs_time_and_nothing_else"),
        ),
        ("injured_system_calls",),
    ),
    Promise(
        "D5",
        "A file whose sync has failed once is never relied on again: its contents are written "
        "again to another file before anything else is acknowledged, also after a restart.",
        (
            *_of(
                "store",
                "after_a_failed_sync_the_segment_is_rewritten_and_all_continues",
                "a_disk_that_refuses_a_new_file_too_is_told_to_all_who_wait_and_tried_again",
                "a_retried_sync_after_a_failed_one_acknowledges_nothing",
                "closing_does_not_retry_a_sync_that_has_just_failed",
            ),
            *_of(
                "queues/queue_durability", "a_failed_sync_of_the_whole_disk_is_not_believed_later"
            ),
            *_of("index/index_recovery", "failed_sync_of_the_index_keeps_the_last_good_mark"),
            *_of(
                "faults/real_faults",
                "a_disk_that_fails_loses_nothing_acknowledged",
                "after_one_failed_sync_the_engine_continues_on_its_own",
            ),
            *CRASH,
        ),
        ("crash_states", "injured_system_calls"),
    ),
    Promise(
        "D6",
        "A message rejected with `stored: false` is never delivered to any consumer, not even "
        "after a crash.",
        (
            *_of("recovery/recovery", "a_put_refused_for_a_full_disk_is_not_there_after_a_crash"),
            *_of(
                "store",
                "a_full_log_disk_refuses_puts_and_recovers_on_its_own",
                "a_full_disk_in_the_middle_of_a_large_frame_stores_what_it_says",
            ),
            *_of("faults/real_faults", "a_full_disk_refuses_puts_and_recovers_on_its_own"),
            *CRASH,
        ),
        ("crash_states", "kills", "full_disks"),
    ),
    Promise(
        "D7",
        "One sync confirms many puts, but only those whose bytes were written when it started.",
        _of(
            "store",
            "a_sync_answers_nobody_whose_bytes_came_after_it_began",
            "many_waiting_puts_share_a_sync_and_are_answered_in_order",
            "a_retried_sync_after_a_failed_one_acknowledges_nothing",
        ),
    ),
    Promise(
        "D8",
        "A new file and its name are on disk before anything in it is relied on. Files written "
        "without a sync can be rebuilt from the log.",
        (
            *_of(
                "queues/queue_durability",
                "a_checkpoint_makes_new_queue_files_and_their_names_durable",
            ),
            *_of("store", "a_segment_whose_directory_could_not_be_synced_is_made_again"),
            *_of("delivery/offset_journal", "a_journal_whose_name_is_not_durable_is_not_synced"),
            *_of(
                "recovery/recovery", "a_file_whose_making_was_interrupted_does_not_stop_the_start"
            ),
            *CRASH,
        ),
        ("crash_states",),
    ),
    Promise(
        "D9",
        "A confirmed settle survives `kill -9`. A power failure may lose the settles of the "
        "last 200 ms; their messages are redelivered, and none is ever skipped.",
        (
            *_of("server/engine_process", "kill_9_keeps_settles_and_forgets_only_leases"),
            *_of(
                "recovery/recovery_offsets",
                "a_power_cut_of_an_async_topic_never_skips_what_comes_next",
            ),
            *_of(
                "delivery/offset_journal",
                "a_tail_torn_at_every_byte_keeps_the_whole_entries_and_is_cut_off",
                "a_kill_anywhere_in_a_save_changes_nothing",
            ),
            *CRASH,
        ),
        ("crash_states", "kills", "power_cuts"),
    ),
    Promise(
        "D10",
        "Each client of a broadcast group has progress as durable as in D9, and gets every "
        "message once as long as nothing fails.",
        (
            *_of("groups/broadcast", "progress_survives_a_restart"),
            *_of("groups/broadcast_property", "each_client_sees_each_message_once"),
            *CRASH,
        ),
        ("crash_states",),
    ),
)
STORE: Final = (
    Promise(
        "S1",
        "No torn, mixed or altered record is ever served. Checksums cover the whole record and "
        "are verified at each read.",
        (
            *_of(
                "reads/damaged_reads",
                "every_single_flipped_bit_of_a_record_is_noticed",
                "readers_pass_over_a_damaged_record_and_an_alarm_stays",
            ),
            *_of("log/seals", "they_hold_exactly_while_no_byte_of_the_batches_has_changed"),
            *_of("records/record", "every_flipped_bit_is_refused", "every_truncation_is_refused"),
            *_of("recovery/recovery", "no_torn_record_comes_back_after_appends_and_another_crash"),
            *_PLANTED,
            *CRASH,
        ),
        ("crash_states", "planted_bugs"),
    ),
    Promise(
        "S2",
        "Consume queues and the key index are derived from the log, and can be rebuilt from it "
        "with the same bytes.",
        (
            *_of("recovery/recovery", "deleted_consume_queues_come_back_with_the_same_bytes"),
            *_of("index/index_recovery", "index_that_was_deleted_comes_back_with_the_same_bytes"),
            *_of(
                "recovery/rebuild",
                "records_of_every_kind_get_the_same_units_and_keys_again",
                "records_that_differ_in_what_looks_the_same_are_distinguished",
            ),
            *_of("reader/large_store", "every_consume_queue_leads_to_its_records_in_order"),
            *_of("tools/verify", "a_start_mends_derived_files"),
            *CRASH,
        ),
        ("crash_states",),
    ),
    Promise(
        "S3",
        "No entry of a consume queue or of the index points outside the log, into the middle of "
        "a record, or to another queue's message.",
        (
            *_of(
                "index/index_recovery",
                "entries_of_records_that_were_cut_off_are_zeroed",
                "entries_above_the_checkpoint_are_not_believed",
                "slots_and_header_torn_by_a_power_cut_are_rebuilt",
            ),
            *CRASH,
        ),
        ("crash_states",),
    ),
    Promise(
        "S4",
        "Damage in the middle of the log costs only the damaged records. All records behind "
        "them are served, the damage is reported until an operator acts, and nothing is deleted "
        "because of it.",
        (
            *_of(
                "recovery/recovery",
                "a_damaged_record_below_the_watermark_costs_only_itself",
                "damage_in_an_early_segment_never_deletes_later_ones_without_a_checkpoint",
            ),
            *_of("reads/damaged_reads", "readers_pass_over_a_damaged_record_and_an_alarm_stays"),
            *_of("tools/verify", "a_damaged_record_costs_itself_after_a_start_and_a_rebuild"),
            *_PLANTED,
        ),
        ("planted_bugs",),
    ),
    Promise(
        "S5",
        "Recovering twice gives the same result as recovering once, and a crash at any point of "
        "a recovery can be recovered from.",
        (
            *_CRASH_IN_RECOVERY,
            *_of("recovery/recovery", "recovering_twice_is_recovering_once"),
            *_of(
                "index/index_recovery",
                "recovering_twice_is_recovering_once",
                "kill_at_any_point_of_building_again_is_recovered",
            ),
        ),
        ("crash_in_recovery", "kills"),
    ),
    Promise(
        "S6",
        "Recovery needs no network, PostgreSQL or Valkey, and deletes nothing because metadata "
        "is missing or odd: it reads everything again, or fails and leaves the store unchanged.",
        (
            *_of("server/engine_hostile", "the_engine_needs_nothing_of_the_web"),
            *_of(
                "recovery/recovery",
                "without_a_believable_checkpoint_everything_is_read_again",
                "missing_segments_are_refused",
                "a_refused_store_can_be_opened_again_by_the_same_process",
            ),
            *_of("server/engine_hostile", "a_damaged_store_is_refused_with_4_and_left_as_it_is"),
            *_of("delivery/offset_journal", "a_table_that_cannot_be_read_is_refused_and_kept"),
            *_of("recovery/claims", "an_empty_mark_of_a_store_with_messages_is_refused"),
        ),
    ),
    Promise(
        "S7",
        "Reading a million records of 1 KiB again, with nothing behind a checkpoint, takes a "
        "start at most 10 seconds of processor time.",
        (),
        ("recovery_time",),
    ),
    Promise(
        "S8",
        "A store has one writer. A second engine on the directory does not start and changes "
        "nothing, also while the first is paused; RocketMQ and this engine reject a store that "
        "the other has open.",
        (
            *_of("server/engine_hostile", "a_directory_in_use_is_refused_with_3_and_one_line"),
            *_of("store", "a_second_engine_on_the_directory_is_refused_and_changes_nothing"),
            *_of("faults/real_faults", "a_second_engine_is_refused_while_the_first_is_paused"),
            *_of(
                "recovery/rejected_stores",
                "a_store_that_rocketmq_has_open_is_refused_with_its_process",
                "rocketmq_cannot_open_a_store_that_we_have_open",
            ),
        ),
        ("planted_bugs",),
    ),
    Promise(
        "S9",
        "The format has a version. A store of an older version can be read; one of a newer "
        "version is rejected and left unchanged.",
        (
            *_of("recovery/recovery", "a_checkpoint_of_a_newer_format_is_refused_untouched"),
            *_of("log/checkpoint", "a_checkpoint_of_version_1_has_no_index"),
            *_of("index/index_recovery", "store_of_a_version_without_index_gets_one"),
            *_of("golden_files", "segments_consume_queues_and_config_of_a_store"),
        ),
    ),
    Promise(
        "S10",
        "Retention frees space on a disk that is full to the last byte, also when the reserve "
        "for settles and checkpoints is used up, and a kill after that reuses no offset.",
        (
            *_of(
                "retention/retention_full_disk",
                "the_oldest_segments_go_though_nothing_new_can_be_written",
                "a_kill_after_it_leaves_where_the_queues_begin",
            ),
        ),
    ),
    Promise(
        "S11",
        "A topic is purged completely or not at all, whatever is killed: purged messages are "
        "never read, delivered or retried again, later messages are not affected, and no other "
        "topic loses anything.",
        (
            *_of(
                "retention/topic_purge",
                "nothing_of_before_can_be_read_or_found",
                "deliveries_of_before_settle_nothing_and_come_no_more",
                "retries_of_before_do_not_come",
                "retries_of_what_came_then_and_of_other_topics_come",
                "scheduled_messages_go_where_that_is_wanted",
                "a_put_that_is_not_answered_yet_is_there_afterwards",
                "a_kill_while_purging_leaves_all_or_nothing",
                "what_a_power_cut_takes_of_the_log_leaves_new_messages_and_retries_alone",
            ),
        ),
    ),
    Promise(
        "S12",
        "Nothing is cut from a store that this engine did not write, and from its own never "
        "more than the newest segment's tail or what was not synced yet, unless an operator "
        "requests it; cut bytes are saved. A store that is not understood, or has missing "
        "files, is rejected with every byte unchanged.",
        (
            *_of(
                "recovery/rocketmq_stores",
                "a_store_without_crc_properties_is_served_whole",
                "records_that_rocketmq_added_before_it_was_killed_are_kept",
                "an_inner_batch_is_refused_and_kept",
            ),
            *_of(
                "recovery/rejected_stores",
                "nothing_is_cut_from_a_store_that_we_did_not_write",
                "of_ours_no_more_is_cut_than_a_power_cut_can_leave",
                "a_damaged_store_of_ours_is_refused_untouched",
                "a_damaged_store_of_rocketmq_is_refused_untouched",
                "a_segment_that_lost_unused_bytes_is_extended_and_reported",
            ),
            *_of(
                "tools/repair",
                "a_refused_store_opens_once_it_is_cut_and_what_was_cut_is_kept",
                "a_kill_at_any_step_leaves_what_was_cut_and_a_store_to_repair",
            ),
        ),
        ("planted_bugs",),
    ),
    Promise(
        "T6",
        "Retention deletes nothing before its time and nothing that is leased. A wrong wall "
        "clock, also at a start, does not make messages expire immediately.",
        (
            *_of(
                "retention/retention",
                "a_message_is_readable_for_its_retention_and_its_segment_goes_after",
            ),
            *_of("retention/retention", "a_leased_message_stays_until_it_is_settled"),
            *_of("retention/retention", "a_wall_clock_that_jumps_ahead_expires_nothing_at_once"),
            *_of(
                "retention/retention_clock", "a_machine_that_wakes_up_a_year_ahead_expires_nothing"
            ),
            *_of("retention/retention_clock", "no_wall_clock_makes_it_run"),
        ),
    ),
    Promise(
        "T7",
        "Files of the log that a snapshot holds stay until it is released, its lease ends or "
        "the disk needs them; the release reports whether they stayed.",
        _of("retention/snapshots", "held_segments_stay_though_expired_and_go_after_the_release"),
    ),
)
PROMISES: Final = (*DURABILITY, *REPLICATION, *ORDER, *STORE, *SCHEDULE, *ONCE, *SERVICE)

# Promises that readers of such lists may look for, and that are not made above.
NOT_PROMISED: Final = (
    "In an `async` topic an offset may name another message after a power failure: consumers see "
    "`async` messages before they are on disk.",
    "Settles may be lost with a host: those that the replicated log does not have yet, of at most "
    "the last 250 ms. Their messages are delivered once more. So are lost, of `sync` and `async` "
    "topics, the messages of as long.",
    "While the replicated log cannot be reached no engine starts: it could not know whether it "
    "still owns its shard.",
    "Settles do not always survive a power failure: the last 200 ms of them may be lost (D9).",
    "There is no count of messages that a power failure took from an `async` topic: a start cannot "
    "know it.",
    "S7 is measured by release runs and by `make bench`, not by a test. It takes "
    "longer by the clock when other processes use the processors too: compare `start ms` with "
    "`start cpu ms` below.",
    "S9: the checkpoint contains the version of a store. A store without a checkpoint is read as "
    "one of the current version; entries of the offset journal that only a newer engine knows are "
    "rejected in any case.",
    "If the medium cannot read a page of a mapped file, the engine ends (SIGBUS) whenever the page "
    "is read: [operations](operations.md#when-the-disk-cannot-read) says how to replace the "
    "file. Reading without maps would cost a system call per message. Wrong bytes are noticed "
    "(S4).",
    "On a disk without a byte left, a pending scheduled message keeps its segment from being "
    "deleted, because the log has no space for a copy.",
)
