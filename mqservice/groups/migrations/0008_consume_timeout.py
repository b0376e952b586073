"""How long one delivery lasts at most; groups with a longer lease keep that."""

from __future__ import annotations

from typing import ClassVar

from django.db import migrations, models

DEFAULT_MS = 3 * 3_600_000


def keep_longer_leases(apps: migrations.state.StateApps, _: object) -> None:
    """Cut off at the default they would end sooner than their owners chose."""
    groups = apps.get_model("groups", "ConsumerGroup").objects
    groups.filter(lease_ms__gt=DEFAULT_MS).update(consume_timeout_ms=models.F("lease_ms"))


class Migration(migrations.Migration):
    dependencies: ClassVar = [("groups", "0007_message_groups")]
    operations: ClassVar = [
        migrations.AddField(
            model_name="consumergroup",
            name="consume_timeout_ms",
            field=models.PositiveIntegerField(default=DEFAULT_MS),
        ),
        migrations.RunPython(keep_longer_leases, migrations.RunPython.noop),
        migrations.AddConstraint(
            model_name="consumergroup",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("consume_timeout_ms__gte", 10_000), ("consume_timeout_ms__lte", 43_200_000)
                ),
                name="group_consume_timeout_range",
            ),
        ),
    ]
