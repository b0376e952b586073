"""Bugs of what is kept and for how long: keys of requests, the schedule, retention, the index."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from storage_engine.errors import FilterInvalid
from storage_engine.filters.message_filter import EVERYTHING
from storage_engine.records.message_keys import keys_of
from storage_engine.records.record import verify_record
from storage_engine.wire.scheduled import ScheduledOutcome, ScheduledReply
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Keeping and finding", PLANTS)

_TESTS: Final = "tests/storage_engine"


class _Unsynced:
    """Consumer offsets, their journal, or files, that do not reach the disk by themselves."""

    def __init__(self, offsets: Thing) -> None:
        self._offsets = offsets

    def sync(self) -> None:
        return

    def sync_file(self, descriptor: int, path: Path) -> None:
        return

    def __getattr__(self, name: str) -> Thing:
        return getattr(self._offsets, name)


@planted(
    "storage_engine.dedup.dedup:DedupFiles.add",
    f"{_TESTS}/dedup/test_idempotent_puts.py::test_a_key_is_known_after_a_stop_and_after_a_kill",
)
def request_keys_not_written_down(real: Real, files: Thing, key_hash: Thing, stored: Thing) -> None:
    return


@planted(
    "storage_engine.dedup.dedup:Dedup.found",
    f"{_TESTS}/dedup/test_idempotent_puts.py::test_a_key_is_known_after_a_stop_and_after_a_kill",
)
def request_keys_not_recovered_from_the_log(
    real: Real, dedup: Thing, physical_offset: Thing, parts: Thing
) -> None:
    return


@planted(
    "storage_engine.dedup.idempotent_puts:key_hash_of",
    f"{_TESTS}/dedup/test_idempotent_puts.py::test_keys_of_other_topics_are_others",
)
def request_key_without_its_topic(real: Real, topic: Thing, key: Thing) -> Thing:
    return real(b"", key)


@planted(
    "storage_engine.dedup.dedup:DedupIndex.find",
    f"{_TESTS}/dedup/test_idempotent_puts.py::test_two_that_come_together_are_one",
    f"{_TESTS}/dedup/test_idempotent_puts.py::test_the_same_request_gets_the_first_answer_and_stores_nothing",
)
def repeated_request_stored_again(
    real: Real, index: Thing, key_hash: Thing, window_ms: Thing = 0
) -> Thing:
    return None


@planted(
    "storage_engine.retention.retention_clock:RetentionClock.now_ms",
    f"{_TESTS}/retention/test_retention.py::test_a_wall_clock_that_jumps_ahead_expires_nothing_at_once",
)
def messages_expire_by_the_wall_clock(real: Real, clock: Thing) -> Thing:
    return clock._clock.now_ms()


@planted(
    "storage_engine.schedule.forwarder:Forwarder._append",
    f"{_TESTS}/retention/test_retention.py::test_scheduled_messages_are_appended_again_before_their_segment_goes",
)
def retention_deletes_what_is_scheduled(
    real: Real, forwarder: Thing, source: Thing, first: Thing, end: Thing
) -> Thing:
    return end


@planted(
    "storage_engine.retention.retention:lowest_leased",
    f"{_TESTS}/retention/test_retention.py::test_a_leased_message_stays_until_it_is_settled",
)
def retention_takes_what_is_leased(real: Real, subscriptions: Thing) -> Thing:
    return {}


@planted(
    "storage_engine.retention.snapshots:Snapshots.lowest_held_offset",
    f"{_TESTS}/retention/test_snapshots.py::test_held_segments_stay_though_expired_and_go_after_the_release",
)
def snapshot_that_holds_no_files(real: Real, snapshots: Thing) -> None:
    return None


@planted(
    "storage_engine.schedule.due_index:DueIndex.take",
    f"{_TESTS}/schedule/test_schedule.py::test_each_level_waits_as_long_as_rocketmqs",
    f"{_TESTS}/schedule/test_schedule.py::test_any_time_comes_in_order_each_once_under_its_id",
)
def scheduled_message_comes_early(
    real: Real, index: Thing, until_ms: Thing, count_max: Thing
) -> Thing:
    return real(index, until_ms + 400, count_max)


@planted(
    "storage_engine.schedule.scheduled_messages:ScheduledMessages.cancel",
    f"{_TESTS}/schedule/test_scheduled_messages.py::test_a_cancel_wins_or_says_that_it_did_not",
)
def cancel_that_lost_says_it_won(real: Real, messages: Thing, request: Thing) -> Thing:
    reply = real(messages, request)
    if reply.outcome is ScheduledOutcome.DELIVERED:
        return ScheduledReply(outcome=ScheduledOutcome.DONE)
    return reply


@planted(
    "storage_engine.schedule.scheduled_messages:ScheduledMessages.cancel",
    f"{_TESTS}/schedule/test_scheduled_messages.py::test_what_won_stays_so_over_a_power_cut_that_comes_with_the_answer",
)
def cancel_answered_before_it_is_durable(real: Real, messages: Thing, request: Thing) -> Thing:
    offsets = messages._consumer_offsets
    messages._consumer_offsets = _Unsynced(offsets)
    try:
        return real(messages, request)
    finally:
        messages._consumer_offsets = offsets


@planted(
    "storage_engine.delivery.consumer_offsets:ConsumerOffsets.reset",
    f"{_TESTS}/groups/test_reset_durability.py::test_a_reset_survives_a_power_cut_that_comes_with_the_answer",
)
def reset_answered_before_it_is_durable(
    real: Real, offsets: Thing, positions: Thing, lease_floor: Thing
) -> None:
    journal = offsets._journal
    offsets._journal = _Unsynced(journal)
    try:
        real(offsets, positions, lease_floor=lease_floor)
    finally:
        offsets._journal = journal


@planted(
    "storage_engine.delivery.consumer_offsets:ConsumerOffsets.drop",
    f"{_TESTS}/groups/test_group_delete.py::test_a_deletion_survives_a_power_cut_that_comes_with_the_answer",
)
def deletion_answered_before_it_is_durable(
    real: Real, offsets: Thing, is_gone: Thing, lease_floor: Thing
) -> None:
    journal = offsets._journal
    offsets._journal = _Unsynced(journal)
    try:
        real(offsets, is_gone, lease_floor=lease_floor)
    finally:
        offsets._journal = journal


@planted(
    "storage_engine.dedup.dedup:DedupFiles._write",
    f"{_TESTS}/crash/test_crash_states.py::test_a_power_cut_at_any_moment_keeps_every_promise[keyed_sends]",
)
def file_of_request_keys_not_synced(
    real: Real, files: Thing, path: Thing, content: Thing, old: Thing
) -> None:
    own = files._files
    files._files = _Unsynced(own)
    try:
        real(files, path, content, old)
    finally:
        files._files = own


@planted(
    "storage_engine.moves.dead_letters:DeadLetters.purge",
    f"{_TESTS}/moves/test_dead_letters.py::test_what_was_dropped_stays_gone",
)
def purge_answered_before_it_is_durable(real: Real, letters: Thing, request: Thing) -> Thing:
    offsets = letters._consumer_offsets
    letters._consumer_offsets = _Unsynced(offsets)
    try:
        return real(letters, request)
    finally:
        letters._consumer_offsets = offsets


@planted(
    "storage_engine.filters.message_filter:compile_filter",
    f"{_TESTS}/delivery/test_filtered_delivery.py::test_a_filter_that_is_none_is_refused_with_its_place_and_changes_nothing",
)
def refused_filter_matches_everything(real: Real, text: Thing, kind: Thing) -> Thing:
    try:
        return real(text, kind)
    except FilterInvalid:
        return EVERYTHING


@planted(
    "storage_engine.filters.evaluation:_negated",
    f"{_TESTS}/delivery/test_filtered_delivery.py::test_an_unknown_condition_matches_nothing_and_neither_does_its_opposite",
    f"{_TESTS}/filters/test_truth_tables.py",
)
def unknown_negated_is_true(real: Real, part: Thing) -> Thing:
    return lambda framed: part(framed) is not True


@planted(
    "storage_engine.filters.message_filter:tag_of",
    f"{_TESTS}/delivery/test_filtered_delivery.py::test_tags_of_one_hash_are_distinguished_by_their_text",
)
def tags_distinguished_by_their_hash_alone(real: Real, properties: Thing) -> Thing:
    tag = real(properties)
    return {b"BB": b"Aa"}.get(tag, tag)  # of one hash


@planted(
    "storage_engine.index.key_lookup:KeyLookup._match",
    f"{_TESTS}/index/test_key_lookup.py::test_keys_of_one_hash_are_kept_apart",
)
def keys_of_one_hash_mixed(
    real: Real, look_up: Thing, page: Thing, file: Thing, seconds: Thing, physical_offset: Thing
) -> Thing:
    record = look_up._read(physical_offset)
    page.read(len(record))
    head = verify_record(record)
    assert keys_of(record, head.properties_at, head.record_bytes)
    return record if head.topic == look_up._topic else None


@planted(
    "storage_engine.recovery.rebuild:_Fill.put",
    f"{_TESTS}/recovery/test_recovery.py::test_deleted_consume_queues_come_back_with_the_same_bytes",
    f"{_TESTS}/recovery/test_rebuild.py::test_records_of_every_kind_get_the_same_units_and_keys_again",
)
def rebuilt_unit_off_by_a_byte(real: Real, fill: Thing, *unit: Thing) -> Thing:
    physical_offset, *rest = unit
    return real(fill, physical_offset + 1, *rest)


@planted(
    "storage_engine.log.log_reader:Seals.hold",
    f"{_TESTS}/reads/test_damaged_reads.py::test_every_single_flipped_bit_of_a_record_is_noticed",
)
def seal_held_whatever_the_bytes(
    real: Real, seals: Thing, stretches: Thing, record_count: Thing, run: Thing
) -> Thing:
    return True


@planted(
    "storage_engine.index.key_topics:_may_have",
    f"{_TESTS}/index/test_key_lookup.py::test_look_up_finds_what_a_plain_model_finds",
)
def topic_with_the_key_further_down_its_chain_left_out(
    real: Real, file: Thing, hash_: Thing
) -> Thing:
    number = file.newest_number(hash_)
    return bool(number) and file.entry(number).key_hash == hash_


@planted(
    "storage_engine.index.key_topics:topics_with_keys",
    f"{_TESTS}/index/test_key_lookup.py::test_topics_of_any_of_several_keys_are_named_and_too_many_are_refused",
)
def every_topic_named_where_one_has_the_key(
    real: Real, index: Thing, topics: Thing, keys: Thing
) -> Thing:
    return [*range(len(topics))] if real(index, topics, keys) else []
