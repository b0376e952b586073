"""Which shards there are. The main one of an installation with one engine needs no row.

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
    replicated log has the store. ``is_heard``: see ``queries.heard``.
    """

    is_heard = False
    name = models.CharField(max_length=NAME_CHARS_MAX, primary_key=True)
    epoch = models.PositiveBigIntegerField(default=0, db_default=0)
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
    ``queries.heard``.
    """

    is_heard = False
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
