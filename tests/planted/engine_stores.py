"""Bugs of stores that somebody else wrote, or that are damaged: erased, changed, opened twice."""

from __future__ import annotations

import fcntl
from typing import Final

from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Stores of others", PLANTS)

_ROCKETMQ: Final = "tests/storage_engine/recovery/test_rocketmq_stores.py"
_REFUSED: Final = "tests/storage_engine/recovery/test_rejected_stores.py"
_REPAIR: Final = "tests/storage_engine/tools/test_repair.py"
_IMPORT: Final = "tests/storage_engine/tools/test_store_import.py"
_EXPORT: Final = "tests/storage_engine/tools/test_store_export.py"


@planted(
    "storage_engine.records.record_check:_is_uncovered",
    f"{_ROCKETMQ}::test_a_store_without_crc_properties_is_served_whole",
)
def record_without_a_crc_taken_for_torn(real: Real, view: Thing, at: Thing, end: Thing) -> Thing:
    return False


@planted(
    "storage_engine.records.record:looks_covered",
    "tests/storage_engine/reads/test_damaged_reads.py::test_every_single_flipped_bit_of_a_record_is_noticed",
)
def record_whose_crc_property_is_hurt_has_none(real: Real, end: Thing) -> Thing:
    return end.startswith(b"__CRC32#\x01") and real(end)


@planted(
    "storage_engine.log.log_scan:LogEnd.why_not_cut",
    f"{_REFUSED}::test_nothing_is_cut_from_a_store_that_we_did_not_write",
)
def tail_cut_without_a_checkpoint_of_ours(
    real: Real, end: Thing, is_ours: Thing, torn_bytes_max: Thing
) -> Thing:
    return real(end, is_ours=True, torn_bytes_max=torn_bytes_max)


@planted(
    "storage_engine.store:Store._read",
    f"{_REFUSED}::test_a_damaged_store_of_ours_is_refused_untouched",
    f"{_REFUSED}::test_a_damaged_store_of_rocketmq_is_refused_untouched",
)
def store_written_before_all_of_it_is_read(real: Real, store: Thing) -> Thing:
    store._run_mark.set()
    return real(store)


@planted(
    "storage_engine.disk.config_json:quoted",
    f"{_ROCKETMQ}::test_a_store_without_crc_properties_is_served_whole",
)
def integer_keys_of_rocketmq_not_read(real: Real, content: Thing) -> Thing:
    return content


@planted(
    "storage_engine.disk.lock:StoreLock._try_lock",
    f"{_REFUSED}::test_rocketmq_cannot_open_a_store_that_we_have_open",
    f"{_REFUSED}::test_a_store_that_rocketmq_has_open_is_refused_with_its_process",
)
def store_opened_beside_rocketmq(real: Real, lock: Thing, descriptor: Thing) -> None:
    fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)


@planted(
    "storage_engine.recovery.recovery:_reject_short_segments",
    f"{_REFUSED}::test_a_damaged_store_of_ours_is_refused_untouched",
    f"{_REFUSED}::test_a_damaged_store_of_rocketmq_is_refused_untouched",
)
def half_copied_segment_filled_up(
    real: Real, segments: Thing, found: Thing, start_offset: Thing
) -> None:
    return


@planted(
    "storage_engine.catalog.config_table:_unknown_of",
    f"{_ROCKETMQ}::test_what_only_rocketmq_knows_of_its_tables_stays",
)
def settings_of_rocketmq_forgotten(real: Real, row: Thing) -> Thing:
    return {}


@planted(
    "storage_engine.tools.transfer.source:StoreFiles._lock",
    f"{_IMPORT}::test_a_store_that_a_broker_has_open_is_refused",
)
def import_from_beside_a_broker(real: Real, store: Thing) -> Thing:
    return None


@planted(
    "storage_engine.tools.transfer.facts:is_past_the_wheel",
    f"{_IMPORT}::test_timers_come_when_they_are_due_and_no_other_copy_of_them",
)
def import_of_timers_that_were_delivered(
    real: Real, store: Thing, queue_offset: Thing, out_ms: Thing
) -> Thing:
    return False


@planted(
    "storage_engine.tools.transfer.importing:_floors",
    f"{_IMPORT}::test_a_topic_whose_messages_have_all_expired_continues_behind_them",
)
def import_of_empty_queues_that_start_over(
    real: Real, facts: Thing, conversion: Thing, namespace: Thing
) -> Thing:
    return {}


@planted(
    "storage_engine.tools.transfer.conversion:Conversion._is_former",
    f"{_IMPORT}::test_a_topic_that_was_made_again_has_its_new_messages_only",
)
def import_of_messages_of_a_deleted_topic(
    real: Real, conversion: Thing, topic: Thing, record: Thing
) -> Thing:
    return False


@planted(
    "storage_engine.tools.transfer.exporting:OwnStore.is_scheduled",
    f"{_EXPORT}::test_what_was_delivered_or_settled_is_not_exported_again",
)
def export_of_delayed_messages_that_were_delivered(
    real: Real, store: Thing, queue_id: Thing, queue_offset: Thing
) -> Thing:
    return True


@planted(
    "storage_engine.log.checkpoint:is_of_rocketmq",
    f"{_ROCKETMQ}::test_a_damaged_checkpoint_of_ours_is_not_taken_for_one_of_rocketmq",
)
def damaged_checkpoint_taken_for_one_of_rocketmq(real: Real, path: Thing) -> Thing:
    content = path.read_bytes() if path.exists() else b""
    return len(content) == 4096 and any(content[:24])


@planted(
    "storage_engine.tools.verify.files:_rocketmq_name",
    f"{_ROCKETMQ}::test_verify_names_what_only_rocketmq_uses_and_finds_nothing",
)
def files_of_rocketmq_taken_for_stray_ones(real: Real, parts: Thing) -> Thing:
    return ""


@planted(
    "storage_engine.tools.verify.index:IndexCheck._is_tag",
    f"{_ROCKETMQ}::test_verify_compares_the_index_that_rocketmq_leaves_with_its_entries_of_tags",
)
def index_entries_of_tags_taken_for_wrong_ones(real: Real, check: Thing, entries: Thing) -> Thing:
    return real(check, entries) & False
