"""Which shards there are, and which are being split. The main one of an installation with one
engine needs no row.

    state     active     takes new namespaces
              draining   takes none; what it has stays until it is moved

Namespaces name their shard (``accounts``). A row of the main shard says nothing of its address:
each process has that in its settings.
"""

from __future__ import annotations

import enum

from django.db import models

from mqservice.lib.names import NAME_CHARS_MAX

ADDRESS_CHARS_MAX = 255
NODE_CHARS_MAX = 200


class ShardState(enum.StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"


class Shard(models.Model):
    """An engine and the store that it owns.

    ``address``: the path of a unix socket, ``tcp://HOST:PORT`` or ``tls://HOST:PORT``; empty until
    its node has said it. ``owner``: that node. ``epoch`` grows each time the shard changes hands.
    ``move_to``: the node that shall have it. ``log_end``: up to which physical offset the
    replicated log has the store. ``served_epoch``: of the engine that serves, or served last;
    ``checked_epoch``: of the last one that was compared with the topics and groups of the database
    (``monitoring/lost_changes.py``). ``is_heard``: see ``queries.heard``.
    """

    is_heard = False
    name = models.CharField(max_length=NAME_CHARS_MAX, primary_key=True)
    epoch = models.PositiveBigIntegerField(default=0, db_default=0)
    served_epoch = models.PositiveBigIntegerField(default=0, db_default=0)
    checked_epoch = models.PositiveBigIntegerField(default=0, db_default=0)
    owner = models.CharField(max_length=NODE_CHARS_MAX, default="", db_default="", blank=True)
    address = models.CharField(max_length=ADDRESS_CHARS_MAX, default="", db_default="", blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    free_bytes = models.BigIntegerField(null=True, blank=True)  # of its disk, at the heartbeat
    move_to = models.CharField(max_length=NODE_CHARS_MAX, default="", db_default="", blank=True)
    log_end = models.BigIntegerField(default=0, db_default=0)
    state = models.CharField(
        max_length=16,
        choices=[(state.value, state.value) for state in ShardState],
        default=ShardState.ACTIVE.value,
        db_default=ShardState.ACTIVE.value,
    )

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=[state.value for state in ShardState]),
                name="shard_state_known",
            ),
        )

    def __str__(self) -> str:
        return self.name


class Replica(models.Model):
    """A node that follows a shard and could take it over.

    ``log_end``: what it has of the replicated log, as a physical offset. ``behind_ms``: since it
    was last at the end of that log, when it was heard of; -1: never. ``is_heard``: see
    ``queries.heard``. ``is_anew``: whether the shard has begun anew since it was there.
    """

    is_heard = False
    is_anew = False
    shard = models.ForeignKey(Shard, on_delete=models.CASCADE, related_name="replicas")
    node = models.CharField(max_length=NODE_CHARS_MAX)
    heartbeat_at = models.DateTimeField()
    log_end = models.BigIntegerField(default=0, db_default=0)
    behind_ms = models.BigIntegerField(default=-1, db_default=-1)

    class Meta:
        constraints = (
            models.UniqueConstraint(fields=["shard", "node"], name="replica_of_node_once"),
        )

    @property
    def lag_bytes(self) -> int:
        """What the replicated log has, and it has not, as both said last. Reads its shard."""
        return max(self.shard.log_end - self.log_end, 0)

    def __str__(self) -> str:
        return f"{self.shard_id} on {self.node}"


class SplitState(enum.StrEnum):
    COPYING = "copying"
    HOLDING = "holding"
    RELEASING = "releasing"
    CLEANING = "cleaning"
    MOVED = "moved"
    DONE = "done"
    FAILED = "failed"


ENDED_STATES = (SplitState.DONE.value, SplitState.FAILED.value)  # of splits
MOVED_STATES = (SplitState.MOVED.value, SplitState.DONE.value)  # the target has the namespaces


class Split(models.Model):
    """Namespaces of one shard that become another one, which is empty.

        copying ──▶ holding ──▶ moved ──▶ done
           │           │ not done in time
           │           └─▶ releasing ──▶ cleaning ──▶ failed
           └─────────────────────────────────────────▶┘

        copying     the source serves them, and its store is copied
        holding     until ``held_until`` the source refuses them, and requests wait
        releasing   it did not work out; the source is to serve them again
        cleaning    the source serves them, and the target is to delete what it may have of them
        moved       since ``held_until`` the target serves them, and the source is to delete what
                    it has of them
        done        as it says; failed: nothing has changed

    From ``holding`` to ``moved`` is one transaction, with the namespaces' rows, and to
    ``releasing`` another; whichever comes first is what happened. ``number``: of this attempt,
    higher than any before; engines know the hold by it, and the store that was made of it.
    ``was_active``: whether the target takes new namespaces afterwards. While the target is to be
    cleaned it takes none, but the source may be split into another one.
    """

    source = models.CharField(max_length=NAME_CHARS_MAX)
    target = models.CharField(max_length=NAME_CHARS_MAX)
    namespaces = models.JSONField()  # list of names
    state = models.CharField(
        max_length=16, choices=[(each.value, each.value) for each in SplitState]
    )
    number = models.PositiveBigIntegerField(default=0, db_default=0)
    held_until = models.DateTimeField(null=True, blank=True)
    was_active = models.BooleanField(default=True, db_default=True)
    started_at = models.DateTimeField(auto_now_add=True)
    ended_at = models.DateTimeField(null=True, blank=True)

    class Meta:
        constraints = (
            models.CheckConstraint(
                condition=models.Q(state__in=[each.value for each in SplitState]),
                name="split_state_known",
            ),
            models.UniqueConstraint(
                fields=["source"],
                condition=~models.Q(state__in=[*ENDED_STATES, SplitState.CLEANING.value]),
                name="split_of_source_once",
            ),
            models.UniqueConstraint(
                fields=["target"],
                condition=~models.Q(state__in=ENDED_STATES),
                name="split_to_target_once",
            ),
        )

    def __str__(self) -> str:
        return f"{self.source} into {self.target}"
