"""Bugs of how much a group has still to do: parts left out, filters forgotten, guesses as facts."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

from mqservice.store import LagIs
from storage_engine.lag.group_progress import GroupProgress
from storage_engine.schedule.scheduled_retries import Waiting
from tests.planted.plant import Plant, Real, Thing, planting

PLANTS: Final[list[Plant]] = []
planted: Final = planting("Lag", PLANTS)

_LAG: Final = "tests/storage_engine/lag/test_lag.py"
_RETRIES: Final = "tests/storage_engine/schedule/test_scheduled_retries.py"


@planted(
    "storage_engine.lag.group_progress:topic_lag",
    f"{_LAG}::test_messages_that_wait_for_their_retry_are_lag_and_have_an_age",
    f"{_LAG}::test_lag_has_what_was_not_delivered_what_is_in_flight_and_what_failed",
)
def lag_without_what_waits_for_its_retry(
    real: Real, topic: Thing, rows: Thing, retry: Thing, scheduled: Thing
) -> Thing:
    return real(topic, rows, retry, Waiting(0, None))


@planted(
    "storage_engine.lag.group_progress:_oldest",
    f"{_LAG}::test_messages_that_wait_for_their_retry_are_lag_and_have_an_age",
)
def age_without_what_waits_for_its_retry(real: Real, rows: Thing, scheduled: Thing) -> Thing:
    return real(rows, Waiting(0, None))


@planted(
    "storage_engine.schedule.scheduled_retries:ScheduledRetries._settled",
    f"{_RETRIES}::test_retries_that_overtake_others_in_the_schedule_are_counted_no_more",
    f"{_LAG}::test_messages_that_wait_for_their_retry_are_lag_and_have_an_age",
)
def retries_that_came_are_still_scheduled(
    real: Real, retries: Thing, queue_id: Thing, runs: Thing
) -> None:
    return


@planted(
    "storage_engine.lag.group_progress:GroupProgress.lags",
    f"{_LAG}::test_lag_through_a_filter_counts_only_what_it_wants",
)
def what_a_filter_passes_over_is_lag(real: Real, progress: Thing, queues: Thing) -> Thing:
    return [GroupProgress._whole_lag(progress, each) for each in queues]


@planted(
    "storage_engine.lag.unread:UnreadCounter._sampled",
    f"{_LAG}::test_tags_are_counted_by_a_sample_beyond_the_bound",
)
def estimate_of_tags_called_exact(real: Real, unread: Thing, low: Thing, high: Thing) -> Thing:
    return replace(real(unread, low, high), is_exact=True)


@planted(
    "storage_engine.lag.unread:UnreadCounter._search",
    f"{_LAG}::test_a_condition_is_asked_of_all_records_where_they_are_few_and_of_some_beyond",
)
def estimate_of_a_condition_called_exact(
    real: Real, unread: Thing, wanted: Thing, low: Thing, high: Thing, records_max: Thing
) -> Thing:
    return replace(real(unread, wanted, low, high, records_max), is_exact=True)


@planted(
    "storage_engine.delivery.consumer_offsets:ConsumerOffsets.saved_filter",
    f"{_LAG}::test_the_filter_is_known_after_a_kill_before_anybody_reads",
)
def filter_forgotten_at_a_start(real: Real, offsets: Thing, group: Thing, topic: Thing) -> Thing:
    return None


@planted(
    "storage_engine.delivery.offset_journal:_filters_bytes",
    f"{_LAG}::test_a_filter_said_after_the_last_checkpoint_is_known_after_a_kill",
)
def filter_kept_by_checkpoints_only(real: Real, filters: Thing, names: Thing) -> bytes:
    return b""


@planted(
    "mqservice.sampling.schemas:_lag_is",
    "tests/mqservice/sampling/test_samples.py::test_history_and_metrics_say_whether_a_lag_is_estimated",
)
def history_of_estimates_called_exact(real: Real, sample: Thing) -> Thing:
    return real(sample) and LagIs.EXACT
