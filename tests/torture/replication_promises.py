"""What the storage engine promises where a replicated log outlives its machine; see
``promises.py``.
"""

from __future__ import annotations

from typing import Final

from tests.torture.promise import Promise
from tests.torture.promise import engine_tests as _of

_PUTS: Final = "replication/replicated_puts"
_TAKEOVER: Final = "replication/takeover"
_OWNERS: Final = "replication/owners"
_LOST_HOSTS: Final = _of(_OWNERS, "no_acknowledged_message_is_lost_with_its_host")
REPLICATION: Final = (
    Promise(
        "R1",
        "No acknowledged message of a `replicated` topic is lost with its host: whoever takes the "
        "shard over has it at the same offset.",
        (
            *_LOST_HOSTS,
            *_of(_OWNERS, "a_replica_takes_over_and_the_same_messages_are_there"),
            *_of(
                _TAKEOVER,
                "a_replica_has_what_was_acknowledged_and_what_was_settled",
                "entries_that_arrive_after_the_owner_died_are_known_as_its_own",
                "large_tables_travel_in_several_entries",
                "half_a_record_at_the_end_of_the_log_is_taken_back_by_the_next_owner",
                "a_replica_that_was_killed_before_its_first_tables_begins_again",
                "a_replica_is_not_served_without_its_log",
            ),
            *_of(
                "replication/stopping_owner",
                "an_owner_whose_files_kept_changing_looks_again_before_it_stops",
            ),
            *_of(
                "replicated_log/file_bucket",
                "a_directory_that_is_moved_away_during_a_write_is_not_made_again",
                "another_directory_in_its_place_gets_nothing",
            ),
        ),
        ("takeovers", "cluster_faults"),
    ),
    Promise(
        "R2",
        "Nobody is handed, and nobody can browse, a `replicated` message before the replicated log "
        "has it.",
        (
            *_LOST_HOSTS,
            *_of(
                _PUTS,
                "a_replicated_message_is_answered_and_seen_when_the_log_has_it",
                "a_scheduled_message_of_a_replicated_topic_waits_for_the_log",
                "a_topic_that_is_replicated_no_more_hides_what_was_put_before",
                "a_duplicate_of_a_replicated_message_waits_as_the_first_does",
            ),
        ),
        ("takeovers", "cluster_faults"),
    ),
    Promise(
        "R3",
        "An owner that was replaced acknowledges nothing more, no put and no settle, of whatever "
        "topic, also when it stood still meanwhile. Nor does one that gives its shard up confirm "
        "what the next owner will not have.",
        (
            *_of(
                "replication/stopping_owner",
                "a_settle_that_the_log_will_not_have_is_not_confirmed",
            ),
            *_of(_PUTS, "a_fenced_owner_acknowledges_nothing_more"),
            *_of(
                "replication/deposed_server",
                "an_engine_that_was_replaced_while_it_stood_still_acknowledges_nothing",
                "an_engine_that_stood_still_answers_once_the_log_has_confirmed_it",
            ),
            *_of(
                _OWNERS,
                "an_owner_that_stood_still_while_another_took_over_acknowledges_nothing",
            ),
        ),
    ),
    Promise(
        "R4",
        "While the replicated log does not answer, puts to `replicated` topics are rejected within "
        "five seconds; everything else is served, and this ends by itself.",
        (
            *_of(
                _PUTS,
                "a_log_that_does_not_answer_refuses_replicated_puts_and_heals",
                "other_topics_do_not_wait_for_the_log",
            ),
            *_of(_OWNERS, "a_store_that_is_cut_off_serves_what_is_not_replicated_and_heals"),
        ),
    ),
    Promise(
        "R5",
        "A replica applies entries in order or not at all, and ends with the owner's bytes.",
        _of(
            _TAKEOVER,
            "a_replica_refuses_a_gap_a_repetition_and_another_order",
            "entries_applied_again_after_a_kill_change_nothing",
            "a_replica_forgets_what_a_deposed_owner_wrote_too_far",
        ),
    ),
    Promise(
        "R6",
        "A store that has what its replicated log lacks is never overwritten: its owner ships it, "
        "and where another one has written meanwhile it is kept beside the new one.",
        _of(
            _TAKEOVER,
            "an_owner_that_starts_again_ships_what_the_log_lacks",
            "a_deposed_owner_keeps_what_differs_aside_and_follows",
            "a_store_of_its_own_is_not_mixed_with_a_log_that_has_another",
            "an_embedded_store_is_shipped_whole",
            "an_owner_starts_again_after_retention_has_deleted_what_the_log_still_has",
            "putting_a_store_aside_goes_on_where_a_kill_ended_it",
        ),
    ),
    Promise(
        "R7",
        "Messages for `replicated` topics hold up no others, and others do not hold them up: "
        "neither on a web process's connection nor in the engine.",
        (
            *_of(
                "wire/put_lanes",
                "a_frame_of_replicated_puts_holds_up_no_other",
                "replicated_puts_share_a_frame_once_enough_are_under_way",
                "bytes_that_wait_for_the_log_refuse_only_replicated_puts",
                "an_engine_answers_a_put_to_the_disk_before_one_to_the_log",
            ),
            *_of(_PUTS, "other_topics_do_not_wait_for_the_log"),
        ),
    ),
    Promise(
        "R8",
        "While an engine with a replicated log is replaced, requests and sockets wait for up to "
        "five seconds instead of failing. Nothing that may have been stored is sent twice.",
        (
            *_of(
                "wire/held_calls",
                "what_was_not_sent_is_sent_to_the_next_engine_and_nothing_else",
                "a_put_that_a_stopping_engine_refuses_goes_to_the_next_one",
                "changes_that_a_stopping_engine_refuses_go_to_the_next_one",
                "changes_that_may_have_been_made_are_not_sent_to_the_next_engine",
                "a_call_is_held_no_longer_than_its_limit",
                "each_call_waits_for_its_own_time",
                "no_more_calls_and_bytes_are_held_than_allowed",
                "in_a_long_outage_nothing_is_held",
                "a_receive_that_waits_goes_on_at_the_next_engine_but_not_at_a_third",
            ),
            *(
                f"tests/mqservice/delivery/test_takeover.py::test_{name}"
                for name in (
                    "requests_and_sockets_wait_for_the_engine_that_takes_over",
                    "a_receive_that_waits_gets_what_comes_after_the_takeover",
                )
            ),
        ),
    ),
    Promise(
        "R9",
        "What is trimmed from a replicated log is in a snapshot: a machine with an empty disk has "
        "the same messages and settles, whoever was killed while it was made or deleted.",
        (
            *_of(
                "replication/snapshots",
                "a_node_begins_with_nothing_but_the_bucket",
                "a_kill_after_any_write_of_a_snapshot_loses_nothing",
                "a_kill_at_any_request_of_a_beginning_is_taken_up_again",
                "a_replica_that_is_late_continues_from_a_snapshot",
                "an_owner_starts_again_after_it_has_trimmed_the_log",
                "an_old_owner_makes_no_snapshot_once_a_newer_one_has",
            ),
            *_of(
                "replicated_log/snapshot_bucket",
                "no_interleaving_of_owners_deletes_what_a_snapshot_has",
                "an_older_owner_publishes_nothing_and_deletes_nothing_that_is_used",
            ),
            *_LOST_HOSTS,
            *_of(_OWNERS, "a_machine_with_an_empty_disk_begins_with_a_snapshot"),
        ),
    ),
    Promise(
        "R10",
        "A former owner that comes back follows the next one with the store that it has. Only what "
        "the next owner's log lacks is cut off, and kept beside the store if any of it may have "
        "been acknowledged.",
        (
            *_of(
                "replication/rejoin",
                "a_former_owner_becomes_like_a_replica_that_never_owned_the_shard",
                "an_owner_that_gave_its_shard_up_has_nothing_to_compare",
                "a_kill_at_any_step_of_coming_back_loses_nothing",
                "files_of_a_next_owner_that_are_not_whole_count_for_nothing",
                "a_former_owner_that_lacks_a_segment_of_the_next_one_is_built_anew",
                "the_last_three_copies_stay_and_whole_stores_always",
            ),
            *_of(
                "replication/snapshots",
                "a_deposed_owner_whose_place_was_trimmed_continues_from_a_snapshot",
            ),
            "tests/mqservice/shards/test_takeover.py"
            "::test_a_shard_outlives_its_node_and_goes_back_when_told",
        ),
    ),
    Promise(
        "R11",
        "A replica fills its consume queues while it follows: who takes over reads the log from "
        "the last checkpoint on, and what does not fit is filled again from the log.",
        tuple(
            f"tests/storage_engine/recovery/test_warm_replica.py::test_{name}"
            for name in (
                "who_takes_over_reads_the_log_from_the_last_checkpoint",
                "queues_that_do_not_fit_are_filled_again_from_the_log",
            )
        ),
    ),
    Promise(
        "R12",
        "The report of a day over several shards, made of their bucket alone, is the sum of what "
        "their engines stored. A shard that cannot be read, or whose copy ends before the day "
        "does, is named.",
        (
            *_of(
                "replication/shard_copy",
                "a_copy_has_every_record_of_its_time_and_no_segment_of_before",
                "a_copy_goes_as_far_as_the_owner_says",
            ),
            *(
                f"tests/mqservice/reports/test_shards.py::test_{name}"
                for name in (
                    "a_run_reads_every_shard_and_names_the_one_that_it_cannot_read",
                    "the_reports_of_a_day_are_the_sum_of_the_engines_truths",
                    "copies_go_as_far_as_their_engines_say",
                    "a_shard_without_its_snapshots_is_named_unless_nobody_lives_there",
                )
            ),
            "tests/analytics/test_report_run.py"
            "::test_a_day_has_all_shards_and_names_those_of_which_something_is_missing",
        ),
    ),
    Promise(
        "R13",
        "A segment leaves the local disk only when a published snapshot has all of it and its "
        "pieces were seen in the bucket, and then it is read from there: whoever is killed, taken "
        "over or out of room, and whatever the bucket does, no message is skipped, lost or taken "
        "for damaged.",
        (
            *_of(
                "replication/local_retention",
                "the_local_disk_is_bounded_and_everything_is_read",
                "messages_of_a_group_that_is_far_behind_are_delivered",
                "nothing_goes_that_no_published_snapshot_has_whole",
                "nothing_goes_whose_pieces_somebody_has_deleted",
                "a_kill_at_any_operation_leaves_everything_readable",
                "what_cannot_be_read_from_the_bucket_is_told_and_not_lost",
                "a_full_disk_deletes_nothing_that_the_bucket_has",
                "a_full_disk_leaves_segments_before_it_deletes_any",
                "a_full_disk_deletes_nothing_while_the_bucket_is_away",
                "what_was_about_to_leave_at_a_kill_may_expire_here",
                "a_replica_killed_while_old_segments_expire_has_no_gap",
                "time_and_bytes_count_over_bucket_and_disk",
                "scheduled_messages_are_delivered_though_their_segment_has_left",
                "a_node_with_an_empty_disk_leaves_old_segments_where_they_are",
                "a_replica_leaves_what_its_owner_has_left",
                "a_former_owner_follows_with_the_segments_that_it_has",
                "a_takeover_while_a_segment_is_fetched",
            ),
            *_of(
                "replication/old_segments",
                "old_messages_are_read_through_the_socket_unless_the_bucket_is_away",
                "no_acknowledged_message_is_lost_where_old_segments_are_in_the_bucket",
            ),
        ),
    ),
    Promise(
        "R14",
        "A store that exists goes into a replicated log and comes back to one machine with the "
        "same bytes in its segments, whoever is killed: nobody takes it over before the log has "
        "all of it, and nobody from a log that it has left.",
        (
            *_of(
                "replication/round_trip",
                "a_store_goes_to_another_machine_and_back_with_the_same_bytes",
            ),
            *_of(
                "replication/leave",
                "nobody_takes_over_a_store_that_is_not_all_uploaded",
                "a_replica_of_a_partial_upload_does_not_say_that_it_could_take_over",
                "a_log_of_another_store_is_refused_and_left_alone",
                "a_shard_that_leaves_its_log_is_served_from_this_disk_alone",
                "a_kill_at_any_moment_of_leaving_loses_nothing",
                "of_two_who_leave_at_once_only_one_is_served",
                "an_owner_that_still_runs_is_fenced",
                "segments_that_only_the_bucket_has_come_back",
            ),
            "tests/acceptance/test_detach.py"
            "::test_a_service_leaves_its_replicated_log_and_nothing_is_lost",
        ),
    ),
    Promise(
        "R15",
        "A namespace that moves to another shard under load has everything it had there, and at "
        "any moment at most one of the two shards acknowledges for it, whoever is killed. What an "
        "attempt that failed has copied is never served.",
        (
            *_of(
                "tools/split",
                "everything_of_a_namespace_is_there_and_nothing_else",
                "a_receipt_from_before_the_move_settles_what_nobody_has_leased_since",
                "what_is_scheduled_and_retried_comes_at_the_target_and_only_there",
                "all_that_was_acknowledged_under_load_is_there",
                "a_program_that_is_killed_leaves_both_shards_as_they_are",
                "a_namespace_of_the_same_name_finds_nothing_of_an_attempt_that_was_given_up",
                "a_store_that_is_ready_after_it_was_given_up_is_not_adopted",
            ),
            *_of(
                "groups/moving_namespaces",
                "whatever_names_a_held_namespace_is_refused_and_nothing_else",
                "a_hold_lasts_over_a_restart_until_it_is_released",
                "a_hold_waits_for_what_the_disk_has_not_yet",
                "what_was_copied_is_deleted_once_and_not_adopted_later",
            ),
            *_of(
                "tools/split_replicated",
                "another_machine_has_what_was_split_off",
                "the_bucket_keeps_what_was_split_off_until_its_snapshots_have_it",
                "a_hold_is_known_to_the_next_owner",
                "a_target_that_is_killed_while_it_begins_anew_has_all_or_nothing",
                "segments_that_only_the_bucket_has_move_as_well",
                "what_is_in_the_log_stays_in_the_bucket_although_it_was_given_up",
            ),
            *_of(
                "replication/begin_anew",
                "a_replica_has_what_moved",
                "a_replica_that_is_killed_on_the_way_has_it_in_the_end",
                "an_owner_that_ended_there_takes_what_lies_ready",
                "an_owner_that_ended_there_and_has_lost_it_fetches_it",
                "a_kill_between_two_writes_of_a_replica_loses_nothing",
                "a_kill_between_the_two_renames_exchanges_the_stores_at_the_next_start",
                "whoever_comes_so_late_that_it_was_deleted_begins_with_a_snapshot",
                "a_replica_leaves_none_of_it_to_the_bucket_as_the_owner_had_left_the_store_before",
                "what_was_given_up_while_the_engine_stopped_is_not_begun_with",
                "a_snapshot_has_nothing_of_the_store_before",
                "the_bucket_keeps_it_for_as_long_as_a_snapshot_is_of_the_store_before",
                "what_was_not_uploaded_is_not_adopted",
                "a_log_that_does_not_answer_leaves_the_shard_with_its_store",
                "a_hold_is_in_the_log_when_it_is_answered",
            ),
            "tests/acceptance/test_split_cluster.py"
            "::test_what_moved_is_on_the_other_nodes_when_its_owner_and_its_disk_are_lost",
            "tests/mqservice/test_moving_changes.py"
            "::test_what_has_waited_too_long_is_refused_and_changes_nothing",
            "tests/mqservice/shards/test_splits.py::test_once_released_a_hold_cannot_be_committed",
            "tests/mqservice/shards/test_splits.py::test_once_committed_a_hold_is_not_released",
            "tests/mqservice/shards/test_splits.py"
            "::test_what_a_target_may_have_keeps_namespaces_away_until_it_is_deleted",
            "tests/acceptance/test_split.py"
            "::test_a_namespace_moves_under_load_with_everything_it_has",
            "tests/acceptance/test_split.py::test_whoever_is_killed_leaves_one_shard_that_serves",
        ),
    ),
    Promise(
        "R16",
        "A change of a topic or group that was confirmed is known to the next owner seconds after "
        "it serves, although the machine was lost before the log had the change. What was deleted "
        "is deleted there too, and nothing else is.",
        (
            "tests/mqservice/monitoring/test_lost_changes.py"
            "::test_a_machine_takes_no_confirmed_change_along",
            "tests/mqservice/monitoring/test_lost_changes.py"
            "::test_what_the_engine_does_not_know_is_put_again",
            "tests/mqservice/monitoring/test_lost_changes.py"
            "::test_what_was_deleted_is_deleted_again_and_nothing_else",
        ),
    ),
    Promise(
        "R17",
        "A confirmed change to messages of a `replicated` topic holds at the next owner, although "
        "the machine was lost at once: a purge, an offset reset, and a scheduled message that was "
        "cancelled, sent at once or moved to another time.",
        _of(
            "replication/lasting_changes",
            "a_confirmed_change_is_there_when_its_machine_is_lost_at_once",
            "what_lasts_no_longer_than_its_machine_waits_for_nothing",
            "a_log_that_does_not_answer_leaves_it_unknown_and_then_refuses_it",
            "a_deposed_owner_confirms_none",
            "who_comes_while_an_entry_is_made_waits_for_the_next",
        ),
        ("cluster_faults",),
    ),
)
