"""Bugs of segments that only the bucket has: gone too early, or read as something else."""

from __future__ import annotations

from typing import Final

import msgspec

from storage_engine.disk.disk_space import DiskState
from storage_engine.disk.layout import COMMIT_LOG_DIR, segment_name
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Old segments", PLANTS)

_TESTS: Final = "tests/storage_engine/replication/test_local_retention.py::test_"


@planted(
    "storage_engine.replication.snapshotter:sealed_segments",
    f"{_TESTS}nothing_goes_that_no_published_snapshot_has_whole",
)
def segment_left_that_no_snapshot_has_whole(real: Real, manifest: Thing) -> Thing:
    last = manifest.segments[-1]
    whole = msgspec.structs.replace(last, size_bytes=manifest.segment_bytes)
    return real(msgspec.structs.replace(manifest, segments=[*manifest.segments[:-1], whole]))


@planted(
    "storage_engine.replication.snapshotter:Snapshotter.confirm",
    f"{_TESTS}nothing_goes_whose_pieces_somebody_has_deleted",
)
async def segment_left_without_a_look_into_the_bucket(
    real: Real, snapshotter: Thing, pieces: Thing
) -> None:
    return


@planted(
    "storage_engine.log.bucket_log:write_bucket_files",
    f"{_TESTS}a_kill_at_any_operation_leaves_everything_readable",
)
def segment_deleted_before_its_place_is_noted(
    real: Real, files: Thing, store: Thing, left: Thing
) -> None:
    for each in left:
        files.unlink(store / COMMIT_LOG_DIR / segment_name(each.base_offset))
    real(files, store, left)


@planted(
    "storage_engine.replicated_log.snapshot_bucket:_checked",
    f"{_TESTS}what_cannot_be_read_from_the_bucket_is_told_and_not_lost[is_flipping]",
)
def piece_of_other_bytes_served(real: Real, name: Thing, content: Thing) -> Thing:
    return content


@planted(
    "storage_engine.log.segment_cache:SegmentCache.missing",
    f"{_TESTS}messages_of_a_group_that_is_far_behind_are_delivered",
)
def hole_of_the_cache_read_as_a_record(
    real: Real, cache: Thing, segment: Thing, start: Thing, end: Thing
) -> Thing:
    cache._make_place(segment, 0)
    return []


@planted(
    "storage_engine.delivery.lease_messages:MessageLeaser._give_back",
    f"{_TESTS}messages_of_a_group_that_is_far_behind_are_delivered",
)
def batch_that_is_not_here_stays_leased(
    real: Real, leaser: Thing, lease: Thing, first: Thing
) -> None:
    return


@planted(
    "storage_engine.schedule.forwarder:Forwarder.forward",
    f"{_TESTS}scheduled_messages_are_delivered_though_their_segment_has_left",
)
async def scheduled_messages_left_behind(real: Real, forwarder: Thing, below_offset: Thing) -> None:
    return


@planted(
    "storage_engine.retention.retention:Retention._forced_offset",
    f"{_TESTS}a_full_disk_deletes_nothing_that_the_bucket_has",
)
def full_disk_deletes_what_only_the_bucket_has(real: Real, retention: Thing, state: Thing) -> Thing:
    segments = retention._commit_log.segments()
    return segments[1].base_offset if state >= DiskState.FORCE else real(retention, state)
