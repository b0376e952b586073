"""Rows of measurements.

    OffsetFeedPlace ── up to where the engine's changes were taken over
    ConsumerOffset ─── where each group stands now ──▶ ConsumerOffsetStep: where it stood
    MarkRound, ProgressMark ── what was delivered and settled by when, for reports
    GroupSample, TopicSample, StoreSample ── one row for each thing, resolution and moment

Times are epoch ms, and ``at_ms`` is the beginning of what a row tells of. A column that ends in
``_last`` is the newest known value of its span, one in ``_max`` or ``_min`` the extreme, one in
``_sum`` or ``_count`` a sum. NULL is what nobody knew, never 0. Offsets and totals only ever grow,
but for resets: rates are made of the differences between rows.
"""

from __future__ import annotations

from django.db import models

from mqservice.accounts.models import Namespace
from mqservice.lib.names import NAME_CHARS_MAX

# What stands for the group's retry topic, whose full name says nothing more.
RETRY_TOPIC = "%RETRY%"
GROUP_CHARS_MAX = 255  # a client of a broadcasting group has its own name behind the group's


class OffsetFeedPlace(models.Model):
    """``since`` of ``epoch`` is in the table below, with everything before it. Locked by whoever
    takes over more.
    """

    broker = models.CharField(max_length=64, unique=True)
    epoch = models.BigIntegerField(default=0)
    since = models.BigIntegerField(default=0)

    def __str__(self) -> str:
        return f"{self.broker} up to {self.since} of {self.epoch}"


class ConsumerOffset(models.Model):
    """Where a group stands on a queue. Not truth: the engine's is."""

    namespace = models.ForeignKey(
        Namespace,
        on_delete=models.CASCADE,
        related_name="+",
        db_index=False,
        db_constraint=False,  # checking it takes longer than all the rest
    )
    group_name = models.CharField(max_length=GROUP_CHARS_MAX)
    topic = models.CharField(max_length=NAME_CHARS_MAX)
    queue_id = models.IntegerField()
    consumer_offset = models.BigIntegerField()
    reset_count = models.BigIntegerField()
    changed_ms = models.BigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["namespace", "group_name", "topic", "queue_id"], name="offset_place_unique"
            ),
        )

    def __str__(self) -> str:
        return f"{self.group_name} at {self.consumer_offset} of {self.topic}/{self.queue_id}"


class ConsumerOffsetStep(models.Model):
    """Where a group stood at a moment; only where it had moved since the step before."""

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="+")
    group_name = models.CharField(max_length=GROUP_CHARS_MAX)
    topic = models.CharField(max_length=NAME_CHARS_MAX)
    queue_id = models.IntegerField()
    at_ms = models.BigIntegerField()
    consumer_offset = models.BigIntegerField()
    reset_count = models.BigIntegerField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["namespace", "group_name", "topic", "queue_id", "at_ms"],
                name="offset_step_unique",
            ),
        )
        indexes = (models.Index(fields=["at_ms"], name="offset_step_at"),)

    def __str__(self) -> str:
        return f"{self.group_name} at {self.consumer_offset} of {self.topic}/{self.queue_id}"


class MarkRound(models.Model):
    """When marks were last made: what moved since then stands in the next ones."""

    broker = models.CharField(max_length=64, unique=True)
    at_ms = models.BigIntegerField()

    def __str__(self) -> str:
        return f"{self.broker} at {self.at_ms}"


class ProgressMark(models.Model):
    """How far a group was on all queues of a topic; only where it had moved since the mark before.

    It moved after ``after_ms`` and not after ``at_ms``. ``places``: see ``marks.Place``.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="+")
    group_name = models.CharField(max_length=GROUP_CHARS_MAX)
    topic = models.CharField(max_length=NAME_CHARS_MAX)
    after_ms = models.BigIntegerField()
    at_ms = models.BigIntegerField()
    places = models.BinaryField()

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["namespace", "group_name", "topic", "at_ms"], name="progress_mark_unique"
            ),
        )
        indexes = (models.Index(fields=["at_ms"], name="progress_mark_at"),)

    def __str__(self) -> str:
        return f"{self.group_name} on {self.topic} at {self.at_ms}"


class Sample(models.Model):
    """What all samples have."""

    resolution_ms = models.PositiveIntegerField()
    at_ms = models.BigIntegerField()
    sample_count = models.PositiveIntegerField(default=1)

    class Meta:
        abstract = True


class GroupSample(Sample):
    """A group on a topic, with what waits for a retry; with an empty topic the whole group.

    ``lag_sum`` is over the ``known_count`` samples in which the lag was known, of which in
    ``estimated_count`` by a sample of the messages; ``lag_ms_max``: age of the oldest message that
    counts in it. ``waiting_retry_last``: those of it that wait for a
    retry, now or later. ``settled_last``: sum of the consumer offsets. Members and dead
    letters, of which ``dead_last`` counts all there ever were, stand with the whole group only.
    """

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="+")
    group_name = models.CharField(max_length=NAME_CHARS_MAX)
    topic = models.CharField(max_length=NAME_CHARS_MAX, blank=True)
    known_count = models.PositiveIntegerField()
    estimated_count = models.PositiveIntegerField(default=0, db_default=0)
    lag_sum = models.BigIntegerField(null=True)
    lag_max = models.BigIntegerField(null=True)
    lag_last = models.BigIntegerField(null=True)
    lag_ms_max = models.BigIntegerField(null=True)
    inflight_max = models.BigIntegerField(null=True)
    waiting_retry_last = models.BigIntegerField(null=True)
    settled_last = models.BigIntegerField(null=True)
    member_last = models.IntegerField(null=True)
    dead_last = models.BigIntegerField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["namespace", "group_name", "topic", "resolution_ms", "at_ms"],
                name="group_sample_unique",
            ),
        )
        indexes = (models.Index(fields=["resolution_ms", "at_ms"], name="group_sample_at"),)

    def __str__(self) -> str:
        return f"{self.group_name} {self.topic} at {self.at_ms}"


class TopicSample(Sample):
    """``stored_last``: messages ever stored, ``readable_last``: those that can still be read."""

    namespace = models.ForeignKey(Namespace, on_delete=models.CASCADE, related_name="+")
    topic = models.CharField(max_length=NAME_CHARS_MAX)
    stored_last = models.BigIntegerField(null=True)
    readable_last = models.BigIntegerField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["namespace", "topic", "resolution_ms", "at_ms"], name="topic_sample_unique"
            ),
        )
        indexes = (models.Index(fields=["resolution_ms", "at_ms"], name="topic_sample_at"),)

    def __str__(self) -> str:
        return f"{self.topic} at {self.at_ms}"


class StoreSample(Sample):
    """The disk under a broker's store. ``lost_last``: messages expired unconsumed since its start.

    ``disk_state`` is one of storage_engine's, as a number that rises: 0 fine to 3 full.
    """

    broker = models.CharField(max_length=64)
    disk_total_last = models.BigIntegerField(null=True)
    disk_free_last = models.BigIntegerField(null=True)
    disk_free_min = models.BigIntegerField(null=True)
    disk_state_max = models.PositiveSmallIntegerField(null=True)
    lost_last = models.BigIntegerField(null=True)

    class Meta:
        constraints = (
            models.UniqueConstraint(
                fields=["broker", "resolution_ms", "at_ms"], name="store_sample_unique"
            ),
        )
        indexes = (models.Index(fields=["resolution_ms", "at_ms"], name="store_sample_at"),)

    def __str__(self) -> str:
        return f"{self.broker} at {self.at_ms}"
