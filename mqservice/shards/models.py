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


class ShardState(enum.StrEnum):
    ACTIVE = "active"
    DRAINING = "draining"


class Shard(models.Model):
    """An engine and the store that it owns.

    ``address``: the path of a unix socket, ``tcp://HOST:PORT`` or ``tls://HOST:PORT``; empty until
    its node has said it. ``owner``: that node. ``epoch`` grows each time the shard changes hands.
    """

    name = models.CharField(max_length=NAME_CHARS_MAX, primary_key=True)
    epoch = models.PositiveBigIntegerField(default=0, db_default=0)
    owner = models.CharField(max_length=200, default="", db_default="", blank=True)
    address = models.CharField(max_length=ADDRESS_CHARS_MAX, default="", db_default="", blank=True)
    heartbeat_at = models.DateTimeField(null=True, blank=True)
    free_bytes = models.BigIntegerField(null=True, blank=True)  # of its disk, at the heartbeat
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
