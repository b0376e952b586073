"""Bugs of an installation with several engines."""

from __future__ import annotations

from collections.abc import AsyncIterator
from dataclasses import replace
from typing import Final

import msgspec

from mqservice.lib.names import MAIN_SHARD
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Several shards", PLANTS)

_SHARDS: Final = "tests/mqservice/shards/test_shards.py"
_PROOF: Final = (
    "tests/storage_engine/server/test_network.py"
    "::test_a_proof_is_good_once_for_one_shard_and_one_side"
)


@planted("storage_engine.wire.proof:EngineProof.accepts", _PROOF)
def proof_that_nobody_checks(real: Real, engine: Thing, proof: Thing) -> Thing:
    return True


@planted("storage_engine.wire.proof:_proof", _PROOF)
def proof_that_is_good_for_every_shard(
    real: Real,
    secret: Thing,
    who: Thing,
    shard: Thing,
    client_nonce: Thing,
    engine_nonce: Thing,
) -> Thing:
    return real(secret, who, "", client_nonce, engine_nonce)


@planted("storage_engine.wire.proof:_proof", _PROOF)
def proof_that_is_good_when_sent_back(
    real: Real,
    secret: Thing,
    who: Thing,
    shard: Thing,
    client_nonce: Thing,
    engine_nonce: Thing,
) -> Thing:
    return real(secret, b"", shard, client_nonce, engine_nonce)


@planted(
    "mqservice.topics.routes:find_topic_route",
    f"{_SHARDS}::test_routes_say_the_shard_of_their_namespace_in_one_query",
)
def route_that_always_leads_to_main(
    real: Real, tenant_id: Thing, namespace: Thing, name: Thing
) -> Thing:
    route = real(tenant_id, namespace, name)
    return None if route is None else replace(route, shard=MAIN_SHARD)


@planted(
    "mqservice.shards.sweeps:_is_resting",
    f"{_SHARDS}::test_each_shard_is_asked_and_one_that_is_away_is_left_alone_for_a_while",
)
def shard_that_holds_up_the_others(real: Real, shard: Thing) -> Thing:
    return False


@planted(
    "mqservice.caches:Caches.clear",
    "tests/mqservice/test_caches.py"
    "::test_a_namespace_that_is_placed_elsewhere_routes_there_at_once",
)
def routes_that_outlive_a_placement(real: Real, caches: Thing) -> Thing:
    return None


_REPORTS: Final = "tests/mqservice/reports/test_shards.py"
_COPY: Final = "tests/storage_engine/replication/test_shard_copy.py"


@planted(
    "storage_engine.replication.shard_copy:_Copier.read_on",
    f"{_COPY}::test_a_copy_has_every_record_of_its_time_and_no_segment_of_before",
)
async def report_of_a_snapshot_without_what_came_since(real: Real, copier: Thing) -> None:
    entries = copier._log.read
    copier._log.read = lambda start: _none_of(entries(start))
    await real(copier)


async def _none_of(entries: Thing) -> AsyncIterator[Thing]:
    """The end of them at once."""
    async for entry in entries:
        if not entry:
            yield entry
        return


@planted(
    "storage_engine.replication.shard_copy:_Copier._chosen",
    f"{_COPY}::test_a_copy_has_every_record_of_its_time_and_no_segment_of_before",
)
async def report_that_begins_a_segment_too_late(
    real: Real, copier: Thing, bucket: Thing, manifest: Thing
) -> Thing:
    found = await real(copier, bucket, manifest)
    if len(found.segments) < 2:
        return found
    start = found.log_start + found.segment_bytes
    return msgspec.structs.replace(found, segments=found.segments[1:], log_start=start)


@planted(
    "storage_engine.replication.shard_copy:copy_shard",
    f"{_COPY}::test_a_copy_goes_as_far_as_the_owner_says",
)
async def copy_that_waits_for_nobody(
    real: Real,
    replicated_log: Thing,
    snapshots: Thing,
    directory: Thing,
    clock: Thing,
    *,
    from_ms: Thing,
    reach: Thing,
    wait_ms: Thing,
    leave_bytes: Thing,
    files: Thing = None,
) -> Thing:
    return await real(
        replicated_log,
        snapshots,
        directory,
        clock,
        from_ms=from_ms,
        reach=0,
        wait_ms=wait_ms,
        leave_bytes=leave_bytes,
    )


@planted(
    "mqservice.reports.shard_copies:_without_empty",
    f"{_REPORTS}::test_a_run_reads_every_shard_and_names_the_one_that_it_cannot_read",
)
def shard_that_is_left_out_silently(real: Real, left_out: Thing) -> list[Thing]:
    return []


@planted(
    "analytics.ingest:messages_table",
    "tests/analytics/test_report_run.py"
    "::test_a_day_has_all_shards_and_names_those_of_which_something_is_missing",
)
def lake_with_one_table_for_all_shards(
    real: Real, spark: Thing, lake: Thing, shard: Thing
) -> Thing:
    return real(spark, lake, MAIN_SHARD)


@planted(
    "mqservice.backups.database:other_shards",
    "tests/mqservice/backups/test_backups.py"
    "::test_a_backup_that_would_lack_other_shards_is_refused",
)
def backup_that_leaves_other_shards_out_unnoticed(real: Real, url: Thing) -> Thing:
    return []


@planted(
    "mqservice.transfers.exporting:_other_shards",
    "tests/mqservice/cli/test_transfer.py"
    "::test_an_export_of_all_names_the_shards_that_it_would_leave_out",
)
def export_that_leaves_other_shards_out_unnoticed(
    real: Real, environ: Thing, data_dir: Thing
) -> Thing:
    return []


@planted(
    "storage_engine.catalog.namespace_holds:NamespaceHolds.refusal_of",
    "tests/storage_engine/groups/test_moving_namespaces.py"
    "::test_whatever_names_a_held_namespace_is_refused_and_nothing_else",
)
def shard_that_serves_a_namespace_while_it_moves(real: Real, holds: Thing, name: Thing) -> Thing:
    return None


@planted(
    "storage_engine.log.durability:Durability.durable_to",
    "tests/storage_engine/groups/test_moving_namespaces.py"
    "::test_a_hold_waits_for_what_the_disk_has_not_yet",
)
async def move_that_leaves_behind_what_the_disk_had_not_yet(
    real: Real, durability: Thing, offset: Thing
) -> None:
    return None


_ANEW: Final = "tests/storage_engine/replication/test_begin_anew.py"


@planted(
    "storage_engine.replication.replication:Replication.ship_all",
    f"{_ANEW}::test_a_hold_is_in_the_log_when_it_is_answered",
)
async def move_that_the_next_owner_does_not_know_of(real: Real, replication: Thing) -> None:
    return None


@planted(
    "storage_engine.replication.snapshotter:Snapshotter._goes_on",
    f"{_ANEW}::test_a_snapshot_has_nothing_of_the_store_before",
)
def snapshot_with_pieces_of_the_store_before(
    real: Real, snapshotter: Thing, manifest: Thing
) -> Thing:
    return True


@planted(
    "storage_engine.replicated_log.snapshot_bucket:SnapshotBucket.delete_splits",
    f"{_ANEW}::test_the_bucket_keeps_it_for_as_long_as_a_snapshot_is_of_the_store_before",
)
async def what_was_split_off_is_kept_for_ever(
    real: Real, bucket: Thing, number: Thing, *, after: Thing = 0
) -> None:
    return None


@planted(
    "storage_engine.replication.replica:Replica._check",
    f"{_ANEW}::test_a_replica_has_what_moved[before]",
)
def replica_that_keeps_the_old_store(real: Real, replica: Thing, entry: Thing) -> None:
    real(replica, entry)
    if entry.split_number:
        entry.sections.clear()


@planted(
    "storage_engine.groups.moving_namespaces:MovingNamespaces.discard",
    "tests/storage_engine/groups/test_moving_namespaces.py"
    "::test_what_was_copied_is_deleted_once_and_not_adopted_later",
)
def messages_that_a_new_namespace_finds_of_another_of_its_name(
    real: Real, moving: Thing, request: Thing
) -> None:
    return None


@planted(
    "storage_engine.tools.split.copy_room:read_bucket_files",
    "tests/storage_engine/tools/test_split_replicated.py"
    "::test_room_for_segments_that_only_the_bucket_has_is_looked_for_before_they_are_fetched",
)
def copy_that_fills_the_disk_with_what_it_fetches(real: Real, store: Thing) -> list[Thing]:
    return []


@planted(
    "mqservice.accounts.shard_split:_is_in_log",
    "tests/mqservice/shards/test_splits.py"
    "::test_what_was_uploaded_stays_where_the_log_may_say_that_the_shard_began_with_it",
)
def upload_that_is_deleted_although_the_log_refers_to_it(real: Real, split: Thing) -> bool:
    return False


@planted(
    "mqservice.moving_changes:Move.is_under_way",
    "tests/mqservice/test_control_plane.py"
    "::test_who_was_in_line_when_its_namespace_began_to_move_leaves_its_turn_to_others",
)
async def change_that_is_carried_to_a_shard_that_refuses_it(real: Real, move: Thing) -> bool:
    return False


@planted(
    "mqservice.shards.splits:begin_release",
    "tests/mqservice/shards/test_splits.py::test_once_committed_a_hold_is_not_released",
)
def namespace_that_two_shards_serve_after_a_move(real: Real, split: Thing) -> Thing:
    real(split)
    return True


@planted(
    "mqservice.shards.queries:is_following",
    "tests/mqservice/shards/test_shards.py"
    "::test_a_replica_that_lacks_what_a_split_made_is_not_up_to_date",
)
def shard_that_is_handed_to_a_node_that_fetches_it_still(real: Real, replica: Thing) -> Thing:
    replica.is_anew = False
    return real(replica)


_LOST: Final = "tests/mqservice/monitoring/test_lost_changes.py"


@planted(
    "mqservice.monitoring.lost_changes:_put",
    f"{_LOST}::test_what_the_engine_does_not_know_is_put_again",
)
def lost_change_that_nobody_makes_again(
    real: Real, client: Thing, rows: Thing, namespace: Thing, name: Thing
) -> Thing:
    return True


@planted(
    "mqservice.monitoring.lost_changes:_delete",
    f"{_LOST}::test_what_was_deleted_is_deleted_again_and_nothing_else",
)
def topic_that_nobody_deleted_is_deleted(
    real: Real, client: Thing, rows: Thing, namespace: Thing, name: Thing
) -> Thing:
    rows.delete_in_engine(client, f"{namespace.name}%{name}")
    return True
